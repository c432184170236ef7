//! The structured content of results, which most servers also give as text.
//!
//! The protocol recommends that a tool with structured content also returns its JSON as text (revision 2025-06-18, Tools, Structured Content).
//! Python's SDK puts results that are not objects into `{"result": …}`, and writes each element of a list as a block of its own.

use rmcp::model::{ContentBlock, ResourceContents};
use serde_json::{Number, Value};

use crate::media::described;

/// Whether `content` says the same as `structured`.
pub(super) fn is_said(structured: &Value, content: &[ContentBlock]) -> bool {
    let texts: Option<Vec<&str>> = content.iter().map(text_of).collect();
    let joined = texts.as_ref().map(|texts| texts.join("\n"));
    let inner = match structured {
        Value::Object(members) if members.len() == 1 => members.values().next(),
        _ => None,
    };
    [Some(structured), inner].into_iter().flatten().any(|value| {
        joined.as_ref().is_some_and(|joined| is_written(value, joined))
            || content.iter().any(|block| text_of(block).is_some_and(|text| is_json_of(value, text)))
            || are_blocks(value, content)
    })
}

/// `value` with descriptions instead of files.
pub(super) fn without_files(mut value: Value) -> Value {
    match &mut value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| *element = without_files(element.take())),
        Value::Object(members) => {
            let text = |key: &str| members.get(key).and_then(Value::as_str);
            let mime = ["mimeType", "mime_type", "media_type"].into_iter().find_map(text);
            let key = match (text("data"), text("blob"), mime, text("uri")) {
                (Some(_), _, Some(_), _) => Some("data"),
                (_, Some(_), _, Some(_)) => Some("blob"),
                _ => None,
            };
            let described = key.and_then(|key| {
                let size = text(key)?.len() / 4 * 3;
                Some((key, described(mime.filter(|mime| crate::media::is_mime(mime)).unwrap_or("data"), size)))
            });
            if let Some((key, described)) = described {
                members.insert(key.to_owned(), described.into());
            }
            members.values_mut().for_each(|member| *member = without_files(member.take()));
        }
        _ => {}
    }
    value
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

/// Whether the elements of the list `value` are the blocks, in order.
fn are_blocks(value: &Value, content: &[ContentBlock]) -> bool {
    let Value::Array(elements) = value else { return false };
    elements.len() == content.len()
        && elements.iter().zip(content).all(|(element, block)| match text_of(block) {
            Some(text) => {
                is_written(element, text) || element.get("text").is_some_and(|own| is_written(own, text))
            }
            None => is_file(element, block),
        })
}

/// Whether `element` has the file in `block`.
fn is_file(element: &Value, block: &ContentBlock) -> bool {
    let text = |key| element.get(key).or_else(|| element.get("resource")?.get(key)).and_then(Value::as_str);
    match block {
        ContentBlock::Image(image) => text("data") == Some(&image.data),
        ContentBlock::Audio(audio) => text("data") == Some(&audio.data),
        ContentBlock::ResourceLink(link) => text("uri") == Some(&link.uri),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text: own, .. } => text("text") == Some(own),
            ResourceContents::BlobResourceContents { blob, .. } => text("blob") == Some(blob),
            _ => false,
        },
        _ => false,
    }
}

/// Whether `text` is `value`, as text or as JSON.
fn is_written(value: &Value, text: &str) -> bool {
    let plain = text.trim();
    match value {
        Value::String(own) => own == text || own.trim() == plain || is_json_of(value, text),
        // Numbers that JSON does not have are null.
        Value::Null => matches!(plain, "" | "null" | "None" | "NaN" | "nan" | "Infinity" | "inf" | "-Infinity" | "-inf"),
        Value::Bool(true) => matches!(plain, "true" | "True"),
        Value::Bool(false) => matches!(plain, "false" | "False"),
        Value::Number(number) => plain.parse().is_ok_and(|own: Number| is_same_number(number, &own)),
        Value::Array(elements) => {
            let lines = || elements.iter().map(|element| element.as_str().map(str::trim));
            let is_joined = |separator: &str| lines().eq(plain.split(separator).map(|line| Some(line.trim())));
            elements.is_empty() && plain.is_empty() || is_joined("\n") || is_joined(",") || is_json_of(value, text)
        }
        Value::Object(_) => is_json_of(value, text),
    }
}

/// Whether `text` is JSON of `value`, with any spacing and order.
fn is_json_of(value: &Value, text: &str) -> bool {
    let begins = text.trim_start().starts_with(['{', '[', '"']);
    begins && serde_json::from_str(text).is_ok_and(|own: Value| is_same(value, &own))
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => is_same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|own| is_same(value, own)))
        }
        (one, other) => one == other,
    }
}

/// Whether two numbers are equal, however they are written. Long integers differ in digits that a float does not have.
fn is_same_number(one: &Number, other: &Number) -> bool {
    let is_integer = |number: &Number| number.to_string().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_equal = || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one.to_bits() == other.to_bits());
    one == other || !(is_integer(one) && is_integer(other)) && is_equal()
}
