//! [`Failure`]: why a response failed, which side is at fault, and how to report it to the client.
//!
//! All stages and the shell use this type. A dialect's writer converts it to the dialect's error object,
//! either before the stream (with [`Failure::status`]) or in it. No other code decides what errors look like.

use std::{borrow::Cow, error::Error, fmt, sync::Arc, time::Duration};

/// Redacts secrets in text that leaves toolwire outside of a normal response.
pub trait Redact: fmt::Debug + Send + Sync {
    /// Returns `text` with its secrets redacted.
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str>;
}

/// The kind of failure, which determines the status, `type` and `code` that a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// The client's request is invalid: 400.
    Request,
    /// The client's key is missing or invalid, or the upstream rejected toolwire's key: 401.
    Unauthorized,
    /// The upstream forbids the request: 403.
    Forbidden,
    /// There is no such path, model or resource: 404.
    NotFound,
    /// The path exists but does not support the method: 405.
    Method,
    /// The request is larger than `limits.max_body`: 413.
    TooLarge,
    /// The prompt is longer than the model's context: 400, with the code `context_length_exceeded`.
    ContextLength,
    /// The upstream's rate limit was reached, or toolwire's own queue is full: 429.
    RateLimit,
    /// The client's key has used up its monthly budget: 429, or 402 in APIs that have that status.
    Budget,
    /// The upstream currently has no capacity: 503.
    Overloaded,
    /// The store shared by the instances is unreachable: 503, with the code `store_unavailable`.
    StoreAway,
    /// The upstream was too slow, or reported a timeout: 504.
    Timeout,
    /// The upstream could not be reached: 502.
    Connect,
    /// The upstream's response violates its dialect, like an HTML page or an oversized frame: 502.
    Protocol,
    /// The upstream's stream ended without an end marker: 502, with the code `upstream_truncated`.
    Truncated,
    /// The upstream reported an error: its status, or 502.
    Upstream,
    /// A response exceeded one of toolwire's configured limits: 502.
    Limit,
    /// toolwire is shutting down: 503.
    Draining,
    /// There is an error in toolwire itself: 500.
    Internal,
}

/// Why a response failed. It is cheap to move, and created at most once per response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: Kind,
    message: String,
    code: Option<String>,
    param: Option<String>,
    status: Option<u16>,
    retry_after: Option<String>,
    is_unasked: bool,
    unsupported: Option<&'static str>,
    generation: Option<String>,
    cause: Cause,
}

/// The error that led to a failure. Clients do not see it, so it is ignored when failures are compared.
#[derive(Debug, Clone, Default)]
struct Cause(Option<Arc<dyn Error + Send + Sync>>);

impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cause {}

impl Failure {
    /// Creates a failure. `message` is a sentence that helps the reader fix the problem.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            code: None,
            param: None,
            status: None,
            retry_after: None,
            is_unasked: false,
            unsupported: None,
            generation: None,
            cause: Cause::default(),
        }))
    }

    /// Sets an upstream's `code` instead of the default for the kind.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// Sets the path of the request's invalid field, such as `tools[0].function.name`.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    /// Sets an upstream's HTTP status instead of the default for the kind.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Sets the value of the upstream's `Retry-After` header.
    #[must_use]
    pub fn with_retry_after(mut self, value: impl Into<String>) -> Self {
        self.0.retry_after = Some(value.into());
        self
    }

    /// Sets the member of the request that toolwire can never support, for APIs whose errors contain it in
    /// machine-readable form.
    #[must_use]
    pub fn with_unsupported(mut self, member: &'static str) -> Self {
        self.0.unsupported = Some(member);
        self
    }

    /// Marks a failure that occurred before the upstream was called and says nothing about the upstream.
    #[must_use]
    pub fn unasked(mut self) -> Self {
        self.0.is_unasked = true;
        self
    }

    /// Sets the model's text in which the upstream found an error.
    #[must_use]
    pub fn with_generation(mut self, text: impl Into<String>) -> Self {
        self.0.generation = Some(text.into());
        self
    }

    /// Keeps the error that led to the failure, as its [source](Error::source).
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.cause = Cause(Some(cause.into().into()));
        self
    }

    /// The same failure with secrets redacted in all text that may come from an upstream: some servers repeat
    /// a rejected key in their errors. The cause cannot be redacted, so it is dropped.
    #[must_use]
    pub fn redacted(mut self, redactor: &dyn Redact) -> Self {
        let cover = |text: &mut String| *text = redactor.redact(text).into_owned();
        let Inner {
            kind: _,
            message,
            code,
            param,
            status: _,
            retry_after,
            is_unasked: _,
            unsupported: _,
            generation,
            cause,
        } = &mut *self.0;
        *cause = Cause::default();
        cover(message);
        [code, param, retry_after, generation].into_iter().flatten().for_each(cover);
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The path of the request's invalid field, if there is one.
    pub fn param(&self) -> Option<&str> {
        self.0.param.as_deref()
    }

    /// The value for a `Retry-After` header, if the upstream sent one.
    pub fn retry_after(&self) -> Option<&str> {
        self.0.retry_after.as_deref()
    }

    /// The member of the request that toolwire can never support, if there is one.
    pub fn unsupported(&self) -> Option<&'static str> {
        self.0.unsupported
    }

    /// The model's text in which the upstream found an error, if any. See [`Failure::with_generation`].
    pub fn generation(&self) -> Option<&str> {
        self.0.generation.as_deref()
    }

    /// Whether the failure occurred before the upstream was called. See [`Failure::unasked`].
    pub fn is_unasked(&self) -> bool {
        self.0.is_unasked
    }

    /// Whether another upstream may succeed with the same request. Failures that the client or toolwire itself
    /// caused would only be repeated.
    pub fn may_succeed_elsewhere(&self) -> bool {
        match self.0.kind {
            Kind::Unauthorized
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::RateLimit
            | Kind::Overloaded
            | Kind::Timeout
            | Kind::Connect
            | Kind::Protocol
            | Kind::Truncated
            | Kind::Upstream => true,
            Kind::Request
            | Kind::Method
            | Kind::TooLarge
            | Kind::Budget
            | Kind::ContextLength
            | Kind::StoreAway
            | Kind::Limit
            | Kind::Draining
            | Kind::Internal => false,
        }
    }

    /// The HTTP status to send if the response has not begun.
    pub fn status(&self) -> u16 {
        self.0.status.unwrap_or(match self.0.kind {
            Kind::Request | Kind::ContextLength => 400,
            Kind::Unauthorized => 401,
            Kind::Forbidden => 403,
            Kind::NotFound => 404,
            Kind::Method => 405,
            Kind::TooLarge => 413,
            Kind::RateLimit | Kind::Budget => 429,
            Kind::Internal => 500,
            Kind::Connect | Kind::Protocol | Kind::Truncated | Kind::Upstream | Kind::Limit => 502,
            Kind::Overloaded | Kind::StoreAway | Kind::Draining => 503,
            Kind::Timeout => 504,
        })
    }

    /// A short machine-readable name that is stable across releases. `None` if the kind says enough.
    pub fn code(&self) -> Option<&str> {
        if let Some(code) = &self.0.code {
            return Some(code);
        }
        match self.0.kind {
            Kind::Request | Kind::Forbidden | Kind::Method | Kind::Internal => None,
            Kind::Unauthorized => Some("invalid_api_key"),
            Kind::NotFound => Some("not_found"),
            Kind::TooLarge => Some("request_too_large"),
            Kind::ContextLength => Some("context_length_exceeded"),
            Kind::RateLimit => Some("rate_limit_exceeded"),
            Kind::Budget => Some("insufficient_quota"),
            Kind::Overloaded => Some("overloaded"),
            Kind::StoreAway => Some("store_unavailable"),
            Kind::Timeout => Some("timeout"),
            Kind::Connect => Some("upstream_unreachable"),
            Kind::Protocol => Some("upstream_protocol"),
            Kind::Truncated => Some("upstream_truncated"),
            Kind::Upstream => Some("error"),
            Kind::Limit => Some("limit_exceeded"),
            Kind::Draining => Some("shutting_down"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.cause.0.as_deref().map(|cause| cause as _)
    }
}

/// The failure for an expired timeout. All such messages are created here, so that their wording is the same.
pub fn timed_out(what: &str, limit: Duration) -> Failure {
    Failure::new(Kind::Timeout, format!("the upstream's {what} took longer than {limit:?}"))
        .with_code("upstream_timeout")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Redact for Nothing {
        fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
            text.into()
        }
    }

    #[test]
    fn cause_is_the_source_until_the_text_is_redacted() {
        let failure = Failure::new(Kind::Connect, "gone");
        assert!(failure.source().is_none());
        let caused = failure.clone().with_cause(io::Error::from(io::ErrorKind::BrokenPipe));
        let found = caused.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
        assert_eq!(found, Some(io::ErrorKind::BrokenPipe));
        assert_eq!((&caused, caused.to_string()), (&failure, "gone".to_owned()));
        assert!(caused.redacted(&Nothing).source().is_none());
    }
}
