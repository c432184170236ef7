//! [`Failure`]: what went wrong with an answer, whose fault it is, and how a client is told.
//!
//! One value for all stages and for the shell. A dialect's writer turns it into the dialect's error object, before
//! the stream (with [`Failure::status`]) or inside it; nothing else decides how errors look.

use std::{borrow::Cow, fmt, time::Duration};

/// Covers the secrets in a text that may leave toolwire by another way than the answer.
pub trait Redact: fmt::Debug + Send + Sync {
    /// `text` with its secrets covered.
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str>;
}

/// What kind of thing went wrong. The kind decides status, `type` and `code` that a client sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The client's request is not one: 400.
    Request,
    /// The client's key is missing or wrong, or the upstream refused ours: 401.
    Unauthorized,
    /// The upstream forbids it: 403.
    Forbidden,
    /// No such path, model or resource: 404.
    NotFound,
    /// Path known, method not: 405.
    Method,
    /// The request is larger than `limits.max_body`: 413.
    TooLarge,
    /// The prompt is longer than the model's context: 400, code `context_length_exceeded`.
    ContextLength,
    /// The upstream's rate limit, or our own waiting line is full: 429.
    RateLimit,
    /// The upstream has no capacity now: 503.
    Overloaded,
    /// The upstream was too slow, or said so: 504.
    Timeout,
    /// The upstream could not be reached: 502.
    Connect,
    /// The upstream answered what its dialect does not allow (HTML, garbage, an oversized frame): 502.
    Protocol,
    /// The upstream's stream ended without its end mark: 502, code `upstream_truncated`.
    Truncated,
    /// The upstream reported an error of its own: 502 (or the status it gave).
    Upstream,
    /// One of our configured limits was reached inside an answer: 502.
    Limit,
    /// toolwire is shutting down: 503.
    Draining,
    /// A fault of toolwire's own: 500.
    Internal,
}

/// Why an answer failed. Small and cheap to move; made once an answer at most.
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
}

impl Failure {
    /// A failure of `kind`; `message` is a sentence that helps the reader to mend it.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            code: None,
            param: None,
            status: None,
            retry_after: None,
        }))
    }

    /// Replaces the kind's own `code`: for an upstream's code that is worth passing on.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// Names the request's field at fault, as a path: `tools[0].function.name`.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    /// Replaces the kind's own HTTP status: for an upstream's status that is passed on.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Keeps the upstream's `Retry-After` header value.
    #[must_use]
    pub fn with_retry_after(mut self, value: impl Into<String>) -> Self {
        self.0.retry_after = Some(value.into());
        self
    }

    /// The same with secrets covered in all words that may be an upstream's: servers put the key that they refuse
    /// into their errors.
    #[must_use]
    pub fn redacted(mut self, redactor: &dyn Redact) -> Self {
        let cover = |text: &mut String| *text = redactor.redact(text).into_owned();
        let Inner { kind: _, message, code, param, status: _, retry_after } = &mut *self.0;
        cover(message);
        [code, param, retry_after].into_iter().flatten().for_each(cover);
        self
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The sentence for the reader.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The request's field at fault, if one is.
    pub fn param(&self) -> Option<&str> {
        self.0.param.as_deref()
    }

    /// The value for a `Retry-After` header, if the upstream gave one.
    pub fn retry_after(&self) -> Option<&str> {
        self.0.retry_after.as_deref()
    }

    /// HTTP status for an answer that has not begun.
    pub fn status(&self) -> u16 {
        self.0.status.unwrap_or(match self.0.kind {
            Kind::Request | Kind::ContextLength => 400,
            Kind::Unauthorized => 401,
            Kind::Forbidden => 403,
            Kind::NotFound => 404,
            Kind::Method => 405,
            Kind::TooLarge => 413,
            Kind::RateLimit => 429,
            Kind::Internal => 500,
            Kind::Connect | Kind::Protocol | Kind::Truncated | Kind::Upstream | Kind::Limit => 502,
            Kind::Overloaded | Kind::Draining => 503,
            Kind::Timeout => 504,
        })
    }

    /// A short machine-readable name, stable over releases; `None` where the kind says all.
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
            Kind::Overloaded => Some("overloaded"),
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

impl std::error::Error for Failure {}

/// The wording of a time limit that ran out: one place, so that all four read alike.
pub fn timed_out(what: &str, limit: Duration) -> Failure {
    Failure::new(Kind::Timeout, format!("the upstream's {what} took longer than {limit:?}"))
        .with_code("upstream_timeout")
}
