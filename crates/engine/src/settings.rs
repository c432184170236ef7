//! Settings: the keys of configuration tables. Each key is declared in one place.
//!
//! A declaration is a function that shows a visitor ([`Settings`]) every key with the field that holds its
//! value. One visitor reads a table into the fields, one shows the values of the fields, one writes the
//! documentation. Therefore a key's default, accepted values, display and documentation always agree.

use std::{borrow::Cow, ops::RangeInclusive, time::Duration};

/// A key, and its documentation.
#[derive(Debug, Clone)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// The documented default; `None` if the default is the value that a new field holds.
    pub default: Option<&'static str>,
    /// Description of the key's effect, in Markdown.
    pub about: Cow<'static, str>,
    /// Whether only the configuration file may set the key, not the admin API, because its value can make
    /// toolwire run programs, use files, or connect to other addresses.
    pub is_file_only: bool,
}

impl Key {
    /// The default of keys that must be set.
    pub const REQUIRED: &'static str = "required";

    /// A key that uses the `Default` value of its field.
    pub fn new(name: &'static str, about: impl Into<Cow<'static, str>>) -> Self {
        Self { name, default: None, about: about.into(), is_file_only: false }
    }

    /// The same key with its default in words, for a default that depends on something else.
    #[must_use]
    pub fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// The same key, but not settable over the admin API.
    #[must_use]
    pub fn file_only(self) -> Self {
        Self { is_file_only: true, ..self }
    }
}

/// The field that holds a key's value, and the values that the key accepts.
pub enum Field<'v> {
    /// `true` or `false`.
    Switch(&'v mut bool),
    /// `true` or `false`, or not set.
    OptionalSwitch(&'v mut Option<bool>),
    /// A string that is not empty, or not set.
    OptionalText(&'v mut Option<String>),
    /// A string that is not empty if it is set.
    Text(&'v mut String),
    /// A string that may be empty.
    AnyText(&'v mut String),
    /// Strings.
    Texts(&'v mut Vec<String>),
    /// A size in bytes, never 0.
    Size(&'v mut usize),
    /// An integer and its minimum.
    Count(&'v mut usize, usize),
    /// An integer and its allowed range.
    CountIn(&'v mut usize, RangeInclusive<usize>),
    /// A duration and its allowed range.
    DurationIn(&'v mut Duration, RangeInclusive<Duration>),
    /// A duration, never 0.
    Duration(&'v mut Duration),
    /// A duration, or `"off"`.
    DurationOrOff(&'v mut Option<Duration>),
    /// One of several words.
    Word(&'v mut dyn Choice),
    /// A table, as JSON, or not set.
    Json(&'v mut Option<serde_json::Value>),
    /// A secret: the text itself, `"env:NAME"` or `"file:PATH"`; or not set. It is never shown.
    Secret(&'v mut Option<secrecy::SecretString>),
    /// Secrets, in the same forms.
    SecretList(&'v mut Vec<secrecy::SecretString>),
    /// A table of named texts, each in the forms of `Secret`. Given a name, the function returns whether a
    /// text that is written in the file itself is secret.
    TextTable(&'v mut std::collections::BTreeMap<String, TableText>, fn(&str) -> bool),
    /// A path, relative to the folder of the configuration file, or not set. Only the file may set it.
    Path(&'v mut Option<std::path::PathBuf>),
    /// The base URL of an API, or not set.
    Address(&'v mut Option<http::Uri>),
}

/// A text in a table, which may be secret.
#[derive(Debug, Clone)]
pub struct TableText {
    text: secrecy::SecretString,
    is_secret: bool,
}

impl TableText {
    /// A text that may be shown.
    pub fn plain(text: impl Into<secrecy::SecretString>) -> Self {
        Self { text: text.into(), is_secret: false }
    }

    /// A text that must not be shown.
    pub fn secret(text: impl Into<secrecy::SecretString>) -> Self {
        Self { text: text.into(), is_secret: true }
    }

    /// The text, if it is secret.
    pub fn as_secret(&self) -> Option<&secrecy::SecretString> {
        self.is_secret.then_some(&self.text)
    }
}

impl secrecy::ExposeSecret<str> for TableText {
    fn expose_secret(&self) -> &str {
        self.text.expose_secret()
    }
}

/// Parts of the names of headers and variables whose values are secret.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "password", "secret", "session", "token"];

/// Whether the header or variable `name` has a secret value.
pub fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// A value that is one of several words.
pub trait Choice {
    /// The words.
    fn words(&self) -> Vec<&'static str>;

    /// The word for the value.
    fn word(&self) -> &'static str;

    /// Sets the value to the one that `word` stands for. Does nothing if `word` is unknown.
    fn choose(&mut self, word: &str);
}

/// A field that takes one of several values, each with its word.
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

/// Visits the keys of a table.
pub trait Settings {
    /// Visits one key, with the field that holds its value.
    fn key(&mut self, key: Key, field: Field<'_>);
}
