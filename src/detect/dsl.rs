//! [`DslWalk`]: a call in Gemma's notation: `NAME{key:<|"|>text<|"|>,n:3}`, from behind `call:`.

use super::{
    body::Fed,
    envelope::{CallRules, Parsed, Piece},
    literal::{Literal, Notation},
    string_fast_path::StringFastPath,
    text::tail,
};
use crate::event::CallEnd;

/// One call.
#[derive(Debug)]
pub(super) struct DslWalk {
    name: String,
    arguments: Literal,
    started: bool,
    ended: bool,
}

impl DslWalk {
    /// `quote`: what strings are put between.
    pub(super) fn new(quote: &'static str, rules: &CallRules<'_>) -> Self {
        let arguments = Literal::new(Notation::Delimited(quote), rules.max_depth, rules.max_hold);
        Self { name: String::new(), arguments, started: false, ended: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.started && !self.ended
    }

    /// In a string of arguments.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        if self.is_open() { self.arguments.flow() } else { None }
    }

    pub(super) fn found(&self) -> bool {
        self.started
    }

    pub(super) fn kept(&self) -> usize {
        self.arguments.kept()
    }

    pub(super) fn feed(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Parsed {
        let mut at = 0;
        while !self.started {
            let Some(character) = tail(text, at).chars().next() else { return Parsed::More };
            if character == '{' {
                let Some(name) = rules.name(self.name.trim()) else { return Parsed::Stop(at) };
                out(Piece::Start { name, id: "" });
                self.started = true;
                break;
            }
            let legal = character.is_alphanumeric() || "_-.:/ ".contains(character);
            if !legal || self.name.len() >= rules.max_markup {
                return Parsed::Stop(at);
            }
            self.name.push(character);
            at += character.len_utf8();
        }
        match self.arguments.feed(tail(text, at), &mut |text: &str| out(Piece::Arguments(text))) {
            Fed::More => Parsed::More,
            Fed::Done(len) => {
                self.ended = true;
                out(Piece::End(CallEnd::Complete));
                Parsed::End(at + len)
            }
            Fed::Fault(len) => Parsed::Stop(at + len),
        }
    }

    pub(super) fn finish(&mut self, stopped: bool, out: &mut impl FnMut(Piece<'_>)) -> Option<CallEnd> {
        if !self.is_open() {
            return None;
        }
        let whole = stopped && self.arguments.close(&mut |text: &str| out(Piece::Arguments(text)));
        let end = if whole { CallEnd::Complete } else { CallEnd::Cut };
        self.ended = true;
        out(Piece::End(end));
        Some(end)
    }
}
