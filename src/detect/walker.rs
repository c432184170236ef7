//! [`Walk`]: the trait of everything that reads a call; [`Walker`]: the driver for all of them.
//!
//! A walk decides on the text alone. Each step takes as much as is certain and leaves the rest, which it sees
//! again together with the text after it. The driver holds that rest and joins it with the next piece, so a
//! walk never knows where a piece ends. The output therefore does not depend on the cuts: a test below checks
//! it for a toy walk, and the laws check it for all formats.
//!
//! The driver also tracks whether a call is open, since it sees each start, and only the driver ends calls:
//! complete where a step says so, or as the walk decides where the text stops.

use std::fmt::Debug;

use super::{
    dsl::DslWalk,
    elements::ElementsWalk,
    envelope::{CallRules, Piece},
    fence::Fence,
    header::HeaderWalk,
    params::ParamsWalk,
    pythonic::PythonWalk,
    react::ReactWalk,
    string_fast_path::StringFastPath,
    text::{append, boundary_from, head, tail},
};
use crate::{
    event::CallEnd,
    format::{CallBody, Calls},
    wire::json::Scanner,
};

/// Receives the pieces of calls.
pub(super) type Out<'o> = dyn FnMut(Piece<'_>) + 'o;

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// This many bytes have been read; 0 if only the state changed.
    Took(usize),
    /// The meaning of the text depends on what follows. The step is repeated with more text.
    Hold,
    /// This many bytes have been read. If a call was open, it is complete. Everything read is certain, unless
    /// the calls of this container wait for each other.
    Whole(usize),
    /// As `Whole`, but certain in any case.
    Certain(usize),
    /// The walk ends after this many bytes. If a call was open, it is complete.
    End(usize),
    /// As `End`, and the model invented the rest of the message.
    EndMessage(usize),
    /// As `Certain`, but an open call is cut off: it cannot become complete.
    Cut(usize),
    /// This many bytes have been read. What follows them cannot continue the walk.
    Stop(usize),
}

impl Step {
    /// The same step, with `length` applied to the number of bytes.
    pub(super) fn map(self, length: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Took(len) => Self::Took(length(len)),
            Self::Hold => Self::Hold,
            Self::Whole(len) => Self::Whole(length(len)),
            Self::Certain(len) => Self::Certain(length(len)),
            Self::End(len) => Self::End(length(len)),
            Self::EndMessage(len) => Self::EndMessage(length(len)),
            Self::Cut(len) => Self::Cut(length(len)),
            Self::Stop(len) => Self::Stop(length(len)),
        }
    }
}

/// Why [`Walker::feed`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// All text was taken.
    More,
    /// Everything up to here is certain, unless calls wait for each other.
    Whole,
    /// Everything up to here is certain.
    Certain,
    /// The walk has ended.
    End,
    /// The walk has ended, and so has the message.
    EndMessage,
    /// A call was cut off. Everything up to here is certain if the call has been sent.
    Cut,
    /// What follows cannot continue the walk.
    Stop,
}

/// Reads one call, or a value that holds several.
pub(super) trait Walk: Debug + Send {
    /// Reads on from the beginning of `text`, which is not empty. Pieces go to `out` in order: `Start` when
    /// the call is certain, then `Arguments` as they arrive. The driver adds `End`.
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step;

    /// The maximum number of bytes that may be held. A step sees at most one byte more, so that it decides
    /// the same whether it waits or not.
    fn bound(&self) -> usize {
        usize::MAX
    }

    /// The text stops inside an open call, after `held`, which no step has taken. `stopped`: the model
    /// finished. Writes what is provably missing, and returns whether the call is complete with that.
    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool;

    /// The argument string that the walk is in, if all of its text is sent as it arrives.
    fn string(&self) -> Option<StringFastPath> {
        None
    }

    /// Bytes that the walk holds in addition to the source.
    fn kept(&self) -> usize {
        0
    }

    /// Whether the last text read belongs to a call that has started.
    fn is_in_call(&self) -> bool {
        false
    }

    /// Whether a call that has not started would start if the text stopped here.
    fn starts_at_end(&self) -> bool {
        false
    }

    /// Whether the open call ends where the text does, so that nothing is missing there.
    fn ends_with_text(&self) -> bool {
        false
    }

    /// The last step stopped before `rest`; `open`: inside a call. Returns whether the walk continues in
    /// another state.
    fn recover(&mut self, _open: bool, _rest: &str) -> bool {
        false
    }

    /// The text stops outside any call, after `held`. Returns whether everything read since the last certain
    /// point has a meaning, so that none of it is text.
    fn ends_outside(&mut self, _held: &str, _out: &mut Out<'_>) -> bool {
        false
    }

    /// The context of the text after the point where the walk stopped. `cut`: in the middle of a call.
    fn surroundings(&mut self, cut: bool) -> Surroundings {
        if cut { Surroundings::Behind } else { Surroundings::Prose }
    }
}

/// The context of the text after a failed container.
#[derive(Debug)]
pub(super) enum Surroundings {
    Prose,
    /// Prose right after a container of calls.
    Behind,
    /// A fence that is not searched.
    Fence(Fence),
    /// A JSON value that is not a call.
    Json(Scanner),
}

/// The walk for one call of `calls`, starting after `open`, which is given as it was written.
pub(super) fn body(calls: &'static Calls, open: &str, rules: &CallRules<'_>) -> Box<dyn Walk> {
    match &calls.body {
        CallBody::Header(header) => Box::new(HeaderWalk::new(header, rules)),
        CallBody::Python(python) => Box::new(PythonWalk::new(python, rules)),
        CallBody::Dsl { quote } => Box::new(DslWalk::new(quote, rules)),
        CallBody::React => Box::new(ReactWalk::new(rules)),
        CallBody::Params(params) => Box::new(ParamsWalk::new(calls, params, rules)),
        CallBody::Elements(elements) => Box::new(ElementsWalk::new(calls, elements, open, rules)),
    }
}

/// A step of `walk` that sees at most one byte more than the walk may hold, and stops if that does not decide
/// it.
pub(super) fn step(walk: &mut dyn Walk, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
    let bound = walk.bound();
    let seen = bounded(text, bound);
    match walk.step(seen, rules, out) {
        Step::Hold if seen.len() > bound => Step::Stop(0),
        step => step,
    }
}

/// Drives a walk, and holds the text that it has not taken yet.
#[derive(Debug)]
pub(super) struct Walker {
    walk: Box<dyn Walk>,
    /// The part of the text fed that no step has taken.
    held: String,
    open: bool,
}

impl Walker {
    /// Drives `walk`, beginning with the text `held`.
    pub(super) fn new(walk: impl Walk + 'static, held: &str) -> Self {
        Self { walk: Box::new(walk), held: held.to_owned(), open: false }
    }

    /// Reads the next piece. Returns how much of `text` was taken, and why it stopped.
    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> (usize, Parsed) {
        let before = self.held.len();
        if before == 0 {
            let (at, parsed) = self.run(text, rules, out);
            if parsed != Parsed::More {
                return (at, parsed);
            }
            self.held.push_str(tail(text, at));
            return (text.len(), parsed);
        }
        append(&mut self.held, text);
        let joined = std::mem::take(&mut self.held);
        let (at, parsed) = self.run(&joined, rules, out);
        self.held = joined;
        if parsed != Parsed::More {
            // The new text stays with the caller from here on; older text stays held.
            self.held.truncate(before);
        }
        self.held.drain(..at.min(self.held.len()));
        let taken = if parsed == Parsed::More { text.len() } else { at.saturating_sub(before) };
        (taken, parsed)
    }

    /// Steps through `text` as far as it is decided.
    fn run(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> (usize, Parsed) {
        let Self { walk, open, .. } = self;
        let mut at = 0;
        while at < text.len() {
            let step = step(walk.as_mut(), tail(text, at), rules, &mut |piece| {
                *open |= matches!(piece, Piece::Start { .. });
                out(piece);
            });
            let (len, parsed) = match step {
                Step::Took(len) => {
                    at += len;
                    continue;
                }
                Step::Hold => return (at, Parsed::More),
                Step::Stop(len) if walk.recover(*open, tail(text, at + len)) => {
                    at += len;
                    continue;
                }
                Step::Stop(len) => return (at + len, Parsed::Stop),
                Step::Cut(len) if std::mem::take(open) => {
                    out(Piece::End(CallEnd::Cut));
                    (len, Parsed::Cut)
                }
                Step::Whole(len) => (len, Parsed::Whole),
                Step::Certain(len) | Step::Cut(len) => (len, Parsed::Certain),
                Step::End(len) => (len, Parsed::End),
                Step::EndMessage(len) => (len, Parsed::EndMessage),
            };
            if std::mem::take(open) {
                out(Piece::End(CallEnd::Complete));
            }
            return (at + len, parsed);
        }
        (at, Parsed::More)
    }

    /// The text stops here; `None` if no call was open. `stopped`: the model finished.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut Out<'_>) -> Option<CallEnd> {
        if !self.stops_open() {
            return None;
        }
        self.open = false;
        let whole = self.walk.close(&std::mem::take(&mut self.held), stopped, out);
        let end = if whole { CallEnd::Complete } else { CallEnd::Cut };
        out(Piece::End(end));
        Some(end)
    }

    /// Whether a call has started and has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a call would be open if the text stopped here.
    pub(super) fn stops_open(&self) -> bool {
        self.open || self.walk.starts_at_end()
    }

    /// See [`Walk::ends_outside`].
    pub(super) fn ends_outside(&mut self, out: &mut Out<'_>) -> bool {
        self.walk.ends_outside(&self.held, out)
    }

    /// See [`Walk::ends_with_text`].
    pub(super) fn ends_with_text(&self) -> bool {
        self.walk.ends_with_text()
    }

    /// See [`Walk::surroundings`].
    pub(super) fn surroundings(&mut self, cut: bool) -> Surroundings {
        self.walk.surroundings(cut)
    }

    /// The fast path for the argument string being streamed, if there is one.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        if self.open && self.held.is_empty() { self.walk.string() } else { None }
    }

    /// Bytes held in addition to the source.
    pub(super) fn kept(&self) -> usize {
        self.walk.kept()
    }

    /// How many of the last bytes taken are undecided, and not part of a call that has ended or failed.
    pub(super) fn undecided(&self) -> usize {
        self.held.len()
    }
}

/// `text`, cut to just over `most` bytes.
pub(super) fn bounded(text: &str, most: usize) -> &str {
    if text.len() <= most { text } else { head(text, boundary_from(text, most.saturating_add(1))) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::DeclaredTools;

    /// Calls of the form `name((text)`, possibly several in a row: `);` ends one, `).` the last, `))` is a
    /// bracket in the text.
    #[derive(Debug, Default)]
    struct Toy {
        inside: bool,
    }

    impl Walk for Toy {
        fn step(&mut self, text: &str, _rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
            if !self.inside {
                let Some(at) = text.find("((") else { return Step::Hold };
                out(Piece::Start { name: head(text, at), id: "" });
                self.inside = true;
                return Step::Took(at + 2);
            }
            let run = text.find(')').unwrap_or(text.len());
            if run > 0 {
                out(Piece::Arguments(head(text, run)));
                return Step::Took(run);
            }
            match text.as_bytes().get(1) {
                None => Step::Hold,
                Some(b')') => {
                    out(Piece::Arguments(")"));
                    Step::Took(2)
                }
                Some(b';') => {
                    self.inside = false;
                    Step::Whole(2)
                }
                Some(b'.') => Step::End(2),
                Some(_) => Step::Stop(1),
            }
        }

        fn bound(&self) -> usize {
            if self.inside { usize::MAX } else { 12 }
        }

        fn close(&mut self, held: &str, stopped: bool, _out: &mut Out<'_>) -> bool {
            stopped && held == ")"
        }
    }

    /// The output for `pieces`, and the text that the walk has not taken.
    fn walked(pieces: &[String]) -> (String, String) {
        let tools = DeclaredTools::default();
        let rules = CallRules::lenient(&tools);
        let (mut walker, mut seen) = (Walker::new(Toy::default(), ""), String::new());
        let mut out = |piece: Piece<'_>| match piece {
            Piece::Start { name, .. } => seen.push_str(&format!("{name}[")),
            Piece::Arguments(text) => seen.push_str(text),
            Piece::End(end) => seen.push_str(if end == CallEnd::Complete { "]" } else { "…" }),
            Piece::Framed | Piece::Said(..) => {}
        };
        for (at, piece) in pieces.iter().enumerate() {
            let mut rest = piece.as_str();
            while !rest.is_empty() {
                let (taken, parsed) = walker.feed(rest, &rules, &mut out);
                rest = tail(rest, taken);
                if matches!(parsed, Parsed::End | Parsed::EndMessage | Parsed::Stop) {
                    let left = format!("{}{rest}{}", walker.held, pieces[at + 1..].concat());
                    walker.finish(false, &mut out);
                    return (seen, left);
                }
            }
        }
        let left = walker.held.clone();
        walker.finish(true, &mut out);
        (seen, left)
    }

    proptest! {
        #[test]
        fn walk_output_does_not_depend_on_cuts(
            pieces in prop::collection::vec("[a(é]{0,3}(\\(\\()?[a);.]{0,3}", 0..8),
        ) {
            let whole = walked(&[pieces.concat()]);
            prop_assert_eq!(walked(&pieces), whole.clone());
            let characters: Vec<String> = pieces.concat().chars().map(String::from).collect();
            prop_assert_eq!(walked(&characters), whole);
        }
    }
}
