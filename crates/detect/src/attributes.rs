//! [`AttributesWalk`]: reads a call whose arguments are `key=value`, separated by blanks, such as
//! `"get_weather" city="Paris"]`.
//!
//! Models imitate these calls, so the opener may be ordinary text: the name must be declared, and everything is
//! held until the closer. A value is in quotes or ends at the next blank, and the schema decides its type.

use super::{
    pattern::{Fit, fit_any},
    string_fast_path::StringFastPath,
    tag::is_name,
    text::{head, tail},
    typed_value::{Mend, TypedValue},
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::wire::json::escape_str;

/// One word of the call: text that may have a key before it.
#[derive(Debug)]
struct Word {
    key: String,
    value: String,
}

/// What the text is so far.
enum Read {
    /// The words of a complete call, and its length.
    Whole(Vec<Word>, usize),
    More,
    /// Not a call.
    Broken,
}

#[derive(Debug)]
pub(super) struct AttributesWalk {
    end: &'static [&'static str],
    max_markup: usize,
}

impl AttributesWalk {
    pub(super) fn new(end: &'static [&'static str], rules: &CallRules<'_>) -> Self {
        Self { end, max_markup: rules.max_markup }
    }

    fn read(&self, text: &str, rules: &CallRules<'_>) -> Read {
        let (mut words, mut at) = (Vec::new(), 0);
        loop {
            let rest = tail(text, at);
            at += rest.len() - rest.trim_start().len();
            let rest = tail(text, at);
            match fit_any(self.end.iter().copied(), rest) {
                Fit::Whole(len) => return Read::Whole(words, at + len),
                Fit::Begins => return Read::More,
                Fit::No => {}
            }
            let key = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (key, value) = match tail(rest, key).strip_prefix('=') {
                Some(value) if !words.is_empty() && key > 0 => (head(rest, key), value),
                _ if key == rest.len() => return Read::More,
                _ if words.is_empty() => ("", rest),
                _ => return Read::Broken,
            };
            let Some((value, len)) = self.value(value) else { return Read::More };
            if words.is_empty() && rules.tools.resolve(&value).is_none() {
                return Read::Broken;
            }
            at += key.len() + usize::from(!key.is_empty()) + len;
            words.push(Word { key: key.to_owned(), value });
        }
    }

    /// Reads the value at the start of `text`. Returns it and its length, or `None` if it does not end in
    /// `text`.
    fn value(&self, text: &str) -> Option<(String, usize)> {
        let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let closer = |at: usize| fit_any(self.end.iter().copied(), tail(text, at));
            let ends = |(at, c): &(usize, char)| c.is_whitespace() || closer(*at) != Fit::No;
            let (end, _) = text.char_indices().find(ends)?;
            return (closer(end) != Fit::Begins).then(|| (head(text, end).to_owned(), end));
        };
        let (mut value, mut escaped) = (String::new(), false);
        for (at, character) in text.char_indices().skip(1) {
            match character {
                _ if escaped => {
                    match character {
                        'n' => value.push('\n'),
                        't' => value.push('\t'),
                        '"' | '\'' | '\\' => value.push(character),
                        other => value.extend(['\\', other]),
                    }
                    escaped = false;
                }
                '\\' => escaped = true,
                end if end == quote => return Some((value, at + 1)),
                other => value.push(other),
            }
        }
        None
    }
}

impl Walk for AttributesWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let (words, len) = match self.read(text, rules) {
            Read::Whole(words, len) => (words, len),
            Read::More => return Step::Hold,
            Read::Broken => return Step::Stop(0),
        };
        let Some((name, arguments)) = words.split_first() else { return Step::Stop(0) };
        let Some(name) = rules.tools.resolve(&name.value) else { return Step::Stop(0) };
        out(Piece::Start { name, id: "" });
        for (at, Word { key, value }) in arguments.iter().enumerate() {
            let mut opening = String::from(if at == 0 { "{\"" } else { ", \"" });
            escape_str(&mut opening, key);
            opening.push_str("\": ");
            out(Piece::Arguments(&opening));
            let types = rules.tools.types(name, key).unwrap_or_default();
            let mut typed = TypedValue::new(types, Mend::new(rules));
            typed.begin(out);
            typed.push(value, out);
            typed.end(out);
        }
        out(Piece::Arguments(if arguments.is_empty() { "{}" } else { "}" }));
        Step::End(len)
    }

    fn bound(&self) -> usize {
        self.max_markup
    }

    fn close(&mut self, _held: &str, _stopped: bool, _out: &mut Out<'_>) -> bool {
        false
    }

    fn string(&self) -> Option<StringFastPath> {
        None
    }
}
