//! [`PassedBody`]: the body of an upstream's response on its way to the client.
//!
//! As for other responses, the client's connection polls it and it polls the upstream's connection, so a slow client slows
//! the upstream, and each side that goes away takes the other with it. A body that does not reach its end breaks the
//! client's connection off (HTTP/2: the stream), so that it never looks complete.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::super::{
    drain::SignalFuture,
    limits::Allowance,
    permits::Permit,
    stamp::unix_time,
    turn,
    upstream::{BodyRead, Opened, UpstreamBody},
};
use crate::observe::{Access, Outcome};
use toolwire_config::Timeouts;
use toolwire_pipeline::failure::{self, Failure, Kind};

/// The upstream has had the request, so its tokens count, whatever became of the response.
impl Drop for PassedBody {
    fn drop(&mut self) {
        if let Some(allowance) = self.allowance.take() {
            let input = allowance.input();
            let spent = allowance.settle(self.access.model(), (input, 0), unix_time());
            self.access.spent(spent);
        }
    }
}

/// Why a response ends before its end.
#[derive(Debug)]
pub struct BrokenOff(Failure);

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl Error for BrokenOff {}

/// See the module.
#[derive(Debug)]
pub struct PassedBody {
    body: UpstreamBody,
    /// The slot at the upstream, held until the client has read everything.
    _permit: Option<Permit>,
    idle: Pin<Box<Sleep>>,
    total: Option<Pin<Box<Sleep>>>,
    timeouts: Timeouts,
    cut: Pin<Box<SignalFuture>>,
    access: Access,
    /// What the response holds of its client's limits.
    allowance: Option<Box<Allowance>>,
    /// Why the response breaks off. Whatever came before it is written first.
    failure: Option<Failure>,
    is_over: bool,
}

impl PassedBody {
    /// The body of a response to a request that was sent at `begun`. It breaks off when `cut` becomes ready.
    pub(crate) fn new(
        (opened, allowance): (Opened, Option<Box<Allowance>>),
        timeouts: Timeouts,
        begun: Instant,
        cut: SignalFuture,
        access: Access,
    ) -> Self {
        let Opened { body, permit, .. } = opened;
        let total = timeouts.total.and_then(|limit| begun.checked_add(limit));
        Self {
            body,
            _permit: permit,
            idle: Box::pin(sleep(timeouts.idle)),
            total: total.map(|deadline| Box::pin(sleep_until(deadline))),
            timeouts,
            cut: Box::pin(cut),
            access,
            allowance,
            failure: None,
            is_over: false,
        }
    }

    /// The client has accepted nothing for too long; its connection is closed.
    pub(crate) fn stalled(&mut self) {
        self.access.ended(Outcome::Stalled);
    }

    /// Whether nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over && self.failure.is_none()
    }

    /// The next piece, as the upstream sent it.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(BrokenOff(failure))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(failure) = self.poll_limits(cx) {
            return self.fail(failure, cx);
        }
        let mut piece = BytesMut::new();
        match self.body.poll_data(cx, |data| piece.extend_from_slice(data)) {
            Poll::Ready(Ok(BodyRead::Data)) => {
                self.rest(self.timeouts.idle);
                self.access.wrote(piece.len());
                if self.body.is_over() {
                    self.end(Outcome::Done);
                }
                Poll::Ready(Some(Ok(Frame::data(piece.freeze()))))
            }
            Poll::Ready(Ok(BodyRead::End)) => {
                self.end(Outcome::Done);
                Poll::Ready(None)
            }
            Poll::Ready(Err(error)) => {
                let message = format!("the upstream broke off inside its response: {error}");
                self.fail(Failure::new(Kind::Truncated, message), cx)
            }
            Poll::Pending if self.idle.as_mut().poll(cx).is_ready() => {
                self.body.retire();
                self.fail(failure::timed_out("next piece", self.timeouts.idle), cx)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// What ends the response although the upstream goes on.
    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Option<Failure> {
        if self.cut.as_mut().poll(cx).is_ready() {
            let message = "toolwire was stopped before the response was complete";
            return Some(Failure::new(Kind::Draining, message));
        }
        let total = self.total.as_mut()?;
        total
            .as_mut()
            .poll(cx)
            .is_ready()
            .then(|| failure::timed_out("whole response", self.timeouts.total.unwrap_or_default()))
    }

    /// Waits from now on for at most `limit`.
    fn rest(&mut self, limit: Duration) {
        match Instant::now().checked_add(limit) {
            Some(deadline) => self.idle.as_mut().reset(deadline),
            None => self.idle = Box::pin(sleep(limit)),
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.is_over = true;
        self.access.ended(outcome);
    }

    /// Breaks the response off with the next poll: hyper drops what it has not written when a body fails, so it gets the
    /// opportunity to write it.
    fn fail(
        &mut self,
        failure: Failure,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.end(Outcome::Failed(failure.clone()));
        self.failure = Some(failure);
        turn::yield_now(cx);
        Poll::Pending
    }
}
