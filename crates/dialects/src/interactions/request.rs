//! Encodes a [`Conversation`] as a request body (docs/protocols/interactions.md#upstreams).

mod steps;
mod tools;

pub(super) use steps::kind_of_media;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{DIALECT, Options, PREVIOUS, decode::CONFIG_MEMBER};
use crate::{
    Dialect, UpstreamRequest,
    conversation::{Constraint, Conversation},
    sampling::is_shared,
    schemas::response_schema,
    thinking,
    wire::json::Encoder,
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
        match response_format(conversation) {
            Ok(format) => format.iter().for_each(|format| body.key("response_format").value(format)),
            Err(field) => dropped.push(field.to_owned()),
        }
        body.key("stream").value(&conversation.stream);
        // The whole conversation is sent each time, and toolwire stores what clients ask it to store.
        body.key("store").value(&false);
        let others = own.iter().filter(|(key, _)| !is_written(key));
        others.for_each(|(key, value)| body.key(key).value(value));
    });
    dropped.extend(inexpressible(conversation));
    if thinking::gemini_can_be_off(model) {
        thinking::tell_carried(conversation, &mut dropped);
    }
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
    let can_be_off = thinking::gemini_can_be_off(model);
    let is_off = can_be_off && thinking::is_off(conversation, Dialect::Interactions);
    let asked = || thinking::asked_effort(conversation, Dialect::Interactions).filter(|_| can_be_off);
    let effort = if is_off { Some("none") } else { sampling.reasoning_effort.as_deref() };
    if let Some(effort) = effort.or_else(asked) {
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
    for (key, value) in own {
        // What a client of this API wrote may say more.
        put(key.strip_prefix(CONFIG_MEMBER).unwrap_or_default(), Some(value.clone()));
    }
    config.shift_remove("");
    config
}

/// The format of the response, if it is not any text.
///
/// # Errors
/// The name of a field that cannot be expressed.
fn response_format(conversation: &Conversation) -> Result<Option<Value>, &'static str> {
    let of_schema = |schema: Value| match schema {
        Value::Null => json!({"type": "text", "mime_type": "application/json"}),
        schema => json!({"type": "text", "mime_type": "application/json", "schema": schema}),
    };
    if let Some(Constraint::Schema(schema)) = &conversation.constraint {
        return Ok(Some(of_schema(schema.clone())));
    }
    let Some(format) = &conversation.sampling.response_format else { return Ok(None) };
    match format.get("type").and_then(Value::as_str) {
        Some("json_schema" | "json_object") => {
            Ok(Some(of_schema(response_schema(format).map(Cow::into_owned).unwrap_or_default())))
        }
        Some("text") => Ok(None),
        _ => Err("response_format"),
    }
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
