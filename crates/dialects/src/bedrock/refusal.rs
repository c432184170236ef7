//! Reads errors: those of responses, and exceptions in streams.

use serde_json::{Value, json};

use crate::{
    failure::{Failure, Kind},
    refusal::{self, reported},
};

/// The failure for an HTTP error. Its body is `{"message": "…"}`. The error's name is in a header, which is not needed:
/// each has its own status.
pub(super) fn refusal(status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let message = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let message = message.get("message").and_then(Value::as_str);
    // The response for an unknown path has the message `null`, or another form.
    match message {
        Some(message) if status == 404 => Failure::new(Kind::NotFound, message).with_code("model_not_found"),
        // The model has failed, not the client.
        Some(message) if status == 424 => Failure::new(Kind::Upstream, message).with_code("model_error"),
        _ => refusal::refusal(status, retry_after, body),
    }
}

/// The failure for an exception in a stream, whose name is in the frame's headers.
pub(super) fn exception(name: &str, payload: &str) -> Failure {
    let told = serde_json::from_str::<Value>(payload).unwrap_or_default();
    let text = |key: &str| told.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = text("originalMessage").or_else(|| text("message")).or_else(|| text("Message"));
    let original =
        told.get("originalStatusCode").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    failure(name, message.unwrap_or("the upstream reported an exception without a message"), original)
}

/// The failure with this name. `original` is the status of the model's own server, if it is known.
pub(super) fn failure(name: &str, message: &str, original: Option<u16>) -> Failure {
    let status = match name.trim_end_matches("Exception").to_ascii_lowercase().as_str() {
        "validation" => 400,
        "accessdenied" | "unrecognizedclient" | "expiredtoken" => 403,
        "resourcenotfound" => 404,
        "modeltimeout" => 408,
        "throttling" | "modelnotready" | "servicequotaexceeded" => 429,
        "serviceunavailable" => 503,
        _ => original.filter(|status| matches!(status, 408 | 413 | 429 | 500..=599)).unwrap_or(502),
    };
    reported(&json!({"message": message, "code": name, "status": status}))
}
