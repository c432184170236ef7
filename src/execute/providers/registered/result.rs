//! The answer of a program to a call: `{content: [{type: "text", text}], details?, error?}`.

use serde_json::Value;

use crate::execute::{ErrorCode, Output, ToolError};

/// Characters of an error's text that the model gets.
const MAX_ERROR: usize = 1_000;

/// The output of a call.
///
/// # Errors
/// The error of the answer, or that it cannot be read.
pub(super) fn parse(body: &[u8]) -> Result<Output, ToolError> {
    let unreadable = || ToolError::new(ErrorCode::ProviderError, "The program's answer cannot be read.");
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(body) else { return Err(unreadable()) };
    let details = answer.remove("details").unwrap_or_default();
    match answer.remove("error") {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(Value::String(text)) if text.is_empty() => {}
        Some(error) => return Err(reported(&error)),
    }
    let content = match answer.remove("content") {
        None if details.is_null() => return Err(unreadable()),
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => joined(&parts),
        Some(_) => return Err(unreadable()),
    };
    Ok(Output { content, details, ..Output::default() })
}

/// The texts of the parts with spaces between them. Parts of other kinds are named, so that the model knows of them.
fn joined(parts: &[Value]) -> String {
    let text = |part: &Value| match (part.get("type").and_then(Value::as_str), part) {
        (Some("text"), part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
        (None, Value::String(text)) => Some(text.clone()),
        (Some(kind), _) => Some(format!("[{}]", kind.chars().take(32).collect::<String>())),
        (None, part) => part.get("text").and_then(Value::as_str).map(str::to_owned),
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join(" ")
}

/// The error that the program reports. It is written for the model, as the content is.
fn reported(error: &Value) -> ToolError {
    let text = match error {
        Value::String(text) => Some(text.as_str()),
        error => error.get("message").and_then(Value::as_str),
    };
    let text: String = text.unwrap_or("no reason given").chars().take(MAX_ERROR).collect();
    let mut error = ToolError::new(ErrorCode::ProviderError, format!("The tool failed: {text}"));
    // The program has acted: the same call would fail again.
    error.is_retryable = false;
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_with_spaces() {
        let output = parse(br#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"},{"type":"text","text":"b"}],"details":{"n":1}}"#);
        let output = output.unwrap();
        assert_eq!(output.content, "a [image] b");
        assert_eq!(output.details["n"], 1);
    }

    #[test]
    fn errors_become_error_results() {
        let error = parse(br#"{"error":"Unknown tool: x"}"#).unwrap_err();
        assert!(error.message.ends_with("Unknown tool: x") && !error.is_retryable, "{error:?}");
        assert!(parse(br#"{"content":[],"error":{"message":"no"}}"#).unwrap_err().message.ends_with("no"));
        assert_eq!(parse(br#"{"content":"plain","error":null}"#).unwrap().content, "plain");
        for wrong in [&b""[..], b"[]", b"\"text\"", b"{}", br#"{"content":5}"#, b"\xff", b"{\"content\":"] {
            assert_eq!(parse(wrong).unwrap_err().code, ErrorCode::ProviderError, "{wrong:?}");
        }
    }
}
