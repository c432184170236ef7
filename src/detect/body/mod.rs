//! Argument bodies that are JSON: the model's bytes go through unchanged, and only what is not JSON is mended.
//!
//! [`JsonBody`] is a resumable lexer of one JSON value. Each byte goes out as soon as it is known to be part of a
//! legal text; what may still have to change is held: an unfinished escape (at most 12 bytes, so that no piece ends
//! inside a surrogate pair), a number or word (until its delimiter shows it whole), a comma (a trailing one is
//! dropped). Valid JSON therefore comes out byte for byte, and every repair is local: raw control characters in
//! strings, illegal escapes, single quotes, Python's literals and tuples, trailing commas, comments, bare keys.
//!
//! Re-serialising instead would round numbers, reorder keys and rewrite escapes, and a partial re-serialisation is
//! not a prefix of the next one, which is where peers lose their last characters.

mod lexer;
mod scalar;

use self::lexer::{Lexer, SKIPPED};
pub(super) use self::scalar::{is_number, literal, mend_number};
use super::string_fast_path::StringFastPath;

/// What became of a piece that was fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// All of it was taken; the value goes on.
    More,
    /// The value ended after so many bytes.
    Done(usize),
    /// The byte at this offset can be no part of the value, even mended. What is before it has been taken.
    Fault(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must come; in an array that was just opened, `]` may.
    Value {
        or_end: bool,
    },
    /// A key must come; in an object that was just opened, `}` may.
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

/// One JSON value on its way through.
#[derive(Debug, Clone)]
pub(super) struct JsonBody {
    state: State,
    /// Where a comment returns to.
    resume: State,
    /// Open containers: `{` or `[`, or `(` of a tuple.
    stack: Vec<u8>,
    /// The held token's bytes of earlier pieces.
    held: String,
    repair: bool,
    max_depth: usize,
}

impl JsonBody {
    pub(super) fn new(repair: bool, max_depth: usize) -> Self {
        let start = State::Value { or_end: false };
        Self { state: start, resume: start, stack: Vec::new(), held: String::new(), repair, max_depth }
    }

    /// From here on, what is not JSON is mended or not.
    pub(super) fn mend(&mut self, repair: bool) {
        self.repair = repair;
    }

    /// Nesting at the point reached; 0 before the value and after it.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// A key's text is being read.
    pub(super) fn in_key(&self) -> bool {
        matches!(
            self.state,
            State::String { key: true, .. } | State::Escape { key: true, .. } | State::Word { key: true }
        )
    }

    /// The next token begins a member's value.
    pub(super) fn expects_value(&self) -> bool {
        matches!(self.state, State::Value { or_end: false })
    }

    /// In a value that is a string.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        match self.state {
            State::String { quote: b'"', key: false } => Some(StringFastPath::Json),
            State::String { key: false, .. } => Some(StringFastPath::Quotes),
            _ => None,
        }
    }

    /// The value has ended.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on. What is certain goes to `out`.
    pub(super) fn feed<F: FnMut(&str)>(&mut self, text: &str, out: &mut F) -> Fed {
        let holding = matches!(self.state, State::Comma | State::Escape { .. } | State::Word { .. });
        let skipping = matches!(self.state, State::Slash | State::LineComment | State::BlockComment { .. });
        let from = if skipping { SKIPPED } else { 0 };
        Lexer { body: self, text, from, mark: holding.then_some(0), out }.run()
    }

    /// The text stops here and the model was done: writes the closing brackets that are missing, if the value is
    /// provably whole but for them, and says whether it is. A number at the very end is not provably whole: more
    /// digits may have been on their way.
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
