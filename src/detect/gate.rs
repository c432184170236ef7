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

/// Pieces that wait, in order. Arguments that follow each other become one text: the room for each by itself, a token
/// each, would be many times their size.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: Vec<Waiting>,
}

impl Queue {
    pub(super) fn push(&mut self, piece: Piece<'_>) {
        match (piece, self.pieces.last_mut()) {
            (Piece::Arguments(text), Some(Waiting::Arguments(kept))) => append(kept, text),
            (piece, _) => self.pieces.push(Waiting::of(piece)),
        }
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// What waits.
    pub(super) fn take(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.pieces)
    }

    /// What waits goes out.
    pub(super) fn open(&mut self, out: &mut Out<'_>) {
        self.pieces.drain(..).for_each(|waiting| out(waiting.as_piece()));
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

/// The way of one region's calls.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) wait: Wait,
    waiting: Queue,
    /// In a call to one of the format's names for calling nothing.
    drops: bool,
}

impl Gate {
    pub(super) fn new(wait: Wait) -> Self {
        Self { wait, waiting: Queue::default(), drops: false }
    }

    /// Sends a piece on, keeps it, or drops it.
    pub(super) fn pass(&mut self, piece: Piece<'_>, rules: &CallRules<'_>, out: &mut Out<'_>) {
        if let Piece::Start { name, .. } = piece {
            self.drops = rules.no_tool.contains(&name) && rules.tools.resolve(name).is_none();
        }
        match self.wait {
            _ if self.drops => {}
            Wait::Nothing => out(piece),
            Wait::CallEnd | Wait::RegionEnd => self.waiting.push(piece),
        }
    }

    /// The call being read calls nothing.
    pub(super) fn drops(&self) -> bool {
        self.drops
    }

    /// What waits goes out.
    pub(super) fn open(&mut self, out: &mut Out<'_>) {
        self.waiting.open(out);
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits.
    pub(super) fn take(&mut self) -> Vec<Waiting> {
        self.waiting.take()
    }
}
