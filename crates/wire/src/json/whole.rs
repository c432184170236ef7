//! The grammar for a complete text. It makes the same checks as [`Scanner`](super::Scanner), but is several times
//! faster, since it does not have to store its state between pieces.
//!
//! Each function parses the start of a text. `Ok` holds the text after what was parsed. `Err` holds the text after
//! the last byte that could belong to JSON, which is empty if the text ends too early.

use super::{MAX_DEPTH, search};

/// What follows the parsed part of a text.
pub(super) type Rest<'a> = Result<&'a [u8], &'a [u8]>;

#[derive(Default)]
struct Open {
    depth: usize,
    /// One bit per container, with the innermost one lowest. Set for arrays.
    arrays: u128,
}

impl Open {
    fn push(&mut self, is_array: bool) {
        self.depth += 1;
        self.arrays = self.arrays << 1 | u128::from(is_array);
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.arrays >>= 1;
    }

    fn in_array(&self) -> bool {
        self.arrays & 1 == 1
    }
}

/// Receives the positions of containers and other facts about the text. Positions are given as the number of bytes
/// that follow.
pub(super) trait Marks {
    /// The next byte opens a container.
    fn open(&mut self, left: usize);
    /// The innermost container has ended.
    fn close(&mut self, left: usize);
    /// A string value of this many bytes, including quotes, has ended.
    fn string(&mut self, bytes: usize);
    /// An unpaired surrogate is escaped here.
    fn surrogate(&mut self);
}

impl Marks for () {
    fn open(&mut self, _: usize) {}
    fn close(&mut self, _: usize) {}
    fn string(&mut self, _: usize) {}
    fn surrogate(&mut self) {}
}

/// Parses a value that is nested at most [`MAX_DEPTH`] deep.
pub(super) fn value<'a>(text: &'a [u8], marks: &mut impl Marks) -> Rest<'a> {
    nested(text, MAX_DEPTH, marks)
}

/// Like [`value`], but passes each member of an object to `on`, as the texts that start at its key, at its value
/// and after its end.
pub(super) fn members<'a>(text: &'a [u8], mut on: impl FnMut(&[u8], &[u8], &[u8])) -> Rest<'a> {
    let [b'{', tail @ ..] = text else { return value(text, &mut ()) };
    let mut rest = space(tail);
    if let [b'}', tail @ ..] = rest {
        return Ok(tail);
    }
    loop {
        let value = key(rest, &mut ())?;
        let end = nested(value, MAX_DEPTH - 1, &mut ())?;
        on(rest, value, end);
        rest = match space(end) {
            [b',', tail @ ..] => space(tail),
            [b'}', tail @ ..] => return Ok(tail),
            rest => return Err(rest),
        };
    }
}

/// Parses a value that is nested at most `max_depth` deep.
fn nested<'a>(text: &'a [u8], max_depth: usize, marks: &mut impl Marks) -> Rest<'a> {
    let mut open = Open::default();
    let mut rest = text;
    loop {
        rest = match rest {
            [b'"', tail @ ..] => {
                let behind = string(tail, marks)?;
                marks.string(rest.len() - behind.len());
                behind
            }
            [bracket @ (b'{' | b'['), tail @ ..] => {
                if open.depth == max_depth {
                    return Err(rest);
                }
                marks.open(rest.len());
                let tail = space(tail);
                match (bracket, tail) {
                    (b'{', [b'}', tail @ ..]) | (b'[', [b']', tail @ ..]) => {
                        marks.close(tail.len());
                        tail
                    }
                    _ => {
                        open.push(*bracket == b'[');
                        rest = if *bracket == b'[' { tail } else { key(tail, marks)? };
                        continue;
                    }
                }
            }
            [b't', ..] => literal(rest, b"true")?,
            [b'f', ..] => literal(rest, b"false")?,
            [b'n', ..] => literal(rest, b"null")?,
            _ => number(rest)?,
        };
        rest = match behind(rest, &mut open, marks)? {
            rest if open.depth == 0 => return Ok(rest),
            rest if open.in_array() => rest,
            rest => key(rest, marks)?,
        };
    }
}

/// Parses what follows a value: the ends of containers, and the comma before the next value or key.
fn behind<'a>(mut rest: &'a [u8], open: &mut Open, marks: &mut impl Marks) -> Rest<'a> {
    while open.depth > 0 {
        rest = match space(rest) {
            [b',', tail @ ..] => return Ok(space(tail)),
            [b']', tail @ ..] if open.in_array() => tail,
            [b'}', tail @ ..] if !open.in_array() => tail,
            rest => return Err(rest),
        };
        open.pop();
        marks.close(rest.len());
    }
    Ok(rest)
}

fn key<'a>(rest: &'a [u8], marks: &mut impl Marks) -> Rest<'a> {
    let [b'"', tail @ ..] = rest else { return Err(rest) };
    match space(string(tail, marks)?) {
        [b':', tail @ ..] => Ok(space(tail)),
        rest => Err(rest),
    }
}

pub(super) fn space(rest: &[u8]) -> &[u8] {
    match rest {
        [b' ' | b'\n' | b'\r' | b'\t', ..] => {
            let end = rest.iter().position(|byte| !super::is_space(*byte)).unwrap_or(rest.len());
            rest.get(end..).unwrap_or_default()
        }
        _ => rest,
    }
}

#[inline]
pub(super) fn string<'a>(rest: &'a [u8], marks: &mut impl Marks) -> Rest<'a> {
    search::body(rest, |tail| numbered(tail, marks))
}

/// Parses the `\u` escape after a backslash, or both escapes of a surrogate pair.
fn numbered<'a>(rest: &'a [u8], marks: &mut impl Marks) -> Rest<'a> {
    let [b'u', tail @ ..] = rest else { return Err(rest) };
    let behind = four_digits(tail)?;
    match tail {
        [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => {
            if let Some(behind) = low_surrogate(behind) {
                return Ok(behind);
            }
            marks.surrogate();
        }
        [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => marks.surrogate(),
        _ => {}
    }
    Ok(behind)
}

/// Returns the text after the second half of a surrogate pair.
fn low_surrogate(rest: &[u8]) -> Option<&[u8]> {
    let digits = rest.strip_prefix(br"\u")?;
    let [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] = digits else { return None };
    four_digits(digits).ok()
}

fn four_digits(rest: &[u8]) -> Rest<'_> {
    match rest.iter().take(4).take_while(|digit| digit.is_ascii_hexdigit()).count() {
        4 => Ok(rest.get(4..).unwrap_or_default()),
        digits => Err(rest.get(digits..).unwrap_or_default()),
    }
}

fn number(rest: &[u8]) -> Rest<'_> {
    let mut rest = match rest.strip_prefix(b"-").unwrap_or(rest) {
        [b'0', tail @ ..] => tail,
        rest => digits(rest)?,
    };
    if let [b'.', tail @ ..] = rest {
        rest = digits(tail)?;
    }
    if let [b'e' | b'E', tail @ ..] = rest {
        rest = match tail {
            [b'+' | b'-', tail @ ..] => digits(tail)?,
            _ => digits(tail)?,
        };
    }
    Ok(rest)
}

fn digits(rest: &[u8]) -> Rest<'_> {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    match rest.get(end..) {
        Some(tail) if end > 0 => Ok(tail),
        _ => Err(rest),
    }
}

fn literal<'a>(rest: &'a [u8], word: &[u8]) -> Rest<'a> {
    rest.strip_prefix(word).ok_or_else(|| {
        let same = rest.iter().zip(word).take_while(|(byte, letter)| byte == letter).count();
        rest.get(same..).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The last ones are not valid escapes.
    const ESCAPES: [&str; 16] = [
        "",
        r#"\""#,
        r"\\",
        r"\/",
        r"\b",
        r"\f",
        r"\n",
        r"\r",
        r"\t",
        r"\u00e9",
        r"\ud83d\ude00",
        r#"\\\""#,
        r"\\\\",
        r"\x",
        r"\u12g4",
        "\u{1}",
    ];

    proptest! {
        #[test]
        fn strings_are_read_as_by_serde_json_wherever_their_escapes_are(
            pieces in prop::collection::vec((0..70_usize, prop::sample::select(&ESCAPES[..])), 0..8),
            rest in 0..70_usize,
        ) {
            let plain = |length| "é=".repeat(length / 3) + &"a".repeat(length % 3);
            let body: String = pieces.iter().map(|(length, escape)| plain(*length) + escape).collect();
            let text = format!("\"{body}{}\"", plain(rest));
            let read = value(text.as_bytes(), &mut ()).is_ok_and(<[u8]>::is_empty);
            prop_assert_eq!(read, serde_json::from_str::<String>(&text).is_ok(), "{}", text);
        }
    }
}
