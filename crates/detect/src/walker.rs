//! [`Walker`]: drives every [`Walk`], and chooses the walk for a format.
//!
//! The driver holds the text that a step leaves, and joins it with the next piece. The output therefore does not
//! depend on how the text is split. A test below checks this for a toy walk, and the laws check it for all formats.
//!
//! The driver sees the start of each call, so it also knows whether a call is open. Only the driver ends calls: as
//! complete if a step says so, and at the end of the text in the way that the walk decides.

use super::{
    attributes::AttributesWalk,
    dsl::DslWalk,
    elements::ElementsWalk,
    envelope::Envelope,
    header::HeaderWalk,
    params::ParamsWalk,
    pythonic::PythonWalk,
    raw::RawWalk,
    react::ReactWalk,
    string_fast_path::StringFastPath,
    text::{append, tail},
    walk::{CallRules, Out, Piece, Step, Surroundings, Walk, step},
};
use crate::{
    event::CallEnd,
    format::{CallBody, Calls},
};

/// Why [`Walker::feed`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// All of the text was read, and the walk continues.
    More,
    /// Everything up to here is certain, unless calls wait for each other.
    Whole,
    /// Everything up to here is certain.
    Certain,
    End,
    EndMessage,
    /// A call was broken. Everything up to here is certain if the call has been sent.
    Broken,
    /// The text that follows cannot continue the walk.
    Stop,
}

/// Returns the walk for one call of `calls`, which starts after the opener, written as `open`.
pub(super) fn body(calls: &'static Calls, open: &str, rules: &CallRules<'_>) -> Box<dyn Walk> {
    match &calls.body {
        CallBody::Header(header) => Box::new(HeaderWalk::new(header, rules)),
        CallBody::Python(python) => Box::new(PythonWalk::new(python, rules)),
        CallBody::Dsl { quote } => Box::new(DslWalk::new(quote, rules)),
        CallBody::Dictionaries => Box::new(Envelope::of_dictionaries(rules)),
        CallBody::Raw(name_end, close) => Box::new(RawWalk::new(name_end, close, rules)),
        CallBody::Attributes { end } => Box::new(AttributesWalk::new(end, rules)),
        CallBody::React => Box::new(ReactWalk::new(rules)),
        CallBody::Params(params) => Box::new(ParamsWalk::new(calls, params, rules)),
        CallBody::Elements(elements) => Box::new(ElementsWalk::new(calls, elements, open, rules)),
    }
}

/// Drives a walk, and holds the text that the walk has not taken yet.
#[derive(Debug)]
pub(super) struct Walker {
    walk: Box<dyn Walk>,
    /// The input that no step has taken yet.
    held: String,
    open: bool,
    /// Whether no arguments of the open call have been sent.
    bare: bool,
}

impl Walker {
    /// Drives `walk`, starting with the text `held`.
    pub(super) fn new(walk: impl Walk + 'static, held: &str) -> Self {
        Self { walk: Box::new(walk), held: held.to_owned(), open: false, bare: false }
    }

    /// Reads the next piece. Returns how much of `text` was read, and why reading stopped.
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
            // The caller keeps the new text after this point, and older text stays held.
            self.held.truncate(before);
        }
        self.held.drain(..at.min(self.held.len()));
        let taken = if parsed == Parsed::More { text.len() } else { at.saturating_sub(before) };
        (taken, parsed)
    }

    /// Steps through `text` up to the first undecided byte.
    fn run(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> (usize, Parsed) {
        let Self { walk, open, bare, .. } = self;
        let mut at = 0;
        while at < text.len() {
            let step = step(walk.as_mut(), tail(text, at), rules, &mut |piece| {
                match piece {
                    Piece::Start { .. } => (*open, *bare) = (true, true),
                    Piece::Arguments(text) => *bare &= text.is_empty(),
                    _ => {}
                }
                out(piece);
            });
            let (len, parsed) = match step {
                Step::Took(len) => {
                    at += len;
                    continue;
                }
                Step::Hold => return (at, Parsed::More),
                Step::Stop(len) if walk.recover(*open) => {
                    at += len;
                    continue;
                }
                Step::Stop(len) => return (at + len, Parsed::Stop),
                Step::Broken(len) if std::mem::take(open) => {
                    end_broken(*bare, out);
                    (len, Parsed::Broken)
                }
                Step::Whole(len) => (len, Parsed::Whole),
                Step::Certain(len) | Step::Broken(len) => (len, Parsed::Certain),
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

    /// Ends the text. Returns `None` if no call was open. `stopped` is set if the model stopped by itself.
    pub(super) fn finish(&mut self, stopped: bool, out: &mut Out<'_>) -> Option<CallEnd> {
        if !self.stops_open() {
            return None;
        }
        self.open = false;
        let held = std::mem::take(&mut self.held);
        if self.walk.is_broken() {
            let bare = &mut self.bare;
            self.walk.abandon(&mut |piece| {
                *bare &= !matches!(piece, Piece::Arguments(text) if !text.is_empty());
                out(piece);
            });
            end_broken(self.bare, out);
            return Some(CallEnd::Broken);
        }
        let whole = self.walk.close(&held, stopped, out);
        let end = if whole { CallEnd::Complete } else { CallEnd::Cut };
        out(Piece::End(end));
        Some(end)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a call would be open if the text ended here.
    pub(super) fn stops_open(&self) -> bool {
        self.open || self.walk.starts_at_end()
    }

    pub(super) fn ends_outside(&mut self, out: &mut Out<'_>) -> bool {
        self.walk.ends_outside(&self.held, out)
    }

    /// Whether the text ended inside a list of calls, after a call.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.open && self.walk.is_unfinished(&self.held)
    }

    /// Whether the text could only go on with another call or the end of their list, if a call has been sent.
    pub(super) fn is_in_list(&self) -> bool {
        !self.open && self.walk.is_in_list(&self.held)
    }

    pub(super) fn ends_with_text(&self) -> bool {
        self.walk.ends_with_text()
    }

    pub(super) fn surroundings(&mut self, cut: bool) -> Surroundings {
        self.walk.surroundings(cut)
    }

    /// The fast path for the argument string being streamed, if there is one.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        if self.open && self.held.is_empty() { self.walk.string() } else { None }
    }

    pub(super) fn has_text(&self) -> bool {
        self.walk.has_text()
    }

    pub(super) fn kept(&self) -> usize {
        self.walk.kept()
    }

    /// How many bytes at the end of the text read are undecided and not part of a call that has ended or failed.
    pub(super) fn undecided(&self) -> usize {
        self.held.len()
    }
}

/// Ends a broken call. Clients would take a call without any arguments for a complete one, so `bare` ones get a brace.
fn end_broken(bare: bool, out: &mut Out<'_>) {
    if bare {
        out(Piece::Arguments("{"));
    }
    out(Piece::End(CallEnd::Broken));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{text::head, tools::DeclaredTools};

    /// Calls of the form `name((text)`, possibly several in a row. `);` ends a call, `).` ends the last call, and
    /// `))` is a bracket in the text.
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

    /// Returns the output for `pieces`, and the text that the walk has not taken.
    fn walked(pieces: &[String]) -> (String, String) {
        let tools = DeclaredTools::default();
        let rules = CallRules::lenient(&tools);
        let (mut walker, mut seen) = (Walker::new(Toy::default(), ""), String::new());
        let mut out = |piece: Piece<'_>| match piece {
            Piece::Start { name, .. } => seen.push_str(&format!("{name}[")),
            Piece::Arguments(text) => seen.push_str(text),
            Piece::End(end) => seen.push_str(if end == CallEnd::Complete { "]" } else { "…" }),
            Piece::Framed | Piece::Said(..) | Piece::LeftOut(_) => {}
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
