//! [`AnswerBody`]: the body of a response, which owns the request to the upstream.
//!
//! ```text
//! Preparing ─▶ Opening ─headers─▶ Streaming ─end mark─▶ AwaitingBodyEnd ─end of body─▶ Over
//!  │            │  ▲                │  │ └─end mark or finish reason─▶ Ending ───────▲
//!  │            │  │                │  └─a hop has ended─▶ Deciding ─no other hop────▲
//!  │            │  └────────────────┼─────next hop──────────┘                        │
//!  └────────────┴───────────────────┴──── failure, deadline, cut ────────────────────┘
//! ```
//!
//! A response usually starts in `Opening`. It starts in `Preparing` if other requests must come first, such as one that
//! describes images for a model without vision, and in `Approved` if calls run that the client has approved. `Making` comes before `Opening` when a large request is built for a
//! later hop, or in place of a refused request.
//!
//! No task or channel connects the two connections: the client's connection polls the body, which polls the upstream's
//! connection. Nothing is therefore read from the upstream before the client accepts it. When the client's connection
//! closes, at any stage, it drops the body and with it the upstream's request.
//!
//! Two callers poll the body. The first is the handler, which calls [`AnswerBody::poll_commit`] until the status is
//! known: at the first content, at the end of a non-streaming response, or after a wait of `limits.keep_alive`. The
//! second is the client's connection, which calls [`AnswerBody::poll_some`], or hyper's `poll_frame` over HTTP/2. Both
//! take the same steps.
//!
//! The steps themselves are in `exchange_state` and, for other requests of the same exchange, `next_request`. The bytes
//! for the client are in `output`, and `observers` records what happens.

mod exchange_state;
mod next_request;
mod observers;
mod output;
mod stage;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;
use serde_json::{Map, Value, json};

use crate::observe::Access;
use toolwire_config::Timeouts;
use toolwire_pipeline::{
    conversation::Call,
    failure::{self, Failure, Kind},
};

use super::{
    cors::Grant,
    deadlines::{Deadline, Deadlines, FILLER},
    drain::SignalFuture,
    stamp::unix_time,
    yield_now,
};

use exchange_state::ExchangeState;
pub(super) use observers::ModelObservers;
use stage::Cause;
pub(super) use stage::{AskedModel, Parts, Stage, StartedExchange};

/// Maximum number of reads between two checks of the deadlines, and in one frame. After that many reads, output is sent
/// to the client.
const MAX_READS: usize = 64;

/// Number of bytes after which a frame is sent even if more are available. A single read may exceed it.
const MAX_BYTES: usize = 32 << 10;

/// Number of bytes of an upstream's response after which the task yields the thread.
const MAX_WORK: usize = 32 << 10;

/// The body of one response; see the module documentation.
#[derive(Debug)]
#[pin_project]
pub struct AnswerBody {
    #[pin]
    deadlines: Deadlines,
    #[pin]
    cut: SignalFuture,
    grant: Grant,
    flow: ExchangeState,
}

impl AnswerBody {
    /// Creates the body of a response whose upstream request is in progress or is being prepared. A stream gets a
    /// keep-alive comment after each `keep_alive` of silence. The body ends when `cut` becomes ready.
    pub(super) fn new(parts: Parts, access: Access, keep_alive: Duration, cut: SignalFuture) -> Self {
        let keep_alive = parts.stream.then_some(keep_alive);
        let flow = ExchangeState::new(parts, access);
        let &Timeouts { idle, total, .. } = flow.timeouts();
        let deadlines = Deadlines::new(keep_alive, idle, total).expecting_content(flow.patience());
        Self { deadlines, cut, grant: Grant::default(), flow }
    }

    /// Reads until the response's status is certain. `Ok` means status 200; the body then starts with what has been
    /// read. After an error, call [`AnswerBody::refuse`].
    pub fn poll_commit(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while !self.flow.is_certain() {
            if let Some(failure) = self.flow.asked.failure() {
                return Poll::Ready(Err(failure.clone()));
            }
            ready!(self.as_mut().poll_turn(cx));
            if self.as_mut().poll_upstream(cx).is_pending() {
                let deadline = ready!(self.as_mut().poll_interrupt(cx));
                if deadline == Some(Deadline::KeepAlive) {
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Turns the response into an error response for `failure`, which occurred before any content.
    pub(super) fn refuse(self: Pin<&mut Self>, failure: &Failure) {
        let flow = self.project().flow;
        let results = flow.asked.hops.as_ref().map_or_else(Vec::new, |hops| hops.told());
        let body = with_results(flow.asked.pipeline.error_body(failure), results);
        flow.out = BytesMut::from(body.as_slice());
        flow.observers.failed(flow.asked.failure());
    }

    /// Whether the response is sent as a stream, which is the case if it was requested as one and did not fail before
    /// its start.
    pub(super) fn is_streaming(&self) -> bool {
        let refused = self.flow.observers.failure_written && !self.flow.is_open();
        self.flow.stream && !refused
    }

    /// The content type of a response that did not fail before its start.
    pub(super) fn content_type(&self) -> &'static str {
        self.flow.asked.pipeline.content_type()
    }

    /// The entry of the model that answers, and how many entries have been asked. `None` if the model has no
    /// alternatives.
    pub(super) fn attempts(&self) -> Option<(&str, usize)> {
        self.flow.observers.attempts.as_ref().map(|attempts| (attempts.target(), attempts.count()))
    }

    /// Returns the failure to report in place of `failure` if no target of the model has worked for some time.
    pub(super) fn outage(&self, failure: &Failure) -> Option<Failure> {
        self.flow.observers.attempts.as_ref()?.outage(failure)
    }

    pub fn failure(&self) -> Option<&Failure> {
        self.flow.asked.failure()
    }

    /// The hop's calls to hosted tools, with what has arrived of their arguments.
    pub fn hosted_calls(&self) -> impl Iterator<Item = &Call> {
        self.flow.asked.pipeline.hosted_calls()
    }

    /// The members of the client's request that the model does not get as they are.
    pub(super) fn left_out(&self) -> &[String] {
        &self.flow.asked.left_out
    }

    /// Whether hosted tools have run that would run again if the client repeated its request.
    pub(super) fn would_run_tools_again(&self) -> bool {
        self.flow.has_run_tools && !self.flow.keeps_results
    }

    /// Whether hosted tools have run whose results are kept for the client's next request.
    pub(super) fn keeps_results(&self) -> bool {
        self.flow.keeps_results
    }

    /// Adds the headers that show how much of the client's limits is left.
    pub(super) fn put_rates(&self, headers: &mut HeaderMap) {
        if let Some(allowance) = &self.flow.observers.allowance {
            allowance.put_headers(headers, unix_time());
        }
    }

    pub(super) fn grant(self: Pin<&mut Self>, grant: Grant) {
        *self.project().grant = grant;
    }

    pub(super) fn granted(&self) -> &Grant {
        &self.grant
    }

    pub(super) fn access(self: Pin<&mut Self>) -> &mut Access {
        &mut self.project().flow.observers.access
    }

    /// Yields the thread to other tasks once [`MAX_WORK`] bytes have been processed.
    fn poll_turn(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let worked = &mut self.project().flow.worked;
        if *worked < MAX_WORK {
            return Poll::Ready(());
        }
        *worked = 0;
        yield_now::yield_now(cx);
        Poll::Pending
    }

    /// Records that the connection is being closed because the client accepted nothing for too long.
    pub(super) fn stalled(self: Pin<&mut Self>) {
        self.project().flow.is_stalled = true;
    }

    fn poll_upstream(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let is_between = matches!(
            this.flow.asked.stage,
            Stage::Preparing(_) | Stage::Deciding(_) | Stage::Making(_, Cause::Hop(_))
        );
        let polled = this.flow.poll_stage(cx);
        if polled.is_pending() {
            this.flow.worked = 0;
        }
        ready!(polled);
        this.flow.show_progress();
        if is_between {
            // The next request may go to another upstream, which has its own time limits.
            this.deadlines.as_mut().expect_within(this.flow.timeouts().idle);
            this.deadlines.as_mut().expect_content(this.flow.patience());
        }
        match this.flow.asked.stage {
            Stage::Preparing(_)
            | Stage::Approved
            | Stage::Opening(_)
            | Stage::Deciding(_)
            | Stage::Making(..) => {
                this.deadlines.on_upstream_request();
            }
            Stage::Streaming(_) => this.deadlines.on_upstream_data(this.flow.is_filler),
            Stage::Ending(_) => this.deadlines.await_end(),
            Stage::AwaitingBodyEnd(_) => this.deadlines.linger(),
            Stage::Over => {}
        }
        Poll::Ready(())
    }

    /// Checks for events that do not come from the upstream: the server's shutdown, and deadlines. Returns a deadline
    /// that has passed.
    fn poll_interrupt(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Deadline>> {
        let mut this = self.project();
        this.flow.reads = 0;
        if this.cut.poll(cx).is_ready() && this.flow.is_open() {
            this.flow
                .fail(Failure::new(Kind::Draining, "toolwire was stopped before the response was complete"));
            return Poll::Ready(None);
        }
        let deadline = ready!(this.deadlines.as_mut().poll_deadline(cx));
        let &Timeouts { idle, total, .. } = this.flow.timeouts();
        match deadline {
            Deadline::KeepAlive => {
                this.flow.keep_alive();
                this.deadlines.as_mut().on_client_write();
            }
            Deadline::Idle => this.flow.fail_silent("next piece", idle),
            Deadline::Filler => {
                let limit = idle.saturating_mul(FILLER);
                this.flow.fail_silent("next piece other than comments and white space", limit);
            }
            Deadline::FirstContent => {
                this.deadlines.as_mut().expect_content(None);
                this.flow.first_content_expired();
            }
            Deadline::Total => {
                let failure = failure::timed_out("whole response", total.unwrap_or_default());
                this.flow.fail_for_good(failure);
            }
            Deadline::Linger => this.flow.asked.stage = Stage::Over,
            Deadline::Unended if this.flow.end_hop() => this.deadlines.as_mut().on_upstream_request(),
            Deadline::Unended => this.flow.fail(Failure::new(
                Kind::Truncated,
                "the upstream sent its end mark without a finish reason and did not end its response",
            )),
        }
        if let Stage::Preparing(_) = this.flow.asked.stage {
            // Another model will be asked. The silence of the one before does not count for it.
            this.deadlines.on_upstream_request();
        }
        Poll::Ready(Some(deadline))
    }

    /// Checks `total_timeout`, and whether other requests wait for the slot at the upstream. Must be called while the
    /// client accepts nothing. Nothing is read during that time, so the upstream's silence does not count, but the time
    /// limit of the response still does.
    pub(super) fn poll_overdue(self: Pin<&mut Self>, cx: &mut Context<'_>) {
        let this = self.project();
        if this.flow.is_open() && this.deadlines.poll_total(cx).is_ready() {
            let total = this.flow.timeouts().total.unwrap_or_default();
            let failure = failure::timed_out("whole response", total);
            this.flow.fail_for_good(failure);
        }
        this.flow.poll_unread(cx);
    }

    /// Waits for bytes to send, which [`AnswerBody::take`] returns. Returns `false` at the end of the body.
    pub fn poll_some(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        self.as_mut().project().flow.is_read();
        loop {
            let flow = self.as_mut().project().flow;
            flow.write_failure();
            flow.pour();
            let waiting = self.flow.has_output();
            let is_full = self.flow.out.len() >= MAX_BYTES;
            if waiting && (!self.flow.is_open() || self.flow.is_drained() || is_full) {
                return Poll::Ready(true);
            }
            if matches!(self.flow.asked.stage, Stage::Over) {
                return Poll::Ready(false);
            }
            if self.flow.reads >= MAX_READS {
                // Deadlines must apply even if the upstream never pauses. Their effect is visible in `flow`.
                let _ = self.as_mut().poll_interrupt(cx);
                if waiting {
                    return Poll::Ready(true);
                }
            }
            if waiting && self.flow.worked >= MAX_WORK {
                return Poll::Ready(true);
            }
            ready!(self.as_mut().poll_turn(cx));
            match self.as_mut().poll_upstream(cx) {
                Poll::Ready(()) => {}
                Poll::Pending if waiting => return Poll::Ready(true),
                Poll::Pending => _ = ready!(self.as_mut().poll_interrupt(cx)),
            }
        }
    }

    /// Takes the bytes to send. Give the buffer back with [`AnswerBody::put_back`].
    pub fn take(self: Pin<&mut Self>) -> BytesMut {
        let this = self.project();
        this.deadlines.on_forward();
        this.flow.take()
    }

    /// Gives a buffer back for reuse.
    pub fn put_back(self: Pin<&mut Self>, mut buffer: BytesMut) {
        let flow = self.project().flow;
        // By now, `out` may contain text that is held back.
        if flow.out.is_empty() {
            buffer.clear();
            flow.out = buffer;
        }
    }
}

/// Adds the results of hosted tools to the body of an error.
fn with_results(body: Vec<u8>, results: Vec<Value>) -> Vec<u8> {
    if results.is_empty() {
        return body;
    }
    let Ok(mut error) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    error.insert("toolwire".to_owned(), json!({ "tool_results": results }));
    Value::from(error).to_string().into_bytes()
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let is_some = ready!(self.as_mut().poll_some(cx));
        Poll::Ready(is_some.then(|| {
            let mut taken = self.as_mut().take();
            let bytes = taken.split().freeze();
            self.put_back(taken);
            Ok(Frame::data(bytes))
        }))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.flow.asked.stage, Stage::Over) && self.flow.is_flushed()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_streaming() {
            SizeHint::default()
        } else {
            SizeHint::with_exact(self.flow.out.len() as u64)
        }
    }
}
