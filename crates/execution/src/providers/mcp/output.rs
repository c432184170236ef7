//! Turns the result of an MCP call into an [`Output`].

use std::{sync::Arc, time::SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use toolwire_net::untrusted_text::is_unprintable;
use crate::{Output, files::{ImageFiles, UnclaimedImage}};

/// Maximum number of images in a result that are stored.
const MAX_IMAGES: usize = 8;

/// Joins the texts. Structured content is added as JSON unless one of the texts already contains it, as the protocol
/// recommends. Images are stored in `files` and replaced with their URLs. Other files are replaced with a note.
pub(super) async fn of(result: CallToolResult, files: Option<&Arc<ImageFiles>>) -> Output {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for block in result.content {
        if let (ContentBlock::Image(image), Some(files), ..MAX_IMAGES) = (&block, files, images.len())
            && let Some((image, url)) = kept(files, image.data.clone()).await
        {
            texts.push(format!("![image]({url})"));
            images.push((image, url));
        } else {
            texts.extend(text(block));
        }
    }
    if let Some(structured) = result.structured_content {
        let is_same =
            |text: &String| serde_json::from_str::<Value>(text).is_ok_and(|value| value == structured);
        if !texts.iter().any(is_same) {
            texts.push(structured.to_string());
        }
    }
    let urls = images.into_iter().map(|(image, url)| {
        image.claim();
        url
    });
    let urls: Vec<_> = urls.collect();
    let content = texts.join("\n");
    if result.is_error == Some(true) {
        return Output::failed(content);
    }
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (summary, details) = match urls.len() {
        0 => (counted(content.chars().count(), "character"), Value::Null),
        count => (counted(count, "image"), json!({"kind": "images", "data": {"image_urls": urls}})),
    };
    Output { content, summary, details, ..Output::default() }
}

/// Stores an image, and returns it with its URL. `None` if it is not in a known format or cannot be stored.
async fn kept(files: &Arc<ImageFiles>, base64: String) -> Option<(UnclaimedImage, String)> {
    let keeper = Arc::clone(files);
    let keeping = spawn_blocking(move || {
        let bytes = BASE64_STANDARD.decode(base64).ok()?;
        UnclaimedImage::save(&keeper, &bytes, SystemTime::now()).ok()
    });
    let image = keeping.await.ok()??;
    let url = files.url(image.name.as_ref()?);
    Some((image, url))
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
            let about = [link.title, link.description].into_iter().flatten().filter(|text| !text.is_empty());
            let about = about.collect::<Vec<_>>().join(": ");
            let separator = if about.is_empty() { "" } else { ": " };
            Some(format!("[{}]({}){separator}{about}", escaped_name(&link.name), escaped_url(&link.uri)))
        }
        _ => None,
    }
}

/// Escapes `name` as the text of a Markdown link, on one line.
fn escaped_name(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for char in name.chars() {
        if matches!(char, '\\' | '[' | ']' | '`' | '<') {
            escaped.push('\\');
        }
        escaped.push(if char.is_whitespace() || is_unprintable(char) { ' ' } else { char });
    }
    escaped
}

/// Escapes `url` as the destination of a Markdown link, which would end at a space or a closing parenthesis.
fn escaped_url(url: &str) -> String {
    let mut escaped = String::with_capacity(url.len());
    for char in url.chars() {
        if char.is_whitespace() || is_unprintable(char) || matches!(char, '(' | ')' | '<' | '>' | '\\' | '"')
        {
            escaped.extend(utf8_percent_encode(char.encode_utf8(&mut [0; 4]), NON_ALPHANUMERIC));
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// The note about a file that is not shown.
fn file(what: &str, kind: &str, base64: &str) -> String {
    format!("[{what} {kind}, {} bytes, not shown]", base64.len() / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{ImageGauges, ImageSettings};

    fn output(result: Value) -> Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(of(serde_json::from_value(result).expect("a result"), None))
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

    #[test]
    fn links_cannot_leave_their_place_in_markdown() {
        let link = |name: &str, uri: &str| {
            let link = json!({"type": "resource_link", "uri": uri, "name": name});
            output(json!({"content": [link]})).content
        };
        assert_eq!(
            link("Q3 report.pdf", "https://a.example/q3?x=1&y=2"),
            "[Q3 report.pdf](https://a.example/q3?x=1&y=2)"
        );
        assert_eq!(
            link("a](https://evil.example) [b\n# c", "file:///a b).md"),
            "[a\\](https://evil.example) \\[b # c](file:///a%20b%29.md)"
        );
        assert_eq!(
            link("![x]\\", "https://a.example/)\n![x](https://b"),
            "[!\\[x\\]\\\\](https://a.example/%29%0A![x]%28https://b)"
        );
        assert_eq!(
            link("é\u{202e}", "https://a.example/é\u{202e}<x>"),
            "[é ](https://a.example/é%E2%80%AE%3Cx%3E)"
        );
    }

    #[tokio::test]
    async fn png_images_are_kept_as_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = ImageSettings::default().in_state_dir(Some(folder.path()));
        let files =
            ImageFiles::new(&settings, ImageGauges::default()).map(Arc::new).expect("a folder for images");
        files.reached_at("http://h");
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
        let result = json!({"content": [image(png), image("AAAA"), image("?")]});
        let output = of(serde_json::from_value(result).expect("a result"), Some(&files)).await;
        assert!(output.content.starts_with("![image](http://h/api/images/"), "{}", output.content);
        assert_eq!((output.content.matches("not shown").count(), output.summary.as_str()), (2, "1 image"));
    }
}
