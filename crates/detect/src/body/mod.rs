//! JSON argument bodies. The model's bytes pass unchanged; only invalid JSON is repaired.
//!
//! [`JsonBody`] is a resumable lexer of one JSON value. Each byte is sent as soon as it is known to be part
//! of a legal text. Only bytes that may still change are held: an unfinished escape (at most 12 bytes, so
//! that no piece ends inside a surrogate pair), a number or word (until its delimiter arrives), and a comma
//! (because a trailing comma is dropped). Valid JSON therefore passes byte for byte, and every repair is
//! local: raw control characters in strings, illegal escapes, single quotes, Python's literals and tuples,
//! trailing commas, comments, bare keys.
//!
//! Re-serialising instead would round numbers, reorder keys and rewrite escapes. In addition, the
//! serialisation of a partial value is not always a prefix of a later one, which is how other proxies lose
//! the last characters.

mod lexer;
mod scalar;

use self::lexer::{Lexer, SKIPPED};
pub(super) use self::scalar::{is_number, literal, mend_number};
use super::string_fast_path::StringFastPath;
use crate::wire::json::{Scanner, ScannerPlace};

/// The outcome of feeding a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// The complete piece was taken; the value continues.
    More,
    /// The value ended after this many bytes.
    Done(usize),
    /// The byte at this offset cannot be part of the value, even with repair. Everything before it has been
    /// taken.
    Fault(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must follow, or `]` in an array that was just opened.
    Value {
        or_end: bool,
    },
    /// A key must follow, or `}` in an object that was just opened.
    Key {
        or_end: bool,
    },
    Colon,
    /// After a value: a comma or the container's end.
    After,
    /// After a comma, which is held.
    Comma,
    String {
        quote: u8,
        key: bool,
    },
    /// Inside an escape, which is held.
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
    /// The state to return to after a comment.
    resume: State,
    /// Open containers: `{`, `[`, or `(` for a tuple.
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

    /// Continues with repair where `scanner` has met a byte that is not JSON. `held` is the end of the text
    /// before that byte, as much of it as the lexer must hold. `None` if the text scanned so far cannot be
    /// repaired.
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

    /// Takes the text that is held.
    pub fn take_held(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Switches repair on or off for the text that follows.
    pub(super) fn mend(&mut self, repair: bool) {
        self.repair = repair;
    }

    /// Current nesting depth; 0 before and after the value.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Whether a key's text is being read.
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

    /// The fast path for the string that is being read; `None` for a key.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        match self.state {
            State::String { quote: b'"', key: false } => Some(StringFastPath::Json),
            State::String { key: false, .. } => Some(StringFastPath::Quotes),
            _ => None,
        }
    }

    /// Whether the value has ended.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads the next piece. Everything that is certain goes to `out`.
    pub fn feed<F: FnMut(&str)>(&mut self, text: &str, out: &mut F) -> Fed {
        let holding = matches!(self.state, State::Comma | State::Escape { .. } | State::Word { .. });
        let skipping = matches!(self.state, State::Slash | State::LineComment | State::BlockComment { .. });
        let from = if skipping { SKIPPED } else { 0 };
        Lexer { body: self, text, from, mark: holding.then_some(0), out }.run()
    }

    /// Ends the text because the model finished. If only closing brackets are missing and the value is
    /// provably complete without them, writes them and returns true. A number at the very end is not provably
    /// complete, since more digits could have followed.
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
