//! [`Case`]: a response of an upstream, and the response that must arrive at the client.

use std::{fmt, ops::RangeInclusive, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use super::{
    scenario::{Scenario, USAGE},
    variant::Variant,
};
use crate::upstream::Api;
use toolwire_pipeline::{event::Finish, format::Format};

#[derive(Debug, Clone)]
pub struct Case {
    /// The case's name, such as `chat/native/two-calls@cut=17`.
    pub name: String,
    /// The row of the report to which the case belongs.
    pub(crate) category: Category,
    /// The dialect in which the gateway must call the mock.
    pub api: Api,
    /// The upstream's response.
    pub(crate) source: Source,
    /// The format in which the response's calls are written as text.
    pub format: Option<&'static Format>,
    /// The tools that the client declares, in the form of Chat Completions.
    pub(crate) tools: Arc<Vec<Value>>,
    /// The response that must arrive at the client.
    pub(crate) expected: Expected,
}

/// The upstream's response.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A generated response.
    Generated(Arc<Scenario>, Variant),
    /// A recorded response in this dialect, and how it is sent.
    Recorded(Arc<Recorded>, Variant),
}

/// A recorded response.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// HTTP status.
    pub(crate) status: u16,
    /// Headers.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A row of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Category {
    /// Text of all kinds.
    Text,
    /// Native calls.
    Native,
    /// Reasoning.
    Reasoning,
    /// Token counts.
    Usage,
    /// Forms of the event stream that its standard permits.
    Framing,
    /// The same bytes, cut at other positions.
    Splits,
    /// Responses that break off.
    Truncation,
    /// Errors of the upstream.
    Errors,
    /// Calls that the model wrote as text.
    TextCalls,
    /// Recorded responses.
    Recorded,
}

impl Category {
    /// The category's name, as in the names of cases.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The response that must arrive at the client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expected {
    /// A complete response.
    Response(Wanted),
    /// An error, before or within the stream. The content before the error is the beginning of a
    /// response.
    Failure {
        /// The response whose beginning may arrive.
        of: Wanted,
        /// The accepted statuses if the response has not begun.
        status: RangeInclusive<u16>,
        /// Whether the upstream's response is truncated instead of failing.
        is_truncated: bool,
    },
}

/// A response as the client must assemble it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) text: String,
    /// The reasoning. `None` if reasoning is not compared.
    pub(crate) reasoning: Option<String>,
    /// Names and arguments of the calls.
    pub(crate) calls: Vec<(String, String)>,
    /// The finish reason.
    pub(crate) finish: Finish,
    /// Input and output tokens. `None` if tokens are not compared.
    pub(crate) usage: Option<(u64, u64)>,
    /// Whether arguments must arrive as they were written. Otherwise it is enough that they mean the same.
    pub(crate) verbatim_arguments: bool,
    /// Whether white space at the ends of the text is ignored.
    pub(crate) trimmed: bool,
}

impl Wanted {
    /// The response that a client must assemble from `scenario`.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        Self {
            text: scenario.joined_text(),
            reasoning: Some(scenario.joined_reasoning()),
            calls: scenario.calls().map(|call| (call.name.clone(), call.joined())).collect(),
            finish: scenario.finish,
            usage: None,
            verbatim_arguments: false,
            trimmed: false,
        }
    }

    /// Adds the token counts that the mock reports.
    #[must_use]
    pub(crate) fn counted(self) -> Self {
        Self { usage: Some(USAGE), ..self }
    }
}
