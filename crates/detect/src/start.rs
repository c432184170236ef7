//! Whether the message starts inside reasoning: what is assumed, and what its text shows
//! (docs/protocols/text-formats.md#reasoning).

use super::{Detector, State, joiner::Joiner, openers::Entry, thinking::Thinking};
use crate::{
    event::{Event, Sink},
    format::{Place, is_token},
    rules::Rules,
};

/// What is known about the start of the message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Whether the prompt opens the reasoning.
    in_reasoning: bool,
    /// Whether the text may show that it is not.
    is_assumed: bool,
    /// What the text has shown.
    seen: Option<bool>,
    /// Whether an opener of reasoning has appeared in the text, so that a closer may be text too.
    is_opener_mentioned: bool,
    /// Whether there was reasoning already, so that another closer does not show how the message began.
    has_reasoned: bool,
    /// Whether all of the text is read before deciding, and at most how much of it, in bytes.
    whole: Option<usize>,
}

impl Start {
    pub(super) fn new(settings: &Rules) -> Self {
        Self {
            in_reasoning: settings.starts_in_reasoning,
            is_assumed: settings.is_start_assumed,
            seen: None,
            is_opener_mentioned: false,
            has_reasoned: false,
            whole: None,
        }
    }

    pub(super) fn saw(&mut self, in_reasoning: bool) {
        self.seen = Some(in_reasoning);
    }

    /// Whether the next response of the upstream starts inside reasoning.
    pub(super) fn is_in_reasoning(&self) -> bool {
        self.seen.filter(|_| self.is_assumed).unwrap_or(self.in_reasoning)
    }
}

/// Drops all events.
struct Nowhere;

impl Sink for Nowhere {
    fn event(&mut self, _: Event<'_>) {}
}

impl Detector {
    /// Reads all of the text before deciding whether it starts inside reasoning, unless that is certain. For messages
    /// that are not streamed. Text of more than `most` bytes is not waited for. Must be called before the first event.
    pub fn read_whole(&mut self, most: usize) {
        if self.start.is_assumed {
            self.start.whole = Some(most);
            self.begin();
        }
    }

    /// Whether text waits for the end of the message. See [`Self::read_whole`].
    pub fn keeps_text(&self) -> bool {
        matches!(&self.state, State::Whole(kept) if !kept.trim_start().is_empty())
    }

    /// What the text has shown so far: whether the prompt opened the reasoning. `None` if it has shown nothing.
    pub fn seen_start(&self) -> Option<bool> {
        self.start.seen
    }

    /// Begins a message, or an upstream's next response to the same message.
    pub(super) fn begin(&mut self) {
        (self.start.is_opener_mentioned, self.start.has_reasoned) = (false, false);
        self.state = match self.start.whole {
            Some(_) => State::Whole(String::new()),
            None => Self::first_state(&self.search, self.start.is_in_reasoning()),
        };
        self.watch_start();
    }

    /// Keeps text until its end shows how it started. Returns how much was read.
    pub(super) fn keep_whole(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Whole(kept) = &mut self.state else { return 0 };
        if self.start.whole.is_some_and(|most| kept.len() + text.len() <= most) {
            kept.push_str(text);
            return text.len();
        }
        let kept = std::mem::take(kept);
        self.start(self.start.is_in_reasoning());
        self.text(&kept, out);
        0
    }

    /// Reads the text that was kept before `event`, which is not text: the upstream separates reasoning and calls itself.
    pub(super) fn read_before(&mut self, event: &Event<'_>, out: &mut impl Sink) {
        if let State::Whole(kept) = &mut self.state
            && !is_beside_text(event)
        {
            let kept = std::mem::take(kept);
            let mut joined = Joiner::new(std::mem::take(&mut self.joined), out);
            self.read_kept(&kept, true, &mut joined);
            self.joined = joined.finish();
        }
    }

    /// Reads the text that was kept, as what it has shown itself to be. `stopped` is set if the model stopped by itself.
    pub(super) fn read_kept(&mut self, kept: &str, stopped: bool, out: &mut impl Sink) {
        let in_reasoning = self.shows_reasoning(kept, stopped);
        self.start(in_reasoning);
        if self.start.in_reasoning && !in_reasoning && !kept.trim().is_empty() {
            self.start.saw(in_reasoning);
        }
        self.text(kept, out);
    }

    /// Whether a complete text started inside reasoning.
    fn shows_reasoning(&mut self, text: &str, stopped: bool) -> bool {
        if self.start.is_in_reasoning() {
            // A model that stops by itself leaves its reasoning first. If nothing ends it, this is the answer.
            return !stopped
                || self.tried(true, text, |detector| match &detector.state {
                    State::Reasoning(_) => false,
                    State::Tentative(tentative) => tentative.ends_with_call(),
                    _ => true,
                });
        }
        let has_closer = text.contains(['<', '[']) && self.search.sought.markers.has_closer(text);
        has_closer && self.tried(false, text, |detector| detector.start.seen == Some(true))
    }

    /// Reads `text` without output, and returns what `shows` says about the detector's state after that.
    fn tried(&mut self, in_reasoning: bool, text: &str, shows: impl FnOnce(&Self) -> bool) -> bool {
        let (checkpoint, start, peak) = (self.checkpoint(), self.start, self.held_peak);
        self.start(in_reasoning);
        self.text(text, &mut Nowhere);
        let shown = shows(self);
        self.restore(checkpoint);
        (self.start, self.held_peak) = (start, peak);
        shown
    }

    /// Handles a marker of reasoning that does not pair. Returns whether the marker at `place` was one.
    pub(super) fn bare_marker(&mut self, place: usize, here: Place, out: &mut impl Sink) -> bool {
        let is_at_start = here == Place::MessageStart;
        let Some(opener) = self.search.sought.markers.get(place) else { return false };
        // Prose does not contain tokens, whatever is known about the start.
        let may_drop = is_token(opener.text) || (self.start.is_assumed && !self.start.is_opener_mentioned);
        match opener.entry {
            Entry::Closer if is_at_start => {
                self.held.clear();
                self.state = State::Prose;
                self.prose.reasoning_ended(false);
            }
            Entry::Closer if may_drop => match self.prose.last("") {
                quote @ ('`' | '"' | '\'') => self.state = State::QuotedCloser(quote),
                _ => self.take_closer(),
            },
            entry @ (Entry::Closer | Entry::Mention) => {
                self.start.is_opener_mentioned |= matches!(entry, Entry::Mention);
                self.state = State::Prose;
                self.release(0, out);
            }
            _ => return false,
        }
        true
    }

    /// Drops the held closer, which shows that the prompt opened the reasoning.
    pub(super) fn take_closer(&mut self) {
        self.held.clear();
        self.state = State::Prose;
        if !self.start.has_reasoned {
            self.start.saw(true);
        }
    }

    /// Handles the text behind a closer that a quotation mark precedes. It is text if the same mark follows.
    pub(super) fn quoted_closer(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::QuotedCloser(quote) = self.state else { return 0 };
        if text.starts_with(quote) {
            self.state = State::Prose;
            self.release(0, out);
        } else {
            self.take_closer();
        }
        0
    }

    /// Notes how a stretch of reasoning ended.
    pub(super) fn reasoning_closed(&mut self, thinking: &Thinking) {
        if thinking.began_message() && thinking.has_said() {
            self.start.saw(true);
        }
        self.start.has_reasoned = true;
        self.prose.reasoning_ended(thinking.has_said());
    }

    /// The number of calls that have been found.
    pub fn found(&self) -> u32 {
        self.next
    }

    /// If reasoning has ended since this was last called: how many bytes of the text so far follow it, or
    /// [`usize::MAX`] if that is unknown.
    pub fn take_end_of_reasoning(&mut self) -> Option<usize> {
        self.behind_reasoning.take()
    }

    /// Notes that the text has ended inside reasoning. `stopped` is set if the model stopped by itself.
    pub(super) fn reasoning_unclosed(&mut self, thinking: &Thinking, stopped: bool) {
        if stopped && thinking.began_message() && thinking.has_said() {
            self.start.saw(false);
        }
    }
}

/// Whether text before and after the event may be joined.
pub(super) fn is_beside_text(event: &Event<'_>) -> bool {
    matches!(
        event.meaning(),
        Event::Start(_)
            | Event::Text(_)
            | Event::Phase { .. }
            | Event::Usage(_)
            | Event::Warning(_)
            | Event::Finish(_)
            | Event::Ping(_)
            | Event::Verbatim { .. }
    )
}
