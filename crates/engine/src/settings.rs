//! The keys of configuration tables, each of which is declared in one place.
//!
//! A struct with a field for each key derives [`Settings`], which shows every key with its field to a [`Visitor`]. One
//! visitor reads a table into the fields, one shows the values of the fields, and one writes the documentation.
//! Therefore, a key's default, accepted values, display and documentation always agree.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ops::{RangeFrom, RangeInclusive},
    path::PathBuf,
    time::Duration,
};

use secrecy::SecretString;

use strum::VariantArray;

pub use toolwire_settings_derive::Settings;

/// A key and its documentation.
#[derive(Debug, Clone)]
pub struct Key {
    /// The name of the key.
    pub name: &'static str,
    /// The default to document. `None` if it is the value of a new field.
    pub default: Option<&'static str>,
    /// What the key does, in Markdown.
    pub about: Cow<'static, str>,
    /// Whether the key can be set only in the configuration file and not through the admin API, because its
    /// value can make toolwire run programs, use files, or connect to other addresses.
    pub is_file_only: bool,
    /// The words that the key accepts, if its field does not say so.
    pub words: &'static [&'static str],
}

impl Key {
    /// The default to document for keys that must be set.
    pub const REQUIRED: &'static str = "required";

    /// Creates a key whose default is the value of a new field.
    pub fn new(name: &'static str, about: impl Into<Cow<'static, str>>) -> Self {
        Self { name, default: None, about: about.into(), is_file_only: false, words: &[] }
    }

    /// Sets the default to document, for a default that depends on something else.
    #[must_use]
    pub fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Sets the words that the key accepts, for fields of other types than [`Field::Word`].
    #[must_use]
    pub fn one_of(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

    /// Makes the key settable only in the configuration file and not through the admin API.
    #[must_use]
    pub fn file_only(self) -> Self {
        Self { is_file_only: true, ..self }
    }
}

/// The field that holds a key's value and the values that the key accepts.
pub enum Field<'v> {
    /// `true` or `false`.
    Switch(&'v mut bool),
    /// `true` or `false`, or unset.
    OptionalSwitch(&'v mut Option<bool>),
    /// A non-empty string, or unset.
    OptionalText(&'v mut Option<String>),
    /// A string that must not be empty if it is set.
    Text(&'v mut String),
    /// A string that may be empty.
    AnyText(&'v mut String),
    /// A list of strings.
    Texts(&'v mut Vec<String>),
    /// A size in bytes, which must not be 0.
    Size(&'v mut usize),
    /// An integer and its minimum.
    Count(&'v mut usize, usize),
    /// An integer of at least 1, or `"off"`.
    CountOrOff(&'v mut Option<usize>),
    /// An integer and its allowed range.
    CountIn(&'v mut usize, RangeInclusive<usize>),
    /// A duration and its allowed range.
    DurationIn(&'v mut Duration, RangeInclusive<Duration>),
    /// A duration, which must not be 0.
    Duration(&'v mut Duration),
    /// A duration, or `"off"`.
    DurationOrOff(&'v mut Option<Duration>),
    /// One of several words.
    Word(&'v mut dyn Choice),
    /// A table as JSON, or unset.
    Json(&'v mut Option<serde_json::Value>),
    /// A secret, or unset. It is given directly, or as `"env:NAME"` or `"file:PATH"`, and is never displayed.
    Secret(&'v mut Option<SecretString>),
    /// A list of secrets, given in the same ways.
    SecretList(&'v mut Vec<SecretString>),
    /// A table of named texts, each in the forms of `Secret`. A text that is written in the file itself is secret if
    /// [its name says so](names_secret).
    TextTable(&'v mut BTreeMap<String, TableText>),
    /// A path, or unset. It is relative to the folder of the configuration file, and can be set only there.
    Path(&'v mut Option<PathBuf>),
    /// The base URL of an API, or unset.
    Address(&'v mut Option<http::Uri>),
}

/// The field for each type whose values need no further limits.
macro_rules! fields {
    ($($field:ident: $type:ty,)*) => {
        $(impl<'v> From<&'v mut $type> for Field<'v> {
            fn from(value: &'v mut $type) -> Self {
                Self::$field(value)
            }
        })*
    };
}

fields! {
    Switch: bool,
    OptionalSwitch: Option<bool>,
    Text: String,
    OptionalText: Option<String>,
    Texts: Vec<String>,
    CountOrOff: Option<usize>,
    Duration: Duration,
    DurationOrOff: Option<Duration>,
    Json: Option<serde_json::Value>,
    Secret: Option<SecretString>,
    SecretList: Vec<SecretString>,
    TextTable: BTreeMap<String, TableText>,
    Path: Option<PathBuf>,
    Address: Option<http::Uri>,
}

impl<'v> From<&'v mut usize> for Field<'v> {
    fn from(value: &'v mut usize) -> Self {
        Self::Count(value, 1)
    }
}

impl<'v> From<(&'v mut usize, RangeFrom<usize>)> for Field<'v> {
    fn from((value, range): (&'v mut usize, RangeFrom<usize>)) -> Self {
        Self::Count(value, range.start)
    }
}

impl<'v> From<(&'v mut usize, RangeInclusive<usize>)> for Field<'v> {
    fn from((value, range): (&'v mut usize, RangeInclusive<usize>)) -> Self {
        Self::CountIn(value, range)
    }
}

impl<'v> From<(&'v mut Duration, RangeInclusive<Duration>)> for Field<'v> {
    fn from((value, range): (&'v mut Duration, RangeInclusive<Duration>)) -> Self {
        Self::DurationIn(value, range)
    }
}

/// A string in a table, which may be secret.
#[derive(Debug, Clone)]
pub struct TableText {
    text: SecretString,
    is_secret: bool,
}

impl TableText {
    /// Creates a string that may be displayed.
    pub fn plain(text: impl Into<SecretString>) -> Self {
        Self { text: text.into(), is_secret: false }
    }

    /// Creates a string that must not be displayed.
    pub fn secret(text: impl Into<SecretString>) -> Self {
        Self { text: text.into(), is_secret: true }
    }

    /// The string, if it is secret.
    pub fn as_secret(&self) -> Option<&SecretString> {
        self.is_secret.then_some(&self.text)
    }
}

impl secrecy::ExposeSecret<str> for TableText {
    fn expose_secret(&self) -> &str {
        self.text.expose_secret()
    }
}

/// Substrings in the names of headers and variables whose values are secret.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "password", "secret", "session", "token"];

/// Whether the value of the header or variable `name` is secret.
pub fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// A value that is represented by one of several words.
pub trait Choice {
    /// The words.
    fn words(&self) -> Vec<&'static str>;

    /// The word for the value.
    fn word(&self) -> &'static str;

    /// Sets the value that `word` stands for. Does nothing if there is none.
    fn choose(&mut self, word: &str);
}

/// The variants of an enum, each with its name as its word.
impl<T: VariantArray + Into<&'static str> + Copy + PartialEq> Choice for T {
    fn words(&self) -> Vec<&'static str> {
        T::VARIANTS.iter().map(|&variant| variant.into()).collect()
    }

    fn word(&self) -> &'static str {
        (*self).into()
    }

    fn choose(&mut self, word: &str) {
        if let Some(&variant) = T::VARIANTS.iter().find(|&&variant| variant.into() == word) {
            *self = variant;
        }
    }
}

/// A field that takes one of several values, each with its word, if they are not the variants of an enum.
#[derive(Debug)]
pub struct OneOf<'v, T: 'static>(pub &'v mut T, pub &'static [(&'static str, T)]);

impl<T: Clone + PartialEq> Choice for OneOf<'_, T> {
    fn words(&self) -> Vec<&'static str> {
        self.1.iter().map(|(word, _)| *word).collect()
    }

    fn word(&self) -> &'static str {
        self.1.iter().find(|(_, value)| value == self.0).map_or("", |(word, _)| word)
    }

    fn choose(&mut self, word: &str) {
        if let Some((_, value)) = self.1.iter().find(|(known, _)| *known == word) {
            *self.0 = value.clone();
        }
    }
}

/// The keys of a table, each with the field that holds its value. Derived from a struct, as [the crate of the
/// macro](toolwire_settings_derive) describes.
pub trait Settings {
    /// Shows all keys to `keys`.
    fn settings(&mut self, keys: &mut dyn Visitor);
}

/// Visits the keys of a table.
pub trait Visitor {
    /// Visits a key and the field that holds its value.
    fn key(&mut self, key: Key, field: Field<'_>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Settings)]
    struct Inner {
        /// may be empty
        #[setting(may_be_empty, file_only)]
        text: String,
    }

    #[derive(Settings)]
    struct Outer {
        /// of two lines
        /// that are joined
        ///
        /// Not a part of the description.
        #[setting(key = "count", default = 3, range = 1..=5, or = "three")]
        number: usize,
        #[setting(nested)]
        inner: Box<Inner>,
        #[setting(skip, default = 7)]
        other: u8,
        #[setting(visit = Self::visit_last)]
        last: Option<bool>,
    }

    impl Outer {
        fn visit_last(&mut self, keys: &mut dyn Visitor) {
            self.last = Some(true);
            keys.key(Key::new("last", "visited by a function").or(Key::REQUIRED), (&mut self.last).into());
        }
    }

    #[derive(Default)]
    struct Listing(Vec<String>);

    impl Visitor for Listing {
        fn key(&mut self, Key { name, default, about, is_file_only, .. }: Key, field: Field<'_>) {
            let field = match field {
                Field::CountIn(value, range) => format!("{value} in {range:?}"),
                Field::AnyText(value) => format!("{value:?}"),
                Field::OptionalSwitch(value) => format!("{value:?}"),
                _ => "another field".to_owned(),
            };
            self.0.push(format!("{name}: {about}; {}; {field}; {is_file_only}", default.unwrap_or("none")));
        }
    }

    #[test]
    fn fields_of_a_struct_are_keys_in_their_order() {
        let (mut outer, mut listing) = (Outer::default(), Listing::default());
        outer.settings(&mut listing);
        let expected = [
            "count: of two lines that are joined; three; 3 in 1..=5; false",
            "text: may be empty; none; \"\"; true",
            "last: visited by a function; required; Some(true); false",
        ];
        assert_eq!(listing.0, expected);
        assert_eq!(outer.other, 7);
    }
}
