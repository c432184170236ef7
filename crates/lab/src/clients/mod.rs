//! The client dialects, as `bench`, `conform` and fixtures speak them: [`ClientApi`], a folder each.
//!
//! Each folder contains the requests, the rules of streams (`follow.rs`) and the reading of content (`assemble.rs`). They
//! share no code with toolwire's own dialects, so that a bug there cannot hide itself. [`api`] is the only list of them.

mod chat;
mod completions;
mod gemini;
mod interactions;
mod messages;
mod ollama;
mod responses;

use std::borrow::Cow;

use http::{HeaderName, header::AUTHORIZATION};
use serde_json::{Map, Value, json};

use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::{dialect::ClientDialect, event::Finish};

/// Returns the API of a client dialect.
pub(crate) fn api(dialect: ClientDialect) -> &'static dyn ClientApi {
    match dialect {
        ClientDialect::Chat => &chat::Chat,
        ClientDialect::Completions => &completions::Completions,
        ClientDialect::Responses => &responses::Responses,
        ClientDialect::Messages => &messages::Messages,
        ClientDialect::Gemini => &gemini::Gemini,
        ClientDialect::Interactions => &interactions::Interactions,
        ClientDialect::Ollama => &ollama::Ollama,
    }
}

/// What a request asks.
#[derive(Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) model: &'a str,
    /// Whether the response is to be streamed.
    pub(crate) streams: bool,
    /// The messages, in the format of Chat Completions.
    pub(crate) messages: Vec<Value>,
    /// A PNG in base64, attached to the last message.
    pub(crate) image: Option<&'a str>,
    /// The declared tools, in the format of Chat Completions.
    pub(crate) tools: &'a [Value],
    pub(crate) max_tokens: Option<u64>,
}

/// A client dialect.
pub(crate) trait ClientApi: Sync {
    /// Returns the path of requests for `model`, relative to the base URL (`…/v1`).
    fn path(&self, model: &str, streams: bool) -> Cow<'static, str>;

    /// Whether a request's body names the model, and says whether the response is streamed. Otherwise its path does.
    fn names_model(&self) -> bool {
        true
    }

    /// Whether the path follows the `/v1` of a base URL.
    fn has_version(&self) -> bool {
        true
    }

    /// The headers of every request.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the header for an API key.
    fn key_header(&self, key: &str) -> (HeaderName, String) {
        (AUTHORIZATION, format!("Bearer {key}"))
    }

    /// Returns the body of a request.
    fn request(&self, asked: Asked<'_>) -> Value;

    /// The member that only complete requests have, besides those in the format of Chat Completions.
    fn content_member(&self) -> &'static str {
        "messages"
    }

    /// Sets the maximum number of output tokens of a request.
    fn limit(&self, request: &mut Map<String, Value>, tokens: u64);

    /// Whether streams are lines of JSON instead of events.
    fn has_lines(&self) -> bool {
        false
    }

    /// Whether lines of a stream may end with CR.
    fn allows_cr(&self) -> bool {
        true
    }

    /// Whether requests can declare tools.
    fn has_tools(&self) -> bool {
        true
    }

    /// Whether requests can contain images.
    fn has_images(&self) -> bool {
        true
    }

    /// Whether the arguments of calls are JSON values instead of texts.
    fn has_argument_values(&self) -> bool {
        false
    }

    /// The arguments of a call whose stream has none.
    fn no_arguments(&self) -> &'static str {
        ""
    }

    /// Whether a call whose arguments are not a JSON object is a call in the response.
    fn has_broken_calls(&self) -> bool {
        true
    }

    /// Returns a new reader that checks a stream against the dialect's rules.
    fn reader(&self) -> Box<dyn EventReader>;

    /// Returns a new reader of a response's content.
    fn assembler(&self) -> Box<dyn Assembler>;

    /// Returns the finish reason of an assembled response, if the dialect defines it.
    fn finish(&self, answer: &Answer) -> Option<Finish>;

    /// Returns the input and output tokens. `count` looks up a member of the usage.
    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>);

    /// Returns the message of an error response. Passes each of the dialect's rules to `lacks`, with whether it holds.
    fn error(&self, body: &Value, lacks: &mut dyn FnMut(bool, &str)) -> Option<String> {
        lacks(word(body, "/error/message").is_some(), "an error has no error.message");
        lacks(word(body, "/error/type").is_some(), "an error has no error.type");
        word(body, "/error/message")
    }
}

impl dyn ClientApi {
    /// Returns the path of requests for `model` below `base`, the path of a base URL.
    pub(crate) fn path_at(&self, base: &str, model: &str, streams: bool) -> String {
        let own = self.path(model, streams);
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix(&*own).unwrap_or(base);
        let base = if self.has_version() { base } else { base.strip_suffix("/v1").unwrap_or(base) };
        format!("{base}{own}")
    }

    /// Whether `kind` is the content type of a stream.
    pub(crate) fn is_stream_type(&self, kind: &str) -> bool {
        kind.starts_with(if self.has_lines() { "application/x-ndjson" } else { "text/event-stream" })
    }
}

/// Returns the non-empty string at `pointer`.
fn word(value: &Value, pointer: &str) -> Option<String> {
    let word = value.pointer(pointer).and_then(Value::as_str);
    word.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// Adds a member if there is a value.
fn put(body: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), value);
    }
}

/// Returns an object's members.
fn members(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the messages. If there is an image, the content of the last one becomes a list: the text as a part of type
/// `text`, and the image as `part` makes it of a data URL.
fn with_image(asked: &Asked<'_>, text: &str, part: impl Fn(String) -> Value) -> Vec<Value> {
    let mut messages = asked.messages.clone();
    let content = messages.last_mut().and_then(|last| last.get_mut("content"));
    if let (Some(content), Some(image)) = (content, asked.image) {
        *content =
            json!([{ "type": text, "text": content.take() }, part(format!("data:image/png;base64,{image}"))]);
    }
    messages
}

/// Separates the text of system messages from the other messages.
fn without_system(messages: Vec<Value>) -> (Option<String>, Vec<Value>) {
    let is_system = |message: &Value| message.get("role").and_then(Value::as_str) == Some("system");
    let (system, messages): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_system);
    let system = system.iter().filter_map(|message| message.get("content")?.as_str()).collect::<Vec<_>>();
    ((!system.is_empty()).then(|| system.join("\n\n")), messages)
}

/// Returns the declared tools as `form` writes them from their name, description and schema, if there are any.
fn tools_as(asked: &Asked<'_>, form: impl Fn([Value; 3]) -> Value) -> Option<Value> {
    let tools = asked.tools.iter().filter_map(|tool| {
        let function = tool.get("function")?;
        let part = |key: &str| function.get(key).cloned();
        let schema = part("parameters").unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
        Some(form([part("name")?, part("description").unwrap_or_else(|| "".into()), schema]))
    });
    (!asked.tools.is_empty()).then(|| tools.collect())
}
