//! JSON arguments. Valid JSON passes unchanged, and invalid JSON is repaired.
//!
//! [`JsonBody`] is a resumable lexer of one JSON value. It sends each byte as soon as that byte is known to be part
//! of valid JSON, and only holds bytes that may still change: an unfinished escape (at most 12 bytes, so that no
//! piece ends inside a surrogate pair), a number or word without its delimiter, and a comma, since a trailing one
//! is dropped. Valid JSON therefore passes byte for byte, and repairs are local. They cover raw control characters
//! in strings, invalid escapes, single quotes, Python's literals and tuples, trailing commas, comments, and bare
//! keys.
//!
//! Parsing and serializing again would round numbers, reorder keys and rewrite escapes. In addition, a serialized
//! partial value is not always a prefix of the next one, which is how other proxies lose the last characters.

mod lexer;
mod scalar;

use self::lexer::{Lexer, SKIPPED};
pub(super) use self::scalar::{is_number, literal, mend_number};
use super::{
    broken::{Brackets, Rest},
    string_fast_path::StringFastPath,
};
use crate::wire::json::{Scanner, ScannerPlace};

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// All of the piece was read, and the value continues.
    More,
    /// The value ended after this many bytes.
    Done(usize),
    /// The byte at this offset cannot be part of the value, even with repair. Everything before it was read.
    Fault(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a value, or before `]` in an empty array.
    Value {
        or_end: bool,
    },
    /// Before a key, or before `}` in an empty object.
    Key {
        or_end: bool,
    },
    Colon,
    After,
    /// After a comma, which is held.
    Comma,
    String {
        quote: u8,
        key: bool,
    },
    /// In an escape, which is held.
    Escape {
        quote: u8,
        key: bool,
    },
    /// In a number, a literal or a bare key, which is held.
    Word {
        key: bool,
    },
    /// After the `/` that begins a comment.
    Slash,
    LineComment,
    BlockComment {
        star: bool,
    },
    Done,
}

/// The lexer of one JSON value.
#[derive(Debug, Clone)]
pub struct JsonBody {
    state: State,
    /// The state after a comment.
    resume: State,
    /// The open containers: `{`, `[`, or `(` for a tuple.
    stack: Vec<u8>,
    /// The part of the held token that arrived in earlier pieces.
    held: String,
    repair: bool,
    max_depth: usize,
}

impl JsonBody {
    pub(super) fn new(repair: bool, max_depth: usize) -> Self {
        let start = State::Value { or_end: false };
        Self { state: start, resume: start, stack: Vec::new(), held: String::new(), repair, max_depth }
    }

    /// Continues with repair where `scanner` found a byte that is not JSON. `held` is the text directly before that
    /// byte, which the lexer must hold. Returns `None` if the text scanned so far cannot be repaired.
    pub fn resume(scanner: &Scanner, held: &str, max_depth: usize) -> Option<Self> {
        let state = match scanner.place() {
            ScannerPlace::Value { .. } | ScannerPlace::Key { .. } if held.starts_with(',') => State::Comma,
            ScannerPlace::Value { first } => State::Value { or_end: first },
            ScannerPlace::Key { first } => State::Key { or_end: first },
            ScannerPlace::Colon => State::Colon,
            ScannerPlace::Behind => State::After,
            ScannerPlace::Text { key } => State::String { quote: b'"', key },
            ScannerPlace::Escape { key } => State::Escape { quote: b'"', key },
            ScannerPlace::Other => return None,
        };
        let stack = scanner.containers();
        Some(Self { state, stack, held: held.to_owned(), ..Self::new(true, max_depth) })
    }

    /// Takes the held text.
    pub fn take_held(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Enables or disables repair for the text that follows.
    pub(super) fn mend(&mut self, repair: bool) {
        self.repair = repair;
    }

    /// The current nesting depth, which is 0 before and after the value.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    pub(super) fn in_key(&self) -> bool {
        matches!(
            self.state,
            State::String { key: true, .. } | State::Escape { key: true, .. } | State::Word { key: true }
        )
    }

    /// Whether the next token begins a member's value.
    pub(super) fn expects_value(&self) -> bool {
        matches!(self.state, State::Value { or_end: false })
    }

    /// The fast path for the current string, or `None` if it is a key.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        match self.state {
            State::String { quote: b'"', key: false } => Some(StringFastPath::Json),
            State::String { key: false, .. } => Some(StringFastPath::Quotes),
            _ => None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads the next piece. Everything that can no longer change goes to `out`.
    pub fn feed<F: FnMut(&str)>(&mut self, text: &str, out: &mut F) -> Fed {
        let holding = matches!(self.state, State::Comma | State::Escape { .. } | State::Word { .. });
        let skipping = matches!(self.state, State::Slash | State::LineComment | State::BlockComment { .. });
        let from = if skipping { SKIPPED } else { 0 };
        Lexer { body: self, text, from, mark: holding.then_some(0), out }.run()
    }

    /// Returns what is known about the rest of a value with a fault.
    pub(super) fn breaks(&mut self) -> Rest {
        let quote = match self.state {
            State::String { quote, .. } | State::Escape { quote, .. } => Some(char::from(quote)),
            _ => None,
        };
        let mut held = self.take_held();
        if self.state == State::Slash {
            held.push('/');
        }
        Rest { held, brackets: Some(Brackets::new(self.stack.clone(), quote)), as_written: true }
    }

    /// Ends the value because the model stopped. A value inside of its list or object may go on, so only the last
    /// bracket is added, and only after a value that is provably complete. A number is not, since it could have more
    /// digits.
    pub(super) fn close_last(&mut self, out: &mut impl FnMut(&str)) -> bool {
        self.stack.len() <= 1 && self.close(out)
    }

    /// Ends the value where a marker ends the call. If only closing brackets are missing after a value that is provably
    /// complete, writes them and returns true.
    pub(super) fn close(&mut self, out: &mut impl FnMut(&str)) -> bool {
        if self.state == (State::Word { key: false })
            && let Some(word) = literal(&self.held, self.repair)
        {
            out(word);
            self.held.clear();
            self.state = State::After;
        }
        if self.state == State::After {
            let closer = |open: &u8| if *open == b'{' { '}' } else { ']' };
            let closers: String = self.stack.iter().rev().map(closer).collect();
            if !closers.is_empty() {
                out(&closers);
            }
            self.stack.clear();
            self.state = State::Done;
        }
        self.state == State::Done
    }
}

#[cfg(test)]
mod tests;
