//! [`BareText`]: a text in place of a call's arguments.
//!
//! Models write `<function=calculator>sqrt(144)</function>` where the grammar wants `<parameter=expression>`. What was
//! meant is certain only if the tool has one parameter, which is a string, and if the call is closed: until then all of
//! the text is held. Markup that does not close the call shows that this is no such text.

use super::{
    envelope::{CallRules, Piece},
    pattern::Fit,
    text::{head, tail},
    walker::{Out, Step},
};
use crate::wire::json::escape_str;

/// A text that may be a call's only argument.
#[derive(Debug, Default)]
pub(super) struct BareText {
    key: String,
    /// This many bytes of the text cannot be a closer.
    seen: usize,
    most: usize,
}

impl BareText {
    /// The text of a call to the tool `name`; `None` if the tool takes anything but one string. `certain`: only a call
    /// can stand here; otherwise prose may, and less of it is held.
    pub(super) fn new(name: &str, certain: bool, rules: &CallRules<'_>) -> Option<Self> {
        let key = rules.tools.only_string(name)?.to_owned();
        let most = if certain { rules.max_hold } else { rules.max_markup };
        Some(Self { key, seen: 0, most })
    }

    /// Reads on in `text`, which begins where the bare text does. `closer`: how what begins at a marker's first
    /// character matches the call's closers. `Whole`: the call of that `name` and `id` has been written.
    pub(super) fn step(
        &mut self,
        text: &str,
        (name, id): (&str, &str),
        closer: impl Fn(&str) -> Fit,
        out: &mut Out<'_>,
    ) -> Step {
        let fits = |at: usize| if at > self.most { Step::Stop(0) } else { Step::Hold };
        let mut at = self.seen;
        while let Some(found) = tail(text, at).find(['<', ']']) {
            at += found;
            match closer(tail(text, at)) {
                Fit::Whole(_) if at <= self.most => {
                    self.call(head(text, at), (name, id), out);
                    return Step::Whole(at);
                }
                Fit::Whole(_) => return Step::Stop(0),
                // Of a sign alone it is not known whether markup begins with it.
                fit if fit == Fit::Begins || tail(text, at) == "<" => {
                    let step = fits(at);
                    self.seen = at;
                    return step;
                }
                Fit::No if is_markup(tail(text, at)) => return Step::Stop(0),
                _ => at += 1,
            }
        }
        let step = fits(text.len());
        self.seen = text.len();
        step
    }

    /// Writes the call that the text is the argument of.
    fn call(&self, text: &str, (name, id): (&str, &str), out: &mut Out<'_>) {
        let mut json = String::from("{\"");
        escape_str(&mut json, &self.key);
        json.push_str("\": \"");
        escape_str(&mut json, text.trim());
        json.push_str("\"}");
        out(Piece::Start { name, id });
        out(Piece::Arguments(&json));
    }
}

/// Something like a tag, not an operator.
fn is_markup(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('<')
        && characters.next().is_some_and(|c| c.is_alphabetic() || matches!(c, '/' | '|' | '｜' | '!'))
}
