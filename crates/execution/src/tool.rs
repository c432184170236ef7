//! Tools and their results: [`ToolSpec`], [`Output`], [`ToolError`].

use std::{num::NonZeroU32, time::Duration};

use ring::digest::{Context, SHA256};
use serde_json::{Value, json};

use super::media::MediaFile;
use toolwire_pipeline::wire::{hex, json::Raw};

/// A tool as its provider offers it. `[[tools]]` can override parts of it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The provider's own name for the tool, such as `tab.open`.
    pub name: String,
    /// Other names that models may use.
    pub aliases: &'static [&'static str],
    /// The name for display, such as `Web Search`.
    pub label: String,
    /// For the model: what the tool does, and when to call it.
    pub description: String,
    /// The progress line for display, such as `Searching for: {query}`, with arguments in braces. If empty,
    /// the line contains the label.
    pub(crate) progress: String,
    /// JSON Schema of the arguments.
    pub parameters: Raw,
    /// Whether calls can be repeated, and their results reused.
    pub is_idempotent: bool,
    /// The argument that contains a call's URL, if there is one. Rules can depend on its domain.
    pub(crate) url_argument: Option<&'static str>,
    /// Whether a model may only use URLs that its conversation contains.
    pub(crate) reads_known_pages: bool,
    /// Time limit for a call.
    pub timeout: Duration,
    /// Default rate limit per client.
    pub(crate) rate_limit: Option<Rate>,
    /// What an MCP server says about the tool, as its protocol has it. `Null` if it says nothing.
    pub(crate) annotations: Value,
}

impl ToolSpec {
    /// Whether the tool changes nothing, if its MCP server can be believed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.annotations.get("readOnlyHint") == Some(&Value::Bool(true))
    }

    /// A digest of what models are told about the tool: its description and its arguments.
    pub(crate) fn definition(&self) -> String {
        let mut digest = Context::new(&SHA256);
        for part in [&self.description, self.parameters.view().raw()] {
            digest.update(&part.len().to_be_bytes());
            digest.update(part.as_bytes());
        }
        hex::encode(digest.finish().as_ref())
    }
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
            reads_known_pages: false,
            timeout: Duration::from_secs(60),
            rate_limit: None,
            annotations: Value::Null,
        }
    }
}

/// A rate limit. It allows bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Maximum number of calls in `period`.
    pub count: NonZeroU32,
    pub period: Duration,
}

impl Rate {
    pub(crate) fn per_minute(count: NonZeroU32) -> Self {
        Self { count, period: Duration::from_secs(60) }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// For the model: JSON or plain text.
    pub(crate) content: String,
    /// For display: one line such as `5 results`. Contains no secrets.
    pub(crate) summary: String,
    /// What user interfaces show in addition to the text: `images`, `results`, … by kind. `Null` if there is nothing.
    pub(crate) details: Value,
    /// Names of the image files that the call created. Clients can get them as items of the response.
    pub(crate) images: Vec<String>,
    /// Files for models that take them. The text is understandable without them.
    pub(crate) media: Vec<MediaFile>,
    /// Whether the tool ran and reports a failure, which `content` describes. Such an output is never cached.
    pub(crate) is_error: bool,
}

impl Output {
    /// The output of a tool that reports a failure.
    pub(crate) fn failed(content: impl Into<String>) -> Self {
        Self { content: content.into(), summary: "failed".to_owned(), is_error: true, ..Self::default() }
    }

    /// Leaves out the files for which `is_kept` is false, and says so in the text.
    pub(crate) fn retain_files(&mut self, is_kept: impl FnMut(&MediaFile) -> bool) {
        let count = self.media.len();
        self.media.retain(is_kept);
        let missing = count - self.media.len();
        if missing > 0 {
            let note = format!("\n[{missing} of {count} files are not shown: too many in one response]");
            self.content.push_str(&note);
        }
    }

    /// A result only for the model.
    pub(crate) fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
}

/// Why a call has no output. The message is for the model and the user, and never quotes a provider's error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct ToolError {
    pub(crate) code: ErrorCode,
    /// A complete sentence.
    pub(crate) message: String,
    /// Whether the same call may succeed later.
    pub(crate) is_retryable: bool,
    /// When the provider will accept requests again, if it states that.
    pub(crate) retry_after: Option<Duration>,
    /// Whether nothing was sent to the provider, so that even a call with side effects can be repeated.
    pub(crate) is_unsent: bool,
}

impl ToolError {
    /// Creates an error. Its code determines whether it can be retried.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_retryable: code.is_retryable(),
            retry_after: None,
            is_unsent: false,
        }
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// A failure that the tool itself reports. Repeating the call could repeat its side effects.
    pub(crate) fn reported(message: impl Into<String>) -> Self {
        Self { is_retryable: false, ..Self::new(ErrorCode::ProviderError, message) }
    }

    /// Marks the error as belonging to a call that was never sent.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorCode {
    /// The arguments do not match the schema.
    InvalidArguments,
    /// There is no such tool.
    UnknownTool,
    /// A rule or a person denied the call.
    PermissionDenied,
    /// A person was asked about the call, but did not answer in time.
    PermissionTimeout,
    RateLimited,
    Timeout,
    ProviderError,
    /// The provider rejected toolwire's key.
    AuthFailed,
    /// The URL may not be reached.
    BlockedUrl,
    /// The page has a content that cannot be read as text.
    UnsupportedContent,
    /// The provider refused the content.
    ContentPolicy,
    /// The result, or all results of the turn together, are too large.
    TooLarge,
    Cancelled,
    /// The same call was repeated too often.
    Loop,
    /// The response has as many calls as `max_calls` allows.
    MaxCalls,
    /// The response has as many requests with calls as `max_rounds` allows.
    MaxRounds,
    /// The tool was called as often as `max_uses` allows.
    MaxUses,
}

impl ErrorCode {
    /// The name for models and programs.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the same call may succeed later.
    fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Timeout | Self::ProviderError | Self::PermissionTimeout)
    }
}
