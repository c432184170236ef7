//! Originals: the lists in a message as the client wrote them, stored if the parts made from them lack some
//! of their contents.
//!
//! A [`Turn`](crate::conversation::Turn) holds text, images and calls, but no fields that exist in only one
//! dialect. If an element has such fields, the complete list is stored in the turn's `rest` under its own
//! key. The encoder then writes a part's original if it still matches the part. Parts that a stage has
//! changed or added are written without additional fields, so nothing outdated is sent.

use serde_json::{Map, Value};

use crate::{
    Dialect,
    chat::extra,
    conversation::{Call, Part, Received, Text},
    custom_tools::input_arguments,
    fit::adopted,
    wire::json::Json,
};

/// Converts an element of `content` to a part. `None` if its type is unknown.
pub(super) fn part(element: &Value) -> Option<Part> {
    match element.get("type")?.as_str()? {
        "text" => Some(Part::Text(element.get("text")?.as_str()?.into())),
        "image_url" => {
            let image = element.get("image_url")?;
            let detail = image.get("detail").and_then(Value::as_str).map(str::to_owned);
            Some(Part::Image { url: image.get("url")?.as_str()?.to_owned(), detail })
        }
        _ => Some(other(element.clone())),
    }
}

/// Whether [`part`] would convert `element` to `part`. This runs for many elements, so it copies nothing.
pub(super) fn means(element: &Value, part: &Part) -> bool {
    let text = |value: Option<&Value>, said: &str| value.and_then(Value::as_str) == Some(said);
    match (element.get("type").and_then(Value::as_str), part) {
        (Some("text"), Part::Text(said)) => text(element.get("text"), said),
        (Some("image_url"), Part::Image { url, detail }) => element.get("image_url").is_some_and(|image| {
            let own_detail = image.get("detail").and_then(Value::as_str);
            text(image.get("url"), url) && own_detail == detail.as_deref()
        }),
        (Some("text" | "image_url") | None, _) => false,
        (Some(_), Part::Other(other)) => other.from_dialect(Dialect::Chat.name()) == Some(element),
        _ => false,
    }
}

/// Like [`part`], but `None` if the element has any other members.
pub(super) fn plain_part(element: Json<'_>) -> Option<Part> {
    match &*element.get("type")?.as_str()? {
        "text" => {
            let [_, text] = only(element, ["type", "text"])?;
            Some(Part::Text(Text::received(text?)?))
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
        _ => Some(other(element.to_value())),
    }
}

/// The equivalent of `part` in this API, if it comes from another API.
pub(super) fn adopted_part(part: Part) -> Part {
    match part {
        Part::Other(other) => adopted(Dialect::Chat, other.parts().1).unwrap_or(Part::Other(other)),
        part => part,
    }
}

fn other(element: Value) -> Part {
    Part::Other(Received::new(Dialect::Chat.name(), element))
}

pub(super) fn call(element: &Value) -> Option<Call> {
    let id = element.get("id")?.as_str()?.to_owned();
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let (body, arguments) = match element.get("custom") {
        Some(custom) => (custom, input_arguments(&text(custom.get("input")))),
        None => {
            let function = element.get("function")?;
            (function, text(function.get("arguments")))
        }
    };
    let signature = element.get("extra_content").and_then(extra::past_call_state);
    Some(Call { signature, ..Call::new(id, body.get("name")?.as_str()?, arguments) })
}

pub(super) fn is_custom_call(element: &Value) -> bool {
    element.get("custom").is_some()
}

/// Like [`call`], but `None` if the element has any other members.
pub(super) fn plain_call(element: Json<'_>) -> Option<Call> {
    let [id, kind, function] = only(element, ["id", "type", "function"])?;
    let [name, arguments] = only(function?, ["name", "arguments"])?;
    let text = |value: Option<Json<'_>>| Some(value?.as_str()?.into_owned());
    (kind?.as_str()? == "function").then_some(())?;
    Some(Call::new(text(id)?, text(name)?, text(arguments)?))
}

/// The text of a tool message's `content`: the string itself, or its text parts joined by newlines. Parts
/// that have a type but no text are returned by [`result_media`].
pub(super) fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(elements) => {
            let text = |element: &Value| match (element, element.get("text")) {
                (Value::String(text), _) | (_, Some(Value::String(text))) => text.clone(),
                _ => element.to_string(),
            };
            let texts = elements.iter().filter(|element| !is_media(element)).map(text);
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The parts of a tool message's `content` that are not text, such as images, files and audio.
pub(super) fn result_media(content: &Value) -> Vec<Part> {
    let elements = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let media = elements.iter().filter(|element| is_media(element));
    media.map(|element| adopted_part(part(element).unwrap_or_else(|| other(element.clone())))).collect()
}

fn is_media(element: &Value) -> bool {
    let is_text = |key: &str| element.get(key).is_some_and(Value::is_string);
    is_text("type") && !is_text("text")
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Originals<'a>(&'a [Value]);

impl<'a> Originals<'a> {
    pub(super) fn of(rest: &'a Map<String, Value>, key: &str) -> Self {
        Self(rest.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default())
    }

    /// Returns the next original for which `means` is true and skips the originals before it.
    pub(super) fn next(&mut self, means: impl Fn(&Value) -> bool) -> Option<&'a Value> {
        /// Limits the search if a part has no original.
        const NEAR: usize = 16;
        let place = self.0.iter().take(NEAR).position(means)?;
        let (before, behind) = self.0.split_at_checked(place + 1)?;
        self.0 = behind;
        before.last()
    }
}

/// The members with these keys. `None` if the object has other members, or one of these twice.
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
