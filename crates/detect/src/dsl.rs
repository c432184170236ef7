//! [`DslWalk`]: reads a call in Gemma's notation, `NAME{key:<|"|>text<|"|>,n:3}`, starting after
//! `call:`.

use super::{
    broken::Rest,
    literal::{Fed, Literal, Notation},
    string_fast_path::StringFastPath,
    walk::{CallRules, Out, Piece, Step, Walk},
};

#[derive(Debug)]
pub(super) struct DslWalk {
    name: String,
    arguments: Literal,
    started: bool,
}

impl DslWalk {
    /// `quote` is the marker on both sides of a string.
    pub(super) fn new(quote: &'static str, rules: &CallRules<'_>) -> Self {
        let arguments = Literal::new(Notation::Delimited(quote), rules.max_depth, rules.max_hold);
        Self { name: String::new(), arguments, started: false }
    }

    fn name(&mut self, character: char, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if character == '{' {
            let Some(name) = rules.name(self.name.trim()) else { return Step::Stop(0) };
            out(Piece::Start { name, id: "" });
            self.started = true;
            return Step::Took(0);
        }
        let legal = character.is_alphanumeric() || "_-.:/ ".contains(character);
        if !legal || self.name.len() >= rules.max_markup {
            return Step::Stop(0);
        }
        self.name.push(character);
        Step::Took(character.len_utf8())
    }
}

impl Walk for DslWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if !self.started {
            return self.name(text.chars().next().unwrap_or_default(), rules, out);
        }
        match self.arguments.feed(text, &mut |text: &str| out(Piece::Arguments(text))) {
            Fed::More => Step::Took(text.len()),
            Fed::Hold(0) => Step::Hold,
            Fed::Hold(len) => Step::Took(len),
            Fed::Done(len) => Step::End(len),
            Fed::Fault(len) => Step::Stop(len),
        }
    }

    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        stopped && self.arguments.close_last(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        self.arguments.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        let brackets = Some(self.arguments.brackets(&[]).without_quotes());
        Rest { brackets, ..Rest::default() }
    }

    fn string(&self) -> Option<StringFastPath> {
        self.arguments.flow()
    }

    fn kept(&self) -> usize {
        self.arguments.kept()
    }
}
