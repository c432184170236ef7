//! [`Stall`]: a timer for a client that does not read what is written to it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Sleep, sleep};

/// A timer that runs only while bytes are waiting to be read, so that it costs nothing while the client reads.
#[derive(Debug)]
pub(super) struct Stall {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    /// Creates a timer that is not running. Once started, it expires after `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, timer: None }
    }

    /// Whether bytes were waiting at the last poll.
    pub(super) fn is_running(&self) -> bool {
        self.timer.is_some()
    }

    /// Stops the timer, because the client has read something or no more bytes are waiting.
    pub(super) fn end(&mut self) {
        if self.timer.is_some() {
            self.timer = None;
        }
    }

    /// Must be polled while bytes are waiting. Starts the timer if necessary. Ready when it expires.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(timer.as_mut().poll(cx));
        self.timer = None;
        Poll::Ready(())
    }
}
