//! Errors for images that a service did not generate.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use serde_json::Value;

use crate::{ErrorCode, ToolError};

/// Error codes for refused content, in lower case.
const POLICY_CODES: [&str; 6] = [
    "moderation_blocked",
    "content_policy_violation",
    "content_filter",
    "contentfilter",
    "responsibleaipolicyviolation",
    "safety",
];

/// Words in error messages about refused content, in lower case. Some services have no code for it.
const POLICY_WORDS: [&str; 5] =
    ["safety system", "content policy", "responsible ai", "usage guidelines", "sensitive words"];

/// Error codes for an invalid key, in lower case.
const KEY_CODES: [&str; 3] = ["invalid_api_key", "api_key_invalid", "unauthenticated"];

/// Error codes for an exhausted quota or credit, in lower case.
const SPENT_CODES: [&str; 2] = ["insufficient_quota", "billing_hard_limit_reached"];

/// The error for refused content.
pub(super) fn by_policy() -> ToolError {
    let message = "Unable to generate this image: the image service refused the description, most likely because of its content \
                   rules. Please try a different description.";
    ToolError::new(ErrorCode::ContentPolicy, message)
}

/// The error for a response with too few images.
pub(super) fn missing() -> ToolError {
    ToolError::new(ErrorCode::ProviderError, "The image service sent fewer images than it was asked for.")
}

pub(super) fn error(response: &Response<Bytes>) -> ToolError {
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let error = body.get("error").unwrap_or(&Value::Null);
    let codes = ["/code", "/type", "/status", "/inner_error/code"].into_iter();
    let codes = codes.filter_map(|place| error.pointer(place));
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let reasons = details.filter_map(|detail| detail.get("reason"));
    let codes: Vec<_> = codes.chain(reasons).filter_map(Value::as_str).map(str::to_ascii_lowercase).collect();
    let has = |known: &[&str]| codes.iter().any(|code| known.contains(&code.as_str()));
    let message = error.get("message").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let failed = |code, message: &str| ToolError::new(code, message);
    let status = response.status().as_u16();
    let is_policy = has(&POLICY_CODES) || POLICY_WORDS.iter().any(|words| message.contains(words));
    match status {
        400..=499 if has(&SPENT_CODES) => ToolError {
            is_retryable: false,
            ..failed(ErrorCode::RateLimited, "The quota of the image service is used up.")
        },
        400 | 403 | 422 if is_policy => by_policy(),
        401 | 403 => failed(ErrorCode::AuthFailed, "The image service refused its key."),
        400..=499 if has(&KEY_CODES) => failed(ErrorCode::AuthFailed, "The image service refused its key."),
        429 => ToolError {
            retry_after: retry_after(response),
            ..failed(ErrorCode::RateLimited, "The image service has too many requests now. Try again later.")
        },
        408 | 504 => failed(ErrorCode::Timeout, "The image service took too long."),
        500.. => ToolError {
            retry_after: retry_after(response),
            ..failed(ErrorCode::ProviderError, "The image service failed.")
        },
        404 => ToolError {
            is_retryable: false,
            ..failed(ErrorCode::ProviderError, "The image service does not have the configured model.")
        },
        _ => ToolError {
            is_retryable: false,
            ..failed(ErrorCode::ProviderError, "The image service refused the request.")
        },
    }
}

fn retry_after(response: &Response<Bytes>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16, body: &str) -> (&'static str, bool) {
        let response = Response::builder().status(status).header("retry-after", "7");
        let error = error(&response.body(Bytes::copy_from_slice(body.as_bytes())).unwrap());
        assert!(!error.message.contains("RAW"), "{}", error.message);
        (error.code.name(), error.is_retryable)
    }

    #[test]
    fn error_responses_become_codes_without_their_words() {
        for (status, body, expected) in [
            (400, r#"{"error":{"code":"moderation_blocked","message":"RAW"}}"#, ("content_policy", false)),
            (400, r#"{"error":{"code":"content_policy_violation"}}"#, ("content_policy", false)),
            (400, r#"{"error":{"message":"RAW rejected by our safety system"}}"#, ("content_policy", false)),
            (
                400,
                r#"{"error":{"code":400,"message":"RAW: Responsible AI practices"}}"#,
                ("content_policy", false),
            ),
            (
                400,
                r#"{"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
                ("auth_failed", false),
            ),
            (400, r#"{"error":{"message":"RAW unknown parameter"}}"#, ("provider_error", false)),
            (401, "RAW", ("auth_failed", false)),
            (403, "<html>RAW", ("auth_failed", false)),
            (404, "{}", ("provider_error", false)),
            (408, "", ("timeout", true)),
            (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#, ("rate_limited", true)),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, ("rate_limited", false)),
            (302, "", ("provider_error", false)),
            (500, "RAW stack trace", ("provider_error", true)),
            (503, r#"["RAW"]"#, ("provider_error", true)),
            (504, "", ("timeout", true)),
        ] {
            assert_eq!(code(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn retry_after_is_passed_on() {
        let response = Response::builder().status(429).header("retry-after", "7").body(Bytes::new()).unwrap();
        assert_eq!(error(&response).retry_after, Some(Duration::from_secs(7)));
    }
}
