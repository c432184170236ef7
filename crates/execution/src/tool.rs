//! The types of tools and results: [`ToolSpec`], [`Output`], [`ToolError`].

use std::{num::NonZeroU32, time::Duration};

use serde_json::{Value, json};

use toolwire_pipeline::wire::json::Raw;

/// A tool as its provider offers it. `[[tools]]` may override parts of it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The provider's own name for the tool, such as `tab.open`.
    pub name: String,
    /// Other names under which models call it.
    pub aliases: &'static [&'static str],
    /// Name for people: `Web Search`.
    pub label: String,
    /// Description for the model: what the tool does, and when to call it.
    pub description: String,
    /// Progress line for people: `Searching for: {query}`, with arguments in braces. Empty for none.
    pub(crate) progress: String,
    /// JSON Schema of the arguments object.
    pub parameters: Raw,
    /// Whether a call may be repeated, and its result reused for equal calls.
    pub is_idempotent: bool,
    /// The argument that holds the URL of the web page that a call addresses, if it addresses one. Rules
    /// may depend on the domain.
    pub(crate) url_argument: Option<&'static str>,
    /// Time limit for a call.
    pub timeout: Duration,
    /// Default rate limit of each client. `None` for no limit.
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

/// A rate limit. The calls may come as a burst or evenly spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Number of calls.
    pub count: NonZeroU32,
    /// Period for that number.
    pub period: Duration,
}

impl Rate {
    /// `count` calls per minute.
    pub(crate) fn per_minute(count: NonZeroU32) -> Self {
        Self { count, period: Duration::from_secs(60) }
    }
}

/// The output of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// For the model: JSON or plain text.
    pub(crate) content: String,
    /// For people: one line such as `5 results`. It contains nothing that is secret.
    pub(crate) summary: String,
    /// Shown by user interfaces next to the text: `images`, `results`, … by kind. `Null` if there are
    /// none.
    pub(crate) details: Value,
    /// Names of the image files that the call made, which clients may get as items of the response.
    pub(crate) images: Vec<String>,
    /// Whether the tool ran and reports a failure, described in `content`. Such an output is never
    /// cached.
    pub(crate) is_error: bool,
}

impl Output {
    /// A failure that the tool reports itself.
    pub(crate) fn failed(content: impl Into<String>) -> Self {
        Self { content: content.into(), summary: "failed".to_owned(), is_error: true, ..Self::default() }
    }

    /// A result for the model only.
    pub(crate) fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
}

/// Why a call has no output. The message is for the model and the user, and never quotes a provider's
/// error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct ToolError {
    /// Kind of the failure, for programs.
    pub(crate) code: ErrorCode,
    /// A sentence.
    pub(crate) message: String,
    /// Whether the same call may succeed later.
    pub(crate) is_retryable: bool,
    /// When the provider accepts requests again, if it says so.
    pub(crate) retry_after: Option<Duration>,
    /// Whether nothing has reached the provider, so that even a call with effects may be repeated.
    pub(crate) is_unsent: bool,
}

impl ToolError {
    /// An error that is retryable if its code is.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_retryable: code.is_retryable(),
            retry_after: None,
            is_unsent: false,
        }
    }

    /// The tool ran, and reports a failure. Calling it again could repeat its effects.
    pub(crate) fn reported(message: impl Into<String>) -> Self {
        Self { is_retryable: false, ..Self::new(ErrorCode::ProviderError, message) }
    }

    /// Marks the error as one whose call did not reach the provider.
    #[cfg(test)]
    pub(crate) fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    /// The result for the model.
    pub(crate) fn content(&self, tool: &str) -> String {
        let error =
            json!({"code": self.code.name(), "message": self.message, "retryable": self.is_retryable});
        json!({"ok": false, "tool": tool, "error": error}).to_string()
    }
}

/// The kinds of failures of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorCode {
    /// The arguments do not fit the schema.
    InvalidArguments,
    /// No such tool.
    UnknownTool,
    /// A rule or a person denied the call.
    PermissionDenied,
    /// The question whether the call may run was not answered in time.
    PermissionTimeout,
    /// Too many calls.
    RateLimited,
    /// The call took too long.
    Timeout,
    /// The provider failed.
    ProviderError,
    /// The provider refused toolwire's key.
    AuthFailed,
    /// The address may not be reached.
    BlockedUrl,
    /// The provider refused the content.
    ContentPolicy,
    /// The result is too large, or the results of the turn are too large together.
    TooLarge,
    /// The call was cancelled.
    Cancelled,
    /// The same call was repeated too often.
    Loop,
}

impl ErrorCode {
    /// The code, as shown to models and programs.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the same call may succeed later.
    fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Timeout | Self::ProviderError | Self::PermissionTimeout)
    }
}
