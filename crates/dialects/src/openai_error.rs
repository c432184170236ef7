//! Writes errors as in OpenAI's APIs: `{"error": {"message", "type", "param", "code"}}`, either as a response
//! body or within a stream.

use serde_json::json;

use crate::failure::{Failure, Kind};

/// The JSON for `failure`: the body of a response with status [`Failure::status`], or the data of a frame.
pub fn error_body(failure: &Failure) -> Vec<u8> {
    let error = json!({
        "error": {
            "message": failure.message(),
            "type": error_type(failure.kind()),
            "param": failure.param(),
            "code": failure.code(),
        }
    });
    error.to_string().into_bytes()
}

/// The failure for a request that names an unknown model.
pub(crate) fn unknown_model(name: &str) -> Failure {
    Failure::new(Kind::NotFound, format!("there is no model `{name}`; GET /v1/models lists them"))
        .with_code("model_not_found")
        .with_param("model")
}

fn error_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Request | Kind::NotFound | Kind::Method | Kind::TooLarge | Kind::ContextLength => {
            "invalid_request_error"
        }
        Kind::Unauthorized => "authentication_error",
        Kind::Forbidden => "permission_error",
        Kind::RateLimit => "rate_limit_error",
        Kind::Budget => "insufficient_quota",
        Kind::Overloaded
        | Kind::StoreAway
        | Kind::Timeout
        | Kind::Connect
        | Kind::Protocol
        | Kind::Truncated
        | Kind::Upstream
        | Kind::Limit
        | Kind::Draining
        | Kind::Internal => "server_error",
    }
}
