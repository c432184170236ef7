//! [`ClientSide`]: the trait by which a dialect serves the clients that speak it.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Clock, Dialect, Endpoint, Operation, SocketSide, Stamp, StoredPath, Target, Writer, fields::check_choice,
};
use crate::{
    conversation::{BuiltIn, CompactionForm, Conversation, Namespaced, Rest},
    failure::Failure,
    rules::Reasoning,
};

/// How a dialect serves its clients.
pub trait ClientSide: Sync {
    /// The dialect.
    fn dialect(&self) -> Dialect;

    /// The paths of the API.
    fn endpoints(&self) -> &'static [Endpoint];

    /// The paths of stored responses.
    fn stored_paths(&self) -> &'static [StoredPath] {
        &[]
    }

    /// The methods that follow a model's name and a colon in paths of the API, including those that toolwire does not
    /// serve. Such a path never means a model's entry.
    fn model_methods(&self) -> &'static [&'static str] {
        &[]
    }

    /// The endpoint of requests for a response, which is to be a stream or not.
    fn endpoint(&self, _stream: bool) -> Option<&'static Endpoint> {
        self.endpoints().iter().find(|endpoint| endpoint.operation == Operation::Generate)
    }

    /// The prefix of paths that only this API has. Errors for unknown paths below it are written in this dialect.
    fn own_prefix(&self) -> Option<&'static str> {
        None
    }

    /// The parameter of queries that may contain the client's key.
    fn key_parameter(&self) -> Option<&'static str> {
        None
    }

    /// The request in `body`, completed with what its path and its query say. Everything after this step sees
    /// only the body.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request) for an invalid path or query.
    fn complete(&self, body: Bytes, _target: &Target<'_>) -> Result<Bytes, Failure> {
        Ok(body)
    }

    /// Decodes a request's body, which [`ClientSide::complete`] has returned, but allows the tool choice to name
    /// tools that are declared later. The decoded strings share the body's memory.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request), which names the invalid field.
    fn read(&self, body: &Bytes) -> Result<Conversation, Failure>;

    /// Decodes a request's body.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request), which names the invalid field.
    fn decode(&self, body: &[u8]) -> Result<Conversation, Failure> {
        let conversation = self.read(&Bytes::copy_from_slice(body))?;
        check_choice(&conversation)?;
        Ok(conversation)
    }

    /// Creates a writer for one response.
    fn writer(&self, answering: &Answering) -> Writer;

    /// The response to a request that asks for none from a model.
    fn made(&self, _conversation: &Conversation, _stamp: &Stamp) -> Option<Made> {
        None
    }

    /// How the dialect serves clients over a WebSocket, if it has such a transport.
    fn socket(&self) -> Option<&'static dyn SocketSide> {
        None
    }

    /// Whether clients receive images produced by hosted calls, in addition to the model's own output.
    fn shows_generated_images(&self) -> bool {
        false
    }

    /// The body of an error response.
    fn error_body(&self, failure: &Failure) -> Vec<u8>;

    /// The body of a response to a request that only counts tokens, for dialects that have such requests.
    fn token_count(&self, tokens: usize) -> Value {
        json!({ "input_tokens": tokens })
    }

    /// Whether upstreams of this dialect are asked to count the tokens of a request.
    fn counts_at_upstreams(&self) -> bool {
        false
    }

    /// How responses report what is left of a client's limits.
    fn rate_style(&self) -> RateStyle {
        RateStyle::OpenAi
    }

    /// The status to send if no upstream has capacity.
    fn overloaded_status(&self) -> u16 {
        503
    }

    /// The failure for a request that names an unknown model.
    fn unknown_model(&self, name: &str) -> Failure;

    /// The list of models, or the page of it that `query` asks for. Each entry of `list` is in OpenAI's format, with
    /// all fields that are known.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request) if there is no such page.
    fn model_list(&self, list: Vec<Value>, _query: Option<&str>) -> Result<Value, Failure> {
        Ok(json!({ "object": "list", "data": list }))
    }

    /// The entry of one model, made from one in OpenAI's format.
    fn model_entry(&self, model: Value) -> Value {
        model
    }

    /// [`ClientSide::model_entry`] for a request that names the model in its body. `about` is what is known of it.
    fn model_shown(&self, model: Value, _about: &ModelAbout<'_>) -> Value {
        self.model_entry(model)
    }

    /// The name of the model in the body of a request for its entry.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request) if it names none.
    fn model_asked(&self, _body: &Bytes) -> Result<String, Failure> {
        Err(self.unknown_model(""))
    }

    /// The response at an endpoint for facts that need no model.
    fn facts(&self, _endpoint: &Endpoint) -> Value {
        Value::Null
    }

    /// A request for a response, made from a request for a compaction as a resource of its own. In dialects
    /// without such requests, `body` itself.
    fn compaction_request(&self, body: &Bytes) -> Bytes {
        body.clone()
    }

    /// An encoded request `body` as the paths below that of responses take it.
    fn below(&self, body: &Bytes) -> Bytes {
        body.clone()
    }

    /// Whether the request in `body` may refer to stored responses. This is fast, and false only if it does
    /// not.
    fn may_refer(&self, _body: &[u8]) -> bool {
        false
    }

    /// The stored responses that the request in `body` refers to, in dialects in which a request can
    /// continue a response.
    fn references(&self, _body: &[u8]) -> References {
        References::default()
    }

    /// The request together with the history that it refers to. `records` are in the order of the ids in
    /// `references`; an element is `None` if the store does not have that record.
    ///
    /// # Errors
    /// A record is missing, or the request does not say which one it continues.
    fn with_history(
        &self,
        body: &[u8],
        _references: &References,
        _records: &[Option<Bytes>],
    ) -> Result<Bytes, Failure> {
        Ok(Bytes::copy_from_slice(body))
    }

    /// The part of the request in `body` that is stored with the response.
    fn record_input(&self, _body: &Bytes) -> Option<Bytes> {
        None
    }

    /// The record to store for `response`. `input` comes from [`ClientSide::record_input`].
    fn record(&self, _input: &[u8], _response: &str) -> Option<Record> {
        None
    }

    /// The response in a record, as the body of an HTTP response to a request with this `query`.
    fn stored_response(&self, _record: &[u8], _query: Option<&str>) -> Option<Bytes> {
        None
    }

    /// The response to a request that has deleted the record `id`.
    fn deleted(&self, id: &str) -> Value {
        json!({"id": id, "object": "response", "deleted": true})
    }

    /// The input in a record, as the body of an HTTP response.
    fn stored_input(&self, _record: &[u8]) -> Option<Bytes> {
        None
    }
}

/// A response that is complete without a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The content type.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

/// What the configuration says about a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelAbout<'m> {
    /// The model's name at its upstream.
    pub name: &'m str,
    /// Whether it accepts images in any case, because another model describes them.
    pub sees_images: bool,
}

/// Whose headers and statuses are used to report what is left of a client's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateStyle {
    /// `x-ratelimit-*`
    OpenAi,
    /// `anthropic-ratelimit-*`, and status 402 if a budget is used up.
    Anthropic,
}

/// The ids of the stored responses that a request refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// The response that the request continues.
    pub previous: Option<String>,
    /// Responses from which the request refers to individual items.
    pub others: Vec<String>,
    /// Whether the request asks that its conversation be held, in dialects in which it must say so.
    pub is_held: bool,
}

impl References {
    /// Whether the request is complete without the store.
    pub fn is_empty(&self) -> bool {
        self.previous.is_none() && self.others.is_empty() && !self.is_held
    }

    /// All ids, in the order in which their records are passed on.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.previous.iter().chain(&self.others).map(String::as_str)
    }
}

/// The stored form of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The response's id.
    pub id: String,
    /// The response and its input.
    pub value: Bytes,
}

/// How to write a response, apart from the dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answering {
    /// Whether to write a stream.
    pub stream: bool,
    /// Whether to report token counts at the end of a stream.
    pub include_usage: bool,
    /// Whether to use OpenAI's `function_call` as it was before November 2023.
    pub legacy_functions: bool,
    /// The names of the tools whose calls are written as calls to custom tools.
    pub custom_tools: HashSet<String>,
    /// The tools whose calls are written with a namespace.
    pub namespaced: Vec<Namespaced>,
    /// The tools whose calls are written in the forms that the client's API has for them.
    pub built_in: Vec<BuiltIn>,
    /// Fields of the request that the response repeats.
    pub repeated: Rest,
    /// Tools in the request that the upstream did not receive.
    pub left_out: Vec<String>,
    /// Whether the response is stored.
    pub stored: bool,
    /// Whether the response is a summary of the conversation, written by the model as text.
    pub compaction: Option<CompactionForm>,
    /// How reasoning is passed on, which determines the name of its field.
    pub reasoning: Reasoning,
    /// The model name to report if the upstream does not send one.
    pub model: String,
    /// The current time and the seed for ids.
    pub stamp: Stamp,
    /// For dialects whose responses report durations.
    pub clock: Clock,
}

impl Answering {
    /// How to write the response to `conversation` under the default rules.
    pub fn new(conversation: &Conversation, stamp: Stamp) -> Self {
        Self {
            stream: conversation.stream,
            include_usage: conversation.include_usage,
            legacy_functions: conversation.legacy_functions,
            custom_tools: conversation.custom_tools.clone(),
            namespaced: conversation.namespaced.clone(),
            built_in: conversation.built_in.clone(),
            repeated: conversation.repeated.clone(),
            left_out: Vec::new(),
            stored: conversation.stored,
            compaction: conversation.compaction.as_ref().map(|compaction| compaction.form),
            reasoning: Reasoning::Auto,
            model: conversation.model.clone(),
            stamp,
            clock: Clock::default(),
        }
    }
}
