//! [`Answer`]: one upstream request and what the client gets of it, as the response's body.
//!
//! ```text
//! Opening ─headers─▶ Streaming ─end mark─▶ Ebbing ─end of body─▶ Over
//!    │ ▲────once more────┤                                          ▲
//!    └───────────────────┴──── failure, deadline, cut ──────────────┘
//! ```
//!
//! No task and no channel stands between the two connections. The client's connection polls the body, the body polls
//! the upstream's: what the client does not take, the upstream is not asked for; and when the client's connection
//! goes away it drops the body, and with it the upstream's request, at whatever stage it is.
//!
//! Two callers poll an answer. The handler does so first, with [`Answer::poll_commit`], until it is known what status
//! to send: up to the first content, to the end of a whole answer, or until the client has waited for
//! `limits.keep_alive`. Then hyper does, with `poll_frame`. Both go the same steps.

use std::{
    convert::Infallible,
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project::pin_project;

use crate::{
    config::Timeouts,
    dialect::{UpstreamRequest, chat},
    failure::{self, Failure, Kind},
    observe::{Access, Outcome},
    pipeline::{Pipeline, State},
};

use super::{
    clock::{Alarm, Clock},
    drain::Cut,
    exchange::Again,
    permits::Permit,
    tap::{Ending, Watch},
    upstream::{Client, Opened, Unopened, innermost},
};

/// Upstream pieces that are taken without a look at the alarms, and that leave in one frame at most: then the client
/// is given a turn.
const MAX_PIECES: usize = 64;

/// Bytes after which a frame leaves although more is there. One upstream piece may go beyond it.
const MAX_BYTES: usize = 32 << 10;

/// An upstream's request on its way.
type Opening = Pin<Box<dyn Future<Output = Result<Opened, Unopened>> + Send>>;

/// See the module.
#[derive(Debug)]
#[pin_project]
pub(super) struct Answer {
    #[pin]
    clock: Clock,
    #[pin]
    cut: Cut,
    timeouts: Timeouts,
    flow: Flow,
}

/// What an [`Answer`] is made of.
pub(super) struct Parts {
    /// Who is asked, and what.
    pub(super) client: Arc<Client>,
    pub(super) request: UpstreamRequest,
    pub(super) again: Option<Again>,
    pub(super) pipeline: Pipeline,
    /// As a stream, not whole.
    pub(super) stream: bool,
    pub(super) keep_alive: Duration,
    pub(super) cut: Cut,
    pub(super) watch: Option<Box<dyn Watch>>,
    pub(super) access: Access,
}

impl Answer {
    /// An answer whose upstream has yet to be asked.
    pub(super) fn new(parts: Parts) -> Self {
        let keep_alive = parts.stream.then_some(parts.keep_alive);
        let timeouts = parts.client.upstream().timeouts.clone();
        Self {
            clock: Clock::new(keep_alive, timeouts.idle, timeouts.total),
            cut: parts.cut,
            timeouts,
            flow: Flow {
                begun: Instant::now(),
                stage: Stage::Opening(Box::pin(Arc::clone(&parts.client).open(parts.request, None))),
                client: parts.client,
                again: parts.again,
                pipeline: parts.pipeline,
                out: BytesMut::new(),
                stream: parts.stream,
                pieces: 0,
                failure_told: false,
                permit: None,
                watch: parts.watch,
                access: parts.access,
            },
        }
    }

    /// Reads until it is certain what status the response has: `Ok` is 200, and the body begins with what has been
    /// read. After an error, see [`Answer::refuse`].
    pub(super) fn poll_commit(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while !self.flow.is_certain() {
            if let Some(failure) = self.flow.pipeline.failure() {
                return Poll::Ready(Err(failure.clone()));
            }
            if self.as_mut().poll_upstream(cx).is_pending() {
                let alarm = ready!(self.as_mut().poll_interrupt(cx));
                if alarm == Some(Alarm::KeepAlive) {
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Makes the body the error object of a failure that came before the first content.
    pub(super) fn refuse(self: Pin<&mut Self>, failure: &Failure) {
        let flow = self.project().flow;
        flow.out = BytesMut::from(chat::error_body(failure).as_slice());
        flow.failure_told = true;
    }

    /// The record of this request.
    pub(super) fn access(self: Pin<&mut Self>) -> &mut Access {
        &mut self.project().flow.access
    }

    fn poll_upstream(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        ready!(this.flow.poll_upstream(cx));
        match this.flow.stage {
            Stage::Opening(_) => this.clock.asked(),
            Stage::Streaming(_) => this.clock.heard(),
            Stage::Ebbing(_) => this.clock.linger(),
            Stage::Over => {}
        }
        Poll::Ready(())
    }

    /// What happens without the upstream: an alarm (given back), or the server's end.
    fn poll_interrupt(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Alarm>> {
        let mut this = self.project();
        this.flow.pieces = 0;
        if this.cut.poll(cx).is_ready() && this.flow.is_open() {
            this.flow.fail(Failure::new(Kind::Draining, "toolwire was stopped before the answer was whole"));
            return Poll::Ready(None);
        }
        let alarm = ready!(this.clock.as_mut().poll_alarm(cx));
        match alarm {
            Alarm::KeepAlive => {
                this.flow.pipeline.keep_alive(&mut this.flow.out);
                this.clock.spoke();
            }
            Alarm::Idle => this.flow.fail(failure::timed_out("next piece", this.timeouts.idle)),
            Alarm::Total => {
                this.flow.fail(failure::timed_out("whole answer", this.timeouts.total.unwrap_or_default()));
            }
            Alarm::Linger => this.flow.stage = Stage::Over,
        }
        Poll::Ready(Some(alarm))
    }

    /// Gives the client what has come together.
    fn emit(self: Pin<&mut Self>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.project();
        this.clock.spoke();
        let bytes = this.flow.out.split().freeze();
        this.flow.access.wrote(bytes.len());
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            self.as_mut().project().flow.tell_failure();
            let waiting = !self.flow.out.is_empty();
            if waiting && (!self.flow.is_open() || self.flow.out.len() >= MAX_BYTES) {
                return self.emit();
            }
            if matches!(self.flow.stage, Stage::Over) {
                return Poll::Ready(None);
            }
            if self.flow.pieces >= MAX_PIECES {
                // An upstream that never pauses must not outrun the clock. What the alarm was shows in the flow.
                let _ = self.as_mut().poll_interrupt(cx);
                if waiting {
                    return self.emit();
                }
            }
            match self.as_mut().poll_upstream(cx) {
                Poll::Ready(()) => {}
                Poll::Pending if waiting => return self.emit(),
                Poll::Pending => _ = ready!(self.as_mut().poll_interrupt(cx)),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.flow.stage, Stage::Over) && self.flow.is_told()
    }

    fn size_hint(&self) -> SizeHint {
        let refused = self.flow.failure_told && !self.flow.is_open();
        if refused || !self.flow.stream {
            SizeHint::with_exact(self.flow.out.len() as u64)
        } else {
            SizeHint::default()
        }
    }
}

/// The parts of an answer that need no pinning. Its drop is the answer's end.
struct Flow {
    begun: Instant,
    stage: Stage,
    client: Arc<Client>,
    again: Option<Again>,
    pipeline: Pipeline,
    /// Written, not yet given to the client's connection.
    out: BytesMut,
    stream: bool,
    /// Upstream pieces since the alarms were looked at.
    pieces: usize,
    /// The error is in `out`, or was.
    failure_told: bool,
    /// The place at the upstream, held as long as the client reads.
    permit: Option<Permit>,
    watch: Option<Box<dyn Watch>>,
    access: Access,
}

/// Where the exchange with the upstream stands.
enum Stage {
    /// Waiting for a place, a connection, the headers.
    Opening(Opening),
    /// The body is read.
    Streaming(Incoming),
    /// The answer is whole. The end of the body is waited for, so that the connection can be used again.
    Ebbing(Incoming),
    /// Nothing more is wanted of the upstream.
    Over,
}

impl Flow {
    /// The upstream is still needed.
    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Opening(_) | Stage::Streaming(_))
    }

    /// Status 200 is certain.
    fn is_certain(&self) -> bool {
        if self.stream {
            self.pipeline.has_content() || self.pipeline.state() == State::Done || self.out.len() >= MAX_BYTES
        } else {
            matches!(self.stage, Stage::Over) && self.pipeline.failure().is_none()
        }
    }

    /// The client has been given all that it will get.
    fn is_told(&self) -> bool {
        self.out.is_empty() && (self.failure_told || self.pipeline.failure().is_none())
    }

    /// Takes the next step with the upstream.
    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.stage {
            Stage::Opening(opening) => {
                let opened = ready!(opening.as_mut().poll(cx));
                self.opened(opened);
            }
            Stage::Streaming(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                self.piece(frame);
            }
            Stage::Ebbing(body) => {
                while let Some(Ok(_)) = ready!(Pin::new(&mut *body).poll_frame(cx)) {}
                self.stage = Stage::Over;
            }
            Stage::Over => {}
        }
        Poll::Ready(())
    }

    fn opened(&mut self, opened: Result<Opened, Unopened>) {
        let after = self.begun.elapsed();
        match opened {
            Ok(Opened { head, body, permit }) => {
                if let Some(watch) = &mut self.watch {
                    watch.answered(head.status, &head.headers, after);
                }
                self.permit = Some(permit);
                self.stage = Stage::Streaming(body);
            }
            Err(Unopened { failure, said }) => {
                if let (Some(watch), Some((head, body))) = (&mut self.watch, said) {
                    watch.answered(head.status, &head.headers, after);
                    watch.piece(&body, after);
                }
                self.fail(failure);
            }
        }
    }

    fn piece(&mut self, frame: Option<Result<Frame<Bytes>, hyper::Error>>) {
        self.pieces += 1;
        let state = match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(bytes))) => {
                if let Some(watch) = &mut self.watch {
                    watch.piece(&bytes, self.begun.elapsed());
                }
                self.pipeline.push(&bytes, &mut self.out)
            }
            // Trailers say nothing of an answer.
            Some(Ok(Err(_trailers))) => State::Open,
            Some(Err(error)) => {
                let message = format!("the upstream broke off inside its answer: {}", innermost(&error));
                return self.fail(Failure::new(Kind::Truncated, message));
            }
            None => self.pipeline.finish(&mut self.out),
        };
        match state {
            State::Open => {}
            State::Failed => self.stage = Stage::Over,
            State::Done => self.ebb(),
            State::Asks => self.ask_again(),
        }
    }

    fn ebb(&mut self) {
        self.stage = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Streaming(body) if !body.is_end_stream() => Stage::Ebbing(body),
            _ => Stage::Over,
        };
    }

    /// Lets go of this hop's answer and asks for another, in the same place.
    fn ask_again(&mut self) {
        let Some(again) = &mut self.again else {
            return self.fail(Failure::new(Kind::Internal, "the upstream cannot be asked once more"));
        };
        let request = again.ask(&mut self.pipeline);
        let opening = Arc::clone(&self.client).open(request, self.permit.take());
        self.stage = Stage::Opening(Box::pin(opening));
    }

    /// Ends the answer: lets go of the upstream, and of what was held.
    fn fail(&mut self, failure: Failure) {
        self.pipeline.fail(failure, &mut self.out);
        self.stage = Stage::Over;
    }

    /// Writes the error into a stream that has begun, once, behind all that was certain before it.
    fn tell_failure(&mut self) {
        if !self.failure_told && self.pipeline.failure().is_some() {
            self.pipeline.write_failure(&mut self.out);
            self.failure_told = true;
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let whole = !self.is_open() && self.is_told();
        let (ending, outcome) = match self.pipeline.failure() {
            Some(failure) => (Ending::Failed(failure), Outcome::Failed(failure.clone())),
            None if whole => (Ending::Done, Outcome::Done),
            None => (Ending::Cancelled, Outcome::Cancelled),
        };
        if let Some(watch) = &mut self.watch {
            watch.end(ending, self.begun.elapsed());
        }
        self.access.ended(outcome);
        self.access.counted(self.pipeline.tally());
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").field("stage", &self.stage).field("held", &self.permit).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening(_) => "Opening",
            Self::Streaming(_) => "Streaming",
            Self::Ebbing(_) => "Ebbing",
            Self::Over => "Over",
        })
    }
}
