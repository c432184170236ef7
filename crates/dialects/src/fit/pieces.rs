//! Reads the contents of a request's part, whichever API the part belongs to.

use serde_json::{Map, Value};

use super::file::{File, Source};
use crate::{
    Dialect,
    conversation::loaded_line,
    media::{data_url, decoded_text, mime_of_base64, mime_of_name, mime_of_url, plain_mime},
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
    Image { url: String, detail: Option<String> },
    File(File),
}

pub(crate) fn kind_of(value: &Value) -> &str {
    text(value, "type").unwrap_or_default()
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// Adds the contents of a part. Returns `false` and adds nothing if its type is unknown.
pub(super) fn read(value: &Value, out: &mut Vec<Piece>) -> bool {
    if let Some(text) = value.as_str() {
        out.push(Piece::Text(text.to_owned()));
        return true;
    }
    let kind = kind_of(value);
    let piece = match kind {
        "" => of_gemini(value),
        "refusal" => text(value, "refusal").map(|text| Piece::Text(text.to_owned())),
        "thinking" | "reasoning" => Some(Piece::Reasoning(texts(value.get(kind)))),
        "tool_reference" => text(value, "tool_name").map(|name| Piece::Text(loaded_line(name))),
        // These have already been applied to the declared tools.
        "tool_addition" | "tool_removal" => return true,
        "compaction" => match value.get("content") {
            Some(Value::String(summary)) => Some(Piece::Text(summary.clone())),
            // The compaction failed.
            Some(Value::Null) if value.get("encrypted_content").is_none() => return true,
            _ => None,
        },
        "image_url" | "input_image" | "image" | "image_file" | "computer_screenshot" => {
            located(value, "image")
        }
        "input_audio" | "audio" | "audio_url" => located(value, "audio"),
        "video_url" | "input_video" | "video" => located(value, "video"),
        "file" | "input_file" | "document" | "document_url" | "container_upload" | "resource" => {
            if let Some(content) = value.get("source").and_then(|source| source.get("content")) {
                return titled(value, content, out);
            }
            let file = located(value, "file");
            // A file has no other place for what it is about.
            if text(value, "context").is_some() && matches!(file, Some(Piece::File(_) | Piece::Image { .. }))
            {
                out.extend(heading(value).map(Piece::Text));
            }
            file
        }
        _ => match (text(value, "text"), value.get("content")) {
            (Some(text), _) => Some(Piece::Text(text.to_owned())),
            (None, Some(content)) if says_something(content) => {
                out.extend(beside_content(value).map(Piece::Text));
                return titled(value, content, out);
            }
            _ => None,
        },
    };
    let is_known = piece.is_some();
    out.extend(piece);
    is_known
}

/// The contents of a part of Gemini's API, whose parts have a member of their own for each type.
fn of_gemini(value: &Value) -> Option<Piece> {
    let text_of = |inner: &Value, key: &str| text(inner, key).unwrap_or_default().to_owned();
    if let Some(file) = value.get("fileData") {
        let url = text(file, "fileUri")?;
        let mime = plain_mime(text(file, "mimeType").unwrap_or_default()).into_owned();
        let name = text(file, "displayName").unwrap_or_default();
        // Only Google's servers can read these.
        let is_theirs = url.starts_with("gs://") || url.contains("googleapis.com/");
        if is_theirs {
            let source = Source::Id { id: url.to_owned(), owner: Dialect::Gemini };
            return Some(Piece::File(File { name: name.to_owned(), mime, source }));
        }
        if mime.is_empty() {
            return by_url(url, (name, "file"), value);
        }
        if mime.starts_with("image/") {
            return Some(Piece::Image { url: url.to_owned(), detail: None });
        }
        return Some(Piece::File(File { name: name.to_owned(), mime, source: Source::Url(url.to_owned()) }));
    }
    if let Some(data) = value.get("inlineData") {
        let name = text(data, "displayName").unwrap_or_default();
        return Some(by_data(text(data, "mimeType")?, text(data, "data")?, (name, "file"), value));
    }
    if let Some(code) = value.get("executableCode") {
        let language = text_of(code, "language").to_ascii_lowercase();
        return Some(Piece::Text(format!("```{language}\n{}\n```", text_of(code, "code"))));
    }
    let result = value.get("codeExecutionResult")?;
    Some(Piece::Text(format!("```\n{}\n```", text_of(result, "output"))))
}

/// Adds the contents of a string, a part, or a list of parts. Unknown content is added as JSON.
pub(super) fn read_all(content: &Value, out: &mut Vec<Piece>) {
    match content {
        Value::Null => {}
        Value::Array(parts) => parts.iter().for_each(|part| read_all(part, out)),
        part => {
            if !read(part, out) {
                out.push(Piece::Text(shown(part)));
            }
        }
    }
}

/// A part as JSON, without members that only servers can read.
pub(super) fn shown(value: &Value) -> String {
    readable(value).to_string()
}

/// Whether a member is readable only by the server that wrote it.
fn is_sealed(key: &str) -> bool {
    key.starts_with("encrypted_") || matches!(key, "signature" | "fingerprint")
}

/// `value` without members that only servers can read.
pub(super) fn readable(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(readable).collect(),
        Value::Object(members) => {
            let members = members.iter().filter(|(key, value)| !is_sealed(key) && !value.is_null());
            members.map(|(key, value)| (key.clone(), readable(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn says_something(content: &Value) -> bool {
    match content {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(_) => true,
        _ => false,
    }
}

/// The joined text in `content`.
fn texts(content: Option<&Value>) -> String {
    let mut pieces = Vec::new();
    read_all(content.unwrap_or(&Value::Null), &mut pieces);
    let texts = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Members of a part that its heading or its contents contain, or that say nothing to a model.
const IN_CONTENT: [&str; 14] = [
    "type",
    "role",
    "id",
    "tool_use_id",
    "content",
    "title",
    "filename",
    "name",
    "source",
    "url",
    "context",
    "cache_control",
    "citations",
    "caller",
];

/// The members beside `content`, such as the output of a program whose files are the content, as JSON.
fn beside_content(value: &Value) -> Option<String> {
    let mut beside = readable(value);
    let members = beside.as_object_mut()?;
    members.retain(|key, _| !IN_CONTENT.contains(&key.as_str()));
    (!members.is_empty()).then(|| beside.to_string())
}

fn heading(value: &Value) -> Option<String> {
    let title =
        ["title", "filename", "name"].into_iter().find_map(|key| text(value, key)).unwrap_or_default();
    let place = ["source", "url"].into_iter().find_map(|key| text(value, key)).unwrap_or_default();
    let about = text(value, "context").unwrap_or_default();
    let heading = match (title, place) {
        ("", "") => String::new(),
        (title, "") => title.to_owned(),
        ("", place) => place.to_owned(),
        (title, place) => format!("{title} ({place})"),
    };
    match (heading.as_str(), about) {
        ("", "") => None,
        (_, "") => Some(format!("{heading}:")),
        ("", about) => Some(about.to_owned()),
        (heading, about) => Some(format!("{heading}:\n{about}")),
    }
}

/// Adds `content`, preceded by the title of the part that contains it.
fn titled(value: &Value, content: &Value, out: &mut Vec<Piece>) -> bool {
    let place = out.len();
    read_all(content, out);
    if let Some(heading) = heading(value) {
        match out.get_mut(place) {
            Some(Piece::Text(text)) => *text = format!("{heading}\n{text}"),
            _ => out.insert(place, Piece::Text(heading)),
        }
    }
    true
}

/// The image, recording or file that a part refers to. `family` is its kind if the part does not give a type.
fn located(value: &Value, family: &'static str) -> Option<Piece> {
    let kind = kind_of(value);
    let inner = |key: &str| value.get(key).filter(|inner| inner.is_object());
    let body =
        ["source", "file", "input_audio", "resource", kind].into_iter().find_map(inner).unwrap_or(value);
    let either = |key: &str| text(body, key).or_else(|| text(value, key));
    let name = ["filename", "title", "name"].into_iter().find_map(either).unwrap_or_default();
    let mime = ["media_type", "mime_type", "mimeType"].into_iter().find_map(either);
    if let Some(text) = text(body, "text").or_else(|| text(body, "data").filter(|_| kind_of(body) == "text"))
    {
        let heading = heading(value);
        return Some(Piece::Text(
            heading.map_or_else(|| text.to_owned(), |heading| format!("{heading}\n{text}")),
        ));
    }
    if let Some(data) = ["data", "blob"].into_iter().find_map(|key| text(body, key)) {
        let mime = match (mime, text(body, "format")) {
            (Some(mime), _) => mime.to_owned(),
            (None, Some("mp3")) => "audio/mpeg".to_owned(),
            (None, Some(format)) => format!("{family}/{format}"),
            (None, None) => String::new(),
        };
        return Some(by_data(&mime, data, (name, family), value));
    }
    if let Some(data) = text(body, "file_data") {
        return by_url(data, (name, family), value);
    }
    let url = [kind, "image_url", "file_url", "url", "uri", "image", "video", "audio"].into_iter();
    if let Some(url) = url.into_iter().find_map(|key| text(body, key)) {
        return by_url(url, (name, family), value);
    }
    let id = ["file_id", "id"].into_iter().find_map(|key| text(body, key))?;
    let is_anthropic = kind == "container_upload" || value.get("source").is_some();
    let owner = if is_anthropic { Dialect::Messages } else { Dialect::Responses };
    let mime = if family == "file" { String::new() } else { format!("{family}/*") };
    let source = Source::Id { id: id.to_owned(), owner };
    Some(Piece::File(File { name: name.to_owned(), mime, source }))
}

/// A file that is given by a URL, which may contain the data, or by the data itself.
fn by_url(url: &str, (name, family): (&str, &'static str), value: &Value) -> Option<Piece> {
    if let Some((mime, data)) = data_url(url) {
        return Some(by_data(mime, data, (name, family), value));
    }
    let has_scheme = url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    });
    if !has_scheme {
        return is_base64(url).then(|| by_data("", url, (name, family), value));
    }
    let mime = mime_of_url(url).or_else(|| mime_of_name(name)).unwrap_or_default();
    let is_image = if mime.is_empty() { family == "image" } else { mime.starts_with("image/") };
    if is_image {
        return Some(Piece::Image { url: url.to_owned(), detail: detail(value) });
    }
    let mime = match (mime, family) {
        ("", "audio" | "video") => format!("{family}/*"),
        (mime, _) => mime.to_owned(),
    };
    Some(Piece::File(File { name: name.to_owned(), mime, source: Source::Url(url.to_owned()) }))
}

/// A file that is given by its base64 data. If no type is given, it is derived from the data or the name.
fn by_data(mime: &str, data: &str, (name, family): (&str, &'static str), value: &Value) -> Piece {
    let known = Some(plain_mime(mime)).filter(|mime| !mime.is_empty());
    let guessed = || Some(mime_of_base64(data)).filter(|mime| !mime.is_empty());
    let mime = match known {
        Some(mime) => mime.into_owned(),
        None => match (guessed().or_else(|| mime_of_name(name)), family) {
            (Some(mime), _) => mime.to_owned(),
            (None, "image") => "image/png".to_owned(),
            (None, _) => "application/octet-stream".to_owned(),
        },
    };
    if mime.starts_with("image/") {
        return Piece::Image { url: format!("data:{mime};base64,{data}"), detail: detail(value) };
    }
    if let Some(text) = is_text(&mime).then(|| decoded_text(data)).flatten() {
        return Piece::Text(if name.is_empty() { text } else { format!("{name}:\n{text}") });
    }
    Piece::File(File { name: name.to_owned(), mime, source: Source::Data(data.to_owned()) })
}

fn detail(value: &Value) -> Option<String> {
    let nested = value.get("image_url").and_then(|image| text(image, "detail"));
    nested.or_else(|| text(value, "detail")).map(str::to_owned)
}

fn is_base64(text: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    !text.is_empty() && text.bytes().all(is_letter)
}

fn is_text(mime: &str) -> bool {
    const TEXTS: [&str; 7] = ["json", "xml", "yaml", "javascript", "toml", "sql", "x-ndjson"];
    let Some((family, kind)) = mime.split_once('/') else { return false };
    let kind = kind.rsplit('+').next().unwrap_or(kind);
    family == "text" || family == "application" && TEXTS.contains(&kind.strip_prefix("x-").unwrap_or(kind))
}
