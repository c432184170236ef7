//! The upstreams that mocks play: their dialects ([`Api`]) and the frames of their responses ([`FrameWriter`]).

mod blocks;
pub(crate) mod server;
mod steps;
mod writer;

use std::{fmt, str::FromStr};

use serde_json::{Value, json};

pub(crate) use self::writer::{Content, FrameWriter, Identity, Usage};
use crate::Invalid;
use toolwire_pipeline::wire::suggest::suggest;

/// The message of every simulated error.
pub(crate) const ERROR: &str = "the conformance mock fails on purpose";

/// A dialect of upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Google Gemini.
    Gemini,
    /// Google Interactions.
    Interactions,
    /// Ollama's own API.
    Ollama,
    /// Proton Lumo, second version.
    Lumo,
    /// Text completions, in OpenAI's form.
    Completions,
    /// Proton Lumo, first version.
    LumoV1,
}

impl Api {
    /// The dialects of gateways' upstreams.
    pub const ALL: [Self; 8] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Interactions,
        Self::Ollama,
        Self::Lumo,
        Self::Completions,
    ];

    /// Returns the dialect's name on the command line and in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Interactions => "interactions",
            Self::Ollama => "ollama",
            Self::Lumo => "lumo",
            Self::Completions => "completions",
            Self::LumoV1 => "lumo-v1",
        }
    }

    /// Returns the dialect in `among` with this name.
    ///
    /// # Errors
    /// No dialect has this name. The message begins with `unknown` and suggests a known name.
    pub(crate) fn named(name: &str, among: &[Self], unknown: &str) -> Result<Self, Invalid> {
        let found = among.iter().find(|api| api.name() == name).copied();
        let known = || among.iter().map(|api| api.name()).collect::<Vec<_>>();
        found.ok_or_else(|| format!("{unknown} `{name}`; {}", suggest(name, &known(), None)).into())
    }

    /// The dialect for a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        // A path must precede any path that is a suffix of it.
        let ends = [
            ("/ai/v1/chat/completions", Self::Lumo),
            ("/ai/v1/chat", Self::LumoV1),
            ("/chat/completions", Self::Chat),
            ("/completions", Self::Completions),
            ("/completion", Self::Completions),
            ("/api/generate", Self::Completions),
            ("/responses", Self::Responses),
            ("/messages", Self::Messages),
            (":streamGenerateContent", Self::Gemini),
            ("/interactions", Self::Interactions),
            ("/api/chat", Self::Ollama),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, api)| api)
    }

    /// Returns the path of the base URL to configure for the mock.
    pub(crate) fn base(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Messages | Self::Completions => "/v1",
            Self::Gemini | Self::Interactions => "/v1beta",
            Self::Lumo | Self::LumoV1 => "/api",
            Self::Ollama => "",
        }
    }

    /// Whether the dialect supports native calls that the client runs. (Lumo runs its native calls itself.)
    pub(crate) fn has_calls(self) -> bool {
        !matches!(self, Self::Completions | Self::Lumo | Self::LumoV1)
    }

    /// Whether the dialect separates reasoning from text.
    pub(crate) fn has_reasoning(self) -> bool {
        !matches!(self, Self::Completions | Self::LumoV1)
    }

    /// Whether requests can contain images.
    pub(crate) fn has_images(self) -> bool {
        self != Self::Completions
    }

    /// Whether the dialect's responses are event streams.
    pub(crate) fn has_events(self) -> bool {
        self != Self::Ollama
    }

    /// Whether the dialect carries arguments as JSON values, so that their exact text is not preserved.
    pub(crate) fn has_parsed_arguments(self) -> bool {
        matches!(self, Self::Gemini | Self::Ollama)
    }

    /// The media type of the dialect's streams.
    pub(crate) fn content_type(self) -> &'static str {
        if self.has_events() { "text/event-stream" } else { "application/x-ndjson" }
    }

    /// Returns an error within a stream, after `frames` frames.
    pub(crate) fn error_frame(self, frames: usize) -> Vec<u8> {
        self.frame(&match self {
            Self::Lumo | Self::LumoV1 => json!({"type": "error", "message": ERROR}),
            Self::Interactions => {
                json!({"event_type": "error", "error": {"code": "internal_error", "message": ERROR}})
            }
            Self::Responses => {
                json!({"type": "error", "code": "server_error", "message": ERROR, "param": null,
                "sequence_number": frames})
            }
            _ => self.error_body(500),
        })
    }

    /// Returns the body of an error response.
    pub(crate) fn error_body(self, status: u16) -> Value {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            _ => "api_error",
        };
        match self {
            Self::Chat | Self::Completions | Self::Responses => {
                let kind = if kind == "api_error" { "server_error" } else { kind };
                json!({"error": {"message": ERROR, "type": kind, "param": null, "code": null}})
            }
            Self::Messages => json!({"type": "error", "error": {"type": kind, "message": ERROR}}),
            Self::Gemini | Self::Interactions => {
                json!({"error": {"code": status, "message": ERROR, "status": "INTERNAL"}})
            }
            Self::Lumo | Self::LumoV1 => json!({"Code": 2000, "Error": ERROR}),
            Self::Ollama => json!({"error": ERROR}),
        }
    }

    /// Writes a value as a frame: a line of JSON, or an event, with an `event:` line in some dialects.
    fn frame(self, value: &Value) -> Vec<u8> {
        let frame = match self {
            Self::Ollama => format!("{value}\n"),
            Self::Messages | Self::Responses => {
                let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
                format!("event: {kind}\ndata: {value}\n\n")
            }
            _ => format!("data: {value}\n\n"),
        };
        frame.into_bytes()
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Api {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::named(name, &Self::ALL, "there is no upstream dialect")
    }
}
