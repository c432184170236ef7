//! [`Reading`]: reads text as calls of one format until it is certain whether it contains any.

use super::{
    gate::Waiting,
    gated_container::{GatedContainer, Passed},
    prose::Prose,
    quote::{Quote, is_punctuation},
    search::Search,
    string_fast_path::StringFastPath,
    text::tail,
    walk::{CallRules, Out, Piece},
    watch::Watch,
};
use crate::{
    event::{CallEnd, CallStart, Event, Runner, Sink, Source, Warning},
    format::{Format, Voice, is_token},
};
use std::borrow::Cow;

/// An attempt to read calls of one format.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) format: &'static Format,
    pub(super) starts_line: bool,
    pub(super) quote: Quote,
    /// Whether the marker is specific to calls, so that calls to undeclared names are accepted.
    pub(super) marked: bool,
    /// Whether the container includes its indentation and line ending. White space around a marker that is specific
    /// to calls is preserved, as if the container were in the middle of a line
    /// (docs/protocols/text-formats.md#white-space).
    pub(super) takes_line: bool,
    pub(super) container: GatedContainer,
    /// What else may begin here if this attempt fails.
    pub(super) rivals: Rivals,
    /// Whether a call has been sent.
    pub(super) found: bool,
    /// Whether the last call was broken and passed on as text. The end of its list is then part of that text.
    pub(super) is_text: bool,
    /// How the section ended, if what follows decides whether it was quoted.
    pub(super) behind: Option<Ending>,
    /// How many bytes of punctuation after that end have been read.
    pub(super) punctuation: usize,
    /// Whether it reads messages, each of which may be a call.
    pub(super) has_messages: bool,
    /// Set if the calls may be a quotation and therefore wait.
    pub(super) watch: Option<Watch>,
}

/// How a section ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Calls,
    /// The message has ended too: the model invented everything after this point.
    Message,
}

/// Alternatives to an attempt at the same position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rivals {
    None,
    /// Other formats with the same opener, from index `next` on. `opener` is the length of the opener.
    Marked {
        opener: usize,
        next: usize,
    },
    /// Other formats without a marker, from index `next` on.
    Unmarked {
        next: usize,
    },
}

impl Reading {
    /// Returns the rules for these calls.
    pub(super) fn rules<'s>(&self, search: &'s Search) -> CallRules<'s> {
        let asks = search.asks && search.sought.markers.is_named(self.format);
        CallRules { asks, ..search.rules(self.marked) }
    }

    /// The maximum number of bytes of source that may be held, which is `max_hold` until a call has begun. A call
    /// that waits for its end may be as long as any call, so more is allowed for it.
    pub(super) fn limit(&self, search: &Search, max_hold: usize) -> usize {
        let waits = if self.container.has_begun() { search.max_arguments } else { 0 };
        max_hold.saturating_add(waits)
    }

    /// The fast path for the argument string being streamed, if there is one.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        self.container.string().filter(|_| self.behind.is_none())
    }

    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Passed {
        if let Some(ending) = self.behind {
            return self.follows(ending, text, 0);
        }
        let (ending, taken) = match self.container.feed(text, rules, out) {
            Passed::Ended { taken, rescan: 0 } if self.quote.has_marks() => (Ending::Calls, taken),
            Passed::MessageEnded(taken) if self.quote.has_marks() => (Ending::Message, taken),
            passed => return passed,
        };
        self.behind = Some(ending);
        self.follows(ending, text, taken)
    }

    /// Handles the end of a section after a quotation mark, at offset `taken`. It is quoted if the matching mark
    /// follows, perhaps behind punctuation.
    fn follows(&mut self, ending: Ending, text: &str, taken: usize) -> Passed {
        let rescan = self.punctuation;
        let mut behind = tail(text, taken).chars();
        let mut next = behind.next();
        if let Some(mark) = next.filter(|mark| rescan == 0 && is_punctuation(*mark)) {
            next = behind.next();
            if next.is_none() {
                self.punctuation = mark.len_utf8();
            }
        }
        match (next, ending) {
            (None, _) => Passed::More,
            (Some(mark), _) if self.quote.ends_with(mark) => Passed::Failed { taken, rescan },
            (Some(_), Ending::Calls) => Passed::Ended { taken, rescan },
            (Some(_), Ending::Message) => Passed::MessageEnded(taken),
        }
    }

    /// Whether calls of this format were found but are quoted. If so, no other formats are tried.
    pub(super) fn is_quotation(&self) -> bool {
        self.behind.is_some()
    }

    /// Ends the text. Returns whether it ended with calls. `stopped` is set if the model stopped by itself.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        self.behind.is_some() || self.container.finish(stopped, rules, out)
    }

    /// Whether the container is certain to have calls, so that half a call in it is not text.
    pub(super) fn is_certain(&self) -> bool {
        (self.marked && self.quote == Quote::None) || self.found
    }

    /// Whether `held`, the source that is not certain, is markup that only a call can explain, although the response
    /// ends in it.
    pub(super) fn is_in_markup(&self, held: &str) -> bool {
        let begins = held.trim_start().starts_with(['<', '[', ']']) || is_token(held);
        let marked = self.marked && self.quote == Quote::None && begins && !self.container.has_text();
        marked || (self.found && self.container.is_in_list())
    }

    /// How many bytes at the end of the input may still be text.
    pub(super) fn uncertain(&self) -> usize {
        if self.container.is_streaming() { self.container.undecided() } else { usize::MAX }
    }

    /// Takes the waiting calls. The last one is cut off if it has not ended.
    pub(super) fn abandon(&mut self) -> Vec<Waiting> {
        let mut waiting = self.container.take_waiting();
        if self.container.is_streaming() || !matches!(waiting.last(), None | Some(Waiting::End(_))) {
            waiting.push(Waiting::End(CallEnd::Cut));
        }
        waiting
    }
}

/// Sends the pieces of calls, numbers the calls, and handles the white space around them.
#[derive(Debug)]
pub(super) struct Outlet<'d, S> {
    pub(super) format: &'static Format,
    pub(super) starts_line: bool,
    pub(super) prose: &'d mut Prose,
    pub(super) next: &'d mut u32,
    /// Whether the text has ended, which cuts off an incomplete call. Otherwise, an incomplete call is broken.
    pub(super) at_end: bool,
    pub(super) out: &'d mut S,
}

impl<S: Sink> Outlet<'_, S> {
    pub(super) fn piece(&mut self, piece: Piece<'_>) {
        let index = super::DETECTED | self.next.saturating_sub(1);
        match piece {
            Piece::Framed => self.prose.framed(),
            Piece::Said(Voice::Text, text) => self.prose.put(text, self.out),
            Piece::Said(Voice::Reasoning, text) => super::thinking::reasoning(text, self.out),
            Piece::LeftOut(name) => {
                let message = format!(
                    "a message to `{name}`, which is not a declared tool, is not a call and is left out"
                );
                self.out.event(Event::Warning(Warning { code: "unknown_tool", message: message.into() }));
            }
            Piece::Start { name, id } => {
                self.prose.call(self.starts_line);
                let index = super::DETECTED | *self.next;
                *self.next += 1;
                self.out.event(Event::CallStart(CallStart {
                    index,
                    id: Cow::Borrowed(id),
                    name: Cow::Borrowed(name),
                    runner: Runner::Client,
                    source: Source::Format(self.format.name),
                    signature: None,
                }));
            }
            Piece::Arguments(text) => self.arguments(Cow::Borrowed(text)),
            Piece::End(CallEnd::Cut) if !self.at_end => {
                self.out.event(Event::CallEnd { index, end: CallEnd::Broken });
            }
            Piece::End(end) => self.out.event(Event::CallEnd { index, end }),
        }
    }

    fn arguments(&mut self, piece: Cow<'_, str>) {
        let index = super::DETECTED | self.next.saturating_sub(1);
        self.out.event(Event::CallArguments { index, piece });
    }

    pub(super) fn pieces(&mut self, waiting: Vec<Waiting>) {
        for waiting in waiting {
            match waiting {
                // Moved rather than copied, since arguments may be long.
                Waiting::Arguments(text) => self.arguments(Cow::Owned(text)),
                waiting => self.piece(waiting.as_piece()),
            }
        }
    }
}
