//! [`Raw`]: a JSON value as it was written.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::Json;

/// A JSON value as it was written, including the order of keys, digits and white space.
///
/// A value that is only forwarded does not need a tree, which would cost one allocation per member to build and to
/// copy. Copies of a `Raw` share the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Arc<str>);

impl Raw {
    /// Returns a view of the value.
    pub fn view(&self) -> Json<'_> {
        Json::unindexed(&self.0)
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
