//! Checks chat templates: none panics, and no prompt exceeds its limit.

use toolwire::dialect::ClientDialect;
use toolwire_template::{ChatTemplate, strftime};

/// 2026-03-09 14:05:07 UTC.
const NOW: u64 = 1_773_065_107;

const REQUEST: &str = r#"{"model": "m", "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{\"x\": [1.50, null]}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "<b>Rain</b>"}
], "tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}]}"#;

/// The first byte is a choice. The template's file follows, and behind a zero a request of Chat Completions.
pub(crate) fn template(data: &[u8]) {
    let Some((_, data)) = data.split_first() else { return };
    let (file, request) = data.split_at(data.iter().position(|byte| *byte == 0).unwrap_or(data.len()));
    let file: String = file.utf8_chunks().map(|chunk| chunk.valid()).collect();
    let request = request.strip_prefix(b"\0").unwrap_or(REQUEST.as_bytes());
    drop(strftime(&file, NOW));
    let Ok(conversation) = ClientDialect::Chat.side().decode(request) else { return };
    let Ok(template) = ChatTemplate::parse(&file, "test.jinja") else { return };
    match template.render(&conversation, NOW) {
        Ok(prompt) => {
            assert!(prompt.text.len() <= (4 << 20) + 16 * request.len(), "{}", prompt.text.len());
            assert!(prompt.text.is_char_boundary(prompt.bos));
        }
        Err(failure) => assert!(!failure.message().contains("it panicked"), "{failure:?}"),
    }
}
