//! Parts in the format of an API other than the client's own.

use serde_json::Value;

use super::{
    file::part_of,
    pieces::{Piece, kind_of, read, text},
};
use crate::{Dialect, conversation::Part};

/// Converts `value`, a part from a client that speaks `client`, if its type belongs to another API. `None` if
/// the type belongs to the client's own API or is unknown.
pub(crate) fn adopted(client: Dialect, value: &Value) -> Option<Part> {
    let owner = owner(client, value).filter(|owner| *owner != client)?;
    let mut pieces = Vec::new();
    if read(value, &mut pieces)
        && let [piece @ (Piece::Text(_) | Piece::Image { .. } | Piece::Reasoning(_))] = &mut *pieces
        && !is_kept(kind_of(value))
    {
        return Some(match std::mem::replace(piece, Piece::Text(String::new())) {
            Piece::Image { url, detail } => Part::Image { url, detail },
            Piece::Reasoning(text) => Part::Reasoning { text, signature: None, redacted: false },
            Piece::Text(text) => Part::Text(text.into()),
            Piece::File(_) => part_of(owner, value.clone()),
        });
    }
    Some(part_of(owner, value.clone()))
}

/// The types that are not converted, since they express more than their text.
fn is_kept(kind: &str) -> bool {
    matches!(
        kind,
        "document" | "search_result" | "tool_reference" | "file" | "input_file" | "tool_result" | "tool_use"
    )
}

/// The dialect whose API has this type of part.
fn owner(client: Dialect, value: &Value) -> Option<Dialect> {
    let openai = |other: Dialect| if client == Dialect::Messages { other } else { client };
    Some(match kind_of(value) {
        "text" => return None,
        "input_text" | "output_text" | "summary_text" | "input_image" | "input_file" => Dialect::Responses,
        "image_url" => Dialect::Chat,
        "input_audio" | "refusal" => openai(Dialect::Chat),
        "file" if value.get("file").is_some_and(Value::is_object) => Dialect::Chat,
        // Some servers of OpenAI's API use `image` and `document` for other things.
        "image" | "document" if value.get("source").is_some_and(Value::is_object) => Dialect::Messages,
        "image" | "audio" if text(value, "data").is_some() && text(value, "mimeType").is_some() => {
            Dialect::Messages
        }
        "search_result" | "tool_reference" | "container_upload" | "tool_use" | "tool_result" => {
            Dialect::Messages
        }
        _ => return None,
    })
}
