//! Reads a content of a step: a text, an image or another medium.

use serde_json::json;

use super::super::DIALECT;
use crate::{
    Dialect,
    conversation::{Part, Received, Text},
    failure::Failure,
    fields::{Fields, Path, wrong_type},
    wire::json::{Json, Kind},
};

/// Reads contents: a list, a single one, or a text.
pub(super) fn read_all(path: Path<'_>, given: Json<'_>) -> Result<Vec<Part>, Failure> {
    if let Some(text) = Text::received(given) {
        return Ok(vec![Part::Text(text)]);
    }
    match given.kind() {
        Kind::Array => {
            let elements = given.elements().enumerate();
            elements.map(|(place, content)| read(Path::Element(&path, place), content)).collect()
        }
        _ => Ok(vec![read(path, given)?]),
    }
}

/// Reads one content.
pub(super) fn read(path: Path<'_>, given: Json<'_>) -> Result<Part, Failure> {
    let mut content = Fields::new(path, given)?;
    Ok(match &*content.needed_string("type")? {
        "text" => {
            let text = content.any("text").unwrap_or_default();
            Part::Text(Text::received(text).ok_or_else(|| wrong_type(content.at("text"), "a string", text))?)
        }
        kind => match on_google(&content) {
            Some(file) => file,
            None => match image(&mut content)?.filter(|_| kind == "image") {
                Some(url) => Part::Image { url, detail: None },
                None => Part::Other(Received::new(DIALECT, given.to_value())),
            },
        },
    })
}

/// A medium that only Google's servers can read, as a part of Gemini's API.
fn on_google(content: &Fields<'_, '_>) -> Option<Part> {
    let text = |key: &str| content.peek(key).and_then(|value| value.as_str());
    let uri = text("uri").filter(|uri| uri.starts_with("gs://") || uri.contains("googleapis.com/"))?;
    let file = json!({"fileUri": uri, "mimeType": text("mime_type").unwrap_or_default()});
    Some(Part::Other(Received::new(Dialect::Gemini.name(), json!({"fileData": file}))))
}

fn image(content: &mut Fields<'_, '_>) -> Result<Option<String>, Failure> {
    let mime = content.string("mime_type")?.unwrap_or_default();
    let data = content.string("data")?;
    let uri = content.string("uri")?;
    Ok(data.map(|data| format!("data:{mime};base64,{data}")).or_else(|| uri.map(|uri| uri.into_owned())))
}

/// Whether a value of this type is a content, and not a step.
pub(in super::super) fn is_content(kind: &str) -> bool {
    matches!(kind, "text" | "image" | "audio" | "video" | "document")
}
