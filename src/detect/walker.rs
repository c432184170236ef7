//! [`Walk`]: the contract of everything that reads a call; [`Walker`]: the one driver behind it.
//!
//! A walk decides on the text alone. Each step takes as much as is certain; what is not certain it leaves, and sees it
//! again with what follows. The driver holds that text and joins it with the next piece, so a walk never knows where a
//! piece ends. From this follows that what comes out does not depend on the cuts: a test below proves it for a toy walk,
//! and the laws for all formats.
//!
//! The driver also knows whether a call is open, since it sees each start pass, and it alone ends calls: whole where a
//! step says so, and where the text stops as the walk says.

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

/// Where the pieces of calls go.
pub(super) type Out<'o> = dyn FnMut(Piece<'_>) + 'o;

/// What one step made of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// This many bytes have been read; 0 if only the state changed.
    Took(usize),
    /// What the text begins with depends on what follows. The text is seen again, with more behind it.
    Hold,
    /// This many bytes have been read. If a call was open, it is whole. All of it is certain, unless the calls of this
    /// container wait for each other.
    Whole(usize),
    /// As `Whole`, and all of it is certain even so.
    Certain(usize),
    /// The walk ends behind this many bytes. If a call was open, it is whole.
    End(usize),
    /// As `End`, and the rest of the message was made up by the model.
    EndMessage(usize),
    /// This many bytes have been read. What follows them cannot continue the walk.
    Stop(usize),
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
    /// What follows cannot continue the walk.
    Stop,
}

/// Reads one call, or a value that holds several.
pub(super) trait Walk: Debug + Send {
    /// Reads on at the beginning of `text`, which is not empty. Pieces go to `out` in order: `Start` when the call is
    /// certain, then `Arguments` as they come. The driver adds `End`.
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step;

    /// The most bytes that may be held. A step sees no more than one byte beyond, so that it decides the same whether
    /// it waits or not.
    fn bound(&self) -> usize {
        usize::MAX
    }

    /// The text stops inside an open call, behind `held`, which no step has taken. `stopped`: because the model was
    /// done. Writes what is provably missing, and returns whether the call is whole with that.
    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool;

    /// The string of arguments that the walk is in, if all of its text goes out as it comes.
    fn string(&self) -> Option<StringFastPath> {
        None
    }

    /// Bytes that the walk keeps besides the source.
    fn kept(&self) -> usize {
        0
    }

    /// What was read last belongs to a call that has started.
    fn is_in_call(&self) -> bool {
        false
    }

    /// A call that has not started would start if the text stopped here.
    fn starts_at_end(&self) -> bool {
        false
    }

    /// The last step stopped before `rest`, in an `open` call or not. Whether the walk goes on all the same, in another
    /// state.
    fn recover(&mut self, _open: bool, _rest: &str) -> bool {
        false
    }

    /// The text stops outside any call, behind `held`: whether what was read since the last certain point is part of
    /// calls.
    fn ends_with_calls(&self, _held: &str) -> bool {
        false
    }

    /// What the text is in behind the point where the walk stopped; `cut`: in the middle of a call.
    fn surroundings(&mut self, cut: bool) -> Surroundings {
        if cut { Surroundings::Behind } else { Surroundings::Prose }
    }
}

/// What the text behind a failed container is in.
#[derive(Debug)]
pub(super) enum Surroundings {
    Prose,
    /// Prose right behind a container of calls.
    Behind,
    /// A fence that is not searched.
    Fence(Fence),
    /// A JSON value that is no call.
    Json(Scanner),
}

/// The walk of one call of `calls`, from behind `open`, as it was written.
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

/// A walk, and the text that it has not taken yet.
#[derive(Debug)]
pub(super) struct Walker {
    walk: Box<dyn Walk>,
    /// The end of what was fed, as far as no step has taken it.
    held: String,
    open: bool,
    found: bool,
}

impl Walker {
    pub(super) fn of(walk: impl Walk + 'static) -> Self {
        Self { walk: Box::new(walk), held: String::new(), open: false, found: false }
    }

    /// Reads on: how much of `text` was taken, and why not more.
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
        let Self { walk, open, found, .. } = self;
        let mut at = 0;
        while at < text.len() {
            let bound = walk.bound();
            let seen = bounded(tail(text, at), bound);
            let step = walk.step(seen, rules, &mut |piece| {
                if let Piece::Start { .. } = piece {
                    (*open, *found) = (true, true);
                }
                out(piece);
            });
            let (len, parsed) = match step {
                Step::Took(len) => {
                    at += len;
                    continue;
                }
                Step::Hold if seen.len() <= bound => return (at, Parsed::More),
                Step::Hold if walk.recover(*open, tail(text, at)) => continue,
                Step::Hold => return (at, Parsed::Stop),
                Step::Stop(len) if walk.recover(*open, tail(text, at + len)) => {
                    at += len;
                    continue;
                }
                Step::Stop(len) => return (at + len, Parsed::Stop),
                Step::Whole(len) => (len, Parsed::Whole),
                Step::Certain(len) => (len, Parsed::Certain),
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

    /// The text stops here; `None` if no call was open. `stopped`: because the model was done.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut Out<'_>) -> Option<CallEnd> {
        if !self.stops_open() {
            return None;
        }
        self.found = true;
        self.open = false;
        let whole = self.walk.close(&std::mem::take(&mut self.held), stopped, out);
        let end = if whole { CallEnd::Complete } else { CallEnd::Cut };
        out(Piece::End(end));
        Some(end)
    }

    /// A call has started and has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// A call has started.
    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// What was read last belongs to a call that has started.
    pub(super) fn is_in_call(&self) -> bool {
        self.walk.is_in_call()
    }

    /// If the text stopped here, it would stop in a call.
    pub(super) fn stops_in_call(&self) -> bool {
        self.walk.is_in_call() || self.walk.starts_at_end()
    }

    /// If the text stopped here, a call would be open.
    pub(super) fn stops_open(&self) -> bool {
        self.open || self.walk.starts_at_end()
    }

    /// The text stops outside any call: whether what was read since the last certain point is part of calls.
    pub(super) fn ends_with_calls(&self) -> bool {
        self.walk.ends_with_calls(&self.held)
    }

    /// See [`Walk::surroundings`].
    pub(super) fn surroundings(&mut self, cut: bool) -> Surroundings {
        self.walk.surroundings(cut)
    }

    /// The string of arguments that goes out as it comes.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        if self.open && self.held.is_empty() { self.walk.string() } else { None }
    }

    /// Bytes kept besides the source.
    pub(super) fn kept(&self) -> usize {
        self.walk.kept()
    }

    /// How many of the last bytes that were taken are undecided, and no part of a call that has ended or failed.
    pub(super) fn undecided(&self) -> usize {
        self.held.len()
    }
}

/// As much of `text` as shows that there are more than `most` bytes.
pub(super) fn bounded(text: &str, most: usize) -> &str {
    if text.len() <= most { text } else { head(text, boundary_from(text, most.saturating_add(1))) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::DeclaredTools;

    /// Calls of the form `name((text)`, of which several may follow each other: `);` ends one, `).` the last, `))` is a
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

    /// What comes out of `pieces`, and the text that the walk has not taken.
    fn walked(pieces: &[String]) -> (String, String) {
        let tools = DeclaredTools::default();
        let rules = CallRules::lenient(&tools);
        let (mut walker, mut seen) = (Walker::of(Toy::default()), String::new());
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
        fn what_a_walk_sees_does_not_depend_on_cuts(
            pieces in prop::collection::vec("[a(é]{0,3}(\\(\\()?[a);.]{0,3}", 0..8),
        ) {
            let whole = walked(&[pieces.concat()]);
            prop_assert_eq!(walked(&pieces), whole.clone());
            let characters: Vec<String> = pieces.concat().chars().map(String::from).collect();
            prop_assert_eq!(walked(&characters), whole);
        }
    }
}
