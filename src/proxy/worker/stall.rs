//! [`Stall`]: how long a client has taken nothing of what is written to it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Sleep, sleep};

/// A timer that runs only while something waits to be taken, so that a client that reads costs nothing.
#[derive(Debug)]
pub(super) struct Stall {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    /// A timer that does not run. It expires after `limit`.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, timer: None }
    }

    /// Something has been waiting since the last poll.
    pub(super) fn is_running(&self) -> bool {
        self.timer.is_some()
    }

    /// The client has taken something, or nothing waits for it.
    pub(super) fn end(&mut self) {
        if self.timer.is_some() {
            self.timer = None;
        }
    }

    /// To be polled as long as something waits. Ready when that took `limit`; the next poll starts anew.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(timer.as_mut().poll(cx));
        self.timer = None;
        Poll::Ready(())
    }
}
