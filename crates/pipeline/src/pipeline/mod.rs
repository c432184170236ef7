//! Connects the stages for one response: upstream bytes in, client bytes out, without I/O.
//!
//! ```text
//! bytes ─▶ Reader ─Event─▶ Detector ─Event─▶ Calls (the request's rules) ─Event─▶ ReasoningStage ─Event─▶ Writer ─▶ bytes
//! ```
//!
//! Each stage is a [`Sink`] for the one before it. An event passes through all stages before the next one is
//! read, so nothing accumulates between them.
//!
//! A response may take several *hops*, each an upstream request with its response, but the client sees only
//! one response. After every hop but the last, the pipeline reports what has to happen next ([`FollowUp`]).
//! When the shell has done that, it either continues with the next upstream response or ends the client's
//! response.
//!
//! ```text
//! Open ──end of hop──▶ HopEnded ──resume(reader)──▶ Open      (the next hop)
//!   │                     └───────end────────────▶ Done
//!   └──────────────────────────────────────────▶ Done, Failed
//! ```

mod backlog;
mod calls;
mod corrections;
mod failed_generation;
mod hops;
mod output_record;
mod prefill;
mod reasoning;
mod turn_state;
mod withheld_events;

pub use backlog::SLICE;
pub use calls::DeferredTurn;
pub use hops::{FollowUp, Reason};
pub use output_record::{EmittedEvent, EmittedText};

use std::sync::Arc;

use bytes::BytesMut;

use self::{
    backlog::{Backlog, Read},
    calls::Calls,
    output_record::OutputRecord,
    prefill::PrefillStage,
    reasoning::ReasoningStage,
    turn_state::StateCollector,
    withheld_events::{WithheldEvents, Withhold},
};
use crate::{
    conversation::{Conversation, Prefill, TurnState, WantsBack},
    detect::Detector,
    dialect::{Answering, Asked, Reader, RequestKey, Skipped, Writer},
    event::{Event, Finish, Reasoning, Sink, Warning},
    failure::{Failure, Redact},
    format::KnownFormats,
    rules::{HostedRules, Limits, Rules},
    tools::DeclaredTools,
};

/// The state of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// More input may follow.
    Open,
    /// The response is complete, and its end has been written. Further input is ignored.
    Done,
    /// The response has failed: see [`Pipeline::failure`]. Everything that was certain before that has been
    /// written.
    Failed,
    /// The upstream's response has ended, but the client's has not. Do what [`Pipeline::follow_up`] says,
    /// then call [`Pipeline::resume`] with a reader for the next upstream response, or [`Pipeline::end`].
    /// Further input from the hop that ended is ignored.
    HopEnded,
}

/// Converts one upstream response for a client.
///
/// `push` and `finish` append their output to `out`. They do not write failures: if nothing has been sent
/// yet, the shell responds with an error status and [`Pipeline::error_body`]; otherwise it calls
/// [`Pipeline::write_failure`].
#[derive(Debug)]
pub struct Pipeline {
    reader: Reader,
    /// The parts that the readers of earlier hops left out.
    skipped: Skipped,
    stages: Stages,
    state: State,
    failure: Option<Failure>,
    redactor: Option<Arc<dyn Redact>>,
}

#[derive(Debug)]
struct Stages {
    backlog: Backlog,
    prefill: PrefillStage,
    detector: Option<Detector>,
    calls: Calls,
    withheld: WithheldEvents,
    reasoning: ReasoningStage,
    writer: Writer,
    limits: Limits,
    repair: bool,
    stream: bool,
    several: bool,
    emitted: OutputRecord,
}

impl Pipeline {
    /// Creates a pipeline for the response to `conversation`, which must be as the client sent it: with its
    /// tools, even if the upstream receives their descriptions as text. `known` resolves the format names in
    /// the rules.
    pub fn new(
        conversation: &Conversation,
        settings: &Rules,
        known: &KnownFormats,
        mut reader: Reader,
        writer: Writer,
        answering: &Answering,
    ) -> Self {
        let tools = DeclaredTools::new(conversation, &settings.tool_prefix);
        let several = conversation.choices.is_some_and(|choices| choices > 1);
        let (limits, stream, repair) = (settings.limits, answering.stream, settings.repair);
        reader.expect(Asked { tools: tools.clone(), limits, stream, several, repair });
        let calls = Calls::new(conversation, tools.clone(), settings, reader.runs_tools(), &answering.stamp);
        let stages = Stages {
            backlog: Backlog::default(),
            prefill: PrefillStage::default(),
            detector: Detector::new(tools, settings, known),
            withheld: WithheldEvents::new(withhold(&calls, answering.stream), settings.limits.max_hold),
            reasoning: ReasoningStage::new(settings.reasoning),
            calls,
            writer,
            limits,
            repair,
            stream,
            several,
            emitted: OutputRecord::default(),
        };
        Self {
            reader,
            skipped: Skipped::default(),
            stages,
            state: State::Open,
            failure: None,
            redactor: None,
        }
    }

    /// Adds a warning that the instructions given to the model leave out these tools.
    pub fn leaves_out(&mut self, tools: &[String]) {
        if !tools.is_empty() {
            self.stages.calls.warn(corrections::left_out(tools));
        }
    }

    /// Sets the rules for hosted calls. Must be called before the first bytes.
    pub fn host(&mut self, rules: HostedRules) {
        self.stages.calls.set_hosted_rules(rules);
    }

    /// In [`State::Done`]: removes and returns the turn whose hosted calls should be run when the client
    /// sends its next request, if there is one.
    pub fn take_deferred(&mut self) -> Option<DeferredTurn> {
        if self.state == State::Done { self.stages.calls.deferred.take() } else { None }
    }

    /// In [`State::HopEnded`]: shows the client something that happened between two hops. Reasoning is shown
    /// on lines of its own. Does nothing in other states.
    pub fn show(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        if self.state == State::HopEnded {
            let (calls, mut next) = self.stages.calls_and_writer(out);
            next.release();
            let is_reasoning = matches!(event, Event::Reasoning(_));
            if is_reasoning && calls.ends_reasoning() {
                next.write(&Event::Reasoning(Reasoning::end("\n")));
            }
            next.write(event);
            if is_reasoning {
                next.write(&Event::Reasoning(Reasoning::end("")));
            }
        }
    }

    /// Adds a warning, which is sent at the end of the response.
    pub fn warn(&mut self, warning: Warning<'static>) {
        self.stages.calls.warn(warning);
    }

    /// Starts collecting the state that the upstream needs when the client replays the calls in the response.
    /// Must be called before the first bytes.
    pub fn keep_state(&mut self, wants: WantsBack) {
        self.stages.calls.state = StateCollector::new(wants, self.stages.limits.max_hold);
    }

    /// In [`State::Done`]: removes and returns the state that [`Pipeline::keep_state`] collected, if there is
    /// any.
    pub fn take_state(&mut self) -> Option<TurnState> {
        if self.state == State::Done { self.stages.calls.state.take() } else { None }
    }

    /// Sets the text with which this hop's request started the response. Must be called before the first
    /// bytes of the hop.
    pub fn expect_prefill(&mut self, prefill: Option<Prefill>) {
        let Stages { prefill: stage, detector, limits, .. } = &mut self.stages;
        *stage = PrefillStage::new(prefill.filter(|_| detector.is_some()), limits);
    }

    /// Sets the key that decrypts this hop's response. Must be called before the first bytes of the hop.
    pub fn expect_key(&mut self, key: Option<RequestKey>) {
        self.reader.decrypt(key);
    }

    /// Redacts secrets in a failure before it reaches the client, the log or a recording.
    #[must_use]
    pub fn redacting(mut self, redactor: Arc<dyn Redact>) -> Self {
        self.redactor = Some(redactor);
        self
    }

    /// Processes the next bytes of the upstream's body.
    pub fn push(&mut self, bytes: &[u8], out: &mut BytesMut) -> State {
        self.begin_push(bytes, out);
        self.catch_up(out)
    }

    /// Processes the end of the upstream's body.
    pub fn finish(&mut self, out: &mut BytesMut) -> State {
        self.catch_up(out);
        self.begin_finish(out);
        self.catch_up(out)
    }

    /// Like [`Pipeline::push`], but may leave part of a large text to [`Pipeline::work`], which the caller
    /// must call as long as [`Pipeline::is_behind`] returns true.
    pub fn begin_push(&mut self, bytes: &[u8], out: &mut BytesMut) {
        let ended = self.stages.backlog.read.as_ref().is_some_and(|read| read.ended || read.result.is_err());
        if self.state == State::Open && !ended {
            let read = self.reader.push(bytes, &mut self.stages.sink(out));
            let ended = self.reader.is_done();
            self.settle(read, ended, out);
        }
    }

    /// Like [`Pipeline::finish`], but may leave work to [`Pipeline::work`], like [`Pipeline::begin_push`].
    pub fn begin_finish(&mut self, out: &mut BytesMut) {
        if self.state == State::Open && self.stages.backlog.read.as_ref().is_none_or(|read| !read.ended) {
            let read = self.reader.finish(&mut self.stages.sink(out));
            self.settle(read, true, out);
        }
    }

    /// Whether there is input left for [`Pipeline::work`].
    pub fn is_behind(&self) -> bool {
        !self.stages.backlog.is_empty()
    }

    /// Processes the next slice of the pending input: a few kilobytes of text at most.
    pub fn work(&mut self, out: &mut BytesMut) {
        let mut backlog = std::mem::take(&mut self.stages.backlog);
        backlog.next(&mut self.stages.sink(out));
        if self.stages.is_full() {
            backlog.clear();
        }
        let read = if backlog.is_empty() { backlog.read.take() } else { None };
        self.stages.backlog = backlog;
        if let Some(Read { result, ended }) = read {
            self.settle(result, ended, out);
        }
    }

    fn catch_up(&mut self, out: &mut BytesMut) -> State {
        while self.is_behind() {
            self.work(out);
        }
        self.state
    }

    /// Decides how the response continues once all stages have processed the input.
    fn settle(&mut self, read: Result<(), Failure>, ended: bool, out: &mut BytesMut) {
        if self.is_behind() {
            self.stages.backlog.read = Some(Read { result: read, ended });
            return;
        }
        let read = self.stages.failure().map_or(read, Err);
        if let Err(failure) = read {
            if !self.recover(&failure, out) {
                self.fail(failure, out);
            }
        } else if ended && self.stages.calls.pending.is_some() {
            self.state = State::HopEnded;
        } else if ended {
            self.stages.writer.finish(out);
            self.state = State::Done;
        }
    }

    /// Fails the response because of a transport error or a timeout. First releases everything that is held
    /// back to `out`.
    pub fn fail(&mut self, failure: Failure, out: &mut BytesMut) {
        if matches!(self.state, State::Done | State::Failed) {
            return;
        }
        self.stages.backlog.clear();
        self.stages.release(out);
        self.state = State::Failed;
        self.failure = Some(match &self.redactor {
            Some(redactor) => failure.redacted(&**redactor),
            None => failure,
        });
    }

    /// Whether the upstream's body is expected to end now: either it has sent only one of its end marker and
    /// its finish reason, or another hop is due. [`Pipeline::finish`] completes the hop.
    pub fn awaits_end(&self) -> bool {
        self.state == State::Open && (self.reader.awaits_end() || self.stages.calls.pending.is_some())
    }

    /// Whether the hop's finish reason has arrived. If the upstream then does not end its body, the caller
    /// may still call [`Pipeline::finish`] and loses only token counts.
    pub fn is_hop_finished(&self) -> bool {
        self.stages.calls.pending.is_some() || self.reader.lacks_only_mark()
    }

    /// The state of the response.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether anything that a client considers content (text, reasoning, a call, a finish) has been written.
    /// If so, the status can no longer be an error.
    pub fn has_content(&self) -> bool {
        self.stages.emitted.has_content
    }

    /// Starts counting the text that the client receives and records up to the first `max` bytes of it.
    pub fn observe_text(&mut self, max: usize) {
        self.stages.emitted.text = Some(Box::new(EmittedText::new(max)));
    }

    /// The text that the client has received, or `None` without [`Pipeline::observe_text`].
    pub fn emitted_text(&self) -> Option<&EmittedText> {
        self.stages.emitted.text.as_deref()
    }

    /// Starts recording the events that the client receives, for [`Pipeline::take_events`].
    pub fn observe_events(&mut self) {
        self.stages.emitted.text = Some(Box::new(EmittedText::with_events()));
    }

    /// The events that the client has received since this was last called.
    pub fn take_events(&mut self) -> Vec<EmittedEvent> {
        let events = self.stages.emitted.text.as_mut().and_then(|text| text.events.as_mut());
        events.map(std::mem::take).unwrap_or_default()
    }

    /// Number of bytes of text that are currently held back.
    pub fn held(&self) -> usize {
        self.stages.detector.as_ref().map_or(0, Detector::held) + self.stages.prefill.held()
    }

    /// The finish reason of the hop, if the hop has ended and the response has not.
    pub fn hop_finish(&self) -> Option<Finish> {
        self.stages.calls.pending.as_ref().map(|pending| pending.finish)
    }

    /// The finish reason of the response, once it is known.
    pub fn finish_given(&self) -> Option<Finish> {
        self.stages.calls.tally.finish
    }

    /// The failure of the response, if it failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The body of an error response in the client's dialect, for a failure before anything was sent.
    pub fn error_body(&self, failure: &Failure) -> Vec<u8> {
        self.stages.writer.dialect().side().error_body(failure)
    }

    /// Writes the dialect's in-stream error. It ends a stream that has already started.
    pub fn write_failure(&mut self, out: &mut BytesMut) {
        if let Some(failure) = &self.failure {
            self.stages.writer.fail(failure, out);
        }
    }

    /// Makes the writer hold large events until [`Pipeline::pour`] is called. Such events repeat what was
    /// already sent, and together would take many times the memory of the response.
    pub fn write_in_pieces(&mut self) {
        self.stages.writer.write_in_pieces();
    }

    /// Whether there is output left for [`Pipeline::pour`].
    pub fn has_more(&self) -> bool {
        self.stages.writer.has_more()
    }

    /// Writes pending output until `out` is `upto` bytes long.
    pub fn pour(&mut self, out: &mut BytesMut, upto: usize) {
        self.stages.writer.pour(out, upto);
    }

    /// Writes a keep-alive to a silent stream.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        // Pending output will itself show that the stream is alive, and a keep-alive might split an event.
        if matches!(self.state, State::Open | State::HopEnded) && !self.has_more() {
            self.stages.writer.keep_alive(out);
        }
    }

    /// In [`State::HopEnded`]: what has to be done before the next hop.
    pub fn follow_up(&self) -> Option<&FollowUp> {
        let pending = self.stages.calls.pending.as_ref().filter(|_| self.state == State::HopEnded);
        pending.map(|pending| &pending.follow_up)
    }

    /// In [`State::HopEnded`]: continues with the upstream's next response. Does nothing in other states.
    pub fn resume(&mut self, mut reader: Reader, out: &mut BytesMut) {
        if self.state != State::HopEnded {
            return;
        }
        let Stages { calls, limits, repair, stream, several, .. } = &self.stages;
        let (limits, repair, stream, several) = (*limits, *repair, *stream, *several);
        reader.expect(Asked { tools: calls.tools().clone(), limits, stream, several, repair });
        self.skipped.add_all(&self.reader.skipped());
        self.reader = reader;
        self.stages.next_hop(out);
        self.state = State::Open;
    }

    /// In [`State::HopEnded`]: ends the response with the output of the hops so far. Does nothing in other
    /// states.
    pub fn end(&mut self, out: &mut BytesMut) {
        if self.state != State::HopEnded {
            return;
        }
        self.stages.end(out);
        self.stages.writer.finish(out);
        self.state = State::Done;
    }

    /// After the end of the response: the complete response in the client's dialect, if it should be stored.
    pub fn take_response(&mut self) -> Option<String> {
        self.stages.writer.take_response()
    }

    /// The tokens of the requests and of the responses, as reported by the upstream and summed over all hops.
    pub fn tokens(&self) -> (Option<u64>, Option<u64>) {
        let Tally { input_tokens, output_tokens, .. } = &self.stages.calls.tally;
        (*input_tokens, *output_tokens)
    }

    /// The field that contained this hop's reasoning, in dialects that have several such fields.
    pub fn reasoning_field(&self) -> Option<crate::dialect::ReasoningField> {
        self.reader.reasoning_field()
    }

    /// Statistics of the response so far.
    pub fn tally(&self) -> Tally {
        let detector = self.stages.detector.as_ref();
        let mut skipped = self.reader.skipped();
        skipped.add_all(&self.skipped);
        skipped.add_all(&self.stages.calls.skipped);
        Tally {
            malformed_frames: skipped.malformed(),
            skipped,
            held: self.held(),
            held_peak: detector
                .map_or(0, Detector::held_peak)
                .max(self.stages.withheld.peak())
                .max(self.stages.prefill.peak()),
            ..self.stages.calls.tally.clone()
        }
    }
}

impl Stages {
    fn failure(&mut self) -> Option<Failure> {
        let is_too_long = self.writer.kept() > self.limits.max_answer;
        self.calls.failure.take().or_else(|| is_too_long.then(|| self.limits.answer_too_long()))
    }

    /// Whether a limit was exceeded, so that no more input is accepted.
    fn is_full(&self) -> bool {
        self.calls.failure.is_some() || self.writer.kept() > self.limits.max_answer
    }

    fn sink<'s>(&'s mut self, out: &'s mut BytesMut) -> impl Sink + 's {
        let Self { backlog, prefill, detector, calls, withheld, reasoning, writer, emitted, .. } = self;
        let next = ToWriter { withheld, reasoning, writer, emitted, out };
        ToDetector { backlog, prefill, detector, next: ToCalls { calls, next } }
    }

    /// Ends the hop's text and passes what the detector releases to the stages after it.
    fn end_text(&mut self, out: &mut BytesMut, act: impl FnOnce(&mut Detector, &mut ToCalls<'_>)) {
        let Self { prefill, detector, calls, withheld, reasoning, writer, emitted, .. } = self;
        let next = ToWriter { withheld, reasoning, writer, emitted, out };
        if let Some(detector) = detector {
            let mut next = ToCalls { calls, next };
            prefill.finish(false, detector, &mut next);
            act(detector, &mut next);
        }
    }

    fn calls_and_writer<'s>(&'s mut self, out: &'s mut BytesMut) -> (&'s mut Calls, ToWriter<'s>) {
        let Self { calls, withheld, reasoning, writer, emitted, .. } = self;
        (calls, ToWriter { withheld, reasoning, writer, emitted, out })
    }

    /// Prepares for the next upstream response. Content that is held back is released, unless it is replaced.
    fn next_hop(&mut self, out: &mut BytesMut) {
        self.end_text(out, |detector, next| detector.next_answer(next));
        let replaces = self.calls.pending.as_ref().is_some_and(|pending| pending.follow_up.reason.replaces());
        if !replaces {
            self.calls_and_writer(out).1.release();
        }
        self.calls.next_hop();
        self.withheld.next_hop(self.emitted.has_content);
    }

    fn end(&mut self, out: &mut BytesMut) {
        let (calls, mut next) = self.calls_and_writer(out);
        calls.end_response(&mut next);
    }

    /// Releases everything that is held back, since no more input will arrive.
    fn release(&mut self, out: &mut BytesMut) {
        self.end_text(out, |detector, next| detector.finish(false, next));
        self.calls_and_writer(out).1.release();
    }
}

/// Determines which content must be withheld so that the model can be asked again.
fn withhold(calls: &Calls, stream: bool) -> Withhold {
    let corrections = calls.corrections();
    match (corrections.retries_missing(), corrections.retries_calls()) {
        (false, false) => Withhold::Never,
        (false, true) if stream => Withhold::FromFirstCall,
        _ => Withhold::Everything,
    }
}

struct ToDetector<'s> {
    backlog: &'s mut Backlog,
    prefill: &'s mut PrefillStage,
    detector: &'s mut Option<Detector>,
    next: ToCalls<'s>,
}

impl Sink for ToDetector<'_> {
    fn event(&mut self, event: Event<'_>) {
        match self.detector {
            Some(detector)
                if self
                    .backlog
                    .takes(&event, |text| self.prefill.is_active() || !detector.passes_on(text)) =>
            {
                self.backlog.put(event);
            }
            Some(detector) if self.prefill.is_active() => self.prefill.event(event, detector, &mut self.next),
            Some(detector) => detector.event(event, &mut self.next),
            None => self.next.event(event),
        }
    }
}

struct ToCalls<'s> {
    calls: &'s mut Calls,
    next: ToWriter<'s>,
}

impl Sink for ToCalls<'_> {
    fn event(&mut self, event: Event<'_>) {
        if self.next.withheld.is_active() {
            return self.event_that_may_be_replaced(event);
        }
        self.calls.event(event, &mut self.next);
    }
}

impl ToCalls<'_> {
    /// Handles an event in a hop that may be replaced by another one.
    fn event_that_may_be_replaced(&mut self, event: Event<'_>) {
        self.calls.can_replace = !self.next.emitted.has_content;
        self.calls.event(event, &mut self.next);
        self.calls.can_replace = false;
        if self.next.withheld.is_holding() && self.calls.corrections().is_settled() {
            self.next.release();
        }
    }
}

struct ToWriter<'s> {
    withheld: &'s mut WithheldEvents,
    reasoning: &'s mut ReasoningStage,
    writer: &'s mut Writer,
    emitted: &'s mut OutputRecord,
    out: &'s mut BytesMut,
}

impl Sink for ToWriter<'_> {
    fn event(&mut self, event: Event<'_>) {
        if self.withheld.is_active() && self.keeps_back(&event) {
            return;
        }
        self.write(&event);
    }
}

impl ToWriter<'_> {
    fn write(&mut self, event: &Event<'_>) {
        let Self { reasoning, writer, emitted, out, .. } = self;
        reasoning.event(event, &mut |event| {
            emitted.saw(event, out.len());
            writer.event(event, out);
        });
    }

    /// Withholds `event` if necessary. If `event` makes it certain that this hop is not replaced, releases
    /// everything.
    fn keeps_back(&mut self, event: &Event<'_>) -> bool {
        if is_finish(event) {
            self.release();
            return false;
        }
        let is_unknown = matches!(event, Event::Verbatim { means: None, .. });
        if !self.withheld.takes(event, is_unknown || is_content(event)) {
            return false;
        }
        if self.withheld.is_full() {
            self.release();
        }
        true
    }

    fn release(&mut self) {
        let Self { withheld, reasoning, writer, emitted, out } = self;
        withheld.release(|event| {
            reasoning.event(&event, &mut |event| {
                emitted.saw(event, out.len());
                writer.event(event, out);
            });
        });
    }
}

fn is_finish(event: &Event<'_>) -> bool {
    matches!(event, Event::Finish(_) | Event::Verbatim { means: Some(Event::Finish(_)), .. })
}

fn is_content(event: &Event<'_>) -> bool {
    match event {
        Event::Start(_) | Event::Ping(_) | Event::Phase { .. } | Event::Usage(_) | Event::Warning(_) => false,
        Event::Verbatim { means: None, .. } => false,
        Event::Verbatim { means: Some(means), .. } => is_content(means),
        _ => true,
    }
}

/// Statistics of a response, for logs and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// The calls that the client received.
    pub calls: Vec<CallTally>,
    /// Number of calls that were refused or dropped.
    pub dropped_calls: u64,
    /// Number of parts of the upstream's response that were left out because they were malformed.
    pub malformed_frames: u64,
    /// What was left out of the upstream's response, by reason.
    pub skipped: Skipped,
    /// Maximum number of bytes that were held at once.
    pub held_peak: usize,
    /// Bytes currently held.
    pub held: usize,
    /// Why further hops followed: one reason for each hop after the first.
    pub follow_ups: Vec<Reason>,
    /// The codes of the warnings that the client received.
    pub warnings: Vec<&'static str>,
    /// Tokens of the requests, as reported by the upstream, summed over all hops.
    pub input_tokens: Option<u64>,
    /// Tokens of the responses, as reported by the upstream, summed over all hops.
    pub output_tokens: Option<u64>,
    /// Whether the model refused to answer, in a form that the dialect distinguishes from text.
    pub is_refusal: bool,
    /// The finish reason that was sent.
    pub finish: Option<crate::event::Finish>,
}

impl Tally {
    /// Number of hops that followed because the previous one was unacceptable.
    pub fn retries(&self) -> u64 {
        self.follow_ups.iter().filter(|reason| **reason != Reason::Hosted).count() as u64
    }

    /// Whether the client was warned that a required call is missing.
    pub fn lacks_required_call(&self) -> bool {
        self.warnings.contains(&corrections::UNFULFILLED)
    }
}

/// One call, for metrics. Every label has a limited number of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTally {
    /// `native` or a format's name.
    pub format: &'static str,
    /// The name of the tool, or `None` if it is not declared.
    pub name: Option<String>,
}
