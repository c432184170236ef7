//! [`DslWalk`]: reads a call in Gemma's notation, `NAME{key:<|"|>text<|"|>,n:3}`, starting after
//! `call:`. Models also write the arguments as in Python, in round brackets.

use super::{
    broken::Rest,
    literal::{Fed, Literal, Notation},
    pythonic::PythonWalk,
    string_fast_path::StringFastPath,
    walk::{CallRules, Out, Piece, Step, Walk},
};

#[derive(Debug)]
pub(super) struct DslWalk {
    name: String,
    arguments: Literal,
    started: bool,
    /// The reader for arguments in Python syntax.
    python: Option<Box<PythonWalk>>,
}

impl DslWalk {
    /// `quote` is the marker on both sides of a string.
    pub(super) fn new(quote: &'static str, rules: &CallRules<'_>) -> Self {
        let arguments = Literal::new(Notation::Delimited(quote), rules.max_depth, rules.max_hold);
        Self { name: String::new(), arguments, started: false, python: None }
    }

    fn name(&mut self, character: char, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        if character == '(' {
            let Some(name) = rules.name(self.name.trim()) else { return Step::Stop(0) };
            self.python = Some(Box::new(PythonWalk::in_call(name, rules)));
            return Step::Took(1);
        }
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
        if let Some(python) = &mut self.python {
            return python.step(text, rules, out);
        }
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

    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        if let Some(python) = &mut self.python {
            return python.close(held, stopped, out);
        }
        stopped && self.arguments.close_last(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        if let Some(python) = &mut self.python {
            return python.mend(out);
        }
        self.arguments.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        if let Some(python) = &mut self.python {
            return python.breaks();
        }
        let brackets = Some(self.arguments.brackets(&[]).without_quotes());
        Rest { brackets, ..Rest::default() }
    }

    fn string(&self) -> Option<StringFastPath> {
        self.python.as_ref().map_or_else(|| self.arguments.flow(), |python| python.string())
    }

    fn kept(&self) -> usize {
        self.python.as_ref().map_or_else(|| self.arguments.kept(), |python| python.kept())
    }
}
