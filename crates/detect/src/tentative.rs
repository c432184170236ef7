//! [`Tentative`]: reads calls in reasoning that the model did not close.
//!
//! A model may forget to close its reasoning before it calls a tool. But it may also mention a call while it
//! reasons, which must not run. Unless the format says that calls end the reasoning, a call in it counts only
//! if it ends the message: nothing but white space and other calls may follow
//! (docs/protocols/text-formats.md#reasoning). So the calls wait for the end of the text. If anything else
//! follows, they are reasoning, as written.
//!
//! The text after the opener is read by the detector itself, whose output is collected instead of sent. If the
//! calls turn out to be reasoning, the detector returns to the state before them. A call that repeats a text that
//! the model was given to read is text there, and so it is reasoning.

use super::{
    Detector, State,
    prose::Prose,
    quote::Quote,
    text::{boundary_from, head, tail},
    thinking::Thinking,
};
use crate::event::{CallEnd, Event, Sink};

/// How much reasoning is held, in bytes, when a call may have begun in it. If there is no call, it is read again as
/// reasoning, and may be held again from the next opener on.
pub(super) const MAX_DOUBT: usize = 512;

/// How the last container of calls ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastEnd {
    /// How many bytes of the text that was read lie behind the end.
    pub(super) rescan: usize,
    /// Whether a call had begun that did not become complete.
    pub(super) broken: bool,
}

/// Calls that wait for the end of the text.
#[derive(Debug)]
pub(super) struct Tentative {
    /// The reasoning, which continues if the calls are not the end of the message.
    thinking: Thinking,
    prose: Prose,
    next: u32,
    /// The text since the first opener.
    source: String,
    /// How much of the source ends with the last complete call.
    calls_end: usize,
    calls: Collected,
    /// The state in which the source is read.
    state: State,
}

impl Tentative {
    /// Whether the text so far ends with a complete call.
    pub(super) fn ends_with_call(&self) -> bool {
        !self.calls.events.is_empty() && !self.calls.is_open()
    }

    pub(super) fn held(&self) -> usize {
        let state = if let State::Calls(reading) = &self.state { reading.container.kept() } else { 0 };
        self.source.len() + self.thinking.held() + state
    }
}

/// Collects the events of calls, and notes whether there was anything else.
#[derive(Debug, Default)]
struct Collected {
    events: Vec<Event<'static>>,
    /// Whether a call has ended since this was last reset.
    ended: bool,
    other: bool,
}

impl Collected {
    /// Whether the last call has not ended.
    fn is_open(&self) -> bool {
        !matches!(self.events.last(), None | Some(Event::CallEnd { .. }))
    }
}

impl Sink for Collected {
    fn event(&mut self, event: Event<'_>) {
        match &event {
            Event::CallStart(_) | Event::CallArguments { .. } => {}
            Event::CallEnd { end: CallEnd::Complete, .. } => self.ended = true,
            _ => return self.other = true,
        }
        if !self.events.last_mut().is_some_and(|last| last.continues(&event)) {
            self.events.push(event.into_owned());
        }
    }
}

impl Detector {
    /// Starts reading what follows the opener of a call, which is in `held`, in reasoning that goes on if the
    /// call is not the end of the message.
    pub(super) fn enter_tentative(&mut self, thinking: Thinking, place: usize, out: &mut impl Sink) {
        let (prose, next, source) = (self.prose.clone(), self.next, self.held.clone());
        self.last_end = LastEnd::default();
        self.enter_at(place, false, Quote::None, out);
        let state = std::mem::replace(&mut self.state, State::Prose);
        let calls = Collected::default();
        let tentative = Tentative { thinking, prose, next, source, calls_end: 0, calls, state };
        self.state = State::Tentative(Box::new(tentative));
    }

    /// Reads the start of `text`.
    pub(super) fn tentative(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Tentative(mut tentative) = std::mem::replace(&mut self.state, State::Prose) else {
            return 0;
        };
        let room = self.most_tentative(&tentative).saturating_sub(tentative.source.len());
        let text = if text.len() > room { head(text, boundary_from(text, room + 1)) } else { text };
        self.state = std::mem::replace(&mut tentative.state, State::Prose);
        let quotes_only = std::mem::replace(&mut self.quotes_only, true);
        let taken = self.step(text, &mut tentative.calls);
        self.quotes_only = quotes_only;
        self.flow = None;
        tentative.source.push_str(head(text, taken));
        if std::mem::take(&mut tentative.calls.ended) {
            tentative.calls_end = tentative.source.len().saturating_sub(self.last_end.rescan);
        }
        tentative.state = std::mem::replace(&mut self.state, State::Prose);
        let is_call = !tentative.calls.other
            && !matches!(tentative.state, State::Reasoning(_) | State::Tentative(_))
            && tentative.source.len() <= self.most_tentative(&tentative);
        if is_call {
            self.state = State::Tentative(tentative);
        } else {
            self.think_instead(*tentative, out);
        }
        taken
    }

    /// The maximum length of the source.
    fn most_tentative(&self, tentative: &Tentative) -> usize {
        let begun = matches!(&tentative.state, State::Calls(reading) if reading.container.has_begun());
        let most = self.search.max_hold;
        match begun || !tentative.calls.events.is_empty() {
            true => most.saturating_add(self.search.max_arguments),
            false => most.min(MAX_DOUBT),
        }
    }

    /// Handles calls that turned out to be reasoning. A broken call is not searched, and neither are complete
    /// ones. What follows them is read again.
    fn think_instead(&mut self, tentative: Tentative, out: &mut impl Sink) {
        let Tentative { mut thinking, prose, next, source, calls_end, calls, .. } = tentative;
        let LastEnd { rescan, broken } = std::mem::take(&mut self.last_end);
        let first = source.chars().next().map_or(0, char::len_utf8);
        let end = match broken || calls.is_open() {
            true => source.len().saturating_sub(rescan),
            false => calls_end.max(first),
        };
        (self.prose, self.next) = (prose, next);
        self.held.clear();
        self.doubted = None;
        self.flow = None;
        thinking.say(head(&source, end), out);
        self.state = State::Reasoning(thinking);
        self.text(tail(&source, end), out);
    }

    /// Ends the text. The calls count if the model stopped by itself after a complete call.
    pub(super) fn finish_tentative(&mut self, mut tentative: Tentative, stopped: bool, out: &mut impl Sink) {
        self.last_end = LastEnd::default();
        self.state = std::mem::replace(&mut tentative.state, State::Prose);
        let quotes_only = std::mem::replace(&mut self.quotes_only, true);
        self.decide_state(stopped, &mut tentative.calls);
        self.quotes_only = quotes_only;
        let calls = &tentative.calls;
        let ends = stopped && !calls.other && tentative.ends_with_call();
        if !ends || tentative.thinking.is_closed_in(tail(&tentative.source, tentative.calls_end)) {
            return self.think_instead(tentative, out);
        }
        for event in tentative.calls.events {
            out.event(event);
        }
    }
}
