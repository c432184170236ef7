//! [`BareText`]: plain text in place of a call's arguments.
//!
//! Models write `<function=calculator>sqrt(144)</function>` where the format expects `<parameter=expression>`. The
//! meaning is clear only if the tool has exactly one parameter, which is a string, and if the call is closed, so
//! the text is held until then. Markup that does not close the call shows that the text is not an argument.

use super::{
    pattern::Fit,
    text::{head, tail},
    walk::{CallRules, Out, Piece, Step},
};
use crate::wire::json::escape_str;

/// Text that may be the only argument of a call.
#[derive(Debug, Default)]
pub(super) struct BareText {
    key: String,
    /// How many bytes of the text are known not to contain the start of a closer.
    seen: usize,
    most: usize,
}

impl BareText {
    /// Starts the text of a call to the tool `name`. Returns `None` unless the tool takes exactly one string. If
    /// `certain` is set, the text can only belong to a call; otherwise it may be prose, so less of it is held.
    pub(super) fn new(name: &str, certain: bool, rules: &CallRules<'_>) -> Option<Self> {
        let key = rules.tools.only_string(name)?.to_owned();
        let most = if certain { rules.max_hold } else { rules.max_markup };
        Some(Self { key, seen: 0, most })
    }

    /// Continues with `text`, which is all of the bare text so far. `closer` matches the call's closers against
    /// the text that starts at a possible marker. Returns `Whole` once the complete call has been written with the
    /// given `name` and `id`.
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

/// Whether the text looks like a tag rather than an operator.
fn is_markup(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('<')
        && characters.next().is_some_and(|c| c.is_alphabetic() || matches!(c, '/' | '|' | '｜' | '!'))
}
