//! Argument bodies that are JSON: the model's bytes go through unchanged, and only what is not JSON is mended.
//!
//! [`JsonBody`] is a resumable lexer of one JSON value. Each byte goes out as soon as it is known to be part of a
//! legal text; what may still have to change is held: an unfinished escape (at most 12 bytes, so that no piece ends
//! inside a surrogate pair), a number or word (until its delimiter shows it whole), a comma (a trailing one is
//! dropped). Valid JSON therefore comes out byte for byte, and every repair is local: raw control characters in
//! strings, illegal escapes, single quotes, Python's literals, trailing commas, comments, bare keys.
//!
//! Re-serialising instead would round numbers, reorder keys and rewrite escapes, and a partial re-serialisation is
//! not a prefix of the next one, which is where peers lose their last characters.

use super::text::{head, slice, tail};

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

/// Longest number or bare word, in bytes; a longer one is a fault.
const MAX_WORD: usize = 256;

/// [`Cursor::from`] inside a comment: nothing goes out.
const SKIPPED: usize = usize::MAX;

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
    /// Open containers: `{` or `[`.
    stack: Vec<u8>,
    /// The held token's bytes of earlier pieces.
    held: String,
    repair: bool,
    max_depth: usize,
}

/// A piece being read: `from..` is raw text that has not gone out; from `mark` on it is held.
struct Cursor<'t, 'o, F> {
    text: &'t str,
    from: usize,
    mark: Option<usize>,
    out: &'o mut F,
}

impl<F: FnMut(&str)> Cursor<'_, '_, F> {
    fn emit(&mut self, text: &str) {
        if !text.is_empty() {
            (self.out)(text);
        }
    }

    /// Sends the raw text before `at` on.
    fn flush(&mut self, at: usize) {
        let text = slice(self.text, self.from, at);
        self.emit(text);
        self.from = at;
    }

    /// Puts `new` in the place of the raw text from `at` to `end`.
    fn replace(&mut self, at: usize, end: usize, new: &str) {
        self.flush(at);
        self.emit(new);
        self.from = end;
    }
}

impl JsonBody {
    pub(super) fn new(repair: bool, max_depth: usize) -> Self {
        let start = State::Value { or_end: false };
        Self { state: start, resume: start, stack: Vec::new(), held: String::new(), repair, max_depth }
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

    /// The value has ended.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads on. What is certain goes to `out`.
    pub(super) fn feed<F: FnMut(&str)>(&mut self, text: &str, out: &mut F) -> Fed {
        let holding = matches!(self.state, State::Comma | State::Escape { .. } | State::Word { .. });
        let skipping = matches!(self.state, State::Slash | State::LineComment | State::BlockComment { .. });
        let from = if skipping { SKIPPED } else { 0 };
        let mut cursor = Cursor { text, from, mark: holding.then_some(0), out };
        let mut at = 0;
        let fed = loop {
            if self.state == State::Done {
                break Fed::Done(at);
            }
            let Some(&byte) = text.as_bytes().get(at) else { break Fed::More };
            match self.step(byte, at, &mut cursor) {
                Some(next) => at = next,
                None => break Fed::Fault(at),
            }
        };
        match cursor.mark {
            Some(mark) => {
                cursor.flush(mark);
                self.held.push_str(slice(text, mark, at));
            }
            None => cursor.flush(at),
        }
        fed
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
            let closers: String =
                self.stack.iter().rev().map(|&open| if open == b'{' { '}' } else { ']' }).collect();
            if !closers.is_empty() {
                out(&closers);
            }
            self.stack.clear();
            self.state = State::Done;
        }
        self.state == State::Done
    }

    /// Takes the byte at `at`, or more; gives the offset to go on at, or `None` for a fault.
    fn step<F: FnMut(&str)>(&mut self, byte: u8, at: usize, cursor: &mut Cursor<'_, '_, F>) -> Option<usize> {
        match self.state {
            State::String { quote, key } => self.string(at, quote, key, cursor),
            State::Escape { quote, key } => self.escape(byte, at, quote, key, cursor),
            State::Word { key } => self.word(byte, at, key, cursor),
            State::Slash | State::LineComment | State::BlockComment { .. } => self.comment(byte, at, cursor),
            _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => Some(at + 1),
            _ if byte == b'/' && self.repair => {
                self.resume = self.state;
                self.state = State::Slash;
                let mark = cursor.mark.take().unwrap_or(at);
                cursor.flush(mark);
                self.held.push_str(slice(cursor.text, mark, at));
                cursor.from = SKIPPED;
                Some(at + 1)
            }
            State::Value { or_end } => self.value(byte, at, or_end, cursor),
            State::Key { or_end } => self.key(byte, at, or_end, cursor),
            State::Colon => (byte == b':').then(|| {
                self.state = State::Value { or_end: false };
                at + 1
            }),
            State::After => match byte {
                b',' if !self.stack.is_empty() => {
                    cursor.mark = Some(at);
                    self.state = State::Comma;
                    Some(at + 1)
                }
                _ => self.end(byte, at),
            },
            State::Comma => self.after_comma(byte, at, cursor),
            State::Done => None,
        }
    }

    /// The token after a comma decides whether the comma stays.
    fn after_comma<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        if matches!(byte, b'}' | b']') {
            if !self.repair {
                return None;
            }
            let whole = self.token(at, cursor);
            self.settle(at, Some(tail(&whole, 1)), cursor);
            return self.end(byte, at);
        }
        self.settle(at, None, cursor);
        let in_object = self.stack.last() == Some(&b'{');
        self.state = if in_object { State::Key { or_end: false } } else { State::Value { or_end: false } };
        Some(at)
    }

    fn value<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        or_end: bool,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        match byte {
            b'{' | b'[' => {
                if self.stack.len() >= self.max_depth {
                    return None;
                }
                self.stack.push(byte);
                self.state =
                    if byte == b'{' { State::Key { or_end: true } } else { State::Value { or_end: true } };
                Some(at + 1)
            }
            b'"' => {
                self.state = State::String { quote: byte, key: false };
                Some(at + 1)
            }
            b'\'' if self.repair => {
                cursor.replace(at, at + 1, "\"");
                self.state = State::String { quote: byte, key: false };
                Some(at + 1)
            }
            b']' if or_end => self.end(byte, at),
            b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                cursor.mark = Some(at);
                self.state = State::Word { key: false };
                Some(at + 1)
            }
            _ => None,
        }
    }

    fn key<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        or_end: bool,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        match byte {
            b'"' => {
                self.state = State::String { quote: byte, key: true };
                Some(at + 1)
            }
            b'}' if or_end => self.end(byte, at),
            b'\'' if self.repair => {
                cursor.replace(at, at + 1, "\"");
                self.state = State::String { quote: byte, key: true };
                Some(at + 1)
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' if self.repair => {
                cursor.mark = Some(at);
                self.state = State::Word { key: true };
                Some(at + 1)
            }
            _ => None,
        }
    }

    /// Closes the innermost container, if `byte` is its bracket.
    fn end(&mut self, byte: u8, at: usize) -> Option<usize> {
        let open = if byte == b'}' { b'{' } else { b'[' };
        if !matches!(byte, b'}' | b']') || self.stack.last() != Some(&open) {
            return None;
        }
        self.stack.pop();
        self.value_ended();
        Some(at + 1)
    }

    fn value_ended(&mut self) {
        self.state = if self.stack.is_empty() { State::Done } else { State::After };
    }

    /// A string's plain run, and the byte that ends it: its quote, a backslash, or what must be escaped.
    fn string<F: FnMut(&str)>(
        &mut self,
        at: usize,
        quote: u8,
        key: bool,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        let rest = tail(cursor.text, at).as_bytes();
        let special = |byte: &u8| *byte < 0x20 || matches!(*byte, b'"' | b'\\') || *byte == quote;
        match rest.iter().position(special) {
            Some(0) => {}
            run => return Some(at + run.unwrap_or(rest.len())),
        }
        match rest.first().copied().unwrap_or_default() {
            byte if byte == quote => {
                if byte != b'"' {
                    cursor.replace(at, at + 1, "\"");
                }
                if key {
                    self.state = State::Colon;
                } else {
                    self.value_ended();
                }
            }
            b'\\' => {
                cursor.mark = Some(at);
                self.state = State::Escape { quote, key };
            }
            b'"' => cursor.replace(at, at + 1, "\\\""),
            _ if !self.repair => {
                cursor.flush(at);
                return None;
            }
            b'\n' => cursor.replace(at, at + 1, "\\n"),
            b'\r' => cursor.replace(at, at + 1, "\\r"),
            b'\t' => cursor.replace(at, at + 1, "\\t"),
            control => cursor.replace(at, at + 1, &format!("\\u{control:04x}")),
        }
        Some(at + 1)
    }

    /// The held token up to `at`.
    fn token<F: FnMut(&str)>(&self, at: usize, cursor: &Cursor<'_, '_, F>) -> String {
        let mut token = self.held.clone();
        token.push_str(slice(cursor.text, cursor.mark.unwrap_or(at), at));
        token
    }

    /// Lets the held token go that ends before `at`, as it is or as `new`.
    fn settle<F: FnMut(&str)>(&mut self, at: usize, new: Option<&str>, cursor: &mut Cursor<'_, '_, F>) {
        let mark = cursor.mark.take().unwrap_or(at);
        match new {
            None if self.held.is_empty() => {}
            None => {
                let held = std::mem::take(&mut self.held);
                cursor.emit(&held);
                self.held = held;
            }
            Some(new) => cursor.replace(mark, at, new),
        }
        self.held.clear();
    }

    /// One byte of an escape. Legal ones go out as they are, others are mended: `\'` loses its backslash, any other
    /// backslash is doubled.
    fn escape<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        quote: u8,
        key: bool,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        let token = self.token(at, cursor);
        let string = State::String { quote, key };
        match token.len() {
            1 => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                    self.settle(at + 1, None, cursor);
                    self.state = string;
                    Some(at + 1)
                }
                b'u' => Some(at + 1),
                _ if !self.repair => None,
                b'\'' => {
                    self.settle(at + 1, Some("'"), cursor);
                    self.state = string;
                    Some(at + 1)
                }
                _ => {
                    self.settle(at, Some("\\\\"), cursor);
                    self.state = string;
                    Some(at)
                }
            },
            len => self.unicode_escape(byte, at, &token, len, string, cursor),
        }
    }

    /// One byte of a `\uXXXX` escape; after a high surrogate, of the low one that should follow (12 bytes in all).
    fn unicode_escape<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        token: &str,
        len: usize,
        string: State,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        let expected = match len {
            6 => byte == b'\\',
            7 => byte == b'u',
            _ => byte.is_ascii_hexdigit(),
        };
        if expected {
            let high = len == 5 && {
                let mut digits = tail(token, 2).to_owned();
                digits.push(char::from(byte));
                u16::from_str_radix(&digits, 16).is_ok_and(|unit| (0xd800..0xdc00).contains(&unit))
            };
            if len == 11 || (len == 5 && !high) {
                self.settle(at + 1, None, cursor);
                self.state = string;
            }
            return Some(at + 1);
        }
        if len >= 6 {
            // The first escape is whole; what follows is read anew, from its backslash if there is one.
            return self.split_escape(at, token, string, cursor);
        }
        if !self.repair {
            return None;
        }
        let mended = format!("\\{token}");
        self.settle(at, Some(&mended), cursor);
        self.state = string;
        Some(at)
    }

    /// A high surrogate's escape without a low one after it: it goes out alone; a second escape stays held, mended
    /// if it is none.
    fn split_escape<F: FnMut(&str)>(
        &mut self,
        at: usize,
        token: &str,
        string: State,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        let (first, second) = (head(token, 6), tail(token, 6));
        self.state = string;
        match second {
            "" => self.settle(at, None, cursor),
            "\\" => {
                // The next byte decides; the backslash begins an escape of its own.
                let first = first.to_owned();
                self.settle(at, Some(&first), cursor);
                self.held.push('\\');
                cursor.mark = Some(at);
                let State::String { quote, key } = string else { return None };
                self.state = State::Escape { quote, key };
            }
            _ if !self.repair => return None,
            _ => {
                let mended = format!("{first}\\{second}");
                self.settle(at, Some(&mended), cursor);
            }
        }
        Some(at)
    }

    /// One byte of a number, literal or bare key; the byte after it shows it whole.
    fn word<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        key: bool,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_' | b'$') {
            let start = cursor.mark.unwrap_or(at);
            return (self.held.len() + at - start < MAX_WORD).then_some(at + 1);
        }
        let token = self.token(at, cursor);
        if key {
            let quoted = format!("\"{token}\"");
            self.settle(at, Some(&quoted), cursor);
            self.state = State::Colon;
            return Some(at);
        }
        match literal(&token, self.repair) {
            Some(word) => self.settle(at, (word != token).then_some(word), cursor),
            None if is_number(&token) => self.settle(at, None, cursor),
            None => {
                let number = self.repair.then(|| mend_number(&token)).flatten()?;
                self.settle(at, Some(&number), cursor);
            }
        }
        self.value_ended();
        Some(at)
    }

    /// One byte of a comment, which is dropped.
    fn comment<F: FnMut(&str)>(
        &mut self,
        byte: u8,
        at: usize,
        cursor: &mut Cursor<'_, '_, F>,
    ) -> Option<usize> {
        let ended = match self.state {
            State::Slash => {
                self.state = match byte {
                    b'/' => State::LineComment,
                    b'*' => State::BlockComment { star: false },
                    _ => return None,
                };
                false
            }
            State::BlockComment { star } if byte != b'/' || !star => {
                self.state = State::BlockComment { star: byte == b'*' };
                false
            }
            State::LineComment => byte == b'\n',
            _ => true,
        };
        if ended {
            self.state = self.resume;
            cursor.from = at + 1;
            cursor.mark = (self.state == State::Comma).then_some(at + 1);
        }
        Some(at + 1)
    }
}

/// A literal as JSON writes it; with `repair` Python's and JavaScript's too.
fn literal(word: &str, repair: bool) -> Option<&'static str> {
    match word {
        "true" => Some("true"),
        "false" => Some("false"),
        "null" => Some("null"),
        _ if !repair => None,
        "True" => Some("true"),
        "False" => Some("false"),
        "None" => Some("null"),
        "NaN" => Some("\"NaN\""),
        "Infinity" => Some("\"Infinity\""),
        "-Infinity" => Some("\"-Infinity\""),
        _ => None,
    }
}

/// Whether `text` is a number by RFC 8259 section 6.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let int = digits(unsigned);
    if int == 0 || (int > 1 && unsigned.starts_with('0')) {
        return false;
    }
    let mut rest = tail(unsigned, int);
    if let Some(fraction) = rest.strip_prefix('.') {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = tail(fraction, len);
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let len = digits(exponent);
        return len > 0 && len == exponent.len();
    }
    rest.is_empty()
}

/// `+1`, `.5`, `5.`, `007`, `1_000` as JSON writes them.
fn mend_number(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let mut number = digits.replace('_', "");
    if number.starts_with('.') {
        number.insert(0, '0');
    }
    if number.ends_with('.') {
        number.push('0');
    }
    let leading = number.len() - number.trim_start_matches('0').len();
    if leading > 0 && tail(&number, leading).starts_with(|c: char| c.is_ascii_digit()) {
        number.drain(..leading);
    } else if leading > 1 {
        number.drain(..leading - 1);
    }
    number.insert_str(0, sign);
    is_number(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(pieces: &[&str], repair: bool) -> (String, Option<Fed>) {
        let mut body = JsonBody::new(repair, 16);
        let mut out = String::new();
        for piece in pieces {
            match body.feed(piece, &mut |text: &str| out.push_str(text)) {
                Fed::More => {}
                end => return (out, Some(end)),
            }
        }
        (out, None)
    }

    fn by_char(text: &str) -> Vec<&str> {
        text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect()
    }

    #[test]
    fn mends_only_what_is_not_json() {
        for (written, wanted) in [
            (r#"{"a": 2.50, "b":[12345678901234567890, -1e-7]}"#, None),
            (r#"{"a":"\u00e9\/\ud83d\ude00","b":true}"#, None),
            ("{\"a\":\"x\ny\tz\u{1}\"}", Some(r#"{"a":"x\ny\tz\u0001"}"#)),
            (r#"{"a":"it\'s C:\users \d+"}"#, Some(r#"{"a":"it's C:\\users \\d+"}"#)),
            (r#"{'a': True, 'b': [None, 'it\'s', "q"]}"#, Some(r#"{"a": true, "b": [null, "it's", "q"]}"#)),
            (r#"{'say': 'a "b"'}"#, Some(r#"{"say": "a \"b\""}"#)),
            (r#"{"a":1, }"#, Some(r#"{"a":1 }"#)),
            (r#"[1,2,]"#, Some("[1,2]")),
            (r#"{a: 1, /* no */ b: NaN} "#, Some(r#"{"a": 1,  "b": "NaN"}"#)),
            (
                r#"{"a": .5, "b": 007, "c": 5., "d": +1, "e": 1_000}"#,
                Some(r#"{"a": 0.5, "b": 7, "c": 5.0, "d": 1, "e": 1000}"#),
            ),
            (r#"{"a":"\ud83d\n\u12zz\ud83d"}"#, Some(r#"{"a":"\ud83d\n\\u12zz\ud83d"}"#)),
            (r#"{"a":"\ud83d\'"}"#, Some(r#"{"a":"\ud83d'"}"#)),
            (r#"{"a":"\ud83d\u0041"}"#, None),
        ] {
            let wanted = wanted.unwrap_or(written);
            let (whole, end) = run(&[written], true);
            assert_eq!(whole, wanted, "{written}");
            assert!(matches!(end, Some(Fed::Done(_))), "{written}: {end:?}");
            assert_eq!(run(&by_char(written), true).0, wanted, "by character: {written}");
        }
    }

    #[test]
    fn strict_faults_at_the_first_byte_that_is_not_json() {
        for (written, at) in [
            ("{\"a\":\"x\ny\"}", 7),
            ("{'a':1}", 1),
            ("{\"a\":1,}", 7),
            ("{\"a\":True}", 9),
            ("{\"a\":01}", 7),
            ("{\"a\" 1}", 5),
            ("[1}", 2),
        ] {
            assert_eq!(run(&[written], false).1, Some(Fed::Fault(at)), "{written}");
        }
    }

    #[test]
    fn closes_only_what_is_provably_whole() {
        for (written, closed) in [
            (r#"{"cmd":"ls""#, Some("}")),
            (r#"{"a":[{"b":true"#, Some("true}]}")),
            (r#"{"a":1"#, None),
            (r#"{"a":"rm -r build"#, None),
            (r#"{"a":"#, None),
            (r#"{"a":"x","#, None),
            ("{", None),
        ] {
            let mut body = JsonBody::new(true, 16);
            body.feed(written, &mut |_: &str| {});
            let mut out = String::new();
            let whole = body.close(&mut |text: &str| out.push_str(text));
            assert_eq!(whole.then_some(out.as_str()), closed, "{written}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn valid_json_is_byte_identical(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let text = format!("[{text}]");
            for repair in [false, true] {
                prop_assert_eq!(&run(&[&text], repair).0, &text);
                prop_assert_eq!(&run(&by_char(&text), repair).0, &text);
            }
        }

        #[test]
        fn output_does_not_depend_on_cuts_and_is_json(text in r#"[\[{]["'{}\[\],:\\ua0-9 \ndTruefalsN/*.-]{0,40}"#) {
            let (whole, end) = run(&[&text], true);
            let (pieces, piece_end) = run(&by_char(&text), true);
            prop_assert_eq!(&whole, &pieces);
            prop_assert_eq!(end.is_some(), piece_end.is_some());
            if let Some(Fed::Done(_)) = end {
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&whole).is_ok(), "{} -> {}", text, whole);
            }
        }
    }
}
