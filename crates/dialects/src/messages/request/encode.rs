//! Encodes a [`Conversation`] as a Messages request body.
//!
//! The API is stricter about conversations than other APIs: user and assistant must alternate, results must
//! come first in the message that follows their calls, and no block may be empty. [`turns`] arranges a
//! conversation accordingly.

mod blocks;
mod ids;
mod tools;
mod turns;

use serde_json::{Map, Value, json};

use crate::{
    Dialect, UpstreamRequest,
    cache_hints::CACHE_CONTROL,
    conversation::{Constraint, Conversation, Prefill},
    foreign,
    messages::upstream::{Effort, Options},
    sampling::TOP_K,
    schemas::response_schema,
    thinking,
    wire::json::Encoder,
};
use turns::{Author, Message};

/// The dialect whose fields may be forwarded unchanged.
const DIALECT: &str = Dialect::Messages.name();

/// Encodes `conversation` for an upstream that knows the model as `model`. An empty model name is left out.
pub(in crate::messages) fn encode(
    conversation: &Conversation,
    model: &str,
    options: &Options,
) -> UpstreamRequest {
    let mut dropped: Vec<String> = foreign_fields(conversation).collect();
    let prefill = prefill(conversation);
    let (mut system, messages) = turns::arranged(&conversation.turns, options, &mut dropped);
    if asks_for_any_json(conversation) {
        system.push(blocks::Block::own_text(ONLY_JSON));
    }
    let no_rest = Map::new();
    let rest = conversation.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    thinking::tell_carried(conversation, &mut dropped);
    body.object(|body| {
        if !model.is_empty() {
            body.key("model").string(model);
        }
        let limit =
            conversation.sampling.max_tokens.unwrap_or(options.max_tokens.try_into().unwrap_or(u64::MAX));
        body.key("max_tokens").value(&limit);
        if !system.is_empty() {
            blocks::put_content(body.key("system"), &[], &system);
        }
        put_messages(body.key("messages"), &messages, prefill.as_ref());
        tools::put(body, conversation, rest, &mut dropped);
        put_sampling(body, conversation, &mut dropped);
        put_output(body, conversation, rest, options, limit, &mut dropped);
        for (key, value) in rest.iter().filter(|(key, _)| !is_put(key)) {
            body.key(key).value(value);
        }
        let of_chat = conversation.rest.from_dialect(Dialect::Chat.name());
        if let Some(hint) = of_chat.and_then(|rest| rest.get(CACHE_CONTROL)) {
            body.key(CACHE_CONTROL).value(hint);
        }
        if let Some(top_k) = conversation.rest.get(TOP_K).filter(|_| rest.is_empty()) {
            body.key(TOP_K).value(top_k);
        }
        body.key("stream").value(&conversation.stream);
    });
    dropped.sort_unstable();
    dropped.dedup();
    UpstreamRequest {
        body: body.finish(),
        path: None,
        dropped,
        stream: conversation.stream,
        prefill,
        key: None,
    }
}

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Whether the encoder writes this field of `rest` separately.
fn is_put(key: &str) -> bool {
    matches!(key, "model" | "max_tokens" | "messages" | "tools" | "stream" | "output_config")
}

/// The names of fields that a client of another dialect sent and that this dialect cannot express. They are
/// dropped.
fn foreign_fields(conversation: &Conversation) -> impl Iterator<Item = String> {
    let turns = &conversation.turns;
    let of_turns = foreign::turn_fields(turns, DIALECT, &["content", "tool_calls", CACHE_CONTROL]);
    let parts = foreign::parts(turns, DIALECT);
    let fields = conversation.rest.foreign_keys(DIALECT);
    // `max_completion_tokens` is written as `max_tokens`, so it is not lost.
    let is_put = |key: &str| matches!(key, "max_tokens" | "max_completion_tokens" | CACHE_CONTROL | TOP_K);
    let fields = fields.filter(move |key| !is_put(key)).cloned();
    let seed = conversation.sampling.seed.iter().map(|_| "seed".to_owned());
    fields.chain(of_turns).chain(parts).chain(seed)
}

/// The text with which the response must start. The API rejects trailing white space, so the model has to
/// write it.
fn prefill(conversation: &Conversation) -> Option<Prefill> {
    let Some(Constraint::Prefill(text)) = &conversation.constraint else { return None };
    let text = text.trim_end().to_owned();
    (!text.is_empty()).then_some(Prefill { text, is_repeated: false })
}

fn put_messages(body: &mut Encoder, messages: &[Message<'_>], prefill: Option<&Prefill>) {
    body.array(|body| {
        for message in messages {
            body.object(|body| {
                body.key("role").string(match message.author {
                    Author::User => "user",
                    Author::Assistant => "assistant",
                    Author::System => "system",
                });
                blocks::put_content(body.key("content"), &message.results, &message.others);
            });
        }
        if let Some(prefill) = prefill {
            body.object(|body| {
                body.key("role").string("assistant");
                body.key("content").string(&prefill.text);
            });
        }
    });
}

/// Writes sampling settings, limited to the ranges that the API allows.
fn put_sampling(body: &mut Encoder, conversation: &Conversation, dropped: &mut Vec<String>) {
    let sampling = &conversation.sampling;
    if let Some(temperature) = &sampling.temperature {
        match temperature.as_f64() {
            // Other APIs allow values up to 2.
            Some(above) if above > 1.0 => {
                dropped.push("temperature".to_owned());
                body.key("temperature").value(&1);
            }
            _ => body.key("temperature").value(temperature),
        }
    }
    if let Some(top_p) = &sampling.top_p {
        // Newer models reject both settings together, and many clients send both with the defaults of other
        // APIs.
        let is_no_limit = top_p.as_f64() == Some(1.0) && sampling.temperature.is_some();
        if !is_no_limit {
            body.key("top_p").value(top_p);
        }
    }
    // The API rejects stop sequences that consist only of white space.
    let stop: Vec<&String> = sampling.stop.iter().filter(|stop| !stop.trim().is_empty()).collect();
    if stop.len() < sampling.stop.len() {
        dropped.push("stop".to_owned());
    }
    if !stop.is_empty() {
        body.key("stop_sequences").value(&stop);
    }
}

fn put_output(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    options: &Options,
    limit: u64,
    dropped: &mut Vec<String>,
) {
    let sampling = &conversation.sampling;
    let mut config = rest.get("output_config").and_then(Value::as_object).cloned().unwrap_or_default();
    let may_think = !rest.contains_key("thinking");
    let is_off = thinking::is_off(conversation, Dialect::Messages);
    let thinking = match (sampling.reasoning_effort.as_deref(), options.effort) {
        _ if is_off => Some(json!({"type": "disabled"})),
        (None, _) => None,
        (Some("none"), Effort::OutputConfig | Effort::Thinking) => Some(json!({"type": "disabled"})),
        (Some(effort), Effort::OutputConfig) => {
            let effort = if effort == "minimal" { "low" } else { effort };
            config.insert("effort".to_owned(), effort.into());
            None
        }
        (Some(effort), Effort::Thinking) => budget(effort, limit),
        (Some(_), Effort::Drop) => {
            dropped.push("reasoning_effort".to_owned());
            None
        }
    };
    if let Some(format) = &sampling.response_format {
        match output_format(format) {
            Some(format) => _ = config.insert("format".to_owned(), format),
            None if format.get("type").and_then(Value::as_str) == Some("text") => {}
            None if asks_for_any_json(conversation) => {}
            None => dropped.push("response_format".to_owned()),
        }
    }
    if !config.is_empty() {
        body.key("output_config").value(&config);
    }
    match thinking {
        Some(thinking) if may_think => body.key("thinking").value(&thinking),
        // Some servers of Chat Completions have this member, too.
        None if thinking::asked_effort(conversation, Dialect::Messages).is_some() => {
            if let Some(thinking) = conversation.rest.get("thinking") {
                dropped.retain(|field| field != "thinking");
                body.key("thinking").value(thinking);
            }
        }
        _ => {}
    }
}

/// The thinking budget for `effort`. The API requires at least 1024 tokens, and fewer than the limit for the
/// response.
fn budget(effort: &str, limit: u64) -> Option<Value> {
    const LEAST: u64 = 1024;
    let wanted = match effort {
        "minimal" | "low" => LEAST,
        "medium" => 4096,
        _ => 16_384,
    };
    let budget = wanted.min(limit.saturating_sub(1));
    (budget >= LEAST).then(|| json!({"type": "enabled", "budget_tokens": budget}))
}

/// Converts OpenAI's `response_format`. This API supports only the type `json_schema`.
fn output_format(format: &Value) -> Option<Value> {
    let schema = response_schema(format)?;
    Some(json!({"type": "json_schema", "schema": schema}))
}

/// The instruction that stands for a response format which allows any JSON object.
const ONLY_JSON: &str = "Answer with a single JSON object: no other text, and no fence around it.";

fn asks_for_any_json(conversation: &Conversation) -> bool {
    let Some(format) = &conversation.sampling.response_format else { return false };
    let kind = format.get("type").and_then(Value::as_str);
    matches!(kind, Some("json_object" | "json_schema")) && response_schema(format).is_none()
}
