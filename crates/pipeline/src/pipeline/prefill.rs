//! [`PrefillStage`]: handles text with which the request started the model's response.
//!
//! The model continues that text, so a call may start in the prefill and end in the response. The prefill
//! itself must not reach the client, since the model did not write it. The detector's first output decides:
//! if it is a call with arguments, the prefill was the start of that call; otherwise, the response is read as
//! if there were no prefill, which also covers servers that ignore it. A name alone does not decide, since it
//! may come from the prefill.

use crate::{
    conversation::Prefill,
    detect::{Checkpoint, Detector},
    event::{CallStart, Event, Finish, Sink},
    rules::Limits,
    wire::text::{append, boundary_from, head, tail},
};

/// The stage before the detector. It does nothing once it is known whether the prefill is part of a call.
#[derive(Debug, Default)]
pub(super) struct PrefillStage {
    undecided: Option<Box<UndecidedStart>>,
    peak: usize,
}

/// A response that may or may not continue a call that starts in the prefill.
#[derive(Debug)]
struct UndecidedStart {
    prefill: Prefill,
    /// The response's own text so far. It may have to be read again without the prefill.
    own: String,
    /// The detector's state before it read the prefill. `None` if it has not read the prefill yet, because
    /// all text so far may be a repetition of the prefill.
    before: Option<Checkpoint>,
    /// The start of a call whose arguments have not started.
    start: Option<CallStart<'static>>,
    is_reasoning_separate: bool,
    /// Maximum bytes of the response's own text that are retained. The detector has the same limit.
    limit: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstOutput {
    Awaited,
    Call,
    Other,
}

impl PrefillStage {
    /// `prefill` is `None` if the response begins with its own text.
    pub(super) fn new(prefill: Option<Prefill>, limits: &Limits) -> Self {
        let undecided = prefill.filter(|prefill| !prefill.text.is_empty()).map(|prefill| {
            let limit = limits.max_hold.saturating_add(limits.max_arguments);
            let (own, before, start, is_reasoning_separate) = (String::new(), None, None, false);
            Box::new(UndecidedStart { prefill, own, before, start, is_reasoning_separate, limit })
        });
        Self { undecided, peak: 0 }
    }

    /// Whether events must pass through this stage.
    pub(super) fn is_active(&self) -> bool {
        self.undecided.is_some()
    }

    pub(super) fn held(&self) -> usize {
        self.undecided.as_ref().map_or(0, |undecided| undecided.own.len())
    }

    /// Maximum number of bytes that this stage and the detector held at any time.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    pub(super) fn event(&mut self, event: Event<'_>, detector: &mut Detector, out: &mut impl Sink) {
        match event.meaning() {
            Event::Text(text) => return self.text(text, detector, out),
            Event::Finish(finish) => self.finish(Some(*finish), detector, out),
            Event::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                if let Some(undecided) = &mut self.undecided {
                    undecided.is_reasoning_separate = true;
                }
            }
            _ => {}
        }
        detector.event(event, out);
    }

    fn text(&mut self, text: &str, detector: &mut Detector, out: &mut impl Sink) {
        let mut rest = text;
        while let Some(undecided) = &mut self.undecided
            && !rest.is_empty()
        {
            // Stop at the limit exactly, so that the result does not depend on how the text was split.
            let room = undecided.limit.saturating_sub(undecided.own.len()).max(1);
            let piece = head(rest, boundary_from(rest, room));
            rest = tail(rest, piece.len());
            let first = undecided.read(piece, detector, out);
            self.peak = self.peak.max(undecided.own.len() + detector.held());
            let is_full = undecided.own.len() >= undecided.limit;
            self.decide(first, is_full, detector, out);
        }
        if !rest.is_empty() {
            detector.event(Event::Text(rest.into()), out);
        }
    }

    /// Acts on `first`, the detector's first output. `is_last` is set if the detector gets no more input
    /// before the decision.
    fn decide(&mut self, first: FirstOutput, is_last: bool, detector: &mut Detector, out: &mut impl Sink) {
        match first {
            FirstOutput::Awaited if !is_last => {}
            FirstOutput::Call => self.undecided = None,
            FirstOutput::Awaited | FirstOutput::Other => {
                if let Some(undecided) = self.undecided.take() {
                    undecided.read_alone(detector, out);
                }
            }
        }
    }

    /// Ends the hop's text. `finish` is how the response ended, or `None` if it was broken off.
    pub(super) fn finish(&mut self, finish: Option<Finish>, detector: &mut Detector, out: &mut impl Sink) {
        let Some(undecided) = &mut self.undecided else { return };
        if undecided.own.is_empty() && undecided.before.is_none() {
            self.undecided = None;
            return;
        }
        let mut first = undecided.begin(detector, out);
        if first != FirstOutput::Other {
            first = watch(first, &mut undecided.start, out, |out| detector.finish(finish, out));
        }
        self.decide(first, true, detector, out);
    }
}

impl UndecidedStart {
    fn read(&mut self, piece: &str, detector: &mut Detector, out: &mut impl Sink) -> FirstOutput {
        let known = self.own.len();
        append(&mut self.own, piece);
        if self.before.is_some() {
            return watch(FirstOutput::Awaited, &mut self.start, out, |out| {
                detector.event(Event::Text(piece.into()), out);
            });
        }
        let repeated = tail(&self.prefill.text, known);
        if repeated.len() > piece.len() && repeated.starts_with(piece) {
            return FirstOutput::Awaited;
        }
        self.begin(detector, out)
    }

    /// Passes the prefill and the response's own text so far to the detector, unless it already has them. If
    /// the own text starts with the prefill, the server repeated the prefill, which is then passed on only
    /// once.
    fn begin(&mut self, detector: &mut Detector, out: &mut impl Sink) -> FirstOutput {
        if self.before.is_some() {
            return FirstOutput::Awaited;
        }
        self.before = Some(detector.checkpoint());
        let Self { prefill: Prefill { text, is_repeated }, own, start, .. } = self;
        let more = own.strip_prefix(text.as_str());
        let joined = format!("{text}{}", more.unwrap_or(own));
        if *is_repeated && let Some(more) = more {
            *own = more.to_owned();
        }
        watch(FirstOutput::Awaited, start, out, |out| detector.event(Event::Text(joined.into()), out))
    }

    /// Makes the detector read the response's own text without the prefill.
    fn read_alone(self, detector: &mut Detector, out: &mut impl Sink) {
        if let Some(before) = self.before {
            detector.restore(before);
        }
        if self.is_reasoning_separate {
            detector.reasoning_is_separate();
        }
        if !self.own.is_empty() {
            detector.event(Event::Text(self.own.into()), out);
        }
    }
}

/// Runs `act` with a sink that passes everything on if the first output is a call with arguments, and nothing
/// otherwise.
fn watch<S: Sink>(
    first: FirstOutput,
    start: &mut Option<CallStart<'static>>,
    out: &mut S,
    act: impl FnOnce(&mut Watched<'_, S>),
) -> FirstOutput {
    let mut watched = Watched { first, start, out };
    act(&mut watched);
    watched.first
}

struct Watched<'s, S> {
    first: FirstOutput,
    start: &'s mut Option<CallStart<'static>>,
    out: &'s mut S,
}

impl<S: Sink> Sink for Watched<'_, S> {
    fn event(&mut self, event: Event<'_>) {
        match self.first {
            FirstOutput::Awaited => self.first_event(event),
            FirstOutput::Call => self.out.event(event),
            FirstOutput::Other => {}
        }
    }
}

impl<S: Sink> Watched<'_, S> {
    fn first_event(&mut self, event: Event<'_>) {
        match (self.start.take(), event) {
            (None, start @ Event::CallStart(_)) => {
                if let Event::CallStart(start) = start.into_owned() {
                    *self.start = Some(start);
                }
            }
            (start, Event::CallArguments { piece, .. }) if piece.is_empty() => *self.start = start,
            (Some(start), Event::CallArguments { index, piece }) if piece.starts_with('{') => {
                self.first = FirstOutput::Call;
                self.out.event(Event::CallStart(start));
                self.out.event(Event::CallArguments { index, piece });
            }
            _ => self.first = FirstOutput::Other,
        }
    }
}
