//! [`Shape`]: the fast path for a stream whose events differ in one string and one number only.

use std::ops::Range;

use super::{Json, Scanner, scanner::plain_run};

/// What the frames of a stream have in common, learnt from one of them.
///
/// A model's answer is hundreds of frames that are equal but for the token in them, and often a counter. To know such a
/// frame it is enough to compare what is before, between and behind the two with what a full parse has once found to be
/// JSON, and to check the two themselves: about the cost of reading the bytes once. Where the comparison fails the
/// frame is parsed in full, so a shape never decides what is valid, it only says so sooner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The frame up to its first varying part.
    head: Box<[u8]>,
    number: Number,
    /// The frame from behind its last varying part.
    tail: Box<[u8]>,
}

/// Where a frame has its number, and what is between it and the string.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Number {
    None,
    Before(Box<[u8]>),
    Behind(Box<[u8]>),
}

impl Shape {
    /// The shape of `frame`, whose string body lies at `body` (its quotes not included) and whose number at `number`.
    /// `None` if `frame` is not JSON, `body` is not the whole body of a string value in it, or `number` not a whole
    /// value of digits only.
    pub fn learn(frame: &str, body: Range<usize>, number: Option<Range<usize>>) -> Option<Self> {
        Json::parse(frame).ok()?;
        let text = |range: Range<usize>| frame.as_bytes().get(range);
        let boxed = |range: Range<usize>| text(range).map(Box::from);
        let opens = frame.get(..body.start)?.strip_suffix('"').is_some_and(awaits_value);
        if !opens || string_body(text(body.start..frame.len())?)?.len() != body.len() {
            return None;
        }
        let Some(number) = number else {
            let (head, tail) = (boxed(0..body.start)?, boxed(body.end..frame.len())?);
            return Some(Self { head, number: Number::None, tail });
        };
        let behind = digits(text(number.start..frame.len())?)?;
        let whole =
            behind.len() + number.end == frame.len() && !matches!(behind.first(), Some(b'.' | b'e' | b'E'));
        if !whole || !awaits_value(frame.get(..number.start)?) {
            return None;
        }
        let first = body.start.min(number.start);
        let last = body.end.max(number.end);
        let number = if number.start < body.start {
            Number::Before(boxed(number.end..body.start)?)
        } else {
            Number::Behind(boxed(body.end..number.start)?)
        };
        Some(Self { head: boxed(0..first)?, number, tail: boxed(last..frame.len())? })
    }

    /// The string body (escapes not decoded) of a frame of this shape, which is then certainly JSON. `None` says only
    /// that the frame has to be parsed.
    pub fn body<'a>(&self, frame: &'a [u8]) -> Option<&'a str> {
        let mut rest = frame.strip_prefix(&*self.head)?;
        if let Number::Before(between) = &self.number {
            rest = digits(rest)?.strip_prefix(&**between)?;
        }
        let body = string_body(rest)?;
        let mut rest = rest.get(body.len()..)?;
        if let Number::Behind(between) = &self.number {
            rest = digits(rest.strip_prefix(&**between)?)?;
        }
        if *rest != *self.tail {
            return None;
        }
        str::from_utf8(body).ok()
    }
}

/// `text` is the beginning of a JSON text behind which a value has to come.
fn awaits_value(text: &str) -> bool {
    let mut scanner = Scanner::new(super::MAX_DEPTH);
    scanner.push(text.as_bytes());
    scanner.awaits_value()
}

/// What comes behind a number of digits only.
fn digits(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit())?;
    let (number, rest) = bytes.split_at_checked(end)?;
    let whole = matches!(number, [b'0'] | [b'1'..=b'9', ..]);
    whole.then_some(rest)
}

/// The valid string body up to the first quote that is not escaped.
fn string_body(bytes: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    loop {
        end += plain_run(bytes.get(end..)?).ok()?.len();
        match bytes.get(end..)? {
            [b'"', ..] => return bytes.get(..end),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => end += 2,
            [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => {
                end += 6;
            }
            _ => return None,
        }
    }
}
