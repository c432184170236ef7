//! [`Scanner`]: reads JSON as it arrives, and reports where the value ends. It is strict, takes one pass, and needs
//! no buffer.

use super::search::plain_run;

/// The maximum nesting depth of any scanner.
pub const MAX_DEPTH: usize = 128;

/// Why a [`Scanner`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All bytes were read, and the value continues.
    More,
    /// The value is complete. If it has a closing byte, that byte has been read. The byte after a number, which
    /// shows that the number has ended, has not been read.
    End,
    /// The next byte cannot continue the JSON or exceeds the nesting depth. It has not been read.
    Invalid,
}

/// Reads one JSON value in pieces of any size, including white space before it.
///
/// Checks the complete JSON grammar, but not whether the bytes are UTF-8.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: State,
    max_depth: usize,
    depth: usize,
    /// One bit per open container, with the innermost one lowest. Set for arrays.
    arrays: u128,
    /// Whether the current string is a key.
    in_key: bool,
    /// The state before the invalid byte.
    failed: State,
}

/// The part of the bytes already read that repair would change if the next bytes are not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsettled {
    /// Repair would change nothing.
    Nothing,
    /// A comma and the white space after it.
    Comma,
    /// This many bytes of an escape.
    Escape(usize),
}

/// Where in its value a [`Scanner`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScannerPlace {
    /// Before a value.
    Value {
        /// Whether this is the first value of an array.
        first: bool,
    },
    /// Before a key.
    Key {
        /// Whether this is the first key of an object.
        first: bool,
    },
    /// Before the colon after a key.
    Colon,
    /// After a value.
    Behind,
    /// In a string.
    Text {
        /// Whether the string is a key.
        key: bool,
    },
    /// In an escape.
    Escape {
        /// Whether the string is a key.
        key: bool,
    },
    /// In a number or literal, or after the complete value.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// After `[`: a value or `]` may follow.
    FirstElement,
    /// After `{`: a key or `}` may follow.
    FirstKey,
    /// After a comma in an object.
    Key,
    /// After a key.
    Colon,
    /// After a value in a container: a comma or the end of the container may follow.
    Behind,
    Text,
    Escape,
    /// Within `\u`, with the number of missing digits.
    Hex(u8),
    Number(Number),
    /// Within `true`, `false` or `null`, with the missing part.
    Literal(&'static [u8]),
    Done,
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Number {
    /// Returns the state after `byte`, or `None` if `byte` is not part of the number.
    fn next(self, byte: u8) -> Option<Self> {
        use Number::{Exponent, Fraction, Integer, Minus, Point, Power, Sign, Zero};
        Some(match (self, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Integer, b'0'..=b'9') => Integer,
            (Zero | Integer, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Integer | Fraction, b'e' | b'E') => Exponent,
            (Exponent, b'+' | b'-') => Sign,
            (Exponent | Sign | Power, b'0'..=b'9') => Power,
            _ => return None,
        })
    }

    fn is_whole(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Power)
    }
}

/// How many bytes a step has read, and why the scanner must stop, if it must.
type Step = (usize, Option<Progress>);

impl Scanner {
    /// Creates a scanner that allows `max_depth` nested containers, but never more than [`MAX_DEPTH`].
    pub fn new(max_depth: usize) -> Self {
        Self {
            state: State::Value,
            max_depth: max_depth.min(MAX_DEPTH),
            depth: 0,
            arrays: 0,
            in_key: false,
            failed: State::Broken,
        }
    }

    /// Reads the next bytes. Returns how many of `bytes` were read, and why the scanner stopped. The next call must
    /// start with the bytes that were not read.
    pub fn push(&mut self, bytes: &[u8]) -> (usize, Progress) {
        match self.state {
            State::Done => return (0, Progress::End),
            State::Broken => return (0, Progress::Invalid),
            _ => {}
        }
        let mut taken = 0;
        while let Some((&byte, _)) = bytes.get(taken..).and_then(<[u8]>::split_first) {
            let rest = bytes.get(taken..).unwrap_or_default();
            let (count, stop) = self.step(byte, rest);
            taken += count;
            if let Some(progress) = stop {
                return (taken, progress);
            }
        }
        (taken, Progress::More)
    }

    /// Ends the input. Returns whether the value is complete, which for a number is only known here.
    pub fn finish(&self) -> bool {
        match self.state {
            State::Done => true,
            State::Number(number) => self.depth == 0 && number.is_whole(),
            _ => false,
        }
    }

    /// The number of open containers.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The part of the bytes already read that repair at this point would change.
    pub fn unsettled(&self) -> Unsettled {
        match self.last_state() {
            State::Key => Unsettled::Comma,
            State::Value if self.depth > 0 && self.in_array() => Unsettled::Comma,
            State::Escape => Unsettled::Escape(1),
            State::Hex(missing) => Unsettled::Escape(6 - usize::from(missing)),
            _ => Unsettled::Nothing,
        }
    }

    /// The current position, or after an invalid byte, the position before it.
    pub fn place(&self) -> ScannerPlace {
        match self.last_state() {
            State::Value => ScannerPlace::Value { first: false },
            State::FirstElement => ScannerPlace::Value { first: true },
            State::FirstKey => ScannerPlace::Key { first: true },
            State::Key => ScannerPlace::Key { first: false },
            State::Colon => ScannerPlace::Colon,
            State::Behind => ScannerPlace::Behind,
            State::Text => ScannerPlace::Text { key: self.in_key },
            State::Escape | State::Hex(_) => ScannerPlace::Escape { key: self.in_key },
            State::Number(_) | State::Literal(_) | State::Done | State::Broken => ScannerPlace::Other,
        }
    }

    /// The opening brackets of all open containers.
    pub fn containers(&self) -> Vec<u8> {
        let bracket = |level: usize| if self.arrays >> level & 1 == 1 { b'[' } else { b'{' };
        (0..self.depth).rev().map(bracket).collect()
    }

    fn last_state(&self) -> State {
        if self.state == State::Broken { self.failed } else { self.state }
    }

    fn step(&mut self, byte: u8, rest: &[u8]) -> Step {
        match self.state {
            State::Text => self.text(rest),
            State::Escape | State::Hex(_) => self.escape(byte),
            State::Number(number) => self.number(number, rest),
            State::Literal(missing) => self.literal(byte, missing),
            _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => (1, None),
            State::FirstElement if byte == b']' => self.close(),
            State::Value | State::FirstElement => self.value(byte, rest),
            State::FirstKey if byte == b'}' => self.close(),
            State::FirstKey | State::Key if byte == b'"' => {
                self.in_key = true;
                self.open_text(rest)
            }
            State::Colon if byte == b':' => self.go(State::Value),
            State::Behind => self.behind(byte),
            _ => self.invalid(0),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        (1, None)
    }

    fn invalid(&mut self, taken: usize) -> Step {
        self.failed = std::mem::replace(&mut self.state, State::Broken);
        (taken, Some(Progress::Invalid))
    }

    fn value(&mut self, byte: u8, rest: &[u8]) -> Step {
        match byte {
            b'"' => self.open_text(rest),
            b'{' | b'[' if self.depth == self.max_depth => self.invalid(0),
            b'{' => self.open(0, State::FirstKey),
            b'[' => self.open(1, State::FirstElement),
            b'-' => self.go(State::Number(Number::Minus)),
            b'0' => self.go(State::Number(Number::Zero)),
            b'1'..=b'9' => self.go(State::Number(Number::Integer)),
            b't' => self.go(State::Literal(b"rue")),
            b'f' => self.go(State::Literal(b"alse")),
            b'n' => self.go(State::Literal(b"ull")),
            _ => self.invalid(0),
        }
    }

    fn open(&mut self, array: u128, state: State) -> Step {
        self.depth += 1;
        self.arrays = self.arrays << 1 | array;
        self.go(state)
    }

    fn close(&mut self) -> Step {
        self.depth -= 1;
        self.arrays >>= 1;
        self.complete(1)
    }

    fn in_array(&self) -> bool {
        self.arrays & 1 == 1
    }

    fn behind(&mut self, byte: u8) -> Step {
        match (byte, self.in_array()) {
            (b',', true) => self.go(State::Value),
            (b',', false) => self.go(State::Key),
            (b']', true) | (b'}', false) => self.close(),
            _ => self.invalid(0),
        }
    }

    /// Ends a value. `taken` is the number of bytes that this step has read.
    fn complete(&mut self, taken: usize) -> Step {
        if self.depth == 0 {
            self.state = State::Done;
            return (taken, Some(Progress::End));
        }
        self.state = State::Behind;
        (taken, None)
    }

    /// Begins a string at the first byte of `rest`. Most strings end in the same input, and need only one step.
    fn open_text(&mut self, rest: &[u8]) -> Step {
        self.state = State::Text;
        let (taken, stop) = self.text(rest.get(1..).unwrap_or_default());
        (taken + 1, stop)
    }

    fn text(&mut self, rest: &[u8]) -> Step {
        let run = plain_run(rest);
        match rest.get(run) {
            None => (run, None),
            Some(b'\\') => {
                self.state = State::Escape;
                (run + 1, None)
            }
            Some(b'"') if self.in_key => {
                self.in_key = false;
                self.state = State::Colon;
                (run + 1, None)
            }
            Some(b'"') => self.complete(run + 1),
            Some(_) => self.invalid(run),
        }
    }

    /// Reads a byte after a backslash or within `\u`.
    fn escape(&mut self, byte: u8) -> Step {
        match (self.state, byte) {
            (State::Escape, b'u') => self.go(State::Hex(4)),
            (State::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.go(State::Text),
            (State::Hex(1), _) if byte.is_ascii_hexdigit() => self.go(State::Text),
            (State::Hex(missing), _) if byte.is_ascii_hexdigit() => self.go(State::Hex(missing - 1)),
            _ => self.invalid(0),
        }
    }

    fn number(&mut self, mut number: Number, rest: &[u8]) -> Step {
        for (taken, byte) in rest.iter().enumerate() {
            match number.next(*byte) {
                Some(next) => number = next,
                None if number.is_whole() => return self.complete(taken),
                None => {
                    self.state = State::Number(number);
                    return self.invalid(taken);
                }
            }
        }
        self.state = State::Number(number);
        (rest.len(), None)
    }

    fn literal(&mut self, byte: u8, missing: &'static [u8]) -> Step {
        match missing.split_first() {
            Some((first, [])) if *first == byte => self.complete(1),
            Some((first, missing)) if *first == byte => self.go(State::Literal(missing)),
            _ => self.invalid(0),
        }
    }
}

#[cfg(test)]
mod tests;
