//! Encodes a [`Conversation`] as a request body (docs/protocols/interactions.md#upstreams).

mod steps;
mod tools;

pub(super) use steps::kind_of_media;

use serde_json::{Map, Value};

use super::{DIALECT, Options, PREVIOUS, decode::CONFIG_MEMBER};
use crate::{
    Dialect, UpstreamRequest, conversation::Conversation, sampling::is_shared, schemas::response_form,
    thinking, wire::json::Encoder,
};

const CHAT: &str = Dialect::Chat.name();

/// Fields of chat requests that are sent in another form, or say what all requests say.
const HANDLED: [&str; 7] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "parallel_tool_calls",
    "max_completion_tokens",
];

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Encodes the request for an upstream that knows the model as `model`.
pub(super) fn encode(conversation: &Conversation, model: &str, options: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let no_rest = Map::new();
    let own = conversation.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    body.object(|body| {
        body.key("model").string(model.strip_prefix("models/").unwrap_or(model));
        steps::put(body, &conversation.turns, &mut dropped);
        tools::put(body, conversation, own, options);
        let config = generation_config(conversation, model, own, options);
        if !config.is_empty() {
            body.key("generation_config").value(&config);
        }
        match response_form(conversation) {
            Ok(None) => {}
            Ok(Some(schema)) => body.key("response_format").object(|format| {
                format.key("type").string("text");
                format.key("mime_type").string("application/json");
                if !schema.is_null() {
                    format.key("schema").value(&schema);
                }
            }),
            Err(field) => dropped.push(field.to_owned()),
        }
        body.key("stream").value(&conversation.stream);
        // The whole conversation is sent each time, and toolwire stores what clients ask it to store.
        body.key("store").value(&false);
        let others = own.iter().filter(|(key, _)| !is_written(key));
        others.for_each(|(key, value)| body.key(key).value(value));
    });
    dropped.extend(inexpressible(conversation));
    thinking::tell_carried_to_gemini(conversation, model, Dialect::Interactions, &mut dropped);
    dropped.sort_unstable();
    dropped.dedup();
    UpstreamRequest {
        body: body.finish(),
        path: None,
        dropped,
        stream: conversation.stream,
        prefill: None,
        key: None,
    }
}

/// Whether a field that a client of this API wrote is part of another one, or is written above.
fn is_written(key: &str) -> bool {
    matches!(key, tools::TOOLS | PREVIOUS) || key.starts_with(CONFIG_MEMBER) || is_shared(key)
}

/// Writes sampling settings, limits, reasoning settings and the tool choice.
fn generation_config(
    conversation: &Conversation,
    model: &str,
    own: &Map<String, Value>,
    options: &Options,
) -> Map<String, Value> {
    let sampling = &conversation.sampling;
    let rest = conversation.rest.from_dialect(CHAT);
    let newer = rest.and_then(|rest| rest.get("max_completion_tokens")?.as_u64());
    let number = |number: &serde_json::Number| Value::Number(number.clone());
    let mut config = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(key.to_owned(), value);
        }
    };
    put("max_output_tokens", newer.or(sampling.max_tokens).map(Into::into));
    put("temperature", sampling.temperature.as_ref().map(number));
    put("top_p", sampling.top_p.as_ref().map(number));
    put("seed", sampling.seed.as_ref().map(number));
    put("stop_sequences", (!sampling.stop.is_empty()).then(|| sampling.stop.clone().into()));
    put("tool_choice", tools::choice(conversation));
    if let Some(effort) = thinking::gemini_effort(conversation, model, Dialect::Interactions) {
        let effort = effort.to_ascii_lowercase();
        let level = match effort.as_str() {
            "none" | "minimal" => "minimal",
            "low" | "medium" => &effort,
            _ => "high",
        };
        put("thinking_level", Some(level.into()));
        let summarized = options.include_thoughts && effort != "none";
        put("thinking_summaries", summarized.then(|| "auto".into()));
    }
    // What a client of this API wrote may say more.
    let own = own.iter().filter_map(|(key, value)| Some((key.strip_prefix(CONFIG_MEMBER)?, value)));
    own.for_each(|(key, value)| put(key, Some(value.clone())));
    config
}

fn inexpressible(conversation: &Conversation) -> Vec<String> {
    let has_tools = !conversation.tools.is_empty();
    let known = [
        ("parallel_tool_calls", !conversation.parallel_calls && has_tools),
        ("tools[].function.strict", conversation.tools.iter().any(|tool| tool.strict == Some(true))),
    ];
    let known = known.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned());
    let foreign =
        conversation.rest.foreign_keys(DIALECT).filter(|key| !HANDLED.contains(&key.as_str())).cloned();
    known.chain(foreign).collect()
}
