//! Errors in the form of the Messages API: `{"type": "error", "error": {"type", "message"}}`, as a body before the
//! stream and as an event inside it (docs/protocols/messages.md#errors).

use serde_json::json;

use crate::failure::{Failure, Kind};

/// The error object of `failure`: the body of a response with status [`Failure::status`], or the data of an
/// `error` event.
pub fn error_body(failure: &Failure) -> Vec<u8> {
    let error = json!({
        "type": "error",
        "error": {"type": error_type(failure.kind()), "message": failure.message()},
    });
    error.to_string().into_bytes()
}

/// The API's `type` of an error.
fn error_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Request | Kind::Method | Kind::ContextLength => "invalid_request_error",
        Kind::NotFound => "not_found_error",
        Kind::TooLarge => "request_too_large",
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::RateLimit => "rate_limit_error",
        Kind::Budget => "billing_error",
        Kind::Overloaded | Kind::StoreAway | Kind::Draining => "overloaded_error",
        Kind::Timeout => "timeout_error",
        Kind::Connect | Kind::Protocol | Kind::Truncated | Kind::Upstream | Kind::Limit | Kind::Internal => {
            "api_error"
        }
    }
}
