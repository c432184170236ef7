//! Writes errors as Google's APIs do: `{"error": {"code", "message", "status", "details"}}`
//! (docs/protocols/gemini.md#errors).

use serde_json::{Value, json};

use crate::failure::{Failure, Kind};

/// The JSON for `failure`: the body of a response with status [`Failure::status`], or an element of a stream.
pub fn error_body(failure: &Failure) -> Vec<u8> {
    let code = failure.status();
    let mut error = json!({"code": code, "message": failure.message(), "status": status_word(code)});
    let details = details(failure);
    if !details.is_empty()
        && let Some(error) = error.as_object_mut()
    {
        error.insert("details".to_owned(), details.into());
    }
    json!({ "error": error }).to_string().into_bytes()
}

/// The name that Google's APIs have for an HTTP status.
fn status_word(code: u16) -> &'static str {
    match code {
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=428 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

/// What SDKs and command-line clients read in addition to the message: why, which field, and when to try again.
fn details(failure: &Failure) -> Vec<Value> {
    let reason = match failure.kind() {
        Kind::Unauthorized => Some("API_KEY_INVALID".to_owned()),
        _ => failure.code().map(str::to_ascii_uppercase),
    };
    let reason = reason.map(|reason| {
        json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "toolwire"})
    });
    let field = failure.param().map(|field| {
        let violation = json!({"field": field, "description": failure.message()});
        json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
    });
    let seconds = failure.retry_after().and_then(|delay| delay.trim().parse::<u32>().ok());
    let retry = seconds.map(|seconds| {
        json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")})
    });
    reason.into_iter().chain(field).chain(retry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_googles_form() {
        let failure = Failure::new(Kind::RateLimit, "slow down").with_retry_after("7");
        let body: Value = serde_json::from_slice(&error_body(&failure)).unwrap();
        let expected = json!({"error": {
            "code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "domain": "toolwire"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
            ],
        }});
        assert_eq!(body, expected);
        for (kind, code, status) in [
            (Kind::Request, 400, "INVALID_ARGUMENT"),
            (Kind::Unauthorized, 401, "UNAUTHENTICATED"),
            (Kind::NotFound, 404, "NOT_FOUND"),
            (Kind::TooLarge, 413, "INVALID_ARGUMENT"),
            (Kind::Truncated, 502, "INTERNAL"),
            (Kind::Timeout, 504, "DEADLINE_EXCEEDED"),
        ] {
            let body: Value = serde_json::from_slice(&error_body(&Failure::new(kind, "m"))).unwrap();
            assert_eq!((&body["error"]["code"], &body["error"]["status"]), (&json!(code), &json!(status)));
        }
    }
}
