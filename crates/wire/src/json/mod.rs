//! JSON that is read in place. [`Json`] is a view of a complete text, `Scanner` reads a text as it arrives, and
//! [`FrameTemplate`] recognises similar frames of a stream. An `Index` makes it cheaper to walk deeply nested texts.
//! `Unescaper` and [`escape_into`] convert string bodies to text and back, [`Raw`] holds a value as it was written, and
//! `Encoder` writes JSON.
//!
//! No tree is built. A reader of a stream needs two or three members of each event, and must preserve the spelling
//! of numbers and the order of keys in everything that it forwards. A tree would cost one allocation per member and
//! lose both.

mod compare;
mod encoder;
mod escape;
mod frame_template;
mod index;
mod memory;
mod raw;
mod scanner;
mod search;
mod surrogates;
mod whole;

pub use compare::{continues, is_same};
pub use encoder::Encoder;
pub use escape::{Unescaper, escape_into, escape_str};
pub use frame_template::FrameTemplate;
pub use index::Index;
use index::{Extent, LONG};
pub use memory::{ALLOCATION, memory_of, memory_of_members};
pub use raw::Raw;
pub use scanner::{MAX_DEPTH, Progress, Scanner, ScannerPlace, Unsettled};
use search::{has_no_escapes, plain_run};
pub use surrogates::mend_surrogates;

use std::{borrow::Cow, fmt, ops::Range};

use bytes::Bytes;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The text is not one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why} at byte {at}")]
pub struct Invalid {
    /// The offset of the first invalid byte, or the length of the text if it ends too early.
    pub at: usize,
    why: &'static str,
}

/// A valid JSON value within a larger text.
///
/// [`Json::parse`] checks the complete text once. After that, nothing can fail: an accessor for a different kind of
/// value returns `None` or an empty iterator. Readers of careless upstreams rely on this to treat a member that is
/// missing, `null` or of the wrong kind in the same way.
#[derive(Clone, Copy)]
pub struct Json<'a> {
    /// The value as it was written.
    text: &'a str,
    /// The containers and long strings in it, if they are indexed.
    inner: &'a [Extent],
    /// The bytes that contain `text`, if they can be shared.
    source: Option<&'a Bytes>,
}

impl<'a> Json<'a> {
    /// Checks that `text` is one JSON value, possibly surrounded by white space and nested at most `MAX_DEPTH` deep.
    ///
    /// # Errors
    /// `text` is not one JSON value.
    pub fn parse(text: &'a str) -> Result<Self, Invalid> {
        Self::checked(text, |begin| whole::value(begin, &mut ()))
    }

    /// Combines [`Json::parse`] and [`Json::members`]: passes the members of an object to `on` while the text is
    /// being checked. If this returns an error, the caller must discard those members.
    ///
    /// # Errors
    /// `text` is not one JSON value.
    pub fn parse_members(text: &'a str, mut on: impl FnMut(Cow<'a, str>, Json<'a>)) -> Result<Self, Invalid> {
        let place = |rest: &[u8]| text.len() - rest.len();
        Self::checked(text, |begin| {
            whole::members(begin, |key, value, end| {
                let mut values = Values { text, at: place(key), inner: &[], source: None };
                let value = text.get(place(value)..place(end));
                on(values.key().unwrap_or_default(), Json::unindexed(value.unwrap_or_default()));
            })
        })
    }

    /// Creates a view of a valid value without an index.
    fn unindexed(text: &'a str) -> Self {
        Self { text, inner: &[], source: None }
    }

    fn checked(text: &'a str, check: impl FnOnce(&'a [u8]) -> whole::Rest<'a>) -> Result<Self, Invalid> {
        let place = |rest: &[u8]| text.len() - rest.len();
        let begin = whole::space(text.as_bytes());
        let end = check(begin).map_err(|rest| Invalid {
            at: place(rest),
            why: if rest.is_empty() { "JSON text ends too early" } else { "not JSON" },
        })?;
        match whole::space(end) {
            [] => Ok(Self::unindexed(text.get(place(begin)..place(end)).unwrap_or_default())),
            behind => Err(Invalid { at: place(behind), why: "more text behind the JSON value" }),
        }
    }

    /// Like [`Json::parse`], but for bytes.
    ///
    /// # Errors
    /// The bytes are not UTF-8 or not JSON.
    pub fn parse_bytes(bytes: &'a [u8]) -> Result<Self, Invalid> {
        let text =
            str::from_utf8(bytes).map_err(|error| Invalid { at: error.valid_up_to(), why: "not UTF-8" })?;
        Self::parse(text)
    }

    /// The value as it was written.
    pub fn raw(&self) -> &'a str {
        self.text
    }

    /// The kind of the value.
    pub fn kind(&self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// The value of `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        self.raw().parse().ok()
    }

    /// The value of a number, if it is written as an integer and fits into a `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        self.raw().parse().ok()
    }

    /// The text between the quotes of a string, as it was written.
    pub fn string_body(&self) -> Option<&'a str> {
        self.text.strip_prefix('"')?.strip_suffix('"')
    }

    /// Like [`Json::string_body`], but can outlive the text: returns a slice of the shared source if there is one,
    /// and otherwise a copy.
    pub fn kept_body(&self) -> Option<Bytes> {
        let body = self.string_body()?.as_bytes();
        let shared = self.source.and_then(|source| Some(source.slice(place_in(source, body)?)));
        Some(shared.unwrap_or_else(|| Bytes::copy_from_slice(body)))
    }

    /// The decoded text of a string. An unpaired surrogate becomes U+FFFD.
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        self.string_body().map(decoded)
    }

    /// Decodes a string body; see [`Json::string_body`].
    pub fn decoded(body: &str) -> Cow<'_, str> {
        decoded(body)
    }

    /// Converts the value to a tree, or to `null` if a tree cannot represent it because of an unpaired surrogate or
    /// its nesting depth.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(self.raw()).unwrap_or_default()
    }

    /// The members of an object in order, including repeated keys. Empty for other kinds.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> + use<'a> {
        let mut values = self.values(b'{');
        std::iter::from_fn(move || {
            let key = values.key()?;
            Some((key, values.next()?))
        })
    }

    /// The elements of an array in order. Empty for other kinds.
    pub fn elements(&self) -> impl Iterator<Item = Json<'a>> + use<'a> {
        self.values(b'[')
    }

    /// The first member with this key.
    pub fn get(&self, key: &str) -> Option<Json<'a>> {
        let mut values = self.values(b'{');
        loop {
            let name = values.key()?;
            let value = values.next()?;
            if name == key {
                return Some(value);
            }
        }
    }

    /// The string in the member `key`. Empty if it is missing or not a string.
    pub fn text(&self, key: &str) -> Cow<'a, str> {
        self.get(key).and_then(|value| value.as_str()).unwrap_or_default()
    }

    fn values(&self, bracket: u8) -> Values<'a> {
        let is_one = self.text.as_bytes().first() == Some(&bracket);
        let at = if is_one { 1 } else { self.text.len() };
        Values { text: self.text, at, inner: self.inner, source: self.source }
    }
}

impl Default for Json<'_> {
    /// `null`
    fn default() -> Self {
        Self::unindexed("null")
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

/// Returns the range of `inner` in `outer`, or `None` if `inner` is not a slice of `outer`.
pub fn span(outer: &str, inner: &str) -> Option<Range<usize>> {
    place_in(outer.as_bytes(), inner.as_bytes())
}

fn place_in(outer: &[u8], inner: &[u8]) -> Option<Range<usize>> {
    let start = inner.as_ptr().addr().checked_sub(outer.as_ptr().addr())?;
    let range = start..start + inner.len();
    (range.end <= outer.len()).then_some(range)
}

fn decoded(body: &str) -> Cow<'_, str> {
    if has_no_escapes(body) {
        return Cow::Borrowed(body);
    }
    let mut unescaper = Unescaper::new();
    let mut text = String::with_capacity(body.len());
    unescaper.decode(body, &mut text);
    text.extend(unescaper.finish());
    Cow::Owned(text)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// The values in a valid container. Keys and values of an object alternate.
struct Values<'a> {
    text: &'a str,
    /// The offset after the last value returned.
    at: usize,
    /// The containers and long strings from `at` on, if they are indexed.
    inner: &'a [Extent],
    source: Option<&'a Bytes>,
}

impl<'a> Values<'a> {
    fn key(&mut self) -> Option<Cow<'a, str>> {
        let [b'"', body @ ..] = self.ahead() else { return None };
        let run = plain_run(body);
        // Most keys have no escapes, so a single scan finds their end.
        let is_plain = body.get(run) == Some(&b'"');
        let end = if is_plain { run + 1 } else { string_end(body) };
        let start = self.at + 1;
        self.at = start + end;
        let key = self.text.get(start..self.at - 1)?;
        Some(if is_plain { Cow::Borrowed(key) } else { decoded(key) })
    }

    /// Returns the length of the next container or long string, and the extents inside it.
    fn known(&mut self) -> Option<(usize, &'a [Extent])> {
        let (next, behind) = self.inner.split_first()?;
        let (inner, behind) = behind.split_at_checked(next.inner as usize)?;
        self.inner = behind;
        Some((next.bytes as usize, inner))
    }

    /// Returns the bytes after white space, commas and colons.
    fn ahead(&mut self) -> &'a [u8] {
        let mut rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        while let [b',' | b':' | b' ' | b'\n' | b'\r' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        self.at = self.text.len() - rest.len();
        rest
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Json<'a>;

    /// Finds the end of a value only once, whether the caller then reads the value or continues after it.
    fn next(&mut self) -> Option<Json<'a>> {
        let mut inner: &[Extent] = &[];
        let length = match self.ahead() {
            [] | [b'}' | b']', ..] => return None,
            [b'"', body @ ..] => match quote(body.get(..LONG).unwrap_or(body)) {
                Some(end) => 1 + end,
                None => self.known().map_or_else(|| 1 + string_end(body), |(length, _)| length),
            },
            bytes @ [b'{' | b'[', ..] => match self.known() {
                Some((length, known)) => {
                    inner = known;
                    length
                }
                None => container_end(bytes),
            },
            bytes => bytes
                .iter()
                .position(|byte| is_space(*byte) || matches!(byte, b',' | b'}' | b']'))
                .unwrap_or(bytes.len()),
        };
        let start = self.at;
        self.at += length;
        self.text.get(start..self.at).map(|text| Json { text, inner, source: self.source })
    }
}

/// Returns the length of the valid container at the start of `bytes`.
fn container_end(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    let mut depth = 0_usize;
    while let [byte, tail @ ..] = rest {
        rest = match byte {
            b'"' => tail.get(string_end(tail)..).unwrap_or_default(),
            _ => tail,
        };
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => break,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    bytes.len() - rest.len()
}

/// Returns the offset after the quote that ends the string whose body continues with `bytes`.
fn string_end(bytes: &[u8]) -> usize {
    quote(bytes).unwrap_or(bytes.len())
}

/// Like [`string_end`], but returns `None` if the string does not end in `bytes`.
fn quote(bytes: &[u8]) -> Option<usize> {
    let behind = search::body(bytes, |escaped| escaped.get(1..).ok_or(escaped)).ok()?;
    Some(bytes.len() - behind.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: &str = r#" {"id":"x","choices":[{"index":0,"delta":{"content":"a\nb"},"end":null}],"n":12,"e":{ },"f":[ ],"id":2} "#;

    #[test]
    fn a_view_returns_existing_values_only() {
        let json = Json::parse(CHUNK).unwrap();
        assert_eq!(json.raw(), CHUNK.trim());
        assert_eq!(json.get("id").unwrap().as_str().unwrap(), "x");
        let choice = json.get("choices").unwrap().elements().next().unwrap();
        let delta = choice.get("delta").unwrap();
        assert_eq!(delta.get("content").unwrap().as_str().unwrap(), "a\nb");
        assert_eq!(delta.get("content").unwrap().string_body().unwrap(), r"a\nb");
        assert!(choice.get("end").unwrap().is_null());
        assert_eq!(json.get("n").unwrap().as_u64(), Some(12));
        assert_eq!(json.get("e").unwrap().members().count(), 0);
        assert_eq!(json.get("f").unwrap().elements().count(), 0);
        let keys: Vec<_> = json.members().map(|(key, _)| key.into_owned()).collect();
        assert_eq!(keys, ["id", "choices", "n", "e", "f", "id"]);
        assert!(json.as_str().is_none() && json.as_u64().is_none() && json.as_bool().is_none());
        assert!(json.elements().next().is_none() && json.get("missing").is_none());
        assert_eq!(json.get("choices").unwrap().to_value()[0]["delta"]["content"], "a\nb");
    }

    #[test]
    fn errors_contain_the_offset() {
        let at = |text: &[u8]| Json::parse_bytes(text).unwrap_err().at;
        assert_eq!(at(b""), 0);
        assert_eq!(at(b"{\"a\":tru}"), 8);
        assert_eq!(at(b"{\"a\":1} x"), 8);
        assert_eq!(at(b"{\"a\":1"), 6);
        assert_eq!(at(b"\"\xff\""), 1);
        assert_eq!(Json::parse("[1,]").unwrap_err().to_string(), "not JSON at byte 3");
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(at(nested(MAX_DEPTH + 1).as_bytes()), MAX_DEPTH);
    }
}
