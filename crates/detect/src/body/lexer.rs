//! The lexer of [`JsonBody`], which processes one piece of text.

use super::{
    Fed, JsonBody, State,
    scalar::{is_number, literal, mend_number},
};
use crate::text::{head, is_blank, slice, tail};

/// The maximum length of a number or bare word, in bytes. A longer one is a fault.
const MAX_WORD: usize = 256;

/// The value of [`Lexer::from`] inside a comment, which is not sent.
pub(super) const SKIPPED: usize = usize::MAX;

/// The state for one piece. The text from `from` on has not been sent, and the text from `mark` on is held.
pub(super) struct Lexer<'b, 't, 'o, F> {
    pub(super) body: &'b mut JsonBody,
    pub(super) text: &'t str,
    pub(super) from: usize,
    pub(super) mark: Option<usize>,
    pub(super) out: &'o mut F,
}

impl<F: FnMut(&str)> Lexer<'_, '_, '_, F> {
    fn emit(&mut self, text: &str) {
        if !text.is_empty() {
            (self.out)(text);
        }
    }

    /// Sends the text before `at` that has not been sent yet.
    fn flush(&mut self, at: usize) {
        let text = slice(self.text, self.from, at);
        self.emit(text);
        self.from = at;
    }

    /// Sends `new` in place of the text from `at` to `end`.
    fn replace(&mut self, at: usize, end: usize, new: &str) {
        self.flush(at);
        self.emit(new);
        self.from = end;
    }

    /// Reads up to the end of the piece, the end of the value, or a fault.
    pub(super) fn run(mut self) -> Fed {
        let mut at = 0;
        let fed = loop {
            if self.body.state == State::Done {
                break Fed::Done(at);
            }
            let Some(&byte) = self.text.as_bytes().get(at) else { break Fed::More };
            match self.step(byte, at) {
                Some(next) => at = next,
                None => break Fed::Fault(at),
            }
        };
        match self.mark {
            Some(mark) => {
                self.flush(mark);
                self.body.held.push_str(slice(self.text, mark, at));
            }
            None => self.flush(at),
        }
        fed
    }

    /// Reads one or more bytes at `at`. Returns the offset at which to continue, or `None` for a fault.
    fn step(&mut self, byte: u8, at: usize) -> Option<usize> {
        match self.body.state {
            State::String { quote, key } => self.string(at, quote, key),
            State::Escape { quote, key } => self.escape(byte, at, quote, key),
            State::Word { key } => self.word(byte, at, key),
            State::Slash | State::LineComment | State::BlockComment { .. } => self.comment(byte, at),
            State::Comma if is_blank(byte) && self.token_len(at) >= MAX_WORD => Some(self.keep_comma(at)),
            _ if is_blank(byte) => Some(at + 1),
            _ if byte == b'/' && self.body.repair => {
                self.body.resume = self.body.state;
                self.body.state = State::Slash;
                let mark = self.mark.take().unwrap_or(at);
                self.flush(mark);
                self.body.held.push_str(slice(self.text, mark, at));
                self.from = SKIPPED;
                Some(at + 1)
            }
            State::Value { or_end } => self.value(byte, at, or_end),
            State::Key { or_end } => self.key(byte, at, or_end),
            State::Colon => (byte == b':').then(|| {
                self.body.state = State::Value { or_end: false };
                at + 1
            }),
            State::After => match byte {
                b',' if !self.body.stack.is_empty() => {
                    self.mark = Some(at);
                    self.body.state = State::Comma;
                    Some(at + 1)
                }
                _ => self.end(byte, at),
            },
            State::Comma => self.after_comma(byte, at),
            State::Done => None,
        }
    }

    /// Looks at the token after a comma to decide whether to send the comma.
    fn after_comma(&mut self, byte: u8, at: usize) -> Option<usize> {
        if matches!(byte, b'}' | b']' | b')') {
            if !self.body.repair {
                return None;
            }
            let whole = self.token(at);
            self.settle(at, Some(tail(&whole, 1)));
            return self.end(byte, at);
        }
        Some(self.keep_comma(at))
    }

    /// Sends the held comma and the white space after it.
    fn keep_comma(&mut self, at: usize) -> usize {
        self.settle(at, None);
        let in_object = self.body.stack.last() == Some(&b'{');
        self.body.state =
            if in_object { State::Key { or_end: false } } else { State::Value { or_end: false } };
        at
    }

    fn value(&mut self, byte: u8, at: usize, or_end: bool) -> Option<usize> {
        match byte {
            b'{' | b'[' => {
                if self.body.stack.len() >= self.body.max_depth {
                    return None;
                }
                self.body.stack.push(byte);
                self.body.state =
                    if byte == b'{' { State::Key { or_end: true } } else { State::Value { or_end: true } };
                Some(at + 1)
            }
            // A Python tuple.
            b'(' if self.body.repair && self.body.stack.len() < self.body.max_depth => {
                self.replace(at, at + 1, "[");
                self.body.stack.push(byte);
                self.body.state = State::Value { or_end: true };
                Some(at + 1)
            }
            b'"' => {
                self.body.state = State::String { quote: byte, key: false };
                Some(at + 1)
            }
            b'\'' if self.body.repair => {
                self.replace(at, at + 1, "\"");
                self.body.state = State::String { quote: byte, key: false };
                Some(at + 1)
            }
            b']' | b')' if or_end => self.end(byte, at),
            b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.mark = Some(at);
                self.body.state = State::Word { key: false };
                Some(at + 1)
            }
            _ => None,
        }
    }

    fn key(&mut self, byte: u8, at: usize, or_end: bool) -> Option<usize> {
        match byte {
            b'"' => {
                self.body.state = State::String { quote: byte, key: true };
                Some(at + 1)
            }
            b'}' if or_end => self.end(byte, at),
            b'\'' if self.body.repair => {
                self.replace(at, at + 1, "\"");
                self.body.state = State::String { quote: byte, key: true };
                Some(at + 1)
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' if self.body.repair => {
                self.mark = Some(at);
                self.body.state = State::Word { key: true };
                Some(at + 1)
            }
            _ => None,
        }
    }

    /// Closes the innermost container if `byte` is its closing bracket.
    fn end(&mut self, byte: u8, at: usize) -> Option<usize> {
        let open = match byte {
            b'}' => b'{',
            b']' => b'[',
            b')' => b'(',
            _ => return None,
        };
        if self.body.stack.last() != Some(&open) {
            return None;
        }
        if byte == b')' {
            self.replace(at, at + 1, "]");
        }
        self.body.stack.pop();
        self.value_ended();
        Some(at + 1)
    }

    fn value_ended(&mut self) {
        self.body.state = if self.body.stack.is_empty() { State::Done } else { State::After };
    }

    /// Reads a string up to and including its quote, a backslash, or a byte that must be escaped.
    fn string(&mut self, at: usize, quote: u8, key: bool) -> Option<usize> {
        let rest = tail(self.text, at).as_bytes();
        let special = |byte: &u8| *byte < 0x20 || matches!(*byte, b'"' | b'\\') || *byte == quote;
        match rest.iter().position(special) {
            Some(0) => {}
            run => return Some(at + run.unwrap_or(rest.len())),
        }
        match rest.first().copied().unwrap_or_default() {
            byte if byte == quote => {
                if byte != b'"' {
                    self.replace(at, at + 1, "\"");
                }
                if key {
                    self.body.state = State::Colon;
                } else {
                    self.value_ended();
                }
            }
            b'\\' => {
                self.mark = Some(at);
                self.body.state = State::Escape { quote, key };
            }
            b'"' => self.replace(at, at + 1, "\\\""),
            _ if !self.body.repair => {
                self.flush(at);
                return None;
            }
            b'\n' => self.replace(at, at + 1, "\\n"),
            b'\r' => self.replace(at, at + 1, "\\r"),
            b'\t' => self.replace(at, at + 1, "\\t"),
            control => self.replace(at, at + 1, &format!("\\u{control:04x}")),
        }
        Some(at + 1)
    }

    fn token_len(&self, at: usize) -> usize {
        self.body.held.len() + at.saturating_sub(self.mark.unwrap_or(at))
    }

    fn token(&self, at: usize) -> String {
        self.token_from(self.mark.unwrap_or(at), at)
    }

    fn token_from(&self, mark: usize, at: usize) -> String {
        format!("{}{}", self.body.held, slice(self.text, mark, at))
    }

    /// Sends the held token up to `at`, or `new` in its place.
    fn settle(&mut self, at: usize, new: Option<&str>) {
        let mark = self.mark.take().unwrap_or(at);
        match new {
            None if self.body.held.is_empty() => {}
            // Sent at once, so that no piece ends inside an escape.
            None => {
                let token = self.token_from(mark, at);
                self.emit(&token);
                self.from = at;
            }
            Some(new) => self.replace(mark, at, new),
        }
        self.body.held.clear();
    }

    /// Reads one byte of an escape. Valid escapes are sent unchanged. Repair removes the backslash of `\'` and
    /// doubles any other invalid backslash.
    fn escape(&mut self, byte: u8, at: usize, quote: u8, key: bool) -> Option<usize> {
        let string = State::String { quote, key };
        match self.body.held.len() + at - self.mark.unwrap_or(at) {
            1 => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                    self.settle(at + 1, None);
                    self.body.state = string;
                    Some(at + 1)
                }
                b'u' => Some(at + 1),
                _ if !self.body.repair => None,
                // Single-quoted strings use Python's escapes.
                b'x' | b'U' if quote == b'\'' => Some(at + 1),
                b'\'' => {
                    self.settle(at + 1, Some("'"));
                    self.body.state = string;
                    Some(at + 1)
                }
                _ => {
                    self.settle(at, Some("\\\\"));
                    self.body.state = string;
                    Some(at)
                }
            },
            len => match self.token(at).as_bytes().get(1) {
                Some(b'x') => self.python_escape(byte, at, (len, 4), string),
                Some(b'U') => self.python_escape(byte, at, (len, 10), string),
                _ => self.unicode_escape(byte, at, len, string),
            },
        }
    }

    /// Reads one byte of Python's `\xXX` or `\UXXXXXXXX`. `len` is the full length of the escape.
    fn python_escape(
        &mut self,
        byte: u8,
        at: usize,
        (len, whole): (usize, usize),
        string: State,
    ) -> Option<usize> {
        let mut token = self.token(at);
        self.body.state = string;
        if !byte.is_ascii_hexdigit() {
            self.settle(at, Some(&format!("\\{token}")));
            return Some(at);
        }
        if len + 1 < whole {
            let State::String { quote, key } = string else { return None };
            self.body.state = State::Escape { quote, key };
            return Some(at + 1);
        }
        token.push(char::from(byte));
        let character = u32::from_str_radix(tail(&token, 2), 16).ok().and_then(char::from_u32);
        let mended = match character {
            Some(character) => {
                character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
            None => format!("\\{token}"),
        };
        self.settle(at + 1, Some(&mended));
        Some(at + 1)
    }

    /// Reads one byte of a `\uXXXX` escape. If it is a high surrogate, the escape of the low surrogate is read as
    /// part of it, for a total of 12 bytes.
    fn unicode_escape(&mut self, byte: u8, at: usize, len: usize, string: State) -> Option<usize> {
        let expected = match len {
            6 => byte == b'\\',
            7 => byte == b'u',
            _ => byte.is_ascii_hexdigit(),
        };
        if expected {
            let high = len == 5 && {
                let mut token = self.token(at);
                token.push(char::from(byte));
                u16::from_str_radix(tail(&token, 2), 16).is_ok_and(|unit| (0xd800..0xdc00).contains(&unit))
            };
            if len == 11 || (len == 5 && !high) {
                self.settle(at + 1, None);
                self.body.state = string;
            }
            return Some(at + 1);
        }
        if len >= 6 {
            // The first escape is complete. What follows it is read again, including its backslash if there is one.
            return self.split_escape(at, string);
        }
        if !self.body.repair {
            return None;
        }
        let mended = format!("\\{}", self.token(at));
        self.settle(at, Some(&mended));
        self.body.state = string;
        Some(at)
    }

    /// Sends the escape of a high surrogate that is not followed by a low one. A second escape stays held, and is
    /// repaired if it is invalid.
    fn split_escape(&mut self, at: usize, string: State) -> Option<usize> {
        let token = self.token(at);
        let (first, second) = (head(&token, 6), tail(&token, 6));
        if second.len() > 1 && !self.body.repair {
            return None;
        }
        self.body.state = string;
        match second {
            "" => self.settle(at, None),
            "\\" => {
                // The backslash begins another escape, which depends on the next byte.
                self.settle(at, Some(first));
                self.body.held.push('\\');
                self.mark = Some(at);
                let State::String { quote, key } = string else { return None };
                self.body.state = State::Escape { quote, key };
            }
            _ => {
                let mended = format!("{first}\\{second}");
                self.settle(at, Some(&mended));
            }
        }
        Some(at)
    }

    /// Reads one byte of a number, literal or bare key, which ends before the first byte that cannot belong to it.
    fn word(&mut self, byte: u8, at: usize, key: bool) -> Option<usize> {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | b'$') {
            let goes_on = self.token_len(at) < MAX_WORD && !(key && self.is_behind_blank(at));
            return goes_on.then_some(at + 1);
        }
        let token = self.token(at);
        if key {
            return self.bare_key(byte, at, &token);
        }
        match literal(&token, self.body.repair) {
            Some(word) => self.settle(at, (word != token).then_some(word)),
            None if is_number(&token) => self.settle(at, None),
            None => {
                let number = self.body.repair.then(|| mend_number(&token)).flatten()?;
                self.settle(at, Some(&number));
            }
        }
        self.value_ended();
        Some(at)
    }

    /// Whether the byte before `at` is white space, which is held after a bare key.
    fn is_behind_blank(&self, at: usize) -> bool {
        let held = self.body.held.as_bytes().last();
        let last = if at > self.mark.unwrap_or(at) { self.text.as_bytes().get(at - 1) } else { held };
        last.is_some_and(|byte| is_blank(*byte))
    }

    /// Reads the byte after a bare key and the white space after it. The key is sent once its colon has arrived, so
    /// that text which is not JSON stays as written.
    fn bare_key(&mut self, byte: u8, at: usize, token: &str) -> Option<usize> {
        if is_blank(byte) {
            return (token.len() < MAX_WORD).then_some(at + 1);
        }
        let word = token.trim_ascii_end();
        let quoted = format!("\"{word}\"{}", tail(token, word.len()));
        matches!(byte, b':' | b'/').then_some(())?;
        self.settle(at, Some(&quoted));
        self.body.state = State::Colon;
        Some(at)
    }

    /// Reads one byte of a comment, which is dropped.
    fn comment(&mut self, byte: u8, at: usize) -> Option<usize> {
        let ended = match self.body.state {
            State::Slash => {
                self.body.state = match byte {
                    b'/' => State::LineComment,
                    b'*' => State::BlockComment { star: false },
                    _ => return None,
                };
                false
            }
            State::BlockComment { star } if byte != b'/' || !star => {
                self.body.state = State::BlockComment { star: byte == b'*' };
                false
            }
            State::LineComment => byte == b'\n',
            _ => true,
        };
        if ended {
            self.body.state = self.body.resume;
            self.from = at + 1;
            self.mark = (self.body.state == State::Comma).then_some(at + 1);
        }
        Some(at + 1)
    }
}
