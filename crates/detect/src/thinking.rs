//! [`Thinking`]: sends reasoning between markers as reasoning events.
//!
//! In reasoning, only closers are recognised and, of the chosen formats, meaningless markers and the openers of
//! calls. Only the start of such a marker and trailing white space are held. White space before a closer
//! is dropped.

use std::borrow::Cow;

use super::{
    markers::Markers,
    pattern::{Case, Fit, fit_cased},
    text::{head, tail},
    trimmer::Trimmer,
};
use crate::{
    event::{Event, Reasoning, Sink},
    format::Thought,
};

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThinkingProgress {
    /// All of it was read, and the reasoning continues.
    On,
    /// This many bytes were read, ending with a closer.
    Closed(usize),
    /// This many bytes were read, ending with the opener of a call, which is in [`Thinking::markup`]. The second
    /// number is the index of the opener in the markers.
    Calls(usize, usize),
}

/// Reads one stretch of reasoning.
#[derive(Debug)]
pub(super) struct Thinking {
    close: Vec<&'static str>,
    /// Openers that are redundant at the very start.
    open: Vec<&'static str>,
    /// Whether such an opener was there.
    is_opened: bool,
    /// Whether the first reasoning follows other reasoning, so that a line end separates them.
    follows: bool,
    markup: String,
    text: Trimmer,
    last: u8,
}

impl Thinking {
    /// Creates a reader that starts after the opener of `thought`.
    pub(super) fn new(thought: &'static Thought, max_blank: usize) -> Self {
        Self::of(thought.close.to_vec(), Vec::new(), max_blank)
    }

    /// Creates a reader for a message that starts inside reasoning: the opener was in the prompt, and any closer
    /// ends the reasoning.
    pub(super) fn from_start(thoughts: &[&'static Thought], max_blank: usize) -> Self {
        let close = thoughts.iter().flat_map(|thought| thought.close).copied().collect();
        Self::of(close, thoughts.iter().map(|thought| thought.open).collect(), max_blank)
    }

    fn of(close: Vec<&'static str>, open: Vec<&'static str>, max_blank: usize) -> Self {
        let text = Trimmer::new(max_blank);
        let (is_opened, follows) = (false, false);
        Self { close, open, is_opened, follows, markup: String::new(), text, last: 0 }
    }

    /// Makes a line end separate this reasoning from earlier reasoning, if `follows` is set.
    pub(super) fn following(self, follows: bool) -> Self {
        Self { follows, ..self }
    }

    /// Whether the message began inside this reasoning, and its opener has not appeared.
    pub(super) fn began_message(&self) -> bool {
        !self.open.is_empty() && !self.is_opened
    }

    /// Whether there is visible reasoning.
    pub(super) fn has_said(&self) -> bool {
        self.text.has_said()
    }

    /// Whether the message began inside the reasoning, and none of the reasoning has arrived.
    pub(super) fn is_fresh(&self) -> bool {
        !self.open.is_empty() && !self.text.has_begun() && self.held() == 0
    }

    pub(super) fn held(&self) -> usize {
        self.markup.len() + self.text.held()
    }

    /// The start of a possible marker.
    pub(super) fn markup(&self) -> &str {
        &self.markup
    }

    pub(super) fn take_markup(&mut self) -> String {
        std::mem::take(&mut self.markup)
    }

    /// Whether a closer begins anywhere in `text`.
    pub(super) fn is_closed_in(&self, text: &str) -> bool {
        let closes = |rest: &str| {
            self.close.iter().any(|close| matches!(fit_cased(close, rest, Case::Any), Fit::Whole(_)))
        };
        text.char_indices().any(|(at, _)| closes(tail(text, at)))
    }

    /// Whether the marker is quoted, since a backtick precedes it.
    fn quoted(&self) -> bool {
        self.last == b'`'
    }

    pub(super) fn feed(&mut self, text: &str, markers: &Markers, out: &mut impl Sink) -> ThinkingProgress {
        let mut at = 0;
        while at < text.len() {
            let rest = tail(text, at);
            if self.markup.is_empty() {
                let run = rest.bytes().position(|byte| self.may_begin(byte, markers)).unwrap_or(rest.len());
                self.say(head(rest, run), out);
                at += run;
            }
            let Some(character) = tail(text, at).chars().next() else { break };
            at += character.len_utf8();
            self.markup.push(character);
            if let Some(ends) = self.settle(at, markers, out) {
                return ends;
            }
        }
        ThinkingProgress::On
    }

    /// Ends the text, which makes a possible closer part of the reasoning.
    pub(super) fn finish(&mut self, out: &mut impl Sink) {
        let markup = self.take_markup();
        self.say(&markup, out);
    }

    fn may_begin(&self, byte: u8, markers: &Markers) -> bool {
        let begins = |marker: &str| marker.as_bytes().first().is_some_and(|b| b.eq_ignore_ascii_case(&byte));
        self.close.iter().any(|marker| begins(marker))
            || (!self.text.has_begun() && self.open.iter().any(|marker| begins(marker)))
            || markers.may_begin_in_reasoning(byte)
    }

    /// Releases held characters that do not begin a marker, one at a time.
    fn settle(&mut self, at: usize, markers: &Markers, out: &mut impl Sink) -> Option<ThinkingProgress> {
        while !self.markup.is_empty() {
            let fits = |marker: &&str| fit_cased(marker, &self.markup, Case::Any);
            let whole = |markers: &[&str]| markers.iter().any(|marker| matches!(fits(marker), Fit::Whole(_)));
            if whole(&self.close) {
                self.markup.clear();
                self.text.end();
                return Some(ThinkingProgress::Closed(at));
            }
            if !self.text.has_begun() && whole(&self.open) {
                self.is_opened = true;
                self.markup.clear();
                return None;
            }
            let begins = |markers: &[&str]| markers.iter().any(|marker| fits(marker) == Fit::Begins);
            let mut holds = begins(&self.close) || (!self.text.has_begun() && begins(&self.open));
            match markers.frame(&self.markup) {
                // It may become a closer.
                Fit::Whole(len) if !holds => {
                    self.markup.drain(..len);
                    continue;
                }
                Fit::Whole(_) | Fit::Begins => holds = true,
                Fit::No => {}
            }
            if !self.quoted() {
                match markers.call(&self.markup) {
                    Some((place, true)) => return Some(ThinkingProgress::Calls(at, place)),
                    Some((_, false)) => holds = true,
                    None => {}
                }
            }
            if holds {
                return None;
            }
            let first = self.markup.chars().next().map_or(0, char::len_utf8);
            let rest = tail(&self.markup, first).to_owned();
            let markup = std::mem::replace(&mut self.markup, rest);
            self.say(head(&markup, first), out);
        }
        None
    }

    /// Sends reasoning, but holds its trailing white space.
    pub(super) fn say(&mut self, text: &str, out: &mut impl Sink) {
        let follows = &mut self.follows;
        self.text.put(text, |text| {
            if std::mem::take(follows) {
                reasoning("\n", out);
            }
            reasoning(text, out);
        });
        self.last = text.bytes().next_back().unwrap_or(self.last);
    }
}

pub(super) fn reasoning(text: &str, out: &mut impl Sink) {
    out.event(Event::Reasoning(Reasoning::text(Cow::Borrowed(text))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openers::Reads;

    fn think(text: &str, pieces: usize) -> (String, Vec<ThinkingProgress>) {
        let thoughts = Markers::new(&[&crate::format::THINK], Reads::ALL, false, None).thoughts();
        let markers = Markers::new(&[], Reads::ALL, false, None);
        let mut thinking = Thinking::from_start(&thoughts, 100);
        let (mut said, mut ends) = (String::new(), Vec::new());
        for piece in text.as_bytes().chunks(pieces) {
            let mut out: Vec<Event<'static>> = Vec::new();
            ends.push(thinking.feed(std::str::from_utf8(piece).unwrap(), &markers, &mut out));
            for event in out {
                if let Event::Reasoning(reasoning) = event {
                    said.push_str(&reasoning.text);
                }
            }
        }
        (said, ends)
    }

    #[test]
    fn a_response_that_starts_in_reasoning_may_repeat_the_opener() {
        for pieces in [1, 3, 100] {
            let (said, ends) = think("<think>\na <b> </thin c \n</THINK>", pieces);
            assert_eq!(said, "a <b> </thin c");
            assert!(matches!(ends.last(), Some(ThinkingProgress::Closed(_))), "{ends:?}");
        }
    }
}
