//! [`ClientSide`]: the trait that each dialect implements for the clients that speak it.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Dialect, Stamp, Writer, fields::check_choice};
use crate::{
    conversation::{Conversation, Namespaced, Rest},
    failure::Failure,
    rules::Reasoning,
};

/// The client's side of a dialect.
pub trait ClientSide: Sync {
    /// The dialect.
    fn dialect(&self) -> Dialect;

    /// Decodes a request's body, but allows the tool choice to name tools that are declared later. The
    /// decoded texts share the body's memory.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request), naming the invalid field.
    fn read(&self, body: &Bytes) -> Result<Conversation, Failure>;

    /// Decodes a request's body.
    ///
    /// # Errors
    /// [`Kind::Request`](crate::failure::Kind::Request), naming the invalid field.
    fn decode(&self, body: &[u8]) -> Result<Conversation, Failure> {
        let conversation = self.read(&Bytes::copy_from_slice(body))?;
        check_choice(&conversation)?;
        Ok(conversation)
    }

    /// A writer for one response.
    fn writer(&self, answering: &Answering) -> Writer;

    /// Whether clients receive the images that hosted calls made, in addition to the model's own output.
    fn shows_generated_images(&self) -> bool {
        false
    }

    /// The body of an error response.
    fn error_body(&self, failure: &Failure) -> Vec<u8>;

    /// The body of a response that reports the number of tokens of a request, for dialects that have such
    /// requests.
    fn token_count(&self, tokens: usize) -> Value {
        json!({ "input_tokens": tokens })
    }

    /// How responses report what remains of a client's limits.
    fn rate_style(&self) -> RateStyle {
        RateStyle::OpenAi
    }

    /// The status that reports that no upstream has capacity.
    fn overloaded_status(&self) -> u16 {
        503
    }

    /// The failure of a request for a model that does not exist.
    fn unknown_model(&self, name: &str) -> Failure;

    /// The stored responses to which the request `body` refers, for dialects whose requests can continue a
    /// response.
    fn references(&self, _body: &[u8]) -> References {
        References::default()
    }

    /// The request together with the history to which it refers. `records` belong to the ids in `references`,
    /// in the same order; `None` if the store has no such record.
    ///
    /// # Errors
    /// A record is missing.
    fn with_history(
        &self,
        body: &[u8],
        _references: &References,
        _records: &[Option<Bytes>],
    ) -> Result<Bytes, Failure> {
        Ok(Bytes::copy_from_slice(body))
    }

    /// The part of the request `body` that is stored with the response to it.
    fn record_input(&self, _body: &Bytes) -> Option<Bytes> {
        None
    }

    /// The record of the `response` to a request with this `input`, see [`ClientSide::record_input`].
    fn record(&self, _input: &[u8], _response: &str) -> Option<Record> {
        None
    }

    /// The response in a record, as the body of a response to a client.
    fn stored_response(&self, _record: &[u8]) -> Option<Bytes> {
        None
    }

    /// The input in a record, as the body of a response to a client.
    fn stored_input(&self, _record: &[u8]) -> Option<Bytes> {
        None
    }
}

/// The provider whose headers and statuses are used to report what remains of a client's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateStyle {
    /// `x-ratelimit-*`
    OpenAi,
    /// `anthropic-ratelimit-*`; 402 for a budget that is used up.
    Anthropic,
}

/// The ids of the stored responses to which a request refers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// The response that the request continues.
    pub previous: Option<String>,
    /// Responses from which the request refers to single items.
    pub others: Vec<String>,
}

impl References {
    /// Whether the request refers to nothing.
    pub fn is_empty(&self) -> bool {
        self.previous.is_none() && self.others.is_empty()
    }

    /// All ids, in the order of their records.
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

/// The form of the response to a client, apart from its dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answering {
    /// As a stream, or in one piece.
    pub stream: bool,
    /// Token counts at the end of a stream.
    pub include_usage: bool,
    /// In OpenAI's `function_call` form from before November 2023.
    pub legacy_functions: bool,
    /// Names of the tools whose calls are written as calls of custom tools.
    pub custom_tools: HashSet<String>,
    /// Tools whose calls are written with their namespace.
    pub namespaced: Vec<Namespaced>,
    /// Fields of the request that the response repeats.
    pub repeated: Rest,
    /// Tools of the request that the upstream did not receive.
    pub left_out: Vec<String>,
    /// The response is stored.
    pub stored: bool,
    /// How the writer passes reasoning on: the name of its field.
    pub reasoning: Reasoning,
    /// The model name that the response contains if the upstream does not name a model.
    pub model: String,
    /// The time and the seed of ids.
    pub stamp: Stamp,
}

impl Answering {
    /// The form that `conversation` asks for, under the default rules.
    pub fn new(conversation: &Conversation, stamp: Stamp) -> Self {
        Self {
            stream: conversation.stream,
            include_usage: conversation.include_usage,
            legacy_functions: conversation.legacy_functions,
            custom_tools: conversation.custom_tools.clone(),
            namespaced: conversation.namespaced.clone(),
            repeated: conversation.repeated.clone(),
            left_out: Vec::new(),
            stored: conversation.stored,
            reasoning: Reasoning::Auto,
            model: conversation.model.clone(),
            stamp,
        }
    }
}
