//! Configured fields in image requests.

use serde_json::{Map, Value};

/// Adds the configured fields to `fields`. They replace existing values; objects are merged.
pub(super) fn with_configured(mut fields: Value, configured: Option<&Value>) -> Value {
    if let Some(Value::Object(configured)) = configured {
        merge(&mut fields, configured);
    }
    fields
}

fn merge(into: &mut Value, from: &Map<String, Value>) {
    let Value::Object(fields) = into else { return };
    for (key, value) in from {
        match (fields.get_mut(key), value) {
            (Some(own @ Value::Object(_)), Value::Object(value)) => merge(own, value),
            _ => _ = fields.insert(key.clone(), value.clone()),
        }
    }
}
