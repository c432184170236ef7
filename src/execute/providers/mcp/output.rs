//! The result of a call as its output.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::execute::Output;

/// Texts are joined. Structured content is added as JSON, unless a text is that JSON already, as the protocol recommends. Of images,
/// sounds and other files the model is told that they exist.
pub(super) fn of(result: CallToolResult) -> Output {
    let mut texts: Vec<String> = result.content.into_iter().filter_map(text).collect();
    if let Some(structured) = result.structured_content {
        let is_same = |text: &String| serde_json::from_str::<Value>(text).is_ok_and(|value| value == structured);
        if !texts.iter().any(is_same) {
            texts.push(structured.to_string());
        }
    }
    let content = texts.join("\n");
    match result.is_error {
        Some(true) => Output::failed(content),
        _ => {
            let characters = content.chars().count();
            let summary = format!("{characters} character{}", if characters == 1 { "" } else { "s" });
            Output { summary, ..Output::text(content) }
        }
    }
}

fn text(block: ContentBlock) -> Option<String> {
    match block {
        ContentBlock::Text(text) => Some(text.text),
        ContentBlock::Image(image) => Some(file("image", &image.mime_type, &image.data)),
        ContentBlock::Audio(audio) => Some(file("audio", &audio.mime_type, &audio.data)),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => Some(format!("{uri}:\n{text}")),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("application/octet-stream");
                Some(format!("{uri}: {}", file("file", kind, &blob)))
            }
            _ => None,
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.or(link.title).unwrap_or_default();
            let separator = if about.is_empty() { "" } else { ": " };
            Some(format!("[{}]({}){separator}{about}", link.name, link.uri))
        }
        _ => None,
    }
}

/// A note about a file that is not shown.
fn file(what: &str, kind: &str, base64: &str) -> String {
    format!("[{what} {kind}, {} bytes, not shown]", base64.len() / 4 * 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(result: Value) -> Output {
        of(serde_json::from_value(result).expect("a result"))
    }

    #[test]
    fn texts_are_joined() {
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(output(json!({"content": [text("a"), text("b")]})).content, "a\nb");
        assert_eq!(output(json!({"content": []})).content, "");
    }

    #[test]
    fn structured_content_is_given_once() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let structured = json!({"t": 2});
        for (text, expected) in [(text("{ \"t\": 2 }"), "{ \"t\": 2 }"), (text("two"), "two\n{\"t\":2}")] {
            let output = output(json!({"content": [text], "structuredContent": structured}));
            assert_eq!(output.content, expected);
        }
    }

    #[test]
    fn errors_are_results_that_say_so() {
        let output = output(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert_eq!((output.content.as_str(), output.is_error), ("no such file", true));
    }

    #[test]
    fn other_content_is_described() {
        let content = json!([
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the file"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "b's text"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}},
        ]);
        let expected = "[image image/png, 3 bytes, not shown]\n[audio audio/wav, 6 bytes, not shown]\n\
                        [a](file:///a): the file\nfile:///b:\nb's text\n\
                        file:///c: [file application/octet-stream, 3 bytes, not shown]";
        assert_eq!(output(json!({"content": content})).content, expected);
    }
}
