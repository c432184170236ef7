//! [`Api`]: the dialects in which a gateway may call the mock, and how each writes a scenario.

mod chat;
mod completions;
mod gemini;
mod lumo;
mod messages;
mod ollama;
mod responses;

use std::{fmt, str::FromStr};

use serde_json::{Value, json};

use super::scenario::{MadeCall, Scenario, Step};
use crate::Invalid;
use toolwire_pipeline::wire::suggest::suggest;

/// The model named in responses.
const MODEL: &str = "conform-model";

/// Creation time of all responses, in seconds of Unix time.
const CREATED: u64 = 1_750_000_000;

/// The message of every error that the mock reports.
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
    /// Ollama's own API.
    Ollama,
    /// Proton Lumo.
    Lumo,
    /// Text completions.
    Completions,
}

/// A response as frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    /// The frames, each including its terminator.
    pub(crate) all: Vec<Vec<u8>>,
    /// Number of frames before the frame with the finish reason.
    pub(crate) before_finish: usize,
}

impl Api {
    /// All dialects.
    pub const ALL: [Self; 7] = [
        Self::Chat,
        Self::Responses,
        Self::Messages,
        Self::Gemini,
        Self::Ollama,
        Self::Lumo,
        Self::Completions,
    ];

    /// The dialect's name, as on the command line and in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Lumo => "lumo",
            Self::Completions => "completions",
        }
    }

    /// The dialect for a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        // A longer path comes before paths that are its suffixes.
        let ends = [
            ("/ai/v1/chat/completions", Self::Lumo),
            ("/chat/completions", Self::Chat),
            ("/completions", Self::Completions),
            ("/responses", Self::Responses),
            ("/messages", Self::Messages),
            (":streamGenerateContent", Self::Gemini),
            ("/api/chat", Self::Ollama),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, api)| api)
    }

    /// The base path, below the mock's address, to which the API's clients append their own paths.
    pub(crate) fn base(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Messages | Self::Completions => "/v1",
            Self::Gemini => "/v1beta",
            Self::Lumo => "/api",
            Self::Ollama => "",
        }
    }

    /// Whether the dialect supports native calls, any number of them.
    pub(crate) fn has_calls(self) -> bool {
        !matches!(self, Self::Completions | Self::Lumo)
    }

    /// Whether the dialect separates reasoning from text.
    pub(crate) fn has_reasoning(self) -> bool {
        self != Self::Completions
    }

    /// Whether the dialect's responses are event streams.
    pub(crate) fn has_events(self) -> bool {
        self != Self::Ollama
    }

    /// Whether the dialect carries arguments as JSON values, so that only their meaning must arrive.
    pub(crate) fn has_parsed_arguments(self) -> bool {
        matches!(self, Self::Gemini | Self::Ollama)
    }

    /// The media type of the dialect's streams.
    pub(crate) fn content_type(self) -> &'static str {
        if self.has_events() { "text/event-stream" } else { "application/x-ndjson" }
    }

    /// The response as frames.
    pub(crate) fn frames(self, scenario: &Scenario) -> Frames {
        match self {
            Self::Chat => chat::frames(scenario),
            Self::Responses => responses::frames(scenario),
            Self::Messages => messages::frames(scenario),
            Self::Gemini => gemini::frames(scenario),
            Self::Ollama => ollama::frames(scenario),
            Self::Lumo => lumo::frames(scenario),
            Self::Completions => completions::frames(scenario),
        }
    }

    /// Returns an error within a stream, after `frames` frames.
    pub(crate) fn error_frame(self, frames: usize) -> Vec<u8> {
        match self {
            Self::Chat | Self::Completions | Self::Gemini => data(&self.error_body(500)),
            Self::Lumo => data(&json!({"type": "error", "message": ERROR})),
            Self::Messages => event(&self.error_body(500)),
            Self::Responses => {
                event(&json!({"type": "error", "code": "server_error", "message": ERROR, "param": null,
                    "sequence_number": frames}))
            }
            Self::Ollama => line(&self.error_body(500)),
        }
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
            Self::Gemini => {
                json!({"error": {"code": status, "message": ERROR, "status": "INTERNAL"}})
            }
            Self::Lumo => json!({"Code": 2000, "Error": ERROR}),
            Self::Ollama => json!({"error": ERROR}),
        }
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
        Self::ALL.into_iter().find(|api| api.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name);
            format!("there is no upstream dialect `{name}`; {}", suggest(name, &known, None)).into()
        })
    }
}

/// Writes an event without an `event:` line.
fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// Writes an event with an `event:` line for its type.
fn event(value: &Value) -> Vec<u8> {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {kind}\ndata: {value}\n\n").into_bytes()
}

/// Writes a line of JSON.
fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// Returns the arguments of a call as a JSON value that keeps the digits of numbers.
fn parsed(call: &MadeCall) -> Value {
    serde_json::from_str(&call.joined()).unwrap_or_default()
}

/// Adds the members of `more` to `object`.
fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}
