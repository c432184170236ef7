//! [`Gate`]: where the pieces of calls pass on their way out, at once or when what they wait for has come.

use super::{
    envelope::{CallRules, Piece},
    text::append,
    walker::Out,
};
use crate::{event::CallEnd, format::Voice};

/// A [`Piece`] that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    Framed,
    Said(Voice, String),
    Start { name: String, id: String },
    Arguments(String),
    End(CallEnd),
}

impl Waiting {
    pub(super) fn of(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Framed => Self::Framed,
            Piece::Said(voice, text) => Self::Said(voice, text.to_owned()),
            Piece::Start { name, id } => Self::Start { name: name.to_owned(), id: id.to_owned() },
            Piece::Arguments(text) => Self::Arguments(text.to_owned()),
            Piece::End(end) => Self::End(end),
        }
    }

    pub(super) fn as_piece(&self) -> Piece<'_> {
        match self {
            Self::Framed => Piece::Framed,
            Self::Said(voice, text) => Piece::Said(*voice, text),
            Self::Start { name, id } => Piece::Start { name, id },
            Self::Arguments(text) => Piece::Arguments(text),
            Self::End(end) => Piece::End(*end),
        }
    }
}

/// What calls wait for before they go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// Their own end: whole arguments in a format with a marker, where each call counts by itself.
    CallEnd,
    /// The region's end: whole arguments where a container has calls alone in it or none, and wherever a backtick
    /// behind the container may mean that it was quoted.
    RegionEnd,
}

impl Wait {
    /// `marked`: the calls have a marker of their own; `whole`: arguments do not stream.
    pub(super) fn new(quoted: bool, marked: bool, whole: bool) -> Self {
        match whole {
            _ if quoted => Self::RegionEnd,
            true if marked => Self::CallEnd,
            true => Self::RegionEnd,
            false => Self::Nothing,
        }
    }
}

/// The way out of one container's calls.
#[derive(Debug)]
pub(super) struct Gate {
    wait: Wait,
    /// Pieces that wait, in order. Arguments that follow each other become one text: the room for each by itself, a
    /// token each, would be many times their size.
    waiting: Vec<Waiting>,
    /// The format's names for calling nothing.
    no_tool: &'static [&'static str],
    /// In a call to one of them.
    drops: bool,
}

impl Gate {
    pub(super) fn new(wait: Wait) -> Self {
        Self { wait, waiting: Vec::new(), no_tool: &[], drops: false }
    }

    /// Drops calls to these names, unless tools are declared by them.
    pub(super) fn dropping(self, no_tool: &'static [&'static str]) -> Self {
        Self { no_tool, ..self }
    }

    /// What is written goes out at once.
    pub(super) fn streams(&self) -> bool {
        self.wait == Wait::Nothing
    }

    /// Calls wait for the end of their container.
    pub(super) fn waits_for_all(&self) -> bool {
        self.wait == Wait::RegionEnd
    }

    /// As [`Gate::pass`], but drops calls that call nothing.
    pub(super) fn filter(&mut self, piece: Piece<'_>, rules: &CallRules<'_>, out: &mut Out<'_>) {
        if let Piece::Start { name, .. } = piece {
            self.drops = self.no_tool.contains(&name) && rules.tools.resolve(name).is_none();
        }
        if !self.drops {
            self.pass(piece, out);
        }
    }

    /// Sends a piece of a call on, or keeps it.
    pub(super) fn pass(&mut self, piece: Piece<'_>, out: &mut Out<'_>) {
        if self.streams() {
            return out(piece);
        }
        match (piece, self.waiting.last_mut()) {
            (Piece::Arguments(text), Some(Waiting::Arguments(kept))) => append(kept, text),
            (piece, _) => self.waiting.push(Waiting::of(piece)),
        }
    }

    /// A call has ended so, or none was open: whether it may go out. A call that waits may only if it is whole; it goes
    /// out now unless it waits for others.
    pub(super) fn settle(&mut self, end: Option<CallEnd>, out: &mut Out<'_>) -> bool {
        if !self.streams() && end == Some(CallEnd::Cut) {
            return false;
        }
        if !self.waits_for_all() {
            self.waiting.drain(..).for_each(|waiting| out(waiting.as_piece()));
        }
        true
    }

    /// The call being read calls nothing.
    pub(super) fn drops(&self) -> bool {
        self.drops
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits.
    pub(super) fn take(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }
}
