//! The fields of one JSON object, taken out by name and type; what is left is what nobody asked for.

use serde_json::{Map, Number, Value};

use crate::failure::{Failure, Kind};

/// An object of the request and the path to it.
#[derive(Debug)]
pub(super) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The fields of `value`.
    ///
    /// # Errors
    /// If it is not an object.
    pub(super) fn new(path: impl Into<String>, value: Value) -> Result<Self, Failure> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self { path, map }),
            other => Err(wrong_type(&path, "an object", &other)),
        }
    }

    /// The path to a field: `messages[2].content`.
    pub(super) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Looks at a field without taking it; null counts as absent.
    pub(super) fn peek(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Takes a field of any type; null counts as absent.
    pub(super) fn any(&mut self, key: &str) -> Option<Value> {
        self.map.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Takes a string.
    pub(super) fn string(&mut self, key: &str) -> Result<Option<String>, Failure> {
        self.typed(key, "a string", |value| match value {
            Value::String(text) => Ok(text),
            other => Err(other),
        })
    }

    /// Takes a string that must be there.
    pub(super) fn needed_string(&mut self, key: &str) -> Result<String, Failure> {
        self.string(key)?.ok_or_else(|| missing(&self.at(key), "a string"))
    }

    /// Takes a boolean.
    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>, Failure> {
        self.typed(key, "true or false", |value| value.as_bool().ok_or(value))
    }

    /// Takes a count.
    pub(super) fn count(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        self.typed(key, "a whole number, 0 or more", |value| value.as_u64().ok_or(value))
    }

    /// Takes a number, its digits kept.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<Number>, Failure> {
        self.typed(key, "a number", |value| match value {
            Value::Number(number) => Ok(number),
            other => Err(other),
        })
    }

    /// Takes an array.
    pub(super) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, Failure> {
        self.typed(key, "an array", |value| match value {
            Value::Array(elements) => Ok(elements),
            other => Err(other),
        })
    }

    /// Takes an object.
    pub(super) fn object(&mut self, key: &str) -> Result<Option<Fields>, Failure> {
        let path = self.at(key);
        self.any(key).map(|value| Fields::new(path, value)).transpose()
    }

    /// Takes an object that must be there.
    pub(super) fn needed_object(&mut self, key: &str) -> Result<Fields, Failure> {
        self.object(key)?.ok_or_else(|| missing(&self.at(key), "an object"))
    }

    /// Puts a field in again, in the form in which it is to be kept.
    pub(super) fn keep(&mut self, key: &str, value: impl Into<Value>) {
        self.map.insert(key.to_owned(), value.into());
    }

    /// All fields that were not taken.
    pub(super) fn into_rest(self) -> Map<String, Value> {
        self.map
    }

    fn typed<T>(
        &mut self,
        key: &str,
        wanted: &str,
        convert: impl FnOnce(Value) -> Result<T, Value>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.any(key) else { return Ok(None) };
        convert(value).map(Some).map_err(|value| wrong_type(&self.at(key), wanted, &value))
    }
}

/// Bytes of a number that an error shows. A longer one is only called a number.
const MAX_SHOWN: usize = 32;

/// A field of another type than the wanted one, or a number out of its range.
pub(super) fn wrong_type(path: &str, wanted: &str, value: &Value) -> Failure {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.as_str().len() <= MAX_SHOWN => &format!("the number {number}"),
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let (place, at) = if path.is_empty() {
        ("the request body".to_owned(), None)
    } else {
        (format!("`{path}`"), Some(path))
    };
    let failure = Failure::new(Kind::Request, format!("{place} must be {wanted}, but it is {found}"))
        .with_code("invalid_type");
    match at {
        Some(path) => failure.with_param(path),
        None => failure,
    }
}

/// A field of a value that makes no sense; `why` goes on after the field's name.
pub(super) fn wrong_value(path: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::Request, format!("`{path}` {why}")).with_param(path).with_code("invalid_value")
}

/// A field that must be there.
pub(super) fn missing(path: &str, wanted: &str) -> Failure {
    Failure::new(Kind::Request, format!("`{path}` is missing; it must be {wanted}"))
        .with_param(path)
        .with_code("missing_required_parameter")
}
