//! What providers offer and return: [`ToolSpec`], [`Output`], [`ToolError`].

use std::{fmt, num::NonZeroU32, time::Duration};

use serde_json::{Value, json};

use toolwire_pipeline::wire::json::Raw;

/// A tool as its provider offers it. `[[tools]]` may override parts of it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The provider's own name of the tool, such as `tab.open`.
    pub name: String,
    /// Other names under which models call it.
    pub aliases: &'static [&'static str],
    /// For people: `Web Search`.
    pub label: String,
    /// For the model: what it does, and when to call it.
    pub description: String,
    /// For people while it runs: `Searching for: {query}`, with arguments in braces. Empty: nothing.
    pub(crate) progress: String,
    /// JSON Schema of the arguments object.
    pub parameters: Raw,
    /// A call may be repeated, and its result kept for equal calls.
    pub is_idempotent: bool,
    /// A call addresses a web page: its argument with the URL. Rules may depend on the domain.
    pub(crate) url_argument: Option<&'static str>,
    /// How long a call may take.
    pub timeout: Duration,
    /// How often each client may call it; `None`: without a limit.
    pub(crate) rate_limit: Option<Rate>,
}

/// A tool without arguments, for `..ToolSpec::default()`.
impl Default for ToolSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            aliases: &[],
            label: String::new(),
            description: String::new(),
            progress: String::new(),
            parameters: Raw::from(json!({"type": "object", "properties": {}})),
            is_idempotent: false,
            url_argument: None,
            timeout: Duration::from_secs(60),
            rate_limit: None,
        }
    }
}

/// How often something may happen: as a burst, or evenly spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How often.
    pub count: NonZeroU32,
    /// In how long.
    pub period: Duration,
}

impl Rate {
    /// `count` in each minute.
    pub(crate) fn per_minute(count: NonZeroU32) -> Self {
        Self { count, period: Duration::from_secs(60) }
    }
}

/// What a call returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// For the model: JSON or plain text.
    pub(crate) content: String,
    /// For people: one line such as `5 results`. It contains nothing that is secret.
    pub(crate) summary: String,
    /// What user interfaces show beside the text: `images`, `results`, … by kind; `Null` without.
    pub(crate) details: Value,
    /// The names of the image files that the call is for, which clients may get as items of the response.
    pub(crate) images: Vec<String>,
    /// The tool ran and reports that it failed; `content` says why. Never kept for equal calls.
    pub(crate) is_error: bool,
}

impl Output {
    /// The tool's own report that it failed.
    pub(crate) fn failed(content: impl Into<String>) -> Self {
        Self { content: content.into(), summary: "failed".to_owned(), is_error: true, ..Self::default() }
    }

    /// A result for the model only.
    pub(crate) fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
}

/// Why a call has no output. Its words are for the model and the user, never those of a provider's error.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// What went wrong, for programs.
    pub(crate) code: ErrorCode,
    /// A sentence.
    pub(crate) message: String,
    /// Whether the same call may succeed later.
    pub(crate) is_retryable: bool,
    /// When a provider wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
    /// Nothing has reached the provider, so that the call may be repeated whatever it does.
    pub(crate) is_unsent: bool,
}

impl ToolError {
    /// An error with the retryability that its code has.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_retryable: code.is_retryable(),
            retry_after: None,
            is_unsent: false,
        }
    }

    /// The tool ran, and says that it failed. Calling it again could repeat what it has done.
    pub(crate) fn reported(message: impl Into<String>) -> Self {
        Self { is_retryable: false, ..Self::new(ErrorCode::ProviderError, message) }
    }

    /// The same for a call of which nothing has reached the provider.
    #[cfg(test)]
    pub(crate) fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    /// The result that tells the model.
    pub(crate) fn content(&self, tool: &str) -> String {
        let error =
            json!({"code": self.code.name(), "message": self.message, "retryable": self.is_retryable});
        json!({"ok": false, "tool": tool, "error": error}).to_string()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

/// What went wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The arguments do not fit the schema.
    InvalidArguments,
    /// No such tool.
    UnknownTool,
    /// A rule or a person denied the call.
    PermissionDenied,
    /// Nobody answered the question whether it may run.
    PermissionTimeout,
    /// Too many calls.
    RateLimited,
    /// It took too long.
    Timeout,
    /// The provider failed.
    ProviderError,
    /// The provider refused our key.
    AuthFailed,
    /// The address may not be reached.
    BlockedUrl,
    /// The provider refused the content.
    ContentPolicy,
    /// The result, or a limit of the turn, is too large.
    TooLarge,
    /// It was cancelled.
    Cancelled,
    /// The same call was repeated too often.
    Loop,
}

impl ErrorCode {
    /// The code, as models and programs see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid_arguments",
            Self::UnknownTool => "unknown_tool",
            Self::PermissionDenied => "permission_denied",
            Self::PermissionTimeout => "permission_timeout",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::ProviderError => "provider_error",
            Self::AuthFailed => "auth_failed",
            Self::BlockedUrl => "blocked_url",
            Self::ContentPolicy => "content_policy",
            Self::TooLarge => "too_large",
            Self::Cancelled => "cancelled",
            Self::Loop => "loop",
        }
    }

    /// Whether the same call may succeed later.
    fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Timeout | Self::ProviderError | Self::PermissionTimeout)
    }
}
