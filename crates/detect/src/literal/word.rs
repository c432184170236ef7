//! Reads the words of a [`Literal`] outside of strings: numbers, constants and string prefixes.

use super::{Level, Literal, MAX_WORD, Notation, quote_into};
use crate::{
    body::{is_number, literal, mend_number},
    text::tail,
};

impl Literal {
    /// Reads a character of a word, which ends before the first character that it cannot contain.
    pub(super) fn word(&mut self, character: char, joins: bool, out: &mut impl FnMut(&str)) -> Option<bool> {
        if matches!(character, '"' | '\'') && is_prefix(&self.held) {
            let raw = self.held.contains(['r', 'R']);
            self.held.clear();
            if !joins {
                self.put("\"", out);
            }
            self.begin_string(character, raw);
            return Some(true);
        }
        if self.goes_on_word(character) {
            self.held.push(character);
            return (self.held.len() <= MAX_WORD).then_some(true);
        }
        (!joins && self.word_ended(character, out)).then_some(false)
    }

    pub(super) fn goes_on_word(&self, character: char) -> bool {
        match self.notation {
            Notation::Python => character.is_alphanumeric() || matches!(character, '_' | '.' | '+' | '-'),
            Notation::Delimited(_) => {
                let key = matches!(self.levels.last(), Some(Level::Key { .. }));
                !(matches!(character, ',' | '{' | '}' | '[' | ']' | '<' | '\n') || key && character == ':')
            }
        }
    }

    /// Ends the held word, which is followed by `next`. Returns whether the word is valid.
    pub(super) fn word_ended(&mut self, next: char, out: &mut impl FnMut(&str)) -> bool {
        let held = std::mem::take(&mut self.held);
        let word = held.trim_end();
        let key = match self.levels.last() {
            Some(Level::Key { .. }) => next == ':',
            Some(Level::Unclear { open, .. }) => *open == '{' && next == ':',
            _ => false,
        };
        let is_text = key || self.notation != Notation::Python;
        match literal(word, true) {
            Some(word) => self.put(word, out),
            None => match number(word) {
                Some(number) => self.put(&number, out),
                None if is_text => {
                    let mut quoted = String::new();
                    quote_into(&mut quoted, word);
                    self.put(&quoted, out);
                }
                None => return false,
            },
        }
        self.value_ended();
        true
    }
}

fn number(word: &str) -> Option<String> {
    if is_number(word) {
        return Some(word.to_owned());
    }
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let radix = match digits.get(..2).unwrap_or_default() {
        "0x" | "0X" => 16,
        "0o" | "0O" => 8,
        "0b" | "0B" => 2,
        _ => return mend_number(&word.replace(".e", ".0e").replace(".E", ".0E")),
    };
    let value = u128::from_str_radix(&tail(digits, 2).replace('_', ""), radix).ok()?;
    Some(format!("{sign}{value}"))
}

/// Whether this is a string prefix: `r`, `b`, `f` or `u`, or a pair of these.
fn is_prefix(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "r" | "b" | "f" | "u" | "br" | "rb" | "fr" | "rf")
}
