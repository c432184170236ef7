//! [`AdminError`]: errors of the admin API and their JSON form.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value, json};

use toolwire_gateway::{observe::failure_name, retry_after};
use toolwire_pipeline::failure::{Failure, Kind};

/// An error response: `{"error": {"code", "message", "path"?, "retry_after_s"?}}`.
#[derive(Debug, Clone)]
pub(crate) struct AdminError {
    status: StatusCode,
    code: Cow<'static, str>,
    message: String,
    /// The path of the invalid field in the request.
    path: Option<String>,
    retry_after: Option<u64>,
    allow: Option<&'static str>,
    more: Option<Box<(&'static str, Value)>>,
}

impl AdminError {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        let (path, retry_after, allow) = (None, None, None);
        Self { status, code: code.into(), message: message.into(), path, retry_after, allow, more: None }
    }

    pub(crate) fn invalid(message: impl Into<String>, path: Option<&str>) -> Self {
        Self {
            path: path.map(str::to_owned),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
        }
    }

    /// 404: the path does not exist.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here; docs/admin.md lists the paths")
    }

    /// 404: there is no `what` named `name`.
    pub(super) fn unknown(what: &str, name: &str) -> Self {
        let name: String = name.chars().take(128).collect();
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what} `{name}`"))
    }

    pub(super) fn method(method: &Method, allow: &'static str) -> Self {
        let message = format!("{method} is not allowed for this path; it allows {allow}");
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        Self { allow: Some(allow), ..error }
    }

    /// 401: the key is missing or wrong.
    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(super) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    pub(crate) fn too_many(message: &str, retry_after: u64) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message);
        Self { retry_after: Some(retry_after), ..error }
    }

    pub(super) fn at(self, path: &str) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    pub(super) fn with(self, key: &'static str, value: Value) -> Self {
        Self { more: Some(Box::new((key, value))), ..self }
    }

    /// Whether the request was refused for a missing or wrong key, or after too many wrong keys.
    pub(crate) fn is_of_key(&self) -> bool {
        [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS].contains(&self.status)
    }

    /// Whether the request was refused after too many attempts.
    pub(crate) fn is_of_many(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn json(&self) -> Value {
        let mut error = Map::from_iter([
            ("code".to_owned(), (*self.code).into()),
            ("message".to_owned(), self.message.as_str().into()),
        ]);
        error.extend(self.path.as_deref().map(|path| ("path".to_owned(), path.into())));
        error.extend(self.retry_after.map(|seconds| ("retry_after_s".to_owned(), seconds.into())));
        error.extend(self.more.iter().map(|more| (more.0.to_owned(), more.1.clone())));
        json!({"error": error})
    }

    pub(super) fn put_headers(&self, headers: &mut HeaderMap) {
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
    }

    /// Converts the error for the log.
    pub(super) fn failure(&self) -> Failure {
        Failure::new(Kind::Request, self.message.clone())
            .with_status(self.status.as_u16())
            .with_code(&*self.code)
    }
}

impl AdminError {
    /// Converts the failure of a model request that received no response.
    pub(crate) fn of_model(failure: &Failure) -> Self {
        let status = StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::BAD_GATEWAY);
        let retry_after = wait_seconds(failure);
        let error = Self::new(status, failure_name(failure).to_owned(), failure.message());
        Self { retry_after, path: failure.param().map(str::to_owned), ..error }
    }
}

/// Returns how many seconds to wait before the next request, if the failure says so.
pub(super) fn wait_seconds(failure: &Failure) -> Option<u64> {
    retry_after::wait_of(failure).map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

/// Converts an error that occurred while a body was read.
impl From<Failure> for AdminError {
    fn from(failure: Failure) -> Self {
        let code = match failure.kind() {
            Kind::TooLarge => "too_large",
            Kind::Draining => "shutting_down",
            Kind::Overloaded => "overloaded",
            Kind::StoreAway => "store_unavailable",
            _ => "invalid_request",
        };
        let status = StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let retry_after = wait_seconds(&failure);
        Self { retry_after, ..Self::new(status, code, failure.message()) }
    }
}
