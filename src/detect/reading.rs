//! [`Reading`]: a stretch of text read as calls of one format, until it is certain whether it is that.

use super::{
    channels::Channel,
    envelope::{CallRules, Piece},
    gate::Waiting,
    gated::{Gated, Passed},
    prose::Prose,
    string_fast_path::StringFastPath,
    walker::Out,
};
use crate::{
    event::{CallEnd, CallStart, Event, Runner, Sink, Source},
    format::{Format, Voice},
};
use std::borrow::Cow;

/// The reader of the stretch.
#[derive(Debug)]
pub(super) enum Container {
    /// Calls in a [`Region`](super::region::Region) or a [`Section`](super::section::Section).
    Calls(Box<Gated>),
    /// Messages with headers.
    Channel(Box<Channel>),
}

/// The state of one attempt to read calls.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) format: &'static Format,
    pub(super) starts_line: bool,
    pub(super) quoted: bool,
    /// The marker is specific to calls: calls to undeclared names are calls too.
    pub(super) marked: bool,
    pub(super) read_as: Container,
    /// Alternatives that may begin here if this reading fails.
    pub(super) rivals: Rivals,
    /// A section that may be quoted has ended like this, and the next byte decides.
    pub(super) behind: Option<Ending>,
}

/// How a section ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Calls,
    /// The whole message has ended: the model invented the rest.
    Message,
}

/// A section that may be quoted has ended at `taken`. A backtick there means that it is quoted.
fn quote(ending: Ending, text: &str, taken: usize) -> Passed {
    match (text.as_bytes().get(taken), ending) {
        (None, _) => Passed::More,
        (Some(b'`'), _) => Passed::Failed { taken, rescan: 0 },
        (Some(_), Ending::Calls) => Passed::Ended { taken, rescan: 0 },
        (Some(_), Ending::Message) => Passed::MessageEnded(taken),
    }
}

/// Alternatives to a reading at the same position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rivals {
    None,
    /// Other formats with the same opener, whose length is `opener`, from index `next` on.
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
    /// Whether the container takes its indentation and its line end with it. Around a marker specific to
    /// calls all blanks stay, as if it were inside a line (docs/protocols/text-formats.md#white-space).
    pub(super) fn takes_line(&self) -> bool {
        self.starts_line && !self.marked && !matches!(self.read_as, Container::Channel(_))
    }

    /// The fast path for the argument string being streamed, if there is one.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        match &self.read_as {
            Container::Calls(calls) => calls.string().filter(|_| self.behind.is_none()),
            Container::Channel(channel) => channel.string(),
        }
    }

    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Passed {
        let calls = match &mut self.read_as {
            Container::Calls(calls) => calls,
            Container::Channel(channel) => return channel.feed(text, rules, out),
        };
        if let Some(ending) = self.behind {
            return quote(ending, text, 0);
        }
        let (ending, taken) = match calls.feed(text, rules, out) {
            Passed::Ended { taken, rescan: 0 } if self.quoted => (Ending::Calls, taken),
            Passed::MessageEnded(taken) if self.quoted => (Ending::Message, taken),
            passed => return passed,
        };
        self.behind = Some(ending);
        quote(ending, text, taken)
    }

    /// Whether these were calls of this format, but quoted. Other formats are then not tried.
    pub(super) fn is_quotation(&self) -> bool {
        self.behind.is_some()
    }

    /// The text stops here. Returns whether it ends with calls. `stopped`: the model finished.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        match &mut self.read_as {
            Container::Calls(calls) => self.behind.is_some() || calls.finish(stopped, rules, out),
            Container::Channel(channel) => channel.finish(stopped, rules, out),
        }
    }

    /// Whether a call streams, so that bytes are certain as soon as they are fed.
    pub(super) fn is_streaming(&self) -> bool {
        match &self.read_as {
            Container::Calls(calls) => calls.is_streaming(),
            Container::Channel(channel) => channel.is_streaming(),
        }
    }

    /// Whether calls that wait for the end have begun.
    pub(super) fn has_begun(&self) -> bool {
        match &self.read_as {
            Container::Calls(calls) => calls.has_begun(),
            Container::Channel(channel) => channel.has_begun(),
        }
    }

    /// How many of the last bytes fed may turn out not to be part of the streaming call.
    pub(super) fn undecided(&self) -> usize {
        match &self.read_as {
            Container::Calls(calls) => calls.undecided(),
            Container::Channel(channel) => channel.undecided(),
        }
    }

    /// How many of the last bytes fed may still be text.
    pub(super) fn uncertain(&self) -> usize {
        match &self.read_as {
            Container::Calls(calls) if !calls.is_streaming() => usize::MAX,
            _ => self.undecided(),
        }
    }

    /// Bytes held in addition to the source.
    pub(super) fn kept(&self) -> usize {
        match &self.read_as {
            Container::Calls(calls) => calls.kept(),
            Container::Channel(channel) => channel.kept(),
        }
    }

    /// Takes the calls that waited for the end.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        match &mut self.read_as {
            Container::Calls(calls) => calls.take_waiting(),
            Container::Channel(channel) => channel.take_waiting(),
        }
    }

    /// Takes the calls that waited up to a certain point. A channel releases its calls itself: pieces that
    /// still wait there belong to a call that has not ended.
    pub(super) fn take_ended(&mut self) -> Vec<Waiting> {
        if matches!(self.read_as, Container::Channel(_)) { Vec::new() } else { self.take_waiting() }
    }

    /// Takes the waiting calls; the last one is cut if it has not ended.
    pub(super) fn abandon(&mut self) -> Vec<Waiting> {
        let mut waiting = self.take_waiting();
        if self.is_streaming() || !matches!(waiting.last(), None | Some(Waiting::End(_))) {
            waiting.push(Waiting::End(CallEnd::Cut));
        }
        waiting
    }
}

/// Sends the pieces of calls: numbers them, and settles the white space around them.
#[derive(Debug)]
pub(super) struct Outlet<'d, S> {
    pub(super) format: &'static Format,
    pub(super) starts_line: bool,
    pub(super) prose: &'d mut Prose,
    /// The number of the next call.
    pub(super) next: &'d mut u32,
    /// The text has ended: an incomplete call was cut off by that. Otherwise an incomplete call is broken.
    pub(super) at_end: bool,
    pub(super) out: &'d mut S,
}

impl<S: Sink> Outlet<'_, S> {
    /// Sends a piece of a call.
    pub(super) fn piece(&mut self, piece: Piece<'_>) {
        let index = super::DETECTED | self.next.saturating_sub(1);
        match piece {
            Piece::Framed => self.prose.framed(),
            Piece::Said(Voice::Text, text) => self.prose.put(text, self.out),
            Piece::Said(Voice::Reasoning, text) => super::thinking::reasoning(text, self.out),
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

    /// Sends the waiting pieces of calls.
    pub(super) fn pieces(&mut self, waiting: Vec<Waiting>) {
        for waiting in waiting {
            match waiting {
                // They may be long, so they are moved, not copied.
                Waiting::Arguments(text) => self.arguments(Cow::Owned(text)),
                waiting => self.piece(waiting.as_piece()),
            }
        }
    }
}
