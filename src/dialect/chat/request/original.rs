//! Originals: the client's own form of a list in a message, kept where the parts made of it say less.
//!
//! A [`Turn`](crate::conversation::Turn) holds texts, images and calls without room for fields of one dialect. If an
//! element carries such fields, the whole list stays in the turn's `rest` under its own key. The encoder then writes
//! each part in its original form as long as that form still means the part; a part that a stage changed or added is
//! written plainly. So nothing stale is ever sent.

use serde_json::{Map, Value};

use crate::conversation::{Call, Part};

/// What one element of `content` means; `None` if it is not of a form that has a meaning here.
pub(super) fn part(element: &Value) -> Option<Part> {
    match element.get("type")?.as_str()? {
        "text" => Some(Part::Text(element.get("text")?.as_str()?.to_owned())),
        "image_url" => {
            let image = element.get("image_url")?;
            let detail = image.get("detail").and_then(Value::as_str).map(str::to_owned);
            Some(Part::Image { url: image.get("url")?.as_str()?.to_owned(), detail })
        }
        _ => Some(Part::Other(element.clone())),
    }
}

/// Whether [`part`] keeps all that the element says.
pub(super) fn is_plain_part(element: &Value) -> bool {
    match element.get("type").and_then(Value::as_str) {
        Some("text") => has_only(element, &["type", "text"]),
        Some("image_url") => {
            let image = element.get("image_url");
            has_only(element, &["type", "image_url"])
                && image.is_some_and(|image| has_only(image, &["url", "detail"]))
        }
        _ => true,
    }
}

/// What one element of `tool_calls` means.
pub(super) fn call(element: &Value) -> Option<Call> {
    let id = element.get("id")?.as_str()?.to_owned();
    let (body, key) = match element.get("custom") {
        Some(custom) => (custom, "input"),
        None => (element.get("function")?, "arguments"),
    };
    let arguments = match body.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    Some(Call { id, name: body.get("name")?.as_str()?.to_owned(), arguments })
}

/// Whether [`call`] keeps all that the element says.
pub(super) fn is_plain_call(element: &Value) -> bool {
    let function = element.get("function");
    has_only(element, &["id", "type", "function"])
        && element.get("type").and_then(Value::as_str) == Some("function")
        && function.is_some_and(|function| {
            has_only(function, &["name", "arguments"])
                && function.get("arguments").is_some_and(Value::is_string)
        })
}

/// The text of a tool message's `content`: itself, or its text parts joined by newlines.
pub(super) fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(elements) => {
            let texts = elements.iter().filter_map(|element| element.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The original among `rest[key]` that `means` the wanted thing.
pub(super) fn find<'a>(
    rest: &'a Map<String, Value>,
    key: &str,
    means: impl Fn(&Value) -> bool,
) -> Option<&'a Value> {
    rest.get(key)?.as_array()?.iter().find(|element| means(element))
}

fn has_only(value: &Value, keys: &[&str]) -> bool {
    value.as_object().is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
}
