//! [`PassedBody`]: the body of an upstream's response that is passed through to the client.
//!
//! As for other responses, the client's connection polls the body, which polls the upstream's connection. A slow client
//! thus slows down the upstream, and when either side disconnects, so does the other. If the body does not reach its
//! end, the client's connection (or its HTTP/2 stream) is aborted, so that the response never looks complete.

use std::{
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
    upstream::{BodyRead, Opened, UpstreamBody},
    yield_now,
};
use crate::observe::{Access, Outcome};
use toolwire_config::Timeouts;
use toolwire_pipeline::failure::{self, Failure, Kind};

/// Counts the request's tokens. The upstream has received the request, even if the response failed.
impl Drop for PassedBody {
    fn drop(&mut self) {
        if let Some(allowance) = self.allowance.take() {
            let input = allowance.input();
            let spent = allowance.settle(self.access.model(), (input, 0), unix_time());
            self.access.spent(spent);
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BrokenOff(Failure);

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
    /// What the response has reserved from the client's limits.
    allowance: Option<Box<Allowance>>,
    /// Why the response is aborted. Bytes received before the failure are written first.
    failure: Option<Failure>,
    is_over: bool,
}

impl PassedBody {
    /// Creates the body of a response to a request that was sent at `begun`. It is aborted when `cut` becomes ready.
    pub(crate) fn new(
        opened: Opened,
        allowance: Option<Box<Allowance>>,
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

    /// Records that the connection is being closed because the client accepted nothing for too long.
    pub(crate) fn stalled(&mut self) {
        self.access.ended(Outcome::Stalled);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over && self.failure.is_none()
    }

    /// Returns the next piece, unchanged.
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
            Poll::Ready(Err(error)) => self.fail(error.into(), cx),
            Poll::Pending if self.idle.as_mut().poll(cx).is_ready() => {
                self.body.retire();
                self.fail(failure::timed_out("next piece", self.timeouts.idle), cx)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Returns a failure that ends the response although the upstream continues: the server's shutdown, or a timeout.
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

    /// Restarts the idle timer with `limit`.
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

    /// Aborts the response at the next poll. hyper drops unwritten bytes when a body fails, so it first gets a chance
    /// to write them.
    fn fail(
        &mut self,
        failure: Failure,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.end(Outcome::Failed(failure.clone()));
        self.failure = Some(failure);
        yield_now::yield_now(cx);
        Poll::Pending
    }
}
