//! [`ExchangeState`]: takes an upstream's response through its stages, and its bytes through the pipeline.

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use tokio::time::{Sleep, sleep};

use crate::observe::{Access, Attempt, LiveState, Outcome, failure_name, finish_name, kind_name};
use toolwire_pipeline::{
    dialect::{Reader, UpstreamRequest},
    event::Event,
    failure::{self, Failure, Kind},
    pipeline::{Pipeline, SLICE, State},
};

use super::{
    super::{
        budget::Reservation,
        count,
        failover::Attempts,
        hops::{Continuation, DecideHop, Deciding, NextHop},
        large,
        limits::Allowance,
        permits::{Claimant, Permit},
        report::ExchangeReport,
        stamp::unix_time,
        stored_responses::ResponseKeeper,
        tap::{Ending, Watch},
        turn_states::Keeper,
        upstream::{Admission, BodyError, BodyRead, Client, OpenError, Opened, Opening, UpstreamBody},
        upstream_capabilities::Observer,
    },
    MAX_BYTES,
};

/// A keep-alive that may be sent before the first event of a stream.
const COMMENT: &[u8] = b": keep-alive\n\n";

/// The parts of a response's body.
pub(crate) struct Parts {
    /// Whether the client gets a stream.
    pub(crate) stream: bool,
    pub(crate) access: Access,
    /// The amounts of the client's limits that the response holds, if the client has a name.
    pub(crate) allowance: Option<Box<Allowance>>,
    /// The memory reserved for the request's body until the upstream answers.
    pub(crate) memory: Reservation,
    pub(crate) exchange: StartedExchange,
    /// Other models that may answer, if configured.
    pub(crate) attempts: Option<Box<Attempts<StartedExchange>>>,
}

/// The parts of a response's body that exist once the upstream is asked.
pub(crate) struct StartedExchange {
    /// The upstream's client.
    pub(crate) client: Arc<Client>,
    pub(crate) begun: Instant,
    /// The request to the upstream with which the response begins, if there is one.
    pub(crate) attempt: Option<Attempt>,
    pub(crate) stage: Stage,
    /// Decides how to continue after a hop. `None` if the response ends with its first hop.
    pub(crate) hops: Option<Box<dyn DecideHop>>,
    /// Size in bytes of the client's request, or of the upstream's request if that is larger.
    pub(crate) size: usize,
    /// Learns from the response what the model supports, if any request depends on that.
    pub(crate) observer: Option<Observer>,
    /// The client for which the request is made.
    pub(crate) claimant: Claimant,
    /// Stores the response, if it must be stored.
    pub(crate) store: Option<ResponseKeeper>,
    /// Keeps the state that the upstream needs back.
    pub(crate) keeper: Option<Keeper>,
    pub(crate) pipeline: Pipeline,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// Publishes what happens, if there may be subscribers.
    pub(crate) report: Option<ExchangeReport>,
}

/// A request that is being prepared for its upstream.
///
/// # Errors
/// If the response fails.
pub(crate) type Preparing = Pin<Box<dyn Future<Output = Result<StartedExchange, Failure>> + Send>>;

impl StartedExchange {
    /// Creates the parts for a request that must be prepared before it can be sent. Until then, `pipeline` writes
    /// keep-alives or the error.
    pub(crate) fn preparing(client: Arc<Client>, preparing: Preparing, pipeline: Pipeline) -> Self {
        Self {
            client,
            begun: Instant::now(),
            attempt: None,
            stage: Stage::Preparing(preparing),
            hops: None,
            size: 0,
            observer: None,
            claimant: Claimant::Own,
            store: None,
            keeper: None,
            pipeline,
            watch: None,
            report: None,
        }
    }
}

/// The parts of a response's body that need no pinning. Dropping it ends the exchange.
pub(super) struct ExchangeState {
    begun: Instant,
    pub(super) stage: Stage,
    client: Arc<Client>,
    hops: Option<Box<dyn DecideHop>>,
    /// Size in bytes of the largest request of the exchange so far.
    size: usize,
    observer: Option<Observer>,
    store: Option<ResponseKeeper>,
    keeper: Option<Keeper>,
    pub(super) pipeline: Pipeline,
    /// Bytes that are written, but not yet taken by the client's connection.
    pub(super) out: BytesMut,
    pub(super) stream: bool,
    /// Number of reads, and of slices of read data, since the deadlines were last checked.
    pub(super) reads: usize,
    /// Number of bytes processed since other tasks last had the thread.
    pub(super) worked: usize,
    /// Whether the last read contained only comments or white space.
    pub(super) is_filler: bool,
    /// Whether the error has been written to `out` and the target is recorded as failed.
    pub(super) failure_written: bool,
    /// The slot at the upstream, held until the client has read everything.
    permit: Option<Permit>,
    /// The client for which the request is made.
    claimant: Claimant,
    /// Runs while the client does not read.
    unread: Option<Pin<Box<Sleep>>>,
    /// The memory of the request's body. Released when the upstream answers, since it has received the request by
    /// then.
    memory: Option<Reservation>,
    /// Whether the connection was closed because the client accepted nothing.
    pub(super) is_stalled: bool,
    /// Whether hosted tools have run.
    pub(super) has_run_tools: bool,
    /// Other models that may answer, if configured.
    attempts: Option<Box<Attempts<StartedExchange>>>,
    /// Bytes of keep-alives in `out`, while nothing else in it may be sent.
    comments: usize,
    watch: Option<Box<dyn Watch>>,
    report: Option<ExchangeReport>,
    pub(super) access: Access,
    pub(super) allowance: Option<Box<Allowance>>,
    /// Whether an upstream has begun a response.
    is_answered: bool,
}

/// The stages of an exchange with the upstream.
pub(crate) enum Stage {
    /// The request is being prepared, which takes other requests: images are described, or hosted tools are still
    /// running.
    Preparing(Preparing),
    /// Waiting for a slot, a connection, and the headers.
    Opening(Opening),
    /// Reading the body.
    Streaming(UpstreamBody),
    /// Only the end of the body is missing: either the end mark came without a finish reason, and only a proper end
    /// makes the response complete, or the finish reason came without the end mark, and only token counts can still
    /// come.
    Ending(UpstreamBody),
    /// A hop has ended, and the decision how to continue is pending.
    Deciding(Deciding),
    /// A large request is being built for the upstream.
    Making(Making, Cause),
    /// The response is complete. Waiting for the end of the body, so that the connection can be reused.
    AwaitingBodyEnd(UpstreamBody),
    /// Done with the upstream.
    Over,
}

/// A request that is being built on another thread, together with the object that builds it.
type Making = large::Apart<(Box<dyn DecideHop>, Result<Made, Failure>)>;

/// A request to the upstream, and a reader for its response.
type Made = (UpstreamRequest, Reader);

/// The reason why another request is made.
pub(crate) enum Cause {
    /// Another hop follows.
    Hop(NextHop),
    /// The upstream has refused the hop's request with a failure of this kind. The new request takes over the refused
    /// one's slot at the upstream.
    Refusal(Kind, Option<Permit>),
}

impl ExchangeState {
    /// Creates the state of an exchange that has just begun.
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { stream, mut access, allowance, memory, exchange, attempts } = parts;
        if let Some(attempt) = exchange.attempt {
            access.hop_begun(attempt);
        }
        let state = Self {
            begun: exchange.begun,
            stage: exchange.stage,
            client: exchange.client,
            hops: exchange.hops,
            size: exchange.size,
            observer: exchange.observer,
            store: exchange.store,
            keeper: exchange.keeper,
            pipeline: exchange.pipeline,
            out: BytesMut::new(),
            stream,
            reads: 0,
            worked: 0,
            is_filler: false,
            failure_written: false,
            permit: None,
            claimant: exchange.claimant,
            unread: None,
            memory: Some(memory),
            is_stalled: false,
            has_run_tools: false,
            attempts,
            comments: 0,
            watch: exchange.watch,
            report: exchange.report,
            access,
            allowance,
            is_answered: false,
        };
        state.show_progress();
        state
    }

    /// Whether more is expected from the upstream.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::AwaitingBodyEnd(_) | Stage::Over)
    }

    /// Whether all data of the upstream's body that has arrived so far has been read.
    pub(super) fn is_drained(&self) -> bool {
        !self.pipeline.is_behind()
            && matches!(&self.stage, Stage::Streaming(body) | Stage::Ending(body) if body.is_drained())
    }

    /// Whether status 200 is certain.
    pub(super) fn is_certain(&self) -> bool {
        if self.stream {
            self.pipeline.has_content() || self.pipeline.state() == State::Done || self.out.len() >= MAX_BYTES
        } else {
            matches!(self.stage, Stage::Over) && self.failure().is_none()
        }
    }

    /// Whether the client's connection has taken everything.
    pub(super) fn is_flushed(&self) -> bool {
        self.out.is_empty() && !self.pipeline.has_more() && (self.failure_written || self.failure().is_none())
    }

    /// Writes more of the waiting output, if the client has room for it.
    pub(super) fn pour(&mut self) {
        if self.pipeline.has_more() {
            self.pipeline.pour(&mut self.out, MAX_BYTES);
        }
    }

    /// Takes the next step with the upstream.
    pub(super) fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.stage {
            Stage::Preparing(preparing) => {
                let prepared = ready!(preparing.as_mut().poll(cx));
                self.prepared(prepared);
            }
            Stage::Opening(opening) => {
                let opened = ready!(opening.as_mut().poll(cx));
                self.opened(opened);
            }
            Stage::Streaming(_) | Stage::Ending(_) if self.pipeline.is_behind() => {
                self.pipeline.work(&mut self.out);
                self.reads += 1;
                self.worked += SLICE;
                self.apply_state(self.pipeline.state());
            }
            Stage::Streaming(body) | Stage::Ending(body) => {
                let (pipeline, out, watch) = (&mut self.pipeline, &mut self.out, &mut self.watch);
                let (begun, worked, is_filler) = (self.begun, &mut self.worked, &mut self.is_filler);
                *is_filler = true;
                let read = ready!(body.poll_data(cx, |data| {
                    *is_filler = *is_filler && says_nothing(data);
                    if pipeline.state() == State::Open {
                        if let Some(watch) = watch {
                            watch.piece(data, begun.elapsed());
                        }
                        pipeline.begin_push(data, out);
                        *worked += data.len();
                    }
                }));
                self.read(read);
                self.report_text();
            }
            Stage::Deciding(deciding) => {
                let Poll::Ready(decided) = deciding.as_mut().poll(cx) else {
                    // Other requests may use the slot meanwhile, and so may the decision itself.
                    self.permit = None;
                    return Poll::Pending;
                };
                self.decided(decided);
            }
            Stage::Making(making, _) => {
                let made = ready!(making.as_mut().poll(cx));
                if let Stage::Making(_, why) = mem::replace(&mut self.stage, Stage::Over) {
                    let made = made.and_then(|(hops, made)| {
                        self.hops = Some(hops);
                        made
                    });
                    self.made(made, why);
                }
            }
            Stage::AwaitingBodyEnd(body) => {
                while let Ok(BodyRead::Data) = ready!(body.poll_data(cx, |_| ())) {}
                self.stage = Stage::Over;
            }
            Stage::Over => {}
        }
        Poll::Ready(())
    }

    /// Publishes the response's progress, if there may be subscribers.
    pub(super) fn show_progress(&self) {
        let Some(live) = self.access.live() else { return };
        let state = match &self.stage {
            Stage::Preparing(_) | Stage::Making(..) => LiveState::Preparing,
            Stage::Opening(_) => LiveState::Waiting,
            Stage::Streaming(_) | Stage::Ending(_) if self.pipeline.has_content() => LiveState::Streaming,
            Stage::Streaming(_) | Stage::Ending(_) => LiveState::Waiting,
            Stage::Deciding(_) => LiveState::Tools,
            Stage::AwaitingBodyEnd(_) | Stage::Over => LiveState::Ending,
        };
        live.progress(state, count::estimated_output(&self.pipeline));
    }

    /// Publishes the progress of the text.
    fn report_text(&mut self) {
        if let Some(report) = &mut self.report {
            report.progressed(&self.pipeline);
        }
    }

    /// Continues once the upstream has been asked, or the request could not be prepared.
    fn prepared(&mut self, prepared: Result<StartedExchange, Failure>) {
        match prepared {
            Ok(exchange) => {
                if let Some(attempts) = &self.attempts {
                    let upstream = exchange.client.upstream();
                    self.access.moved(attempts.count(), attempts.target(), upstream);
                }
                self.client = exchange.client;
                if let Some(attempt) = exchange.attempt {
                    self.access.hop_begun(attempt);
                }
                self.begun = exchange.begun;
                self.stage = exchange.stage;
                self.hops = exchange.hops;
                self.size = exchange.size;
                self.observer = exchange.observer;
                self.claimant = exchange.claimant;
                self.store = exchange.store;
                self.keeper = exchange.keeper;
                self.pipeline = exchange.pipeline;
                self.watch = exchange.watch;
                self.report = exchange.report;
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn opened(&mut self, opened: Result<Opened, OpenError>) {
        let after = self.begun.elapsed();
        self.release();
        match opened {
            Ok(Opened { head, body, permit }) => {
                if let Some(watch) = &mut self.watch {
                    watch.answered(head.status, &head.headers, after);
                }
                self.permit = permit;
                self.is_answered = true;
                self.stage = Stage::Streaming(body);
                if let Some(hops) = &mut self.hops {
                    hops.accepted();
                }
                if self.hops.as_ref().is_some_and(|hops| !hops.is_needed()) {
                    self.drop_hops();
                }
            }
            Err(OpenError { failure, said, permit }) => {
                let is_recovered = self.pipeline.recover(&failure, &mut self.out);
                if let (Some(hops), Some((head, body))) = (&mut self.hops, &said)
                    && !is_recovered
                    && hops.refused(head.status, body)
                {
                    return self.make(Cause::Refusal(failure.kind(), permit));
                }
                if let (Some(watch), Some((head, body))) = (&mut self.watch, said) {
                    watch.answered(head.status, &head.headers, after);
                    watch.piece(&body, after);
                }
                if !is_recovered {
                    return self.fail(failure);
                }
                self.is_answered = true;
                self.apply_state(self.pipeline.state());
            }
        }
    }

    /// Handles a part of the body that went through the pipeline, or the end of the body.
    fn read(&mut self, read: Result<BodyRead, BodyError>) {
        self.reads += 1;
        let state = match read {
            Ok(BodyRead::Data) => {
                self.access.hop_chunk();
                self.pipeline.state()
            }
            Ok(BodyRead::End) => {
                self.pipeline.begin_finish(&mut self.out);
                self.pipeline.state()
            }
            Err(error) if self.pipeline.state() == State::Open => return self.fail(error.into()),
            // The response was already complete.
            Err(_) => self.pipeline.state(),
        };
        self.apply_state(state);
    }

    /// Acts on the pipeline's new `state`.
    fn apply_state(&mut self, state: State) {
        if self.can_fail_over() && self.pipeline.has_content() {
            self.has_content();
        }
        match state {
            State::Open if self.pipeline.is_behind() => {}
            State::Open if self.pipeline.awaits_end() => self.await_end(),
            State::Open => self.go_on(),
            State::Failed => {
                let failure = self.pipeline.failure().cloned();
                if failure.as_ref().is_some_and(|failure| failure.kind() == Kind::Unauthorized) {
                    self.client.refused_since(self.begun);
                }
                if !failure.is_some_and(|failure| self.ask_another(&failure)) {
                    self.stage = Stage::Over;
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
        self.stage = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Streaming(body) if !body.is_over() => Stage::AwaitingBodyEnd(body),
            _ => Stage::Over,
        };
    }

    /// Waits for the proper end of the body, which makes the response, or this hop, complete.
    fn await_end(&mut self) {
        self.stage = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Streaming(body) => Stage::Ending(body),
            stage => stage,
        };
    }

    /// Continues after content that followed a finish reason, which therefore was not the end.
    fn go_on(&mut self) {
        if matches!(self.stage, Stage::Ending(_))
            && let Stage::Ending(body) = mem::replace(&mut self.stage, Stage::Over)
        {
            self.stage = Stage::Streaming(body);
        }
    }

    /// Ends the hop although the upstream has not ended its body. Returns `false` if part of the hop is missing.
    pub(super) fn end_hop(&mut self) -> bool {
        if !self.pipeline.is_hop_finished() {
            return false;
        }
        self.pipeline.finish(&mut self.out);
        self.apply_state(self.pipeline.state());
        if let Stage::AwaitingBodyEnd(_) = self.stage {
            self.stage = Stage::Over;
        }
        true
    }

    /// Drops this hop's response, and decides how to continue.
    fn hop_ended(&mut self) {
        self.end_of_hop();
        self.has_content();
        if let (Some(hops), Some(follow_up)) = (&mut self.hops, self.pipeline.follow_up()) {
            let follow_up = follow_up.clone();
            self.stage = Stage::Deciding(self.access.in_hop(|| hops.decide(follow_up)));
            let announced = hops.announced();
            self.show(&announced);
        } else {
            self.pipeline.end(&mut self.out);
            self.completed();
            self.await_body_end();
        }
    }

    /// Reports the end of the hop to the log and the events, if a hop is in progress.
    fn end_of_hop(&mut self) {
        if let (Some(observer), Some(field)) = (&self.observer, self.pipeline.reasoning_field()) {
            observer.saw_reasoning(field);
        }
        let finish = self.pipeline.hop_finish().or_else(|| self.pipeline.finish_given());
        self.access.hop_ended(&finish.map_or("none", finish_name), None, self.pipeline.tokens());
        if let Some(report) = &mut self.report {
            report.hop_ended(&self.pipeline);
        }
    }

    /// Handles the completed response.
    fn completed(&mut self) {
        self.end_of_hop();
        if let Some(hops) = &mut self.hops {
            hops.completed(&self.pipeline.tally());
            if let Some(turn) = self.pipeline.take_deferred() {
                self.access.in_hop(|| hops.deferred(turn));
            }
        }
        // Stored before the client gets the end, since its next request may continue the response.
        if let (Some(store), Some(response)) = (self.store.take(), self.pipeline.take_response()) {
            store.keep(&response);
        }
        if let (Some(keeper), Some(state)) = (&self.keeper, self.pipeline.take_state()) {
            keeper.keep(state);
        }
    }

    fn decided(&mut self, decided: Result<Continuation, Failure>) {
        match decided {
            Ok(Continuation::Ask(next)) => self.make(Cause::Hop(next)),
            Ok(Continuation::Ran(ran, images)) => {
                self.has_run_tools = true;
                let hops = self.hops.as_mut();
                let next = hops.map_or(Continuation::End(None), |hops| hops.ran(ran, images));
                self.decided(Ok(next));
            }
            Ok(Continuation::End(warning)) => {
                warning.into_iter().for_each(|warning| self.pipeline.warn(warning));
                self.pipeline.end(&mut self.out);
                self.completed();
                self.stage = Stage::Over;
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Drops the decider, which may own the client's request: no further decisions are needed.
    fn drop_hops(&mut self) {
        let hops = self.hops.take();
        if large::is_large(self.size) {
            large::discard(hops);
        }
    }

    /// Builds another request, on another thread if it is large.
    fn make(&mut self, why: Cause) {
        let Some(mut hops) = self.hops.take() else {
            return self.fail(Failure::new(Kind::Internal, "nothing makes the request of another hop"));
        };
        let more = if let Cause::Hop(next) = &why { next.size() } else { 0 };
        if large::is_large(self.size.saturating_add(more)) {
            let make = move || {
                let made = hops.make();
                (hops, made)
            };
            self.stage = Stage::Making(large::apart(make), why);
        } else {
            let made = hops.make();
            self.hops = Some(hops);
            self.made(made, why);
        }
    }

    fn made(&mut self, made: Result<Made, Failure>, why: Cause) {
        let (request, reader) = match made {
            Ok(made) => made,
            Err(failure) => return self.fail(failure),
        };
        self.size = self.size.max(request.body.len());
        match why {
            Cause::Hop(next) => self.ask_again((request, reader), next),
            Cause::Refusal(kind, permit) => self.ask_otherwise(request, kind, permit),
        }
    }

    /// Sends the request of the next hop, in the same slot if it is still held.
    fn ask_again(&mut self, (request, reader): Made, next: NextHop) {
        let NextHop { turns, shown } = next;
        self.show(&shown);
        if let Some(watch) = &mut self.watch {
            watch.asked_again(&request, &turns, self.begun.elapsed());
        }
        if let Some(report) = &mut self.report {
            report.hop_started();
        }
        let attempt = self.access.next_attempt().unwrap_or_else(|| Attempt::untraced(request.stream));
        let client = self.client.traced(attempt.context());
        self.access.hop_begun(attempt);
        self.pipeline.resume(reader, &mut self.out);
        self.pipeline.expect_prefill(request.prefill.clone());
        self.pipeline.expect_key(request.key.clone());
        let opening = client.open(request, Admission::Again(self.permit.take(), self.claimant));
        self.stage = Stage::Opening(Box::pin(opening));
    }

    /// Shows the client what happens between two hops.
    fn show(&mut self, events: &[Event<'static>]) {
        for event in events {
            if let Some(watch) = &mut self.watch {
                watch.shown(event);
            }
            self.pipeline.show(event, &mut self.out);
        }
    }

    /// Sends another request instead of the one that the upstream has refused, in the same slot.
    fn ask_otherwise(&mut self, request: UpstreamRequest, refusal: Kind, permit: Option<Permit>) {
        if let Some(watch) = &mut self.watch {
            watch.asked_otherwise(&request);
        }
        self.pipeline.expect_prefill(request.prefill.clone());
        self.pipeline.expect_key(request.key.clone());
        let context = self.access.asked_otherwise(kind_name(refusal));
        let opening = self.client.traced(context).open(request, Admission::Again(permit, self.claimant));
        self.stage = Stage::Opening(Box::pin(opening));
    }

    /// Asks another model if possible; otherwise fails the response.
    pub(super) fn fail(&mut self, failure: Failure) {
        if !self.ask_another(&failure) {
            self.fail_for_good(failure);
        }
    }

    /// Fails the response: drops the upstream's body, and flushes the text that was held back.
    pub(super) fn fail_for_good(&mut self, failure: Failure) {
        self.pipeline.fail(failure, &mut self.out);
        self.stage = Stage::Over;
    }

    /// Must be called while the client does not read. If other requests wait for the slot at the upstream, the response
    /// ends, since the upstream must be finished with this request before it gets another one.
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
                let upstream = self.client.upstream().name.as_str();
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

    /// Called when the client reads.
    pub(super) fn is_read(&mut self) {
        if self.unread.is_some() {
            self.unread = None;
        }
    }

    /// The failure of the response, if it has failed.
    pub(super) fn failure(&self) -> Option<&Failure> {
        match self.stage {
            // The pipeline still belongs to a model that has failed.
            Stage::Preparing(_) => None,
            _ => self.pipeline.failure(),
        }
    }

    /// The client for the upstream that is currently asked.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The models that have been and may be asked, if there are several.
    pub(super) fn attempts(&self) -> Option<&Attempts<StartedExchange>> {
        self.attempts.as_deref()
    }

    /// Whether another model may still answer, because the client has not seen any of this model's response.
    fn can_fail_over(&self) -> bool {
        self.attempts.as_ref().is_some_and(|attempts| attempts.are_open())
    }

    /// Time limit for the first content of the current target's stream, if another target may answer instead.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.attempts.as_ref().filter(|_| self.stream)?.patience()
    }

    /// Asks another target, if there is one, because the time limit for the first content has passed.
    pub(super) fn first_content_expired(&mut self) {
        let is_asked = matches!(self.stage, Stage::Opening(_) | Stage::Streaming(_) | Stage::Ending(_));
        if let Some(limit) = self.patience().filter(|_| is_asked) {
            // Without another target, the current one continues.
            let _ = self.ask_another(&failure::timed_out("first content", limit));
        }
    }

    /// Records that the target has written something, even if only toolwire sees it.
    fn has_content(&mut self) {
        if let Some(attempts) = &mut self.attempts {
            attempts.has_content();
            self.release();
        }
    }

    fn close_attempts(&mut self) {
        if let Some(attempts) = &mut self.attempts {
            attempts.close();
            self.release();
        }
    }

    /// Releases the memory of the request's body, unless the body may be sent to another model.
    fn release(&mut self) {
        if !self.can_fail_over() {
            self.memory = None;
        }
    }

    /// Drops the upstream's response, which failed without content, and asks another model. Returns `false` if there is
    /// no other model to ask.
    fn ask_another(&mut self, failure: &Failure) -> bool {
        let preparing = self.attempts.as_mut().and_then(|attempts| attempts.next(failure));
        let Some(preparing) = preparing else { return false };
        let outcome = Outcome::Failed(failure.clone());
        if let Some(watch) = &mut self.watch.take() {
            watch.end(Ending::Failed(failure), self.begun.elapsed());
        }
        if let Some(report) = self.report.take() {
            report.ended(&outcome, &self.pipeline, &self.access);
        }
        let error = Some(kind_name(failure.kind()));
        self.access.hop_ended(&failure_name(failure), error, self.pipeline.tokens());
        self.out.truncate(self.comments);
        self.permit = None;
        self.is_answered = false;
        self.stage = Stage::Preparing(preparing);
        true
    }

    /// Whether there are bytes to send. While another model may still answer, only keep-alives count.
    pub(super) fn has_output(&self) -> bool {
        let is_held =
            self.can_fail_over() && self.is_open() && self.comments == 0 && self.out.len() < MAX_BYTES;
        !self.out.is_empty() && !is_held
    }

    /// Writes a keep-alive before text that is held back.
    pub(super) fn keep_alive(&mut self) {
        let held = if self.can_fail_over() { self.out.split_off(self.comments) } else { BytesMut::new() };
        match held.is_empty() {
            true => self.pipeline.keep_alive(&mut self.out),
            false => self.out.extend_from_slice(COMMENT),
        }
        self.comments = self.out.len();
        self.out.unsplit(held);
    }

    /// Takes the bytes to send: only keep-alives while another model may still answer.
    pub(super) fn take(&mut self) -> BytesMut {
        if self.can_fail_over() && self.is_open() && self.comments > 0 && self.out.len() < MAX_BYTES {
            let held = self.out.split_off(mem::take(&mut self.comments));
            self.access.wrote(self.out.len());
            return mem::replace(&mut self.out, held);
        }
        if self.out.len() > self.comments {
            self.close_attempts();
        }
        self.comments = 0;
        if self.pipeline.has_content() {
            self.access.wrote_content();
        }
        self.access.wrote(self.out.len());
        mem::take(&mut self.out)
    }

    /// Fails the response because the upstream has been silent for `limit`. If its connection is shared, no other
    /// request will be sent on it.
    pub(super) fn fail_silent(&mut self, what: &str, limit: Duration) {
        if let Stage::Streaming(body) | Stage::Ending(body) = &self.stage {
            body.retire();
        }
        self.fail(failure::timed_out(what, limit));
    }

    /// Writes the error, once, into a stream that is already under way, after all content that was certain before the
    /// failure.
    pub(super) fn write_failure(&mut self) {
        if !self.failure_written && self.failure().is_some() {
            self.pipeline.write_failure(&mut self.out);
            self.failure_is_written();
        }
    }

    /// Records the failure before the client receives it: if the client repeats the request before this response is
    /// dropped, the target must already count as failed.
    pub(super) fn failure_is_written(&mut self) {
        self.failure_written = true;
        if let Some((attempts, failure)) = self.attempts.as_ref().zip(self.failure()) {
            attempts.ended(&Outcome::Failed(failure.clone()));
        }
    }
}

/// Whether `data` contains only comments of an event stream and white space. A piece that begins inside a line counts
/// as content.
fn says_nothing(data: &[u8]) -> bool {
    matches!(data.first(), None | Some(b':' | b'\n' | b'\r' | b' '))
        && data
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .all(|line| line.is_empty() || line == b" " || line.starts_with(b":"))
}

impl Drop for ExchangeState {
    fn drop(&mut self) {
        let whole = !self.is_open() && self.is_flushed();
        let failure = self.failure().cloned();
        let (ending, outcome) = match &failure {
            Some(failure) => (Ending::Failed(failure), Outcome::Failed(failure.clone())),
            None if self.is_stalled => (Ending::Cancelled, Outcome::Stalled),
            None if whole => (Ending::Done, Outcome::Done),
            None => (Ending::Cancelled, Outcome::Cancelled),
        };
        if let Some(watch) = &mut self.watch {
            watch.end(ending, self.begun.elapsed());
        }
        if let Some(report) = self.report.take() {
            report.ended(&outcome, &self.pipeline, &self.access);
        }
        if let Some(attempts) = self.attempts.as_ref().filter(|_| !self.failure_written) {
            attempts.ended(&outcome);
        }
        if self.hops.is_some() {
            self.drop_hops();
        }
        self.access.ended(outcome);
        let tally = self.pipeline.tally();
        if let Some(allowance) = self.allowance.take() {
            let spent = match self.is_answered {
                true => count::spent(&self.pipeline, &tally, allowance.input()),
                false => (0, 0),
            };
            let spent = allowance.settle(self.access.model(), spent, unix_time());
            self.access.spent(spent);
        }
        self.access.counted(tally);
    }
}

impl fmt::Debug for ExchangeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeState")
            .field("stage", &self.stage)
            .field("held", &self.permit)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preparing(_) => "Preparing",
            Self::Opening(_) => "Opening",
            Self::Streaming(_) => "Streaming",
            Self::Ending(_) => "Ending",
            Self::Deciding(_) => "Deciding",
            Self::Making(..) => "Making",
            Self::AwaitingBodyEnd(_) => "AwaitingBodyEnd",
            Self::Over => "Over",
        })
    }
}
