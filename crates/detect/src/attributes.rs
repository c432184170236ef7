//! [`AttributesWalk`]: reads a call whose arguments are `key=value`, separated by blanks, such as
//! `"get_weather" city="Paris"]`.
//!
//! Models imitate these calls, so the opener may be ordinary text: the name must be declared, and everything is
//! held until the closer. A value is in quotes or ends at the next blank, and the schema decides its type.

use super::{
    pattern::{Fit, fit_any},
    string_fast_path::StringFastPath,
    tag::is_name,
    text::tail,
    typed_value::{Mend, TypedValue},
    walk::{CallRules, Out, Piece, Step, Walk},
};
use crate::wire::json::escape_str;

/// One word of the call: text that may have a key before it.
#[derive(Debug, Default)]
struct Word {
    key: String,
    value: String,
}

/// Where in a word the walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before or after a word.
    Between,
    Key,
    /// Before a value.
    Value,
    /// In a value without quotes.
    Bare,
    Quoted {
        quote: char,
        escaped: bool,
    },
}

#[derive(Debug)]
pub(super) struct AttributesWalk {
    end: &'static [&'static str],
    max_markup: usize,
    at: At,
    /// How many bytes have been read.
    read: usize,
    /// The complete words. The first one is the name.
    words: Vec<Word>,
    word: Word,
}

impl AttributesWalk {
    pub(super) fn new(end: &'static [&'static str], rules: &CallRules<'_>) -> Self {
        let (words, word) = (Vec::new(), Word::default());
        Self { end, max_markup: rules.max_markup, at: At::Between, read: 0, words, word }
    }

    /// Reads a character. Returns false if this cannot be a call.
    fn push(&mut self, character: char, rules: &CallRules<'_>) -> bool {
        match (self.at, character) {
            (At::Between, blank) if blank.is_whitespace() => {}
            (At::Between, _) if self.words.is_empty() => {
                self.at = At::Value;
                return self.push(character, rules);
            }
            (At::Between | At::Key, name) if is_name(name) => {
                self.at = At::Key;
                self.word.key.push(name);
            }
            (At::Key, '=') => self.at = At::Value,
            (At::Between | At::Key, _) => return false,
            (At::Value, quote @ ('"' | '\'')) => self.at = At::Quoted { quote, escaped: false },
            (At::Value | At::Bare, blank) if blank.is_whitespace() => return self.end_word(rules),
            (At::Value | At::Bare, other) => {
                self.at = At::Bare;
                self.word.value.push(other);
            }
            (At::Quoted { quote, escaped: true }, _) => {
                self.at = At::Quoted { quote, escaped: false };
                match character {
                    'n' => self.word.value.push('\n'),
                    't' => self.word.value.push('\t'),
                    '"' | '\'' | '\\' => self.word.value.push(character),
                    other => self.word.value.extend(['\\', other]),
                }
            }
            (At::Quoted { quote, .. }, '\\') => self.at = At::Quoted { quote, escaped: true },
            (At::Quoted { quote, .. }, end) if end == quote => return self.end_word(rules),
            (At::Quoted { .. }, other) => self.word.value.push(other),
        }
        !self.words.is_empty() || rules.tools.may_become(&self.word.value)
    }

    /// Ends the current word. Returns false if it is the first one and names no tool.
    fn end_word(&mut self, rules: &CallRules<'_>) -> bool {
        self.at = At::Between;
        let word = std::mem::take(&mut self.word);
        let is_apt = !self.words.is_empty() || rules.tools.resolve(&word.value).is_some();
        self.words.push(word);
        is_apt
    }

    /// Sends the call.
    fn send(&self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        let (name, arguments) = self.words.split_first()?;
        let name = rules.tools.resolve(&name.value)?;
        out(Piece::Start { name, id: "" });
        for (at, Word { key, value }) in arguments.iter().enumerate() {
            let mut opening = String::from(if at == 0 { "{\"" } else { ", \"" });
            escape_str(&mut opening, key);
            opening.push_str("\": ");
            out(Piece::Arguments(&opening));
            let types = rules.tools.types(name, key).unwrap_or_default();
            TypedValue::write(types, value, Mend::new(rules), out);
        }
        out(Piece::Arguments(if arguments.is_empty() { "{}" } else { "}" }));
        Some(())
    }
}

impl Walk for AttributesWalk {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        for (at, character) in text.char_indices() {
            let may_end = matches!(self.at, At::Between | At::Value | At::Bare);
            match fit_any(self.end.iter().copied(), tail(text, at)) {
                Fit::Whole(len) if may_end => {
                    let is_apt = self.at == At::Between || self.end_word(rules);
                    let sent = Some(()).filter(|()| is_apt).and_then(|()| self.send(rules, out));
                    return sent.map_or(Step::Stop(0), |()| Step::End(at + len));
                }
                Fit::Begins if may_end && at == 0 => return Step::Hold,
                Fit::Begins if may_end => return Step::Took(at),
                _ => {}
            }
            self.read += character.len_utf8();
            if self.read > self.max_markup || !self.push(character, rules) {
                return Step::Stop(0);
            }
        }
        Step::Took(text.len())
    }

    fn close(&mut self, _held: &str, _stopped: bool, _out: &mut Out<'_>) -> bool {
        false
    }

    fn string(&self) -> Option<StringFastPath> {
        None
    }
}
