//! Encodes a [`Conversation`] as a Responses request body.

mod items;
mod namespaces;
mod tools;

use serde_json::{Map, Value};

use self::namespaces::Namespaces;
use super::DIALECT;
use crate::{
    Dialect, UpstreamRequest,
    conversation::{Conversation, Role},
    foreign,
    openai_fields::{self, SHARED, VERBOSITY},
    responses::upstream::Options,
    thinking,
    wire::json::Encoder,
};

/// Encodes `conversation` for an upstream that knows the model as `model`. An empty model name is left out.
pub(in crate::responses) fn encode(
    conversation: &Conversation,
    model: &str,
    options: &Options,
) -> UpstreamRequest {
    let mut dropped: Vec<String> = foreign_fields(conversation).collect();
    let no_rest = Map::new();
    let rest = conversation.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    let (instructions, turns) = match conversation.turns.split_first() {
        // A request must have input, so instructions alone are sent as input.
        Some((first, turns)) if first.role == Role::System && !turns.is_empty() => {
            (Some(first.joined_text()), turns)
        }
        _ => (None, conversation.turns.as_slice()),
    };
    let is_off = thinking::takes_none(model) && thinking::is_off(conversation, Dialect::Responses);
    if is_off {
        thinking::tell_carried(conversation, &mut dropped);
    }
    let shared: Vec<_> = openai_fields::given(conversation, Dialect::Responses, SHARED).collect();
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    body.object(|body| {
        if !model.is_empty() {
            body.key("model").string(model);
        }
        if let Some(instructions) = instructions.filter(|text| !text.is_empty()) {
            body.key("instructions").string(&instructions);
        }
        let namespaces = Namespaces::new(conversation, options);
        let context = items::Context { conversation, options, namespaces: &namespaces };
        body.key("input").array(|body| items::put(body, turns, context, &mut dropped));
        tools::put(body, conversation, rest, &namespaces);
        put_sampling(body, conversation, &mut dropped);
        put_nested(body, conversation, rest, is_off);
        for (key, value) in shared.iter().filter(|(key, _)| *key != VERBOSITY) {
            body.key(key).value(value);
        }
        put_include(body, rest, options);
        for (key, value) in rest.iter().filter(|(key, _)| !is_put(key)) {
            body.key(key).value(value);
        }
        body.key("store").value(&options.store);
        body.key("stream").value(&conversation.stream);
    });
    openai_fields::tell_carried(conversation, &shared, &mut dropped);
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

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Whether this field of `rest` is written separately, or is not meant for the upstream because toolwire
/// keeps the state itself.
fn is_put(key: &str) -> bool {
    let own = [
        "model",
        "input",
        "tools",
        "tool_choice",
        "reasoning",
        "text",
        "include",
        "store",
        "stream",
        "background",
    ];
    own.contains(&key)
}

/// The names of fields that a client of another dialect sent and that this dialect cannot express. They are
/// dropped.
fn foreign_fields(conversation: &Conversation) -> impl Iterator<Item = String> {
    let turns = &conversation.turns;
    let of_turns = foreign::turn_fields(turns, DIALECT, &["content", "tool_calls"]);
    let parts = foreign::parts(turns, DIALECT);
    let fields = conversation.rest.foreign_keys(DIALECT);
    // `max_completion_tokens` is written as `max_output_tokens`, so it is not lost.
    let fields =
        fields.filter(|key| !matches!(key.as_str(), "max_tokens" | "max_completion_tokens")).cloned();
    fields.chain(of_turns).chain(parts)
}

fn put_sampling(body: &mut Encoder, conversation: &Conversation, dropped: &mut Vec<String>) {
    /// The smallest limit that the API accepts.
    const LEAST: u64 = 16;
    let sampling = &conversation.sampling;
    if let Some(limit) = sampling.max_tokens {
        body.key("max_output_tokens").value(&limit.max(LEAST));
    }
    if let Some(temperature) = &sampling.temperature {
        body.key("temperature").value(temperature);
    }
    if let Some(top_p) = &sampling.top_p {
        body.key("top_p").value(top_p);
    }
    if !sampling.stop.is_empty() {
        dropped.push("stop".to_owned());
    }
    if sampling.seed.is_some() {
        dropped.push("seed".to_owned());
    }
}

/// Writes `reasoning` and `text`. Some of their members are settings that all APIs have. `is_off` is set if
/// the client wants no reasoning.
fn put_nested(body: &mut Encoder, conversation: &Conversation, rest: &Map<String, Value>, is_off: bool) {
    let sampling = &conversation.sampling;
    let object = |key: &str| rest.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut reasoning, mut text) = (object("reasoning"), object("text"));
    let effort = if is_off { Some("none") } else { sampling.reasoning_effort.as_deref() };
    if let Some(effort) = effort {
        reasoning.insert("effort".to_owned(), effort.into());
    }
    if let Some(format) = sampling.response_format.as_ref().and_then(flat_format) {
        text.insert("format".to_owned(), format);
    }
    if let Some((key, verbosity)) =
        openai_fields::given(conversation, Dialect::Responses, &[VERBOSITY]).next()
    {
        text.insert(key.to_owned(), verbosity.clone());
    }
    for (key, object) in [("reasoning", reasoning), ("text", text)] {
        if !object.is_empty() {
            body.key(key).value(&object);
        }
    }
}

/// Converts `response_format` of Chat Completions, which nests the schema, to this API's flat format.
fn flat_format(format: &Value) -> Option<Value> {
    let mut flat = Map::new();
    let kind = format.get("type")?.as_str()?;
    flat.insert("type".to_owned(), kind.into());
    match (kind, format.get("json_schema").and_then(Value::as_object)) {
        ("text", _) => return None,
        (_, Some(schema)) => {
            flat.extend(schema.iter().map(|(key, value)| (key.clone(), value.clone())));
            flat.entry("name").or_insert_with(|| "response".into());
        }
        (_, None) => return Some(format.clone()),
    }
    Some(flat.into())
}

fn put_include(body: &mut Encoder, rest: &Map<String, Value>, options: &Options) {
    const REASONING: &str = "reasoning.encrypted_content";
    let mut include: Vec<Value> = rest.get("include").and_then(Value::as_array).cloned().unwrap_or_default();
    if options.include_reasoning && !include.iter().any(|known| known == REASONING) {
        include.push(REASONING.into());
    }
    if !include.is_empty() {
        body.key("include").value(&include);
    }
}
