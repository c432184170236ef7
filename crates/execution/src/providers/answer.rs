//! [`Answer`]: a program's answer to a call, in the form that all external programs can use: `{"content": [{"type":
//! "text", "text": …}], "details": …, "error": …}`.

use serde_json::{Map, Value};

use crate::Output;

/// Maximum length of a part's type when it is shown to the model, in characters.
const MAX_KIND: usize = 32;

#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Result(Output),
    /// The program's error message, and the details.
    Error(String, Value),
}

impl Answer {
    /// Whether an object is clearly an answer in this form: it contains an error, or a list of parts with types.
    pub(super) fn is_one(object: &Map<String, Value>) -> bool {
        let has_kind = |part: &Value| part.get("type").is_some_and(Value::is_string);
        let parts = object.get("content").and_then(Value::as_array);
        object.get("error").is_some_and(is_error)
            || parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(has_kind))
    }

    /// Parses an answer. Returns `None` if it contains neither content nor an error. If there are only details, they
    /// also become the content, so that the result does not look empty to the model.
    pub(super) fn read(mut object: Map<String, Value>) -> Option<Self> {
        let details = object.shift_remove("details").unwrap_or_default();
        if let Some(error) = object.shift_remove("error").filter(is_error) {
            return Some(Self::Error(words(&error), details));
        }
        let content = match object.shift_remove("content") {
            None if details.is_null() => return None,
            None | Some(Value::Null) if !details.is_null() => details.to_string(),
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(Value::Array(parts)) => joined(&parts),
            Some(_) => return None,
        };
        Some(Self::Result(Output { content, details, ..Output::default() }))
    }
}

fn is_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => true,
    }
}

fn words(error: &Value) -> String {
    match (error, error.get("message")) {
        (Value::String(text), _) | (_, Some(Value::String(text))) => text.clone(),
        (Value::Bool(_), _) => "no reason given".to_owned(),
        (error, _) => error.to_string(),
    }
}

/// Joins the text parts with spaces. Other parts are replaced with their type, so that the model knows about them.
fn joined(parts: &[Value]) -> String {
    let text = |part: &Value| match (part.get("type").and_then(Value::as_str), part) {
        (Some("text"), part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
        (None, Value::String(text)) => Some(text.clone()),
        (Some(kind), _) => Some(format!("[{}]", kind.chars().take(MAX_KIND).collect::<String>())),
        (None, part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join(" ")
}
