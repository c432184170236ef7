//! A [`Conversation`] made the body of a Chat Completions request.

mod messages;
mod tools;

use serde_json::{Map, Value};

use crate::{
    conversation::{Conversation, Sampling},
    dialect::UpstreamRequest,
};

/// What one upstream wants otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The model's name there; `None`: the name that the client wrote.
    pub model: Option<String>,
    /// Ask for token counts at the end of the stream. Off for upstreams that refuse the option.
    pub include_usage: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: None, include_usage: true }
    }
}

/// Encodes `conversation` for an upstream. The answer is always asked for as a stream, whatever the client wants.
pub fn encode(conversation: &Conversation, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let mut body = Map::new();
    let model = options.model.as_ref().unwrap_or(&conversation.model);
    if !model.is_empty() {
        body.insert("model".to_owned(), model.as_str().into());
    }
    let messages = conversation.turns.iter().flat_map(|turn| messages::encode(turn, &mut dropped));
    body.insert("messages".to_owned(), messages.collect());
    tools::put(&mut body, conversation);
    put_sampling(&mut body, &conversation.sampling);
    for (key, value) in &conversation.rest {
        match key.as_str() {
            "stream_options" => {}
            key if tools::owns(key) => {}
            key => _ = body.insert(key.to_owned(), value.clone()),
        }
    }
    put_stream(&mut body, conversation, options);
    dropped.sort_unstable();
    dropped.dedup();
    UpstreamRequest {
        // A map of values with keys that are strings is always JSON.
        body: serde_json::to_vec(&body).unwrap_or_default(),
        dropped,
    }
}

fn put_sampling(body: &mut Map<String, Value>, sampling: &Sampling) {
    let stop = (!sampling.stop.is_empty()).then(|| sampling.stop.clone().into());
    let fields = [
        ("max_tokens", sampling.max_tokens.map(Value::from)),
        ("temperature", sampling.temperature.clone().map(Value::Number)),
        ("top_p", sampling.top_p.clone().map(Value::Number)),
        ("stop", stop),
        ("reasoning_effort", sampling.reasoning_effort.clone().map(Value::String)),
        ("response_format", sampling.response_format.clone()),
        ("seed", sampling.seed.clone().map(Value::Number)),
    ];
    body.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
}

/// The client's other stream options are kept. Token counts are asked for even if the client does not want them:
/// they are for the log, and the writer leaves them out.
fn put_stream(body: &mut Map<String, Value>, conversation: &Conversation, options: &Options) {
    body.insert("stream".to_owned(), true.into());
    let mut stream_options = match conversation.rest.get("stream_options") {
        Some(Value::Object(others)) => others.clone(),
        _ => Map::new(),
    };
    if options.include_usage {
        stream_options.insert("include_usage".to_owned(), true.into());
    }
    if !stream_options.is_empty() {
        body.insert("stream_options".to_owned(), stream_options.into());
    }
}
