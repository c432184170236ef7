//! [`ExchangeState`]: takes an upstream's response through its stages, and its bytes through the pipeline.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use tokio::time::{Sleep, sleep};

use super::{
    super::{
        budget::Reservation,
        count,
        permits::Permit,
        upstream::{BodyError, BodyRead, OpenError, Opened},
    },
    MAX_BYTES,
    observers::Observers,
    stage::{AskedModel, Cause, Parts, Stage, StartedExchange},
};
use crate::observe::{Access, LiveState, Outcome};
use toolwire_config::Timeouts;
use toolwire_pipeline::{
    failure::{self, Failure, Kind},
    pipeline::{SLICE, State},
};

/// The state of an exchange. Dropping it ends the exchange.
pub(super) struct ExchangeState {
    pub(super) asked: AskedModel,
    /// Bytes to send that the client's connection has not taken yet.
    pub(super) out: BytesMut,
    /// Number of bytes of keep-alives at the start of `out`, while nothing else in it may be sent.
    pub(super) comments: usize,
    pub(super) stream: bool,
    /// Number of reads, and of slices of read data, since the deadlines were last checked.
    pub(super) reads: usize,
    /// Number of bytes processed since the task last yielded.
    pub(super) worked: usize,
    /// Whether the last read contained only comments or whitespace.
    pub(super) is_filler: bool,
    /// The slot at the upstream, held until the client has read everything.
    pub(super) permit: Option<Permit>,
    /// The timer that runs while the client does not read.
    unread: Option<Pin<Box<Sleep>>>,
    /// The memory of the request's body. Released when the upstream answers, since it has received the request by
    /// then.
    memory: Option<Reservation>,
    /// Whether the connection was closed because the client did not read.
    pub(super) is_stalled: bool,
    /// Whether hosted tools have run.
    pub(super) has_run_tools: bool,
    /// Whether their results are kept, since the response has failed.
    pub(super) keeps_results: bool,
    /// Whether the upstream is asked for a later hop of the response.
    pub(super) is_later_hop: bool,
    pub(super) observers: Observers,
}

impl ExchangeState {
    pub(super) fn new(parts: Parts, access: Access) -> Self {
        let Parts { stream, allowance, memory, exchange, attempts } = parts;
        let StartedExchange { asked, observers } = exchange;
        let state = Self {
            asked,
            out: BytesMut::new(),
            comments: 0,
            stream,
            reads: 0,
            worked: 0,
            is_filler: false,
            permit: None,
            unread: None,
            memory: Some(memory),
            is_stalled: false,
            has_run_tools: false,
            keeps_results: false,
            is_later_hop: false,
            observers: Observers::new(observers, attempts, allowance, access),
        };
        state.show_progress();
        state
    }

    /// Whether more data is expected from the upstream.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.asked.stage, Stage::AwaitingBodyEnd(_) | Stage::Over)
    }

    /// Whether everything that has arrived of the upstream's body has been read.
    pub(super) fn is_drained(&self) -> bool {
        !self.asked.pipeline.is_behind()
            && matches!(&self.asked.stage, Stage::Streaming(body) | Stage::Ending(body) if body.is_drained())
    }

    /// Whether the response is certain to have status 200.
    pub(super) fn is_certain(&self) -> bool {
        if self.stream {
            self.asked.pipeline.has_content()
                || self.asked.pipeline.state() == State::Done
                || self.out.len() >= MAX_BYTES
        } else {
            matches!(self.asked.stage, Stage::Over) && self.asked.failure().is_none()
        }
    }

    /// Polls the current stage.
    pub(super) fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.asked.stage {
            Stage::Preparing(preparing) => {
                let prepared = ready!(preparing.as_mut().poll(cx));
                self.prepared(prepared);
            }
            Stage::Opening(opening) => {
                let opened = ready!(opening.as_mut().poll(cx));
                self.opened(opened);
            }
            Stage::Streaming(_) | Stage::Ending(_) if self.asked.pipeline.is_behind() => {
                self.asked.pipeline.work(&mut self.out);
                self.reads += 1;
                self.worked += SLICE;
                self.apply_state(self.asked.pipeline.state());
            }
            Stage::Streaming(body) | Stage::Ending(body) => {
                let (pipeline, out, observers) =
                    (&mut self.asked.pipeline, &mut self.out, &mut self.observers);
                let (worked, is_filler) = (&mut self.worked, &mut self.is_filler);
                *is_filler = true;
                let read = ready!(body.poll_data(cx, |data| {
                    *is_filler = *is_filler && says_nothing(data);
                    if pipeline.state() == State::Open {
                        observers.piece(data);
                        pipeline.begin_push(data, out);
                        *worked += data.len();
                    }
                }));
                self.read(read);
                self.observers.progressed(&self.asked.pipeline);
            }
            Stage::Approved => self.decide(),
            Stage::Deciding(deciding) => {
                let Poll::Ready(decided) = deciding.as_mut().poll(cx) else {
                    // Frees the slot for other requests, including those of the decision itself.
                    self.permit = None;
                    let Some(hops) = &self.asked.hops else { return Poll::Pending };
                    let announced = ready!(hops.poll_announced(cx));
                    self.show(&announced);
                    return Poll::Ready(());
                };
                self.decided(decided);
            }
            Stage::Making(making, _) => {
                let made = ready!(making.as_mut().poll(cx));
                if let Stage::Making(_, why) = mem::replace(&mut self.asked.stage, Stage::Over) {
                    let made = made.and_then(|(hops, made)| {
                        self.asked.hops = Some(hops);
                        made
                    });
                    self.made(made, why);
                }
            }
            Stage::AwaitingBodyEnd(body) => {
                while let Ok(BodyRead::Data) = ready!(body.poll_data(cx, |_| ())) {}
                self.asked.stage = Stage::Over;
            }
            Stage::Over => {}
        }
        Poll::Ready(())
    }

    /// Publishes the response's progress, if there may be subscribers.
    pub(super) fn show_progress(&self) {
        let Some(live) = self.observers.access.live() else { return };
        let state = match &self.asked.stage {
            Stage::Preparing(_) | Stage::Making(..) => LiveState::Preparing,
            Stage::Opening(_) => LiveState::Waiting,
            Stage::Streaming(_) | Stage::Ending(_) if self.asked.pipeline.has_content() => {
                LiveState::Streaming
            }
            Stage::Streaming(_) | Stage::Ending(_) => LiveState::Waiting,
            Stage::Approved | Stage::Deciding(_) => LiveState::Tools,
            Stage::AwaitingBodyEnd(_) | Stage::Over => LiveState::Ending,
        };
        live.progress(state, count::estimated_output(&self.asked.pipeline));
    }

    /// Continues with a request that has been prepared and sent, or fails if it could not be prepared.
    fn prepared(&mut self, prepared: Result<StartedExchange, Failure>) {
        match prepared {
            Ok(StartedExchange { asked, observers }) => {
                self.observers.prepared(observers, asked.client.upstream(), self.is_later_hop);
                match self.is_later_hop {
                    true => self.continue_with(asked),
                    false => self.asked = asked,
                }
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn opened(&mut self, opened: Result<Opened, OpenError>) {
        self.release();
        match opened {
            Ok(Opened { head, body, permit }) => {
                self.observers.answered(&head);
                self.permit = permit;
                self.asked.stage = Stage::Streaming(body);
                if let Some(hops) = &mut self.asked.hops {
                    hops.accepted();
                }
                if self.asked.hops.as_ref().is_some_and(|hops| !hops.is_needed()) {
                    self.drop_hops();
                }
            }
            Err(OpenError { failure, said, permit }) => {
                let is_recovered = self.asked.pipeline.recover(&failure, &mut self.out);
                if let (Some(hops), Some((head, body))) = (&mut self.asked.hops, &said)
                    && !is_recovered
                    && hops.refused(head.status, body)
                {
                    return self.make(Cause::Refusal(failure.kind(), permit));
                }
                self.observers.refused(said.as_ref(), is_recovered);
                if !is_recovered {
                    return self.fail(failure);
                }
                self.apply_state(self.asked.pipeline.state());
            }
        }
    }

    /// Handles a part of the body that has passed through the pipeline, or the end of the body.
    fn read(&mut self, read: Result<BodyRead, BodyError>) {
        self.reads += 1;
        let state = match read {
            Ok(BodyRead::Data) => {
                self.observers.chunk();
                self.asked.pipeline.state()
            }
            Ok(BodyRead::End) => {
                self.asked.pipeline.begin_finish(&mut self.out);
                self.asked.pipeline.state()
            }
            Err(error) if self.asked.pipeline.state() == State::Open => return self.fail(error.into()),
            // An error after the end of the response does not matter.
            Err(_) => self.asked.pipeline.state(),
        };
        self.apply_state(state);
    }

    /// Acts on the pipeline's new `state`.
    fn apply_state(&mut self, state: State) {
        if self.can_fail_over() && self.asked.pipeline.has_hop_content() {
            self.has_content();
        }
        match state {
            State::Open if self.asked.pipeline.is_behind() => {}
            State::Open if self.asked.pipeline.awaits_end() => self.await_end(),
            State::Open => self.go_on(),
            State::Failed => {
                let failure = self.asked.pipeline.failure().cloned();
                if failure.as_ref().is_some_and(|failure| failure.kind() == Kind::Unauthorized) {
                    self.asked.client.refused_since(self.observers.begun());
                }
                if !failure.is_some_and(|failure| self.ask_another(&failure)) {
                    self.has_failed();
                }
            }
            State::Done => {
                self.completed();
                self.await_body_end();
            }
            State::HopEnded => self.hop_ended(),
        }
    }

    fn await_body_end(&mut self) {
        self.asked.stage = match mem::replace(&mut self.asked.stage, Stage::Over) {
            Stage::Streaming(body) if !body.is_over() => Stage::AwaitingBodyEnd(body),
            _ => Stage::Over,
        };
    }

    /// Waits for the proper end of the body, which makes the response, or this hop, complete.
    fn await_end(&mut self) {
        self.asked.stage = match mem::replace(&mut self.asked.stage, Stage::Over) {
            Stage::Streaming(body) => Stage::Ending(body),
            stage => stage,
        };
    }

    /// Continues after content that followed a finish reason: the hop had not ended after all.
    fn go_on(&mut self) {
        if matches!(self.asked.stage, Stage::Ending(_))
            && let Stage::Ending(body) = mem::replace(&mut self.asked.stage, Stage::Over)
        {
            self.asked.stage = Stage::Streaming(body);
        }
    }

    /// Ends the hop although the upstream has not ended its body. Returns `false` if part of the hop is missing.
    pub(super) fn end_hop(&mut self) -> bool {
        if !self.asked.pipeline.is_hop_finished() {
            return false;
        }
        self.asked.pipeline.finish(&mut self.out);
        self.apply_state(self.asked.pipeline.state());
        if let Stage::AwaitingBodyEnd(_) = self.asked.stage {
            self.asked.stage = Stage::Over;
        }
        true
    }

    /// Drops this hop's response and starts deciding how to continue.
    fn hop_ended(&mut self) {
        self.observers.hop_ended(&self.asked.pipeline);
        self.has_content();
        self.decide();
    }

    /// Starts deciding how to continue.
    fn decide(&mut self) {
        if let (Some(hops), Some(follow_up)) = (&mut self.asked.hops, self.asked.pipeline.follow_up()) {
            let follow_up = follow_up.clone();
            self.asked.stage = Stage::Deciding(self.observers.access.in_hop(|| hops.decide(follow_up)));
            let announced = hops.announced();
            self.show(&announced);
        } else {
            self.asked.pipeline.end(&mut self.out);
            self.completed();
            self.await_body_end();
        }
    }

    /// Handles the completed response.
    pub(super) fn completed(&mut self) {
        self.observers.completed(&mut self.asked.pipeline);
        if let Some(hops) = &mut self.asked.hops {
            hops.completed(&self.asked.pipeline.tally());
            if let Some(turn) = self.asked.pipeline.take_deferred() {
                self.observers.access.in_hop(|| hops.deferred(turn));
            }
        }
    }

    /// Asks another model if possible, and otherwise fails the response.
    pub(super) fn fail(&mut self, failure: Failure) {
        if !self.ask_another(&failure) {
            self.fail_for_good(failure);
        }
    }

    /// Fails the response: drops the upstream's body, and flushes the text that was held back.
    pub(super) fn fail_for_good(&mut self, failure: Failure) {
        self.asked.pipeline.fail(failure, &mut self.out);
        self.has_failed();
    }

    /// Handles a failure after which no other model is asked. The results of hosted tools are kept before the client
    /// learns of the failure, since it may repeat its request at once.
    fn has_failed(&mut self) {
        self.asked.pipeline.give_up(&mut self.out);
        self.asked.stage = Stage::Over;
        if self.asked.failure().is_some_and(may_succeed_later) {
            self.keep_results();
        }
    }

    fn keep_results(&mut self) {
        self.keeps_results |= self.asked.hops.as_ref().is_some_and(|hops| hops.keep());
    }

    /// Must be called while the client does not read. If other requests wait for the slot at the upstream, ends the
    /// response, since the slot is free only after the upstream has finished this request.
    pub(super) fn poll_unread(&mut self, cx: &mut Context<'_>) {
        if !self.is_open() {
            // The upstream no longer works on the request.
            self.permit = None;
        }
        let Some(permit) = &self.permit else { return };
        let patience = permit.patience();
        let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(patience)));
        while unread.as_mut().poll(cx).is_ready() {
            if permit.is_wanted() {
                let upstream = self.asked.client.upstream().name.as_str();
                tracing::warn!(
                    upstream,
                    "a response ends, since its client has not read it for {patience:?} and others wait for a place at the upstream"
                );
                let message = format!(
                    "the response was not read for {patience:?} while others waited for the upstream"
                );
                self.fail_for_good(Failure::new(Kind::Overloaded, message));
                self.permit = None;
                return;
            }
            unread.as_mut().reset(tokio::time::Instant::now() + patience);
        }
    }

    /// Must be called when the client reads.
    pub(super) fn is_read(&mut self) {
        if self.unread.is_some() {
            self.unread = None;
        }
    }

    /// Returns the timeouts of the current upstream.
    pub(super) fn timeouts(&self) -> &Timeouts {
        &self.asked.client.upstream().timeouts
    }

    /// Whether another model may still answer because the client has received nothing of this hop.
    pub(super) fn can_fail_over(&self) -> bool {
        self.observers.attempts.as_ref().is_some_and(|attempts| attempts.are_open())
    }

    /// Returns the time limit for the first content of the current target, if another target may answer instead.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.observers.attempts.as_ref().filter(|_| self.stream)?.patience()
    }

    /// Asks another target, if there is one, because the first content did not arrive in time.
    pub(super) fn first_content_expired(&mut self) {
        let is_asked = matches!(self.asked.stage, Stage::Opening(_) | Stage::Streaming(_) | Stage::Ending(_));
        if let Some(limit) = self.patience().filter(|_| is_asked) {
            // Without another target, the current one continues.
            let _ = self.ask_another(&failure::timed_out("first content", limit));
        }
    }

    /// Records that the target has written content, even if the client has not received it.
    fn has_content(&mut self) {
        if let Some(attempts) = &mut self.observers.attempts {
            attempts.has_content(self.asked.hops.is_none());
            self.release();
        }
    }

    pub(super) fn close_attempts(&mut self) {
        if let Some(attempts) = &mut self.observers.attempts {
            attempts.close(self.asked.hops.is_none());
            self.release();
        }
    }

    /// Releases the memory of the request's body, unless the body may still be sent to another model.
    fn release(&mut self) {
        if !self.can_fail_over() {
            self.memory = None;
        }
    }

    /// Fails the response because the upstream has been silent for `limit`. If its connection is shared, it is not used for
    /// further requests.
    pub(super) fn fail_silent(&mut self, what: &str, limit: Duration) {
        if let Stage::Streaming(body) | Stage::Ending(body) = &self.asked.stage {
            body.retire();
        }
        self.fail(failure::timed_out(what, limit));
    }
}

/// Whether the same request may succeed later.
fn may_succeed_later(failure: &Failure) -> bool {
    failure.may_succeed_elsewhere()
        || matches!(failure.kind(), Kind::StoreAway | Kind::Draining | Kind::Internal)
}

/// Whether `data` contains only comments of an event stream and whitespace. Data that starts within a line counts as
/// content.
fn says_nothing(data: &[u8]) -> bool {
    matches!(data.first(), None | Some(b':' | b'\n' | b'\r' | b' '))
        && data
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .all(|line| line.is_empty() || line == b" " || line.starts_with(b":"))
}

impl Drop for ExchangeState {
    fn drop(&mut self) {
        let outcome = match self.asked.failure() {
            Some(failure) => Outcome::Failed(failure.clone()),
            None if self.is_stalled => Outcome::Stalled,
            None if !self.is_open() && self.is_flushed() => Outcome::Done,
            None => {
                self.keep_results();
                Outcome::Cancelled
            }
        };
        self.observers.ended(outcome, &self.asked.pipeline);
        if self.asked.hops.is_some() {
            self.drop_hops();
        }
    }
}

impl fmt::Debug for ExchangeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeState")
            .field("stage", &self.asked.stage)
            .field("held", &self.permit)
            .finish_non_exhaustive()
    }
}
