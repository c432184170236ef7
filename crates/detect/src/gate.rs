//! [`Gate`]: passes on the pieces of calls, either at once or when the call or its region has ended.

use super::{
    text::append,
    walk::{CallRules, Out, Piece},
};
use crate::{event::CallEnd, format::Voice};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    Framed,
    Said(Voice, String),
    LeftOut(String),
    Start { name: String, id: String },
    Arguments(String),
    End(CallEnd),
}

impl Waiting {
    pub(super) fn of(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Framed => Self::Framed,
            Piece::Said(voice, text) => Self::Said(voice, text.to_owned()),
            Piece::LeftOut(name) => Self::LeftOut(name.to_owned()),
            Piece::Start { name, id } => Self::Start { name: name.to_owned(), id: id.to_owned() },
            Piece::Arguments(text) => Self::Arguments(text.to_owned()),
            Piece::End(end) => Self::End(end),
        }
    }

    pub(super) fn as_piece(&self) -> Piece<'_> {
        match self {
            Self::Framed => Piece::Framed,
            Self::Said(voice, text) => Piece::Said(*voice, text),
            Self::LeftOut(name) => Piece::LeftOut(name),
            Self::Start { name, id } => Piece::Start { name, id },
            Self::Arguments(text) => Piece::Arguments(text),
            Self::End(end) => Piece::End(*end),
        }
    }
}

/// What calls wait for before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// Their own end. Used for complete arguments in formats with a marker, where calls are independent of each
    /// other.
    CallEnd,
    /// The end of the region. Used for complete arguments in a container that must contain nothing but calls, and
    /// wherever a quotation mark after the container may show that it was quoted.
    RegionEnd,
}

impl Wait {
    /// `marked` is set if calls have their own marker, and `whole` if arguments are sent only when complete.
    pub(super) fn new(quoted: bool, marked: bool, whole: bool) -> Self {
        match whole {
            _ if quoted => Self::RegionEnd,
            true if marked => Self::CallEnd,
            true => Self::RegionEnd,
            false => Self::Nothing,
        }
    }
}

#[derive(Debug)]
pub(super) struct Gate {
    wait: Wait,
    /// The pieces that wait, in order. Adjacent arguments are joined, since storing them token by token would take
    /// many times their size.
    waiting: Vec<Waiting>,
    /// Names by which the format says that no tool is called.
    no_tool: &'static [&'static str],
    /// Whether the current call has one of these names.
    drops: bool,
}

impl Gate {
    pub(super) fn new(wait: Wait) -> Self {
        Self { wait, waiting: Vec::new(), no_tool: &[], drops: false }
    }

    /// Returns the gate with `no_tool` set: calls to these names are dropped unless such a tool is declared.
    pub(super) fn dropping(self, no_tool: &'static [&'static str]) -> Self {
        Self { no_tool, ..self }
    }

    pub(super) fn streams(&self) -> bool {
        self.wait == Wait::Nothing
    }

    /// Whether calls wait for the end of their container.
    pub(super) fn waits_for_all(&self) -> bool {
        self.wait == Wait::RegionEnd
    }

    /// Like [`Gate::pass`], but drops calls to names that stand for "no tool".
    pub(super) fn filter(&mut self, piece: Piece<'_>, rules: &CallRules<'_>, out: &mut Out<'_>) {
        if let Piece::Start { name, .. } = piece {
            self.drops = self.no_tool.contains(&name) && rules.tools.resolve(name).is_none();
        }
        if !self.drops {
            self.pass(piece, out);
        }
    }

    /// Sends or stores a piece of a call.
    pub(super) fn pass(&mut self, piece: Piece<'_>, out: &mut Out<'_>) {
        if self.streams() {
            return out(piece);
        }
        match (piece, self.waiting.last_mut()) {
            (Piece::Arguments(text), Some(Waiting::Arguments(kept))) => append(kept, text),
            (piece, _) => self.waiting.push(Waiting::of(piece)),
        }
    }

    /// Handles `end`, the end of a call, which is `None` if no call was open. Returns whether the call may be
    /// sent, which for a waiting call means that it is complete. Sends waiting pieces unless they wait for the end
    /// of the container.
    pub(super) fn settle(&mut self, end: Option<CallEnd>, out: &mut Out<'_>) -> bool {
        if !self.streams() && matches!(end, Some(CallEnd::Cut | CallEnd::Broken)) {
            return false;
        }
        if !self.waits_for_all() {
            self.waiting.drain(..).for_each(|waiting| out(waiting.as_piece()));
        }
        true
    }

    pub(super) fn drops(&self) -> bool {
        self.drops
    }

    /// How the last call that waits ended, if it did.
    pub(super) fn waiting_end(&self) -> Option<CallEnd> {
        if let Some(Waiting::End(end)) = self.waiting.last() { Some(*end) } else { None }
    }

    /// The name of the call that waits, if there is one.
    pub(super) fn waiting_name(&self) -> Option<&str> {
        self.waiting.iter().rev().find_map(|waiting| match waiting {
            Waiting::Start { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether a waiting call has ended.
    pub(super) fn has_end(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting, Waiting::End(_)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn take(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }
}
