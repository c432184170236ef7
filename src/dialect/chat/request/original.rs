//! Originals: the client's own form of a list in a message, kept where the parts made of it say less.
//!
//! A [`Turn`](crate::conversation::Turn) holds texts, images and calls without room for fields of one dialect. If an
//! element carries such fields, the whole list stays in the turn's `rest` under its own key. The encoder then writes
//! each part in its original form as long as that form still means the part; a part that a stage changed or added is
//! written plainly. So nothing stale is ever sent.

use serde_json::{Map, Value};

use crate::{
    conversation::{Call, Part},
    wire::json::Json,
};

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

/// What one element of `content` means, if that is all that it says.
pub(super) fn plain_part(element: Json<'_>) -> Option<Part> {
    match &*element.get("type")?.as_str()? {
        "text" => {
            let [_, text] = only(element, ["type", "text"])?;
            Some(Part::Text(text?.as_str()?.into_owned()))
        }
        "image_url" => {
            let [_, image] = only(element, ["type", "image_url"])?;
            let [url, detail] = only(image?, ["url", "detail"])?;
            let detail = match detail {
                Some(detail) => Some(detail.as_str()?.into_owned()),
                None => None,
            };
            Some(Part::Image { url: url?.as_str()?.into_owned(), detail })
        }
        _ => Some(Part::Other(element.to_value())),
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

/// What one element of `tool_calls` means, if that is all that it says.
pub(super) fn plain_call(element: Json<'_>) -> Option<Call> {
    let [id, kind, function] = only(element, ["id", "type", "function"])?;
    let [name, arguments] = only(function?, ["name", "arguments"])?;
    let text = |value: Option<Json<'_>>| Some(value?.as_str()?.into_owned());
    (kind?.as_str()? == "function").then_some(())?;
    Some(Call { id: text(id)?, name: text(name)?, arguments: text(arguments)? })
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

/// The members of these keys, if the object has no others and each at most once.
fn only<'a, const N: usize>(object: Json<'a>, keys: [&str; N]) -> Option<[Option<Json<'a>>; N]> {
    let mut found = [None; N];
    for (key, value) in object.members() {
        let place = found.get_mut(keys.iter().position(|wanted| key == *wanted)?)?;
        if place.replace(value).is_some() {
            return None;
        }
    }
    Some(found)
}
