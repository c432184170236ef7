//! Connects the stages for one response: upstream bytes in, client bytes out, without I/O.
//!
//! ```text
//! bytes ─▶ Reader ─Event─▶ Detector ─Event─▶ Calls (the request's rules) ─Event─▶ ReasoningStage ─Event─▶ Writer ─▶ bytes
//! ```
//!
//! Each stage is a [`Sink`](crate::event::Sink) for the one before it. An event passes through all stages before the next one is
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

mod as_written;
mod backlog;
mod calls;
mod continuation;
mod corrections;
mod failed_generation;
mod hops;
mod output_record;
mod prefill;
mod reasoning;
mod stages;
mod tally;
mod turn_state;
mod withheld_events;

pub use backlog::SLICE;
pub use calls::DeferredTurn;
pub use hops::{FollowUp, Reason};
pub use output_record::{EmittedEvent, EmittedText};
pub use tally::{CallTally, Tally};

use std::sync::Arc;

use bytes::BytesMut;

use self::{
    as_written::{SentTurn, WrittenText},
    backlog::{Backlog, Read},
    calls::Calls,
    output_record::OutputRecord,
    prefill::PrefillStage,
    reasoning::ReasoningStage,
    stages::{Stages, withhold},
    turn_state::StateCollector,
    withheld_events::WithheldEvents,
};
use crate::{
    conversation::{Call, Conversation, KeptState, Prefill, Turn, TurnState},
    detect::Detector,
    dialect::{Answering, Asked, Reader, RequestKey, Skipped, Writer},
    event::{Event, Finish, Reasoning, Warning},
    failure::{Failure, Redact},
    format::KnownFormats,
    rules::{ArgumentDelivery, HostedRules, Rules},
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
    /// Whether the hop may begin again after a failure. What is held back then stays back.
    may_begin_again: bool,
    redactor: Option<Arc<dyn Redact>>,
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
        // Calls that the model may be asked to make again are held by the calls stage, which must see broken ones.
        let is_whole = settings.arguments == ArgumentDelivery::Whole || !stream;
        let waits = is_whole && !calls.corrections().retries_calls();
        let mut detector = Detector::with_delivery(tools, settings, known, waits);
        if let Some(detector) = detector.as_mut().filter(|_| !stream) {
            detector.read_whole(limits.max_answer);
        }
        let stages = Stages {
            backlog: Backlog::default(),
            prefill: PrefillStage::default(),
            detector: detector.map(|detector| detector.reading(conversation)),
            written: None,
            withheld: WithheldEvents::new(withhold(&calls, answering.stream), settings.limits.max_hold),
            reasoning: ReasoningStage::new(settings.reasoning),
            calls,
            writer,
            limits,
            repair,
            stream,
            several,
            emitted: OutputRecord::default(),
            preface: Vec::new(),
        };
        Self {
            reader,
            skipped: Skipped::default(),
            stages,
            state: State::Open,
            failure: None,
            may_begin_again: false,
            redactor: None,
        }
    }

    /// Adds a warning that the instructions given to the model leave out these tools.
    pub fn leaves_out(&mut self, tools: &[String]) {
        if !tools.is_empty() {
            self.stages.calls.warn_in_any_case(corrections::left_out(tools));
        }
    }

    /// Begins the response in [`State::HopEnded`], with hosted calls that run before the model is asked. Must be called
    /// before the first bytes.
    pub fn begin_with(&mut self, follow_up: FollowUp) {
        self.stages.calls.begin_with(follow_up);
        self.state = State::HopEnded;
    }

    /// Adds events that the client receives before the first content. Must be called before the first bytes.
    pub fn precede_with(&mut self, events: Vec<Event<'static>>) {
        self.stages.preface = events;
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
    /// on lines of its own, and citations with the text that follows. Does nothing in other states.
    pub fn show(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        if self.state == State::HopEnded {
            let (calls, mut next) = self.stages.calls_and_writer(out);
            next.release();
            if let Event::Annotation(page) = event {
                return calls.cite(page, &mut next);
            }
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
        self.stages.calls.warn_in_any_case(warning);
    }

    /// Starts collecting the state that later requests need when the client replays the calls in the response.
    /// Must be called before the first bytes.
    pub fn keep_state(&mut self, kept: KeptState) {
        let limit = self.stages.limits.max_hold;
        match kept {
            KeptState::WantedBack(wants) => self.stages.calls.state = StateCollector::new(wants, limit),
            KeptState::AsWritten if self.stages.calls.tools().is_empty() => {}
            KeptState::AsWritten => {
                self.stages.written = Some(Box::new(WrittenText::new(limit)));
                self.stages.emitted.turn = Some(Box::new(SentTurn::new(limit)));
            }
        }
    }

    /// In [`State::Done`]: removes and returns the state that [`Pipeline::keep_state`] collected, if there is
    /// any.
    pub fn take_state(&mut self) -> Option<TurnState> {
        if self.state == State::Done { self.stages.take_state() } else { None }
    }

    /// Adds the results in `turns`, which the next hop's request contains, to the texts that the model may quote.
    pub fn reads(&mut self, turns: &[Turn]) {
        if let Some(detector) = &mut self.stages.detector {
            detector.reads(turns);
        }
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
    pub fn redact_with(&mut self, redactor: Arc<dyn Redact>) {
        self.redactor = Some(redactor);
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
        let read = self.stages.failure(ended).map_or(read, Err);
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

    /// Fails the response because of a transport error or a timeout. Everything that is held back is first written to
    /// `out`.
    pub fn fail(&mut self, failure: Failure, out: &mut BytesMut) {
        if matches!(self.state, State::Done | State::Failed) {
            return;
        }
        if !self.may_begin_again {
            self.stages.backlog.clear();
            self.stages.release(out);
        }
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

    /// Whether anything that a client considers content (text, reasoning, a call, a finish) has been written, or
    /// waits for the end of a response that is not streamed. If so, the status can no longer be an error.
    pub fn has_content(&self) -> bool {
        self.stages.emitted.had_content || self.has_hop_content()
    }

    /// Starts counting the text that the client receives and records up to the first `max` bytes of it.
    pub fn observe_text(&mut self, max: usize) {
        self.stages.emitted.text = Some(Box::new(EmittedText::new(max)));
    }

    /// The tools that the model may call.
    pub fn tools(&self) -> &DeclaredTools {
        self.stages.calls.tools()
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

    /// This hop's calls to hosted tools, which the client does not receive, with their arguments so far.
    pub fn hosted_calls(&self) -> impl Iterator<Item = &Call> {
        self.stages.calls.begun_hosted_calls()
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

    /// The content type of a successful response.
    pub fn content_type(&self) -> &'static str {
        self.stages.writer.content_type()
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

    /// Whether the prompt opened the reasoning, if the text has shown that.
    pub fn seen_start(&self) -> Option<bool> {
        self.stages.detector.as_ref()?.seen_start()
    }
}
