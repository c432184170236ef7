//! Joins the pieces of members that no event represents in the way of client libraries: strings and lists are
//! concatenated, list elements with the same index are merged, and everything else is replaced.

use serde_json::{Map, Value};

use crate::wire::json::Json;

/// Joins a member with its earlier pieces. Strings are concatenated if `text` is set.
pub(super) fn join(object: &mut Map<String, Value>, key: &str, more: Json<'_>, text: bool) {
    let Ok(more) = serde_json::from_str(more.raw()) else { return };
    match object.get_mut(key) {
        Some(value) => join_value(value, more, text && !is_name(key)),
        None => _ = object.insert(key.to_owned(), more),
    }
}

/// Whether a string with this key is replaced instead of concatenated.
fn is_name(key: &str) -> bool {
    matches!(key, "id" | "type" | "role" | "name" | "format")
}

fn join_value(value: &mut Value, more: Value, text: bool) {
    match (value, more) {
        (_, Value::Null) => {}
        (Value::String(old), Value::String(more)) if text => old.push_str(&more),
        (Value::Array(list), Value::Array(more)) => {
            more.into_iter().for_each(|element| join_element(list, element));
        }
        (Value::Object(object), Value::Object(more)) => {
            for (key, more) in more {
                let text = !is_name(&key);
                join_value(object.entry(key).or_insert(Value::Null), more, text);
            }
        }
        (value, more) => *value = more,
    }
}

fn join_element(list: &mut Vec<Value>, element: Value) {
    let index = element.get("index").cloned();
    let same = index.and_then(|index| list.iter_mut().find(|old| old.get("index") == Some(&index)));
    match same {
        Some(old) => join_value(old, element, true),
        None => list.push(element),
    }
}
