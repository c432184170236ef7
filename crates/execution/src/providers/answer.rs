//! [`Answer`]: a program's answer to a call, in the form that all external programs can use: `{"content": [{"type":
//! "text", "text": …}, {"type": "image", "data": …}], "details": …, "error": …}`.

use serde_json::{Map, Value};

use crate::{
    Output,
    media::{MediaFile, shown},
};

/// Maximum length of a part's type when it is shown to the model, in characters.
const MAX_KIND: usize = 32;

/// The content of an answer without any.
const DONE: &str = "ok";

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

    /// Parses an answer. Returns `None` if it contains neither content nor an error. If there are only details, which are
    /// not for the model, the content says that the call has succeeded, so that it does not look empty.
    pub(super) fn read(mut object: Map<String, Value>) -> Option<Self> {
        let details = object.shift_remove("details").unwrap_or_default();
        if let Some(error) = object.shift_remove("error").filter(is_error) {
            return Some(Self::Error(words(&error), details));
        }
        let (content, media) = match object.shift_remove("content") {
            None if details.is_null() => return None,
            None | Some(Value::Null) => Default::default(),
            Some(Value::String(text)) => (text, Vec::new()),
            Some(Value::Array(parts)) => joined(&parts),
            Some(_) => return None,
        };
        let is_empty = content.is_empty() && !details.is_null();
        let content = if is_empty { DONE.to_owned() } else { content };
        Some(Self::Result(Output { content, details, media, ..Output::default() }))
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

/// Joins the text parts with spaces. Files are described, and returned for models that take them. Other parts are replaced
/// with their type, so that the model knows about them.
fn joined(parts: &[Value]) -> (String, Vec<MediaFile>) {
    let mut media = Vec::new();
    let text = |part: &Value| match (part.get("type").and_then(Value::as_str), part) {
        (Some(_), part) if part.get("data").is_some_and(Value::is_string) => {
            let member = |key| part.get(key).and_then(Value::as_str);
            let claimed = ["mimeType", "mime_type", "media_type"].into_iter().find_map(member);
            let (text, file) = shown(member("data").unwrap_or_default(), claimed.unwrap_or_default());
            media.extend(file);
            Some(text)
        }
        (Some("text"), part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
        (None, Value::String(text)) => Some(text.clone()),
        (Some(kind), _) => Some(format!("[{}]", kind.chars().take(MAX_KIND).collect::<String>())),
        (None, part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
    };
    let texts: Vec<_> = parts.iter().filter_map(text).collect();
    (texts.join(" "), media)
}
