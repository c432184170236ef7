//! [`Literal`]: converts one value in Python's or a similar notation to JSON as it is being read.
//!
//! Everything that is certain is sent at once. Four things are held until the text after them has arrived: a number
//! or word, an unfinished escape, the closing quote of a string (since an adjacent string would be joined to it),
//! and a comma. Two things are only known later: whether `(` or `{` contains a single element or several, and
//! whether a value is a key. In these cases, the element is held until its comma, colon or bracket, and its JSON
//! form is then inserted where it begins.

mod follow;
mod text;
mod word;

pub(super) use self::follow::Argument;
use self::follow::{Around, QuoteIs};
use super::{
    body::literal,
    broken::Brackets,
    string_fast_path::StringFastPath,
    text::{head, tail},
};
use crate::wire::json::escape_str;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    Python,
    /// Keys are bare, strings have no escapes and are enclosed in this delimiter, and a bare word is a string.
    Delimited(&'static str),
}

/// The notation of the current string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quote {
    mark: char,
    triple: bool,
    raw: bool,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// All of the piece was read, and the value continues.
    More,
    /// This many bytes were read. The next character is a quote, whose meaning depends on the text after it.
    Hold(usize),
    /// The value ended after this many bytes.
    Done(usize),
    /// The character at this offset cannot be part of the value. Everything before it was read.
    Fault(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// Before a value, a key or the end of the container.
    ValueOrEnd,
    /// After a value: a comma, a colon or the end of the container may follow.
    After,
    /// In a word, which is held. `joins` is set if the word can only be the prefix of a string.
    Word {
        joins: bool,
    },
    /// After the first or second quote of a string.
    Opening {
        quote: Quote,
        second: bool,
    },
    Text(Quote),
    /// Before a quote that is part of the text.
    InnerQuote(Quote),
    /// In an escape. `held` is the text after its backslash.
    Escape(Quote),
    /// After quotes that may close a triple-quoted string.
    Closing {
        quote: Quote,
        count: usize,
    },
    /// After a string, to which an adjacent one would be joined.
    Joining,
    /// In the delimiter before a string. `held` is the part that has been read.
    Delimiter,
    /// In a delimited string. `held` may be the start of the closing delimiter.
    Delimited,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// `(` or `{` that may contain one element or several. The first element starts at offset `from` of the held
    /// output.
    Unclear {
        open: char,
        from: usize,
    },
    List {
        close: char,
    },
    /// A key of a dictionary, which starts at this offset of the held output.
    Key {
        from: usize,
    },
    /// A dictionary, outside its keys.
    Member,
}

#[derive(Debug)]
pub(super) struct Literal {
    notation: Notation,
    state: State,
    levels: Vec<Level>,
    held: String,
    /// Output that waits until an unclear level is resolved, or until it is known whether a value is a key.
    kept: String,
    /// How many levels are unclear or keys.
    unsettled: usize,
    /// Whether a comma is held. Whether it is sent depends on what follows.
    comma: bool,
    /// The first half of a surrogate pair.
    high: Option<u32>,
    /// Where the value is, if that decides which quotes end a string.
    argument: Option<Argument>,
    /// Whether a quote in the current string was part of its text.
    loose: bool,
    max_depth: usize,
    /// The maximum size of an element that is held until its kind is known, in bytes.
    max_kept: usize,
}

/// The maximum length of a word in bytes.
const MAX_WORD: usize = 1024;

impl Literal {
    pub(super) fn new(notation: Notation, max_depth: usize, max_kept: usize) -> Self {
        Self {
            notation,
            state: State::Value,
            levels: Vec::new(),
            held: String::new(),
            kept: String::new(),
            unsettled: 0,
            comma: false,
            high: None,
            argument: None,
            loose: false,
            max_depth,
            max_kept,
        }
    }

    /// Returns the value as an argument, so that a quote ends its string only where the text after it fits.
    pub(super) fn argument(self, argument: Argument) -> Self {
        Self { argument: Some(argument), ..self }
    }

    /// Whether the value is not inside of brackets.
    pub(super) fn is_outermost(&self) -> bool {
        self.levels.is_empty()
    }

    /// Makes the next quote end its string, because no text follows.
    pub(super) fn at_end(&mut self) {
        self.argument = None;
    }

    /// The fast path for a string that is sent as it arrives.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        let flow = match self.state {
            State::Text(_) => StringFastPath::Quotes,
            State::Delimited if self.held.is_empty() => StringFastPath::Tags { lines: false },
            _ => return None,
        };
        (self.unsettled == 0 && self.high.is_none()).then_some(flow)
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len() + self.held.len()
    }

    /// Reads the next piece. Everything that is certain goes to `out`. A value without brackets ends before the
    /// byte that shows its end.
    pub(super) fn feed(&mut self, text: &str, out: &mut impl FnMut(&str)) -> Fed {
        let mut at = 0;
        while let Some(character) = tail(text, at).chars().next() {
            if self.state == State::Done {
                return Fed::Done(at);
            }
            match self.run(tail(text, at), out) {
                0 if self.is_open_quote(tail(text, at)) => return Fed::Hold(at),
                0 => match self.step(character, out) {
                    Some(true) => at += character.len_utf8(),
                    Some(false) => {}
                    None => return Fed::Fault(at),
                },
                run => at += run,
            }
            if self.kept.len() > self.max_kept {
                return Fed::Fault(at);
            }
        }
        if self.state == State::Done { Fed::Done(at) } else { Fed::More }
    }

    /// Like [`Literal::close`], but adds at most the last bracket, since a value inside of brackets may go on.
    pub(super) fn close_last(&mut self, out: &mut impl FnMut(&str)) -> bool {
        self.levels.len() <= 1 && self.close(out)
    }

    /// Ends the value where a marker ends the call. If only closing brackets are missing after a value that is provably
    /// complete, writes them and returns true.
    pub(super) fn close(&mut self, out: &mut impl FnMut(&str)) -> bool {
        match self.state {
            State::Joining => self.string_ended(out),
            State::Word { joins: false } if literal(&self.held, true).is_some() => {
                self.word_ended(' ', out);
            }
            _ => {}
        }
        if self.state == State::After && self.unsettled == 0 {
            while let Some(level) = self.levels.pop() {
                out(if level == Level::Member { "}" } else { "]" });
            }
            self.state = State::Done;
        }
        self.state == State::Done
    }

    /// Returns the open brackets, inside those of `outer`, and the open quote.
    pub(super) fn brackets(&self, outer: &[u8]) -> Brackets {
        let open = |level: &Level| match level {
            Level::Unclear { open: '(', .. } | Level::List { close: ')' } => b'(',
            Level::List { close: ']' } => b'[',
            _ => b'{',
        };
        let quote = match self.state {
            State::Opening { quote, second: false }
            | State::Text(quote)
            | State::InnerQuote(quote)
            | State::Escape(quote)
            | State::Closing { quote, .. } => Some(quote.mark),
            _ => None,
        };
        Brackets::new(outer.iter().copied().chain(self.levels.iter().map(open)).collect(), quote)
    }

    /// Reads as much of `text` as is certain to be part of a string, up to the limit for held text.
    fn run(&mut self, text: &str, out: &mut impl FnMut(&str)) -> usize {
        // Held text is read one character at a time, since its length is limited.
        let first = text.chars().next().map_or(0, char::len_utf8);
        let text = if self.unsettled > 0 { head(text, first) } else { text };
        let bytes = text.as_bytes();
        let end = match self.state {
            State::Text(quote) => {
                let mark = u8::try_from(quote.mark).unwrap_or(b'"');
                memchr::memchr2(mark, b'\\', bytes)
            }
            State::Delimited if self.held.is_empty() => memchr::memchr(b'<', bytes),
            _ => return 0,
        };
        let run = end.unwrap_or(text.len());
        self.content(head(text, run), out);
        run
    }

    /// Whether `text` begins with a quote whose meaning is not known yet. If the quote is part of the string's text,
    /// switches to a state in which it is read as that.
    fn is_open_quote(&mut self, text: &str) -> bool {
        let (State::Text(quote), Some(argument)) = (self.state, self.argument) else { return false };
        if quote.triple || !text.starts_with(quote.mark) {
            return false;
        }
        let around = Around { nested: !self.levels.is_empty(), loose: self.loose, argument };
        let is = follow::quote(tail(text, 1), around);
        if is == QuoteIs::Data {
            self.loose = true;
            self.state = State::InnerQuote(quote);
        }
        is == QuoteIs::Open
    }

    /// Reads one character. Returns whether it was used, or `None` if it cannot be part of the value.
    fn step(&mut self, character: char, out: &mut impl FnMut(&str)) -> Option<bool> {
        match self.state {
            State::Value | State::ValueOrEnd => self.value(character, out),
            State::After => self.after(character, out),
            State::Word { joins } => self.word(character, joins, out),
            State::Opening { quote, second } => Some(self.opening(quote, second, character)),
            State::Text(quote) => {
                self.state = match character {
                    '\\' => State::Escape(quote),
                    _ if quote.triple => State::Closing { quote, count: 1 },
                    _ => State::Joining,
                };
                Some(true)
            }
            State::InnerQuote(quote) => {
                self.content(character.encode_utf8(&mut [0; 4]), out);
                self.state = State::Text(quote);
                Some(true)
            }
            State::Escape(quote) => Some(self.escape(quote, character, out)),
            State::Closing { quote, count } => Some(self.closing(quote, count, character, out)),
            State::Joining => self.joining(character, out),
            State::Delimiter | State::Delimited => self.delimiter(character, out),
            State::Done => Some(false),
        }
    }

    fn value(&mut self, character: char, out: &mut impl FnMut(&str)) -> Option<bool> {
        if character.is_ascii_whitespace() {
            return Some(true);
        }
        if matches!(character, ')' | ']' | '}') {
            return (self.state == State::ValueOrEnd).then(|| self.closer(character, out)).flatten();
        }
        self.begin_value(out);
        match character {
            '[' | '(' | '{' => {
                self.open(character, out)?;
                return Some(true);
            }
            '"' | '\'' => {
                self.put("\"", out);
                self.begin_string(character, false);
                return Some(true);
            }
            '<' if matches!(self.notation, Notation::Delimited(_)) => self.state = State::Delimiter,
            _ => {
                self.state = State::Word { joins: false };
                if !self.goes_on_word(character) {
                    return None;
                }
            }
        }
        self.held.push(character);
        Some(true)
    }

    /// Begins a value or key, which shows that the comma before it is not a trailing one.
    fn begin_value(&mut self, out: &mut impl FnMut(&str)) {
        let key = self.state == State::ValueOrEnd && self.levels.last() == Some(&Level::Member);
        self.unsettled += usize::from(key);
        if std::mem::take(&mut self.comma) {
            self.put(", ", out);
        }
        if key {
            self.levels.pop();
            self.levels.push(Level::Key { from: self.kept.len() });
        }
    }

    fn open(&mut self, bracket: char, out: &mut impl FnMut(&str)) -> Option<()> {
        if self.levels.len() >= self.max_depth {
            return None;
        }
        let level = match (bracket, self.notation) {
            ('[', _) => {
                self.put("[", out);
                Level::List { close: ']' }
            }
            ('{', Notation::Delimited(_)) => {
                self.put("{", out);
                Level::Member
            }
            _ => {
                self.unsettled += 1;
                Level::Unclear { open: bracket, from: self.kept.len() }
            }
        };
        self.levels.push(level);
        self.state = State::ValueOrEnd;
        Some(())
    }

    fn after(&mut self, character: char, out: &mut impl FnMut(&str)) -> Option<bool> {
        match (character, *self.levels.last()?) {
            (blank, _) if blank.is_ascii_whitespace() => {}
            (',', Level::Key { .. }) => return None,
            (',', level) => self.comma(level, out),
            (':', Level::Unclear { open: '{', from }) => self.key_ended("{", from, out),
            (':', Level::Key { from }) => self.key_ended("", from, out),
            _ => return self.closer(character, out),
        }
        Some(true)
    }

    /// Reads a comma in `level`, which shows that the brackets do not contain a single value.
    fn comma(&mut self, level: Level, out: &mut impl FnMut(&str)) {
        if let Level::Unclear { open, from } = level {
            let close = if open == '(' { ')' } else { '}' };
            self.settle(Level::List { close });
            self.kept.insert(from, '[');
            self.flush(out);
        }
        self.comma = true;
        self.state = State::ValueOrEnd;
    }

    /// Turns the held output from `from` on into a key. Keys become strings, however they were written.
    fn key_ended(&mut self, brace: &str, from: usize, out: &mut impl FnMut(&str)) {
        let key = self.kept.split_off(from.min(self.kept.len()));
        self.kept.push_str(brace);
        if key.starts_with('"') {
            self.kept.push_str(&key);
        } else {
            quote_into(&mut self.kept, &key);
        }
        self.kept.push_str(": ");
        self.settle(Level::Member);
        self.flush(out);
        self.state = State::Value;
    }

    /// Records that the innermost level is `level`.
    fn settle(&mut self, level: Level) {
        self.levels.pop();
        self.levels.push(level);
        self.unsettled = self.unsettled.saturating_sub(1);
    }

    fn closer(&mut self, bracket: char, out: &mut impl FnMut(&str)) -> Option<bool> {
        let empty = self.state == State::ValueOrEnd && !self.comma;
        match (*self.levels.last()?, bracket) {
            (Level::Unclear { open, from }, _) if (open == '(') == (bracket == ')') => {
                self.unsettled = self.unsettled.saturating_sub(1);
                match (open, empty) {
                    ('(', true) => self.kept.push_str("[]"),
                    ('(', false) => {}
                    (_, true) => self.kept.push_str("{}"),
                    (_, false) => {
                        self.kept.insert(from, '[');
                        self.kept.push(']');
                    }
                }
                self.flush(out);
            }
            (Level::List { close }, _) if close == bracket => self.put("]", out),
            (Level::Member, '}') => self.put("}", out),
            _ => return None,
        }
        self.levels.pop();
        self.comma = false;
        self.value_ended();
        Some(true)
    }

    fn value_ended(&mut self) {
        self.state = if self.levels.is_empty() { State::Done } else { State::After };
    }

    /// Reads one character of a delimiter, or of text that starts like one.
    fn delimiter(&mut self, character: char, out: &mut impl FnMut(&str)) -> Option<bool> {
        let Notation::Delimited(delimiter) = self.notation else { return None };
        let (length, inside) = (self.held.len(), self.state == State::Delimited);
        self.held.push(character);
        if delimiter == self.held {
            self.held.clear();
            self.put("\"", out);
            self.state = State::Delimited;
            if inside {
                self.value_ended();
            }
        } else if !delimiter.starts_with(self.held.as_str()) {
            if !inside {
                return None;
            }
            // No delimiter can begin inside the held text, since the first character of a delimiter does not recur
            // in it. So all of the held text belongs to the string.
            self.held.truncate(length);
            let held = std::mem::take(&mut self.held);
            if held.is_empty() {
                self.content(character.encode_utf8(&mut [0; 4]), out);
                return Some(true);
            }
            self.content(&held, out);
            return Some(false);
        }
        Some(true)
    }

    fn put(&mut self, text: &str, out: &mut impl FnMut(&str)) {
        if self.unsettled > 0 {
            self.kept.push_str(text);
        } else {
            out(text);
        }
    }

    /// Sends the held output once nothing is left to be resolved.
    fn flush(&mut self, out: &mut impl FnMut(&str)) {
        if self.unsettled == 0 && !self.kept.is_empty() {
            out(&self.kept);
            self.kept.clear();
        }
    }
}

/// Appends `text` as a JSON string.
pub(super) fn quote_into(out: &mut String, text: &str) {
    out.push('"');
    escape_str(out, text);
    out.push('"');
}

#[cfg(test)]
mod tests;
