//! Frames as sent by servers of the Chat Completions API.

/// A chunk in canonical form.
pub(crate) fn chunk(delta: &str, finish: &str) -> String {
    let choices = format!(r#"[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]"#);
    let head = r#""id":"c1","object":"chat.completion.chunk","created":17,"model":"m""#;
    format!("data: {{{head},\"choices\":{choices}}}\n\n")
}

/// A chunk without any optional fields.
pub(crate) fn loose(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n")
}

/// A final chunk without any optional fields.
pub(crate) fn end(word: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{word}\"}}]}}\n\n")
}
