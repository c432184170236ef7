//! Reads the strings of a [`Literal`]: all kinds of quotes, prefixes, escapes and adjacent strings.

use super::{Literal, Quote, State};
use crate::{text::tail, wire::json::escape_str};

impl Literal {
    pub(super) fn begin_string(&mut self, mark: char, raw: bool) {
        self.loose = false;
        self.state = State::Opening { quote: Quote { mark, triple: false, raw }, second: false };
    }

    pub(super) fn opening(&mut self, quote: Quote, second: bool, character: char) -> bool {
        let again = character == quote.mark;
        self.state = match (again, second) {
            (true, false) => State::Opening { quote, second: true },
            (true, true) => State::Text(Quote { triple: true, ..quote }),
            (false, false) => State::Text(quote),
            (false, true) => State::Joining,
        };
        again
    }

    /// Reads a character after quotes in a triple-quoted string.
    pub(super) fn closing(
        &mut self,
        quote: Quote,
        count: usize,
        character: char,
        out: &mut impl FnMut(&str),
    ) -> bool {
        if character != quote.mark {
            for _ in 0..count {
                self.content(quote.mark.encode_utf8(&mut [0; 4]), out);
            }
            self.state = State::Text(quote);
            return false;
        }
        self.state = if count == 2 { State::Joining } else { State::Closing { quote, count: count + 1 } };
        true
    }

    /// Reads a character after a string.
    pub(super) fn joining(&mut self, character: char, out: &mut impl FnMut(&str)) -> Option<bool> {
        if character.is_ascii_whitespace() {
            return Some(true);
        }
        if matches!(character, '"' | '\'') {
            self.begin_string(character, false);
            return Some(true);
        }
        if character.is_ascii_alphabetic() {
            self.held.push(character);
            self.state = State::Word { joins: true };
            return Some(true);
        }
        self.string_ended(out);
        Some(false)
    }

    pub(super) fn string_ended(&mut self, out: &mut impl FnMut(&str)) {
        self.lone_half(out);
        self.put("\"", out);
        self.value_ended();
    }

    pub(super) fn escape(&mut self, quote: Quote, character: char, out: &mut impl FnMut(&str)) -> bool {
        if quote.raw {
            self.content("\\", out);
            self.state = State::Text(quote);
            if character == quote.mark || character == '\\' {
                self.content(character.encode_utf8(&mut [0; 4]), out);
                return true;
            }
            return false;
        }
        let digits = match self.held.chars().next() {
            None => return self.escape_begins(quote, character, out),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(_) => 0,
        };
        let (radix, full) = if digits == 0 { (8, 3) } else { (16, digits + 1) };
        let fits = character.is_digit(radix);
        if fits {
            self.held.push(character);
        }
        if fits && self.held.len() < full {
            return true;
        }
        self.state = State::Text(quote);
        let held = std::mem::take(&mut self.held);
        let code = u32::from_str_radix(if digits == 0 { &held } else { tail(&held, 1) }, radix);
        match code {
            Ok(code) if (digits == 0 || held.len() == full) && code <= 0x10_ffff => self.code(code, out),
            _ => {
                self.content("\\", out);
                self.content(&held, out);
            }
        }
        fits
    }

    /// Reads the first character after a backslash. Invalid escapes are kept as written.
    pub(super) fn escape_begins(
        &mut self,
        quote: Quote,
        character: char,
        out: &mut impl FnMut(&str),
    ) -> bool {
        let meaning = match character {
            'x' | 'u' | 'U' | '0'..='7' => {
                self.held.push(character);
                return true;
            }
            'n' => "\n",
            't' => "\t",
            'r' => "\r",
            'a' => "\u{7}",
            'b' => "\u{8}",
            'v' => "\u{b}",
            'f' => "\u{c}",
            '\\' => "\\",
            '\'' => "'",
            '"' => "\"",
            '\n' => "",
            _ => {
                self.content("\\", out);
                self.state = State::Text(quote);
                return false;
            }
        };
        self.content(meaning, out);
        self.state = State::Text(quote);
        true
    }

    /// Writes the character with this code point, or holds a high surrogate.
    pub(super) fn code(&mut self, code: u32, out: &mut impl FnMut(&str)) {
        let low = (0xdc00..0xe000).contains(&code);
        if let Some(high) = self.high.filter(|_| low) {
            self.high = None;
            let pair = 0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00);
            return self.code(pair, out);
        }
        match char::from_u32(code) {
            Some(character) => self.content(character.encode_utf8(&mut [0; 4]), out),
            None => {
                self.lone_half(out);
                self.high = Some(code);
                if low {
                    self.lone_half(out);
                }
            }
        }
    }

    /// Writes a high surrogate that is not followed by a low one.
    pub(super) fn lone_half(&mut self, out: &mut impl FnMut(&str)) {
        if let Some(half) = self.high.take() {
            self.put(&format!("\\u{half:04x}"), out);
        }
    }

    pub(super) fn content(&mut self, text: &str, out: &mut impl FnMut(&str)) {
        if text.is_empty() {
            return;
        }
        self.lone_half(out);
        if text.bytes().any(must_escape) {
            let mut escaped = String::with_capacity(text.len() + 8);
            escape_str(&mut escaped, text);
            self.put(&escaped, out);
        } else {
            self.put(text, out);
        }
    }
}

fn must_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\')
}
