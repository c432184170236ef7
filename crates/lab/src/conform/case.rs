//! [`Case`]: a response of an upstream, and the response that must arrive at the client.

use std::{fmt, ops::RangeInclusive, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    scenario::{Scenario, USAGE},
    variant::Variant,
};
use crate::{clients, upstream::Api};
use toolwire_pipeline::{dialect::ClientDialect, event::Finish, format::Format};

#[derive(Debug, Clone)]
pub struct Case {
    /// A unique name, such as `chat/native/two-calls@cut=17`.
    pub name: String,
    /// The row of the report that counts the case.
    pub(crate) category: Category,
    /// The dialect in which the gateway must call the mock.
    pub api: Api,
    pub(crate) ask: Ask,
    pub(crate) source: Source,
    /// The format of the calls that the response contains as text.
    pub format: Option<&'static Format>,
    /// The tools that the client declares, in the format of Chat Completions.
    pub(crate) tools: Arc<Vec<Value>>,
    /// The response that must arrive at the client.
    pub(crate) expected: Expected,
}

/// How the client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// For a stream.
    Stream,
    /// For a response in one piece.
    Whole,
    /// For a stream, in a message with an image.
    Image,
    /// For a stream, which it leaves after the first bytes.
    Leave,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A generated response, and how it is sent.
    Generated(Arc<Scenario>, Variant),
    /// A recorded response, and how it is sent.
    Recorded(Arc<Recorded>, Variant),
}

#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

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
    /// Responses in one piece.
    Whole,
    /// Images in requests.
    Images,
    /// Clients that leave.
    Cancellation,
    /// Calls that the model wrote as text.
    TextCalls,
    /// Recorded responses.
    Recorded,
}

impl Case {
    /// Whether clients of `dialect` can ask for the response.
    pub(crate) fn suits(&self, dialect: ClientDialect) -> bool {
        let api = clients::api(dialect);
        (api.has_tools() || self.tools.is_empty()) && (api.has_images() || self.ask != Ask::Image)
    }
}

impl Category {
    /// Returns the category's name, as in the names of cases.
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
    /// An error, before or within the stream. Content may precede the error.
    Failure {
        /// The response that the content before the error must be a prefix of.
        of: Wanted,
        /// The accepted statuses if the error comes before the stream.
        status: RangeInclusive<u16>,
        /// Whether the upstream's response breaks off without an error.
        is_truncated: bool,
    },
}

/// A response as the client must assemble it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) text: String,
    /// The reasoning, or `None` if it is not compared.
    pub(crate) reasoning: Option<String>,
    /// Name and arguments of each call.
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) finish: Finish,
    /// Input and output tokens, or `None` if they are not compared.
    pub(crate) usage: Option<(u64, u64)>,
    /// Whether arguments must arrive byte for byte. Otherwise they are compared as JSON values.
    pub(crate) verbatim_arguments: bool,
    /// Whether leading and trailing whitespace of the text is ignored.
    pub(crate) trimmed: bool,
}

impl Wanted {
    /// The same for clients of `dialect`. Arguments that are JSON values have no original text.
    pub(crate) fn towards(&self, dialect: ClientDialect) -> Self {
        let api = clients::api(dialect);
        let verbatim_arguments = self.verbatim_arguments && !api.has_argument_values();
        let mut wanted = Self { verbatim_arguments, ..self.clone() };
        if !api.has_broken_calls() {
            wanted
                .calls
                .retain(|(_, arguments)| serde_json::from_str::<Map<String, Value>>(arguments).is_ok());
        }
        wanted
    }

    /// Returns the response that a client must assemble from `scenario`.
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
