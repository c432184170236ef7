//! [`NamedJson`]: reads a call with its name in the header and JSON arguments.

use crate::{
    body::{Fed, JsonBody},
    broken::Rest,
    string_fast_path::StringFastPath,
    walk::{CallRules, Out, Piece, Step, Walk},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the arguments or, if there are none, an end marker.
    Begin,
    Arguments,
}

#[derive(Debug)]
pub(super) struct NamedJson {
    name: String,
    at: At,
    body: JsonBody,
}

impl NamedJson {
    pub(super) fn new(name: &str, rules: &CallRules<'_>) -> Self {
        let body = JsonBody::new(rules.repair, rules.max_depth);
        Self { name: name.to_owned(), at: At::Begin, body }
    }
}

impl Walk for NamedJson {
    fn step(&mut self, text: &str, _rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        match self.at {
            At::Begin => {
                out(Piece::Start { name: &self.name, id: "" });
                self.at = At::Arguments;
                match text.bytes().next() {
                    Some(b'{') => return Step::Took(0),
                    Some(b'<') => {}
                    _ => return Step::Stop(0),
                }
                out(Piece::Arguments("{}"));
                Step::End(0)
            }
            At::Arguments => match self.body.feed(text, &mut |text: &str| out(Piece::Arguments(text))) {
                Fed::More => Step::Took(text.len()),
                Fed::Done(len) => Step::End(len),
                Fed::Fault(len) => Step::Stop(len),
            },
        }
    }

    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        stopped && self.body.close_last(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn mend(&mut self, out: &mut Out<'_>) -> bool {
        self.body.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn breaks(&mut self) -> Rest {
        self.body.breaks()
    }

    fn string(&self) -> Option<StringFastPath> {
        if self.at == At::Arguments { self.body.flow() } else { None }
    }

    fn is_in_call(&self) -> bool {
        self.at != At::Begin
    }
}
