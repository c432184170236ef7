//! [`NamedJson`]: reads a call with its name in the header and JSON arguments.

use super::{Mark, mark, may_mend};
use crate::{
    body::{Fed, JsonBody},
    format::Channels,
    string_fast_path::StringFastPath,
    walk::{CallRules, Out, Piece, Step, Walk},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the arguments or, if there are none, an end marker.
    Begin,
    Arguments,
    /// The arguments ended too early. If only brackets are missing before a marker, they still count as complete.
    Broken,
}

#[derive(Debug)]
pub(super) struct NamedJson {
    channels: &'static Channels,
    name: String,
    at: At,
    body: JsonBody,
}

impl NamedJson {
    pub(super) fn new(channels: &'static Channels, name: &str, rules: &CallRules<'_>) -> Self {
        let body = JsonBody::new(rules.repair, rules.max_depth);
        Self { channels, name: name.to_owned(), at: At::Begin, body }
    }
}

impl Walk for NamedJson {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let mut arguments = |text: &str| out(Piece::Arguments(text));
        match self.at {
            At::Begin => {
                out(Piece::Start { name: &self.name, id: "" });
                self.at = At::Arguments;
                if text.starts_with('{') {
                    return Step::Took(0);
                }
                out(Piece::Arguments("{}"));
                Step::End(0)
            }
            At::Arguments => match self.body.feed(text, &mut arguments) {
                Fed::More => Step::Took(text.len()),
                Fed::Done(len) => Step::End(len),
                Fed::Fault(len) => {
                    self.at = At::Broken;
                    Step::Took(len)
                }
            },
            At::Broken => match mark(self.channels, text) {
                Mark::Begins => Step::Hold,
                Mark::End(_) | Mark::Open(_) if may_mend(rules) && self.body.close(&mut arguments) => {
                    Step::End(0)
                }
                _ => Step::Stop(0),
            },
        }
    }

    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        stopped && self.body.close(&mut |text: &str| out(Piece::Arguments(text)))
    }

    fn string(&self) -> Option<StringFastPath> {
        if self.at == At::Arguments { self.body.flow() } else { None }
    }

    fn is_in_call(&self) -> bool {
        self.at != At::Begin
    }
}
