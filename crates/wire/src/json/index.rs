//! [`Index`]: records where containers and long strings end while the text is being checked.

use std::ops::Range;

use bytes::Bytes;

use super::{
    Invalid, Json, span,
    whole::{self, Marks},
};

/// Strings are recorded if they have more than this many bytes after the first quote. For shorter ones, a lookup is
/// no faster than a search for the end.
pub(super) const LONG: usize = 64;

/// Makes it possible to walk a value without searching for the end of each nested value at every level, which a
/// view without an index has to do. This pays off if most of a deeply nested text is read, such as a request.
#[derive(Debug, Default)]
pub struct Index {
    /// Sorted by their start, so that a container precedes its contents.
    extents: Vec<Extent>,
    /// The index of the innermost open container.
    innermost: usize,
    /// The range of the value in the text.
    value: Range<usize>,
    has_surrogates: bool,
}

/// A container or a long string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Its length in bytes, including brackets or quotes. While it is open, this is the length of the text from its
    /// start on.
    pub(super) bytes: u32,
    /// How many extents it contains, at any depth. While it is open, this is the index of its parent.
    pub(super) inner: u32,
}

impl Index {
    /// Like [`Json::parse`], but the view knows where its containers end.
    ///
    /// # Errors
    /// `text` is not one JSON value.
    pub fn parse<'a>(&'a mut self, text: &'a str) -> Result<Json<'a>, Invalid> {
        self.read(text)?;
        Ok(self.view(text))
    }

    /// Checks that `text` is one JSON value, and indexes it in place of the previous text.
    ///
    /// # Errors
    /// `text` is not one JSON value.
    pub fn read(&mut self, text: &str) -> Result<(), Invalid> {
        *self = Self::default();
        let json = match u32::try_from(text.len()) {
            Ok(_) => Json::checked(text, |begin| whole::value(begin, self))?,
            Err(_) => {
                self.has_surrogates = true;
                Json::parse(text)?
            }
        };
        self.value = span(text, json.raw()).unwrap_or_default();
        Ok(())
    }

    /// Like `view`, but strings can outlive the view without a copy. They share `source`, which must contain
    /// `text`.
    pub fn view_of<'a>(&'a self, text: &'a str, source: &'a Bytes) -> Json<'a> {
        Json { source: Some(source), ..self.view(text) }
    }

    /// Returns the value of `text`, which must be the text that was indexed.
    pub(crate) fn view<'a>(&'a self, text: &'a str) -> Json<'a> {
        // If the value itself is a container or a long string, it is the first extent.
        let inner = self.extents.get(1..).unwrap_or_default();
        Json { inner, ..Json::unindexed(text.get(self.value.clone()).unwrap_or_default()) }
    }

    /// Whether the indexed text may contain an escaped surrogate without its other half.
    pub fn has_surrogates(&self) -> bool {
        self.has_surrogates
    }
}

impl Marks for Index {
    fn open(&mut self, left: usize) {
        let outer = std::mem::replace(&mut self.innermost, self.extents.len());
        self.extents.push(Extent { bytes: left as u32, inner: outer as u32 });
    }

    fn close(&mut self, left: usize) {
        let count = self.extents.len();
        let Some(extent) = self.extents.get_mut(self.innermost) else { return };
        let inner = count - self.innermost - 1;
        self.innermost = extent.inner as usize;
        *extent = Extent { bytes: extent.bytes - left as u32, inner: inner as u32 };
    }

    fn string(&mut self, bytes: usize) {
        if bytes > 1 + LONG {
            self.extents.push(Extent { bytes: bytes as u32, inner: 0 });
        }
    }

    fn surrogate(&mut self) {
        self.has_surrogates = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::Kind;

    /// Collects everything that a walk visits.
    fn walked(json: Json<'_>, found: &mut Vec<String>) {
        found.push(json.raw().to_owned());
        match json.kind() {
            Kind::Array => json.elements().for_each(|element| walked(element, found)),
            Kind::Object => json.members().for_each(|(key, value)| {
                found.push(key.into_owned());
                walked(value, found);
            }),
            _ => {}
        }
    }

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("1.50".to_owned()),
            Just(" null ".to_owned()),
            Just(r#""a{[\"\\""#.to_owned()),
            (LONG - 3..LONG + 3).prop_map(|length| format!("\"{}\"", "a".repeat(length))),
            (LONG / 2 - 3..LONG / 2 + 3).prop_map(|escapes| format!("\"{}\"", r#"\""#.repeat(escapes))),
            Just(format!("\"{}{{[\"", "long, ".repeat(LONG))),
            Just("{ }".to_owned()),
            Just("[]".to_owned()),
        ];
        leaf.prop_recursive(6, 60, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(", "))),
                prop::collection::vec(inner, 0..5).prop_map(|all| {
                    let members: Vec<_> = all.iter().map(|value| format!(r#""k}}" :{value}"#)).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    #[test]
    fn only_surrogates_without_their_other_half_are_noted() {
        for (text, has_surrogates) in [
            (r#""\\ud83d\\ud83d""#, false),
            (r#""\ud83d\ude00\u00e9\uD83D\uDE00""#, false),
            (r#""\ud83d""#, true),
            (r#""\ud83d\n""#, true),
            (r#""\ud83d\\ude00""#, true),
            (r#""\ud83d\ud83d\ude00""#, true),
            (r#""\ud83d\ude00\ude00""#, true),
            (r#"{"\ude00": 1}"#, true),
        ] {
            let mut index = Index::default();
            index.read(text).unwrap();
            assert_eq!(index.has_surrogates(), has_surrogates, "{text}");
        }
        for (text, at) in [(r#""\ud83d\udz00""#, 10), (r#""\ud83d\ud"#, 10), (r#""\ud83d\"#, 8)] {
            assert_eq!(Index::default().read(text).unwrap_err().at, at, "{text}");
        }
    }

    proptest! {
        #[test]
        fn views_with_and_without_an_index_are_equal(text in value()) {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            walked(Index::default().parse(&text).unwrap(), &mut with);
            walked(Json::parse(&text).unwrap(), &mut without);
            prop_assert_eq!(with, without);
        }
    }
}
