//! [`FeedBody`]: an SSE stream of toolwire's own, with keep-alive comments.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep};

use super::drain::SignalFuture;
use crate::observe::{Access, Outcome};

pub trait FeedSource: fmt::Debug + Send {
    /// Returns the next events, encoded for sending. `None` ends the stream.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// The body of a response. It ends with its source, or when the server stops.
#[derive(Debug)]
pub struct FeedBody {
    source: Box<dyn FeedSource>,
    /// How long to be silent before a keep-alive is sent.
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    stopped: Pin<Box<SignalFuture>>,
    access: Access,
    is_begun: bool,
    is_over: bool,
}

impl FeedBody {
    pub fn new(
        source: Box<dyn FeedSource>,
        keep_alive: Duration,
        stopped: SignalFuture,
        mut access: Access,
    ) -> Self {
        access.status(200);
        let (silence, stopped) = (Box::pin(sleep(keep_alive)), Box::pin(stopped));
        Self { source, keep_alive, silence, stopped, access, is_begun: false, is_over: false }
    }

    /// Records that the connection is being closed because the client accepted nothing for too long.
    pub(super) fn stalled(&mut self) {
        self.access.ended(Outcome::Stalled);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the next piece. The first piece is a comment, so that the client knows immediately that it is connected.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut self.is_begun, true) {
            return Poll::Ready(Some(self.wrote(Bytes::from_static(b": connected\n\n"))));
        }
        if self.stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.end());
        }
        match self.source.poll_events(cx) {
            Poll::Ready(Some(events)) => return Poll::Ready(Some(self.wrote(events))),
            Poll::Ready(None) => return Poll::Ready(self.end()),
            Poll::Pending => {}
        }
        if self.silence.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(self.wrote(Bytes::from_static(b": keep-alive\n\n"))));
        }
        Poll::Pending
    }

    fn wrote(&mut self, piece: Bytes) -> Bytes {
        self.access.wrote(piece.len());
        match Instant::now().checked_add(self.keep_alive) {
            Some(next) => self.silence.as_mut().reset(next),
            None => self.silence = Box::pin(sleep(self.keep_alive)),
        }
        piece
    }

    fn end(&mut self) -> Option<Bytes> {
        self.is_over = true;
        self.access.ended(Outcome::Done);
        None
    }
}
