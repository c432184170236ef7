//! [`Stages`]: the stages after the reader, each a [`Sink`] for the one before it.

use bytes::BytesMut;

use super::{
    as_written::{WrittenText, turn_state},
    backlog::Backlog,
    calls::Calls,
    output_record::OutputRecord,
    prefill::PrefillStage,
    reasoning::ReasoningStage,
    withheld_events::{WithheldEvents, Withhold},
};
use crate::{
    conversation::TurnState,
    detect::Detector,
    dialect::Writer,
    event::{Event, Sink},
    failure::Failure,
    rules::Limits,
};

#[derive(Debug)]
pub(super) struct Stages {
    pub(super) backlog: Backlog,
    pub(super) prefill: PrefillStage,
    pub(super) detector: Option<Detector>,
    /// What the model has written, if the turn may be stored as written.
    pub(super) written: Option<Box<WrittenText>>,
    pub(super) calls: Calls,
    pub(super) withheld: WithheldEvents,
    pub(super) reasoning: ReasoningStage,
    pub(super) writer: Writer,
    pub(super) limits: Limits,
    pub(super) repair: bool,
    pub(super) stream: bool,
    pub(super) several: bool,
    pub(super) emitted: OutputRecord,
    /// Events for the client that precede the first content.
    pub(super) preface: Vec<Event<'static>>,
}

impl Stages {
    /// Why the response fails, if it does. `ended` tells whether the upstream's response has ended.
    pub(super) fn failure(&mut self, ended: bool) -> Option<Failure> {
        let is_too_long = self.writer.kept() > self.limits.max_answer;
        let failure =
            self.calls.failure.clone().or_else(|| is_too_long.then(|| self.limits.answer_too_long()));
        failure.or_else(|| if ended { self.writer.defect() } else { None })
    }

    /// Whether a limit was exceeded, so that no more input is accepted.
    pub(super) fn is_full(&self) -> bool {
        self.calls.failure.is_some() || self.writer.kept() > self.limits.max_answer
    }

    pub(super) fn sink<'s>(&'s mut self, out: &'s mut BytesMut) -> impl Sink + 's {
        let Self {
            backlog,
            prefill,
            detector,
            written,
            calls,
            withheld,
            reasoning,
            writer,
            emitted,
            preface,
            ..
        } = self;
        let next = ToWriter { withheld, reasoning, writer, emitted, preface, out };
        ToDetector { backlog, prefill, detector, written, next: ToCalls { calls, next } }
    }

    /// Ends the hop's text and passes what the detector releases to the stages after it.
    pub(super) fn end_text(&mut self, out: &mut BytesMut, act: impl FnOnce(&mut Detector, &mut ToCalls<'_>)) {
        let Self { prefill, detector, calls, withheld, reasoning, writer, emitted, preface, .. } = self;
        let next = ToWriter { withheld, reasoning, writer, emitted, preface, out };
        if let Some(detector) = detector {
            let mut next = ToCalls { calls, next };
            prefill.finish(None, detector, &mut next);
            act(detector, &mut next);
        }
    }

    pub(super) fn calls_and_writer<'s>(&'s mut self, out: &'s mut BytesMut) -> (&'s mut Calls, ToWriter<'s>) {
        let Self { calls, withheld, reasoning, writer, emitted, preface, .. } = self;
        (calls, ToWriter { withheld, reasoning, writer, emitted, preface, out })
    }

    /// Prepares for the next upstream response. Content that is held back is released, unless it is replaced.
    pub(super) fn next_hop(&mut self, out: &mut BytesMut) {
        self.end_text(out, |detector, next| detector.next_answer(next));
        let replaces = self.calls.pending.as_ref().is_some_and(|pending| pending.follow_up.reason.replaces());
        if !replaces {
            self.calls_and_writer(out).1.release();
        }
        match (&mut self.written, &self.detector) {
            (Some(written), Some(detector)) if replaces => written.begin_again(detector.found()),
            // The client receives several turns as one.
            (written, _) => *written = None,
        }
        self.emitted.next_hop();
        let hop = self.calls.next_hop();
        if let Some(detector) = &mut self.detector {
            detector.asks_for_unknown(hop.may_be_replaced);
        }
        self.withheld.next_hop(hop);
    }

    /// Removes and returns the state that was collected for later requests.
    pub(super) fn take_state(&mut self) -> Option<TurnState> {
        let Self { written, emitted, detector, calls, .. } = self;
        match (written.take(), emitted.turn.take(), detector) {
            (Some(written), Some(sent), Some(detector)) => {
                turn_state(*written, *sent, detector.found(), calls.has_reasoned())
            }
            _ => calls.state.take(),
        }
    }

    pub(super) fn end(&mut self, out: &mut BytesMut) {
        let (calls, mut next) = self.calls_and_writer(out);
        calls.end_response(&mut next);
    }

    /// Releases everything that is held back, since no more input will arrive.
    pub(super) fn release(&mut self, out: &mut BytesMut) {
        self.end_text(out, |detector, next| detector.finish(None, next));
        self.calls_and_writer(out).1.release();
    }
}

/// Determines which content must be withheld so that the model can be asked again.
pub(super) fn withhold(calls: &Calls, stream: bool) -> Withhold {
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
    written: &'s mut Option<Box<WrittenText>>,
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
            Some(detector) if self.prefill.is_active() => {
                // What the model wrote is only the rest of what the next prompt has to repeat.
                if let Some(written) = &mut self.written {
                    written.lose();
                }
                self.prefill.event(event, detector, &mut self.next);
            }
            Some(detector) => match &mut self.written {
                None => detector.event(event, &mut self.next),
                Some(written) => {
                    written.reads(&event);
                    detector.event(event, &mut self.next);
                    if let Some(behind) = detector.take_end_of_reasoning() {
                        written.reasoning_ended(behind);
                    }
                }
            },
            None => self.next.event(event),
        }
    }
}

pub(super) struct ToCalls<'s> {
    pub(super) calls: &'s mut Calls,
    pub(super) next: ToWriter<'s>,
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
        if is_finish(&event) {
            // These calls may be too long to be withheld, and then nothing can be replaced.
            self.calls.before_finish(&mut self.next);
        }
        self.calls.awaits_call = self.next.withheld.awaits_call();
        self.calls.can_replace = self.next.withheld.is_active();
        self.calls.event(event, &mut self.next);
        self.calls.can_replace = false;
        if self.next.withheld.is_holding() && self.calls.corrections().is_settled() {
            self.next.release();
        }
    }
}

pub(super) struct ToWriter<'s> {
    withheld: &'s mut WithheldEvents,
    reasoning: &'s mut ReasoningStage,
    writer: &'s mut Writer,
    emitted: &'s mut OutputRecord,
    preface: &'s mut Vec<Event<'static>>,
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
    pub(super) fn write(&mut self, event: &Event<'_>) {
        if !self.preface.is_empty() {
            self.write_preface(event);
        }
        let Self { reasoning, writer, emitted, out, .. } = self;
        reasoning.event(event, &mut |event| {
            emitted.saw(event, out.len());
            writer.event(event, out);
        });
    }

    /// Writes what precedes the first content, if `next` is that content.
    #[cold]
    fn write_preface(&mut self, next: &Event<'_>) {
        if begins_output(next) {
            for event in std::mem::take(self.preface) {
                self.write(&event);
            }
        }
    }

    /// Withholds `event` if necessary. If `event` makes it certain that this hop is not replaced, releases
    /// everything.
    fn keeps_back(&mut self, event: &Event<'_>) -> bool {
        if is_finish(event) {
            self.release();
            return false;
        }
        // A phase belongs to text, and frames that no stage handles may be content.
        let goes_with_content = matches!(event, Event::Phase { .. } | Event::Verbatim { means: None, .. });
        if !self.withheld.takes(event, goes_with_content || is_content(event)) {
            return false;
        }
        if self.withheld.is_due() {
            self.release();
        }
        true
    }

    pub(super) fn release(&mut self) {
        let Self { withheld, reasoning, writer, emitted, preface, out } = self;
        withheld.release(|event| {
            let preface = if begins_output(&event) { std::mem::take(*preface) } else { Vec::new() };
            for event in preface.iter().chain([&event]) {
                reasoning.event(event, &mut |event| {
                    emitted.saw(event, out.len());
                    writer.event(event, out);
                });
            }
        });
    }
}

/// Whether the client may take the event for content.
fn begins_output(event: &Event<'_>) -> bool {
    is_content(event) || matches!(event, Event::Verbatim { means: None, .. })
}

fn is_finish(event: &Event<'_>) -> bool {
    matches!(event.meaning(), Event::Finish(_))
}

pub(super) fn is_content(event: &Event<'_>) -> bool {
    !matches!(
        event.meaning(),
        Event::Start(_)
            | Event::Ping(_)
            | Event::Phase { .. }
            | Event::Usage(_)
            | Event::Warning(_)
            | Event::Verbatim { .. }
    )
}
