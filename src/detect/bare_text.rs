//! [`BareText`]: a text in place of a call's arguments.
//!
//! Models write `<function=calculator>sqrt(144)</function>` where the grammar wants `<parameter=expression>`. What was
//! meant is certain only where the tool has one parameter, which is a string, and where the call is closed: till then
//! all of it is held. Markup that does not close the call shows that it was none.

use super::{
    envelope::{CallRules, Piece},
    pattern::Fit,
    text::{head, tail},
    typed::escape,
};
use crate::event::CallEnd;

/// How far the text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// This many bytes are text; what follows may close the call.
    More(usize),
    /// The closer begins after this many bytes.
    End(usize),
    /// This is no such text.
    Foreign,
}

/// A text that may be a call's only argument.
#[derive(Debug, Default)]
pub(super) struct BareText {
    key: String,
    text: String,
    most: usize,
}

impl BareText {
    /// The text of a call to the tool `name`; `None` if it takes anything but one string. `certain`: only a call
    /// stands here; else prose may, and less of it is held.
    pub(super) fn new(name: &str, certain: bool, rules: &CallRules<'_>) -> Option<Self> {
        let key = rules.tools.only_string(name)?.to_owned();
        let most = if certain { rules.max_hold } else { rules.max_markup };
        Some(Self { key, text: String::new(), most })
    }

    /// What has been read. If it is no such text, something else may begin in it.
    pub(super) fn source(&self) -> &str {
        &self.text
    }

    /// Adds what was held behind it, where both are no such text.
    pub(super) fn give_back(&mut self, held: &str) {
        self.text.push_str(held);
    }

    /// Reads on; `closer`: how what begins with a marker's first character stands to the call's closers.
    pub(super) fn read(&mut self, text: &str, closer: impl Fn(&str) -> Fit) -> Reached {
        let mut at = 0;
        while let Some(found) = tail(text, at).find(['<', ']']) {
            at += found;
            match closer(tail(text, at)) {
                Fit::Whole(_) => return self.take(head(text, at), Reached::End(at)),
                Fit::Begins => return self.take(head(text, at), Reached::More(at)),
                Fit::No if is_markup(tail(text, at)) => return Reached::Foreign,
                Fit::No => at += 1,
            }
        }
        self.take(text, Reached::More(text.len()))
    }

    fn take(&mut self, text: &str, reached: Reached) -> Reached {
        if self.text.len() + text.len() > self.most {
            return Reached::Foreign;
        }
        self.text.push_str(text);
        reached
    }

    /// Sends the call that the text is the argument of.
    pub(super) fn call(&self, name: &str, id: &str, out: &mut impl FnMut(Piece<'_>)) {
        let mut json = String::from("{\"");
        escape(&self.key, &mut json);
        json.push_str("\": \"");
        escape(self.text.trim(), &mut json);
        json.push_str("\"}");
        out(Piece::Start { name, id });
        out(Piece::Arguments(&json));
        out(Piece::End(CallEnd::Complete));
    }
}

/// Something like a tag, not an operator.
fn is_markup(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('<')
        && characters.next().is_some_and(|c| c.is_alphabetic() || matches!(c, '/' | '|' | '｜' | '!'))
}
