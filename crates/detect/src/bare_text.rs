//! [`BareText`]: plain text instead of a call's arguments.
//!
//! Models write `<function=calculator>sqrt(144)</function>` where the grammar expects
//! `<parameter=expression>`. The meaning is certain only if the tool has exactly one parameter, which is a
//! string, and if the call is closed, so the complete text is held until then. Markup that does not close the
//! call shows that the text is not an argument.

use super::{
    pattern::Fit,
    text::{head, tail},
    walk::{CallRules, Out, Piece, Step},
};
use crate::wire::json::escape_str;

/// Text that may be a call's only argument.
#[derive(Debug, Default)]
pub(super) struct BareText {
    key: String,
    /// The first `seen` bytes of the text cannot contain the start of a closer.
    seen: usize,
    most: usize,
}

impl BareText {
    /// Starts the text of a call to the tool `name`; `None` unless the tool takes exactly one string.
    /// `certain`: only a call is possible here. Otherwise the text may be prose, and less of it is held.
    pub(super) fn new(name: &str, certain: bool, rules: &CallRules<'_>) -> Option<Self> {
        let key = rules.tools.only_string(name)?.to_owned();
        let most = if certain { rules.max_hold } else { rules.max_markup };
        Some(Self { key, seen: 0, most })
    }

    /// Continues with `text`, which begins where the bare text does. `closer` matches the text at a marker's
    /// first character against the call's closers. Returns `Whole` once the call has been written, with this
    /// `name` and `id`.
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
                // A lone `<` may still begin markup.
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

    /// Writes the call with the text as its argument.
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

/// Whether the text looks like a tag and not like an operator.
fn is_markup(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('<')
        && characters.next().is_some_and(|c| c.is_alphabetic() || matches!(c, '/' | '|' | '｜' | '!'))
}
