//! [`Raw`]: one JSON value that is kept as it was written.

use std::fmt;

use serde_json::Value;

use super::Json;

/// A JSON value as it was written, order of keys, digits and white space included.
///
/// What is passed on needs no tree: a tree costs an allocation a member to make, and again to copy.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Box<str>);

impl Raw {
    /// The value, to be looked at.
    pub fn view(&self) -> Json<'_> {
        Json { text: &self.0, inner: &[] }
    }
}

impl From<Json<'_>> for Raw {
    fn from(json: Json<'_>) -> Self {
        Self(json.text.into())
    }
}

impl From<Value> for Raw {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
