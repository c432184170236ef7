//! Turns the result of an MCP call into an [`Output`].

mod structured;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use toolwire_net::untrusted_text::is_unprintable;
use crate::{
    Output,
    media::{MediaFile, shown},
};

/// Joins the texts. Structured content is added as JSON unless the content already says the same. Files are described in
/// the text, and returned for models that take them.
pub(super) fn of(result: CallToolResult) -> Output {
    let structured = result.structured_content.filter(|value| !structured::is_said(value, &result.content));
    let (mut texts, mut media) = (Vec::new(), Vec::new());
    for block in result.content {
        texts.extend(text(block, &mut media));
    }
    texts.extend(structured.map(structured::without_files).map(|value| value.to_string()));
    let content = texts.join("\n");
    if result.is_error == Some(true) {
        // Anthropic's API takes only text in results that are errors.
        return Output::failed(content);
    }
    let count = content.chars().count();
    let summary = format!("{count} character{}", if count == 1 { "" } else { "s" });
    Output { content, summary, media, ..Output::default() }
}

/// The text for a block, whose file is added to `media`.
pub(super) fn text(block: ContentBlock, media: &mut Vec<MediaFile>) -> Option<String> {
    let mut file = |data: &str, kind: &str| {
        let (text, file) = shown(data, kind);
        media.extend(file);
        text
    };
    match block {
        ContentBlock::Text(text) => Some(text.text),
        ContentBlock::Image(image) => Some(file(&image.data, &image.mime_type)),
        ContentBlock::Audio(audio) => Some(file(&audio.data, &audio.mime_type)),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => Some(format!("{uri}:\n{text}")),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                Some(format!("{uri}: {}", file(&blob, mime_type.as_deref().unwrap_or_default())))
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

#[cfg(test)]
mod tests;
