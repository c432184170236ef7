//! The fields of one JSON object, taken out by name and type; the remaining ones are unknown to the decoder.

use std::{borrow::Cow, fmt};

use serde_json::{Map, Number, Value};

use crate::{
    failure::{Failure, Kind},
    wire::json::{Json, Kind as JsonKind},
};

/// The place of a value in the request: `messages[2].content`. It is formatted only for an error.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'p> {
    /// The request's body.
    Body,
    /// The member with this key.
    Member(&'p Path<'p>, &'p str),
    /// The element at this index.
    Element(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body => Ok(()),
            Self::Member(Self::Body, key) => f.write_str(key),
            Self::Member(outer, key) => write!(f, "{outer}.{key}"),
            Self::Element(outer, place) => write!(f, "{outer}[{place}]"),
        }
    }
}

/// An object of the request and the path to it.
#[derive(Debug)]
pub(super) struct Fields<'a, 'p> {
    path: Path<'p>,
    members: Vec<(Cow<'a, str>, Json<'a>)>,
    kept: Map<String, Value>,
}

impl<'a, 'p> Fields<'a, 'p> {
    /// The fields of `value`.
    ///
    /// # Errors
    /// If it is not an object.
    pub(super) fn new(path: Path<'p>, value: Json<'a>) -> Result<Self, Failure> {
        match value.kind() {
            JsonKind::Object => Ok(Self { path, members: value.members().collect(), kept: Map::new() }),
            _ => Err(wrong_type(path, "an object", value)),
        }
    }

    /// The path to a field.
    pub(super) fn at<'s>(&'s self, key: &'s str) -> Path<'s> {
        Path::Member(&self.path, key)
    }

    /// Looks at a field without taking it; null counts as absent.
    pub(super) fn peek(&self, key: &str) -> Option<Json<'a>> {
        self.last(key).filter(|value| !value.is_null())
    }

    /// Takes a field of any type; null counts as absent.
    pub(super) fn any(&mut self, key: &str) -> Option<Json<'a>> {
        let value = self.last(key)?;
        self.members.retain(|(name, _)| name != key);
        Some(value).filter(|value| !value.is_null())
    }

    /// The last field with this name.
    fn last(&self, key: &str) -> Option<Json<'a>> {
        let (_, value) = self.members.iter().rev().find(|(name, _)| name == key)?;
        Some(*value)
    }

    /// Takes a string.
    pub(super) fn string(&mut self, key: &str) -> Result<Option<Cow<'a, str>>, Failure> {
        self.typed(key, "a string", |value| value.as_str())
    }

    /// Takes a required string.
    pub(super) fn needed_string(&mut self, key: &str) -> Result<Cow<'a, str>, Failure> {
        self.string(key)?.ok_or_else(|| missing(self.at(key), "a string"))
    }

    /// Takes a boolean.
    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>, Failure> {
        self.typed(key, "true or false", |value| value.as_bool())
    }

    /// Takes a count.
    pub(super) fn count(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        self.typed(key, "a whole number, 0 or more", |value| value.as_u64())
    }

    /// Takes a number; its digits are kept as written.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<Number>, Failure> {
        self.typed(key, "a number", |value| match value.to_value() {
            Value::Number(number) => Some(number),
            _ => None,
        })
    }

    /// Takes an array; an absent one has no elements.
    pub(super) fn list(&mut self, key: &str) -> Result<impl Iterator<Item = Json<'a>> + use<'a>, Failure> {
        let list = self.typed(key, "an array", |value| (value.kind() == JsonKind::Array).then_some(value))?;
        Ok(list.into_iter().flat_map(|list| list.elements()))
    }

    /// Takes an object.
    pub(super) fn object<'s>(&'s mut self, key: &'s str) -> Result<Option<Fields<'a, 's>>, Failure> {
        let value = self.any(key);
        value.map(|value| Fields::new(self.at(key), value)).transpose()
    }

    /// Takes a required object.
    pub(super) fn needed_object<'s>(&'s mut self, key: &'s str) -> Result<Fields<'a, 's>, Failure> {
        match self.any(key) {
            Some(value) => Fields::new(self.at(key), value),
            None => Err(missing(self.at(key), "an object")),
        }
    }

    /// Puts a field back, in the form in which it is to be kept.
    pub(super) fn keep(&mut self, key: &str, value: impl Into<Value>) {
        self.kept.insert(key.to_owned(), value.into());
    }

    /// All fields that were not taken.
    pub(super) fn into_rest(self) -> Map<String, Value> {
        let left = self.members.into_iter().map(|(key, value)| (key.into_owned(), value.to_value()));
        left.chain(self.kept).collect()
    }

    fn typed<T>(
        &mut self,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(Json<'a>) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.any(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| wrong_type(self.at(key), wanted, value))
    }
}

/// The most bytes of a number that an error shows. A longer one is described as "a number".
const MAX_SHOWN: usize = 32;

/// The error for a field of the wrong type, or a number out of range.
pub(super) fn wrong_type(path: Path<'_>, wanted: &str, value: Json<'_>) -> Failure {
    let found = match value.kind() {
        JsonKind::Null => "null",
        JsonKind::Bool => "a boolean",
        JsonKind::Number if value.raw().len() <= MAX_SHOWN => &format!("the number {}", value.raw()),
        JsonKind::Number => "a number",
        JsonKind::String => "a string",
        JsonKind::Array => "an array",
        JsonKind::Object => "an object",
    };
    let failure = |place: String| {
        Failure::new(Kind::Request, format!("{place} must be {wanted}, but it is {found}"))
            .with_code("invalid_type")
    };
    match path {
        Path::Body => failure("the request body".to_owned()),
        path => failure(format!("`{path}`")).with_param(path.to_string()),
    }
}

/// The error for a field whose value is invalid; `why` continues the sentence after the field's name.
pub(super) fn wrong_value(path: Path<'_>, why: impl fmt::Display) -> Failure {
    let failure = Failure::new(Kind::Request, format!("`{path}` {why}"));
    failure.with_param(path.to_string()).with_code("invalid_value")
}

/// The error for a missing required field.
pub(super) fn missing(path: Path<'_>, wanted: &str) -> Failure {
    Failure::new(Kind::Request, format!("`{path}` is missing; it must be {wanted}"))
        .with_param(path.to_string())
        .with_code("missing_required_parameter")
}
