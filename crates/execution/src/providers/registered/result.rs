//! A program's answer to a call: `{content: [{type: "text", text}], details?, error?}`.

use serde_json::Value;

use crate::{ErrorCode, Output, ToolError, providers::answer::Answer};

/// Parses the output of a call.
///
/// # Errors
/// The error that the answer contains, or an error if the answer is invalid.
pub(super) fn parse(body: &[u8]) -> Result<Output, ToolError> {
    let answer = match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Answer::read(object),
        _ => None,
    };
    match answer {
        Some(Answer::Result(output)) => Ok(output),
        Some(Answer::Error(text, details)) if !details.is_null() => {
            Ok(Output { details, ..Output::failed(format!("The tool failed: {text}")) })
        }
        // The program may have acted, so it is not safe to repeat the call.
        Some(Answer::Error(text, _)) => Err(ToolError {
            is_retryable: false,
            ..ToolError::new(ErrorCode::ProviderError, format!("The tool failed: {text}"))
        }),
        None => Err(ToolError::new(ErrorCode::ProviderError, "The program's answer cannot be read.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_with_spaces() {
        let output = parse(br#"{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"details":{"n":1}}"#);
        let output = output.unwrap();
        assert_eq!(output.content, "a [image] b");
        assert_eq!(output.details["n"], 1);
        let output = parse(br#"{"details":{"n":1}}"#).unwrap();
        assert_eq!((output.content.as_str(), &output.details["n"]), ("ok", &1.into()));
        let output = parse(br#"{"content":null,"details":{"n":1},"error":"no"}"#).unwrap();
        assert!(output.is_error && output.content.ends_with("no") && output.details["n"] == 1, "{output:?}");
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
