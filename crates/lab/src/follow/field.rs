//! Borrowed values of an event, and compact summaries of earlier values.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use toolwire_pipeline::wire::json::{MAX_DEPTH, Progress, Scanner, Unescaper};

/// The raw value of a member, or the default if the member is absent.
///
/// Values are decoded on demand. A value of the wrong type is reported where its rule is checked, and does not prevent
/// reading the other members.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Field<'a>(Option<&'a str>);

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(Some(raw.get())))
    }
}

impl<'a> Field<'a> {
    pub(crate) fn raw(self) -> &'a str {
        self.0.unwrap_or_default()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == Some("null")
    }

    /// Whether the member is present and not `null`.
    pub(crate) fn has_value(self) -> bool {
        self.0.is_some_and(|raw| raw != "null")
    }

    /// Returns the text between the quotes of a string, without decoding it.
    pub(crate) fn text(self) -> Option<&'a str> {
        self.0?.strip_prefix('"')?.strip_suffix('"')
    }

    /// Like [`Field::text`], but returns `None` for an empty string.
    pub(crate) fn word(self) -> Option<&'a str> {
        self.text().filter(|text| !text.is_empty())
    }

    /// Whether the value is the string `word`.
    pub(crate) fn is(self, word: &str) -> bool {
        self.text() == Some(word)
    }

    pub(crate) fn number(self) -> Option<u64> {
        self.0?.parse().ok()
    }

    pub(crate) fn is_object(self) -> bool {
        self.raw().starts_with('{')
    }

    /// Whether the value is an empty array or object.
    pub(crate) fn is_empty(self) -> bool {
        let inside = self.0.and_then(|raw| raw.strip_prefix(['[', '{'])?.strip_suffix([']', '}']));
        inside.is_some_and(|inside| inside.trim_ascii().is_empty())
    }

    /// Reads the value as an object. Returns an empty object if the value is not one.
    pub(crate) fn read<T: Deserialize<'a> + Default>(self) -> T {
        self.0.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default()
    }

    /// Returns the decoded string, for messages.
    pub(crate) fn told(self) -> String {
        let mut scratch = String::new();
        decoded(self.text().unwrap_or_default(), &mut scratch).to_owned()
    }
}

/// Decodes the body of a string. Borrows it if there is nothing to decode.
pub(crate) fn decoded<'b>(body: &'b str, scratch: &'b mut String) -> &'b str {
    Unescaper::new().decode(body, scratch)
}

/// An array that rarely has more than one element. The first element needs no allocation.
#[derive(Debug)]
pub(crate) struct SmallList<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> SmallList<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SmallList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Array<T> {
            type Value = SmallList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<SmallList<T>, A::Error> {
                let mut list = SmallList { first: elements.next_element()?, rest: Vec::new() };
                while let Some(element) = elements.next_element()? {
                    list.rest.push(element);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Array(PhantomData))
    }
}

/// The length and FNV-1a hash of a text that arrives in pieces, for comparison with the complete text. Uses constant
/// memory.
#[derive(Debug, Clone)]
pub(crate) struct Sum {
    length: usize,
    hash: u64,
    unescaper: Unescaper,
}

impl Default for Sum {
    fn default() -> Self {
        Self { length: 0, hash: 0xcbf2_9ce4_8422_2325, unescaper: Unescaper::new() }
    }
}

impl Sum {
    /// Adds a piece, the undecoded body of a JSON string, and returns the decoded text.
    pub(crate) fn push<'b>(&mut self, body: &'b str, scratch: &'b mut String) -> &'b str {
        let text = self.unescaper.decode(body, scratch);
        self.length += text.len();
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        text
    }

    /// Whether the pieces add up to `body`, the undecoded body of a JSON string.
    pub(crate) fn is(&self, body: &str, scratch: &mut String) -> bool {
        let mut whole = Self::default();
        whole.push(body, scratch);
        (whole.length, whole.hash) == (self.length, self.hash)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Validates JSON that arrives in pieces, without storing it.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    scanner: Scanner,
    empty: bool,
    broken: bool,
}

impl Default for Document {
    fn default() -> Self {
        Self { scanner: Scanner::new(MAX_DEPTH), empty: true, broken: false }
    }
}

impl Document {
    pub(crate) fn push(&mut self, piece: &str) {
        let (taken, progress) = self.scanner.push(piece.as_bytes());
        let rest = piece.as_bytes().get(taken..).unwrap_or_default();
        let is_space = rest.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.broken |= match progress {
            Progress::More | Progress::End => !is_space,
            _ => true,
        };
        self.empty &= piece.is_empty();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    pub(crate) fn is_whole(&self) -> bool {
        !self.broken && self.scanner.finish()
    }
}
