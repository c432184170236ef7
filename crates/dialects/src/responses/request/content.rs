//! The content of messages and results, which is a string or a list of parts.

use serde_json::Value;

use super::{DIALECT, items::clip};
use crate::{
    Dialect,
    conversation::{Part, Received, Text},
    failure::Failure,
    fields::{Fields, Path, wrong_type, wrong_value},
    fit::adopted,
    wire::json::{Json, Kind as JsonKind},
};

/// Parts, and whether the client sent anything that they do not contain.
pub(super) struct Content {
    pub(super) parts: Vec<Part>,
    pub(super) has_more: bool,
}

/// Reads the `content` of a message. A string counts as one text.
pub(super) fn read(path: Path<'_>, content: Json<'_>) -> Result<Content, Failure> {
    read_parts(path, content, &|path, kind, _| {
        let kind = clip(kind);
        Err(wrong_value(path, format_args!("is of the type `{kind}`, which is no content of a message")))
    })
}

/// Reads the `output` of a call. Whatever cannot be part of a message is read as text, unchanged.
pub(super) fn read_output(path: Path<'_>, output: Json<'_>) -> Result<Content, Failure> {
    read_parts(path, output, &|_, _, element| Ok((Part::Text(element.raw().into()), true)))
}

/// Converts a part of an unknown type.
type Unknown<'f> = &'f dyn Fn(Path<'_>, &str, Json<'_>) -> Result<(Part, bool), Failure>;

fn read_parts(path: Path<'_>, content: Json<'_>, unknown: Unknown<'_>) -> Result<Content, Failure> {
    if let Some(text) = Text::received(content) {
        return Ok(Content { parts: vec![Part::Text(text)], has_more: false });
    }
    if content.kind() != JsonKind::Array {
        return Err(wrong_type(path, "a string or an array of content parts", content));
    }
    let mut read = Content { parts: Vec::new(), has_more: false };
    for (place, element) in content.elements().enumerate() {
        let (part, has_more) = part(Path::Element(&path, place), element, unknown)?;
        read.has_more |= has_more;
        read.parts.push(part);
    }
    Ok(read)
}

/// Reads a part. Also returns whether it had members that the result does not contain. A refusal is read as
/// text, since the model said it.
fn part(path: Path<'_>, element: Json<'_>, unknown: Unknown<'_>) -> Result<(Part, bool), Failure> {
    if let Some(text) = Text::received(element) {
        return Ok((Part::Text(text), false));
    }
    let mut fields = Fields::new(path, element)?;
    let kind = fields.needed_string("type")?;
    let part = match &*kind {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            Part::Text(fields.needed_text("text")?)
        }
        "refusal" => return Ok((Part::Text(fields.needed_text("refusal")?), true)),
        "input_image" => match image(&mut fields)? {
            Some(image) => image,
            None => return Ok((other(element), false)),
        },
        kind if kind.starts_with("input_") => return Ok((other(element), false)),
        kind => {
            return match adopted(Dialect::Responses, &element.to_value()) {
                Some(part) => Ok((part, false)),
                None => unknown(path, kind, element),
            };
        }
    };
    let has_more = fields.into_rest().into_iter().any(|(_, value)| !is_empty(&value));
    Ok((part, has_more))
}

/// Reads an image that is given by a URL. `None` if the image exists only on the API's servers.
fn image(fields: &mut Fields<'_, '_>) -> Result<Option<Part>, Failure> {
    let Some(url) = fields.any("image_url") else { return Ok(None) };
    // Some clients send an object, as in Chat Completions, instead of a URL.
    let given = url.as_str().or_else(|| url.get("url")?.as_str());
    let Some(given) = given else { return Err(wrong_type(fields.at("image_url"), "a string", url)) };
    let detail = fields.string("detail")?.map(Into::into);
    Ok(Some(Part::Image { url: given.into_owned(), detail }))
}

/// A part that only this API can express.
pub(super) fn other(element: Json<'_>) -> Part {
    Part::Other(Received::new(DIALECT, element.to_value()))
}

/// Whether a value is meaningless, like an empty list of annotations.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

pub(super) fn texts(content: Option<Json<'_>>) -> Vec<String> {
    let Some(content) = content else { return Vec::new() };
    if let Some(text) = content.as_str() {
        return vec![text.into_owned()];
    }
    let texts = content.elements().filter_map(|part| part.get("text")?.as_str());
    texts.map(Into::into).collect()
}
