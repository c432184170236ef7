//! Encodes a [`Conversation`] as the body of a request to `/api/chat` (docs/protocols/ollama.md#request).

use serde_json::{Map, Value, json};

use super::{
    Options, Think,
    decode::{OPTION, SHARED},
};
use crate::{
    Dialect, UpstreamRequest,
    conversation::{
        Arguments, Call, CallsById, Constraint, Conversation, Part, Prefill, Role, Tool, Turn,
        media_behind_results, results_in_call_order,
    },
    media::data_url,
    schemas::response_schema,
    thinking,
    wire::json::Encoder,
};

/// Ollama's own fields, which clients of OpenAI's API may also send.
const OWN: [&str; 3] = ["think", "keep_alive", "options"];

const HANDLED: [&str; 7] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "parallel_tool_calls",
    "max_completion_tokens",
];

/// The dialect whose fields are translated where an equivalent exists.
const CHAT: &str = Dialect::Chat.name();

const OLLAMA: &str = Dialect::Ollama.name();

/// Initial capacity in bytes, enough for a small request.
const ROOM: usize = 1 << 10;

/// Encodes the request for an upstream that knows the model as `model`.
pub(super) fn encode(conversation: &Conversation, model: &str, settings: &Options) -> UpstreamRequest {
    let mut dropped = Vec::new();
    let arranged = settings.system_messages.arranged(&conversation.turns, model, true);
    let media = media_behind_results(&arranged);
    let turns = results_in_call_order(&media);
    let no_rest = Map::new();
    let own = conversation.rest.from_dialect(OLLAMA);
    let rest = own.or_else(|| conversation.rest.from_dialect(CHAT)).unwrap_or(&no_rest);
    let prefill = match &conversation.constraint {
        Some(Constraint::Prefill(text)) => Some(Prefill { text: text.clone(), is_repeated: false }),
        _ => None,
    };
    let mut body = Encoder::with_capacity(ROOM + conversation.size());
    body.object(|body| {
        if !model.is_empty() {
            body.key("model").string(model);
        }
        body.key("messages").array(|body| {
            let mut calls = CallsById::default();
            for turn in turns.iter() {
                calls.add(turn);
                put_turn(body, turn, &calls, &mut dropped);
            }
            if let Some(prefill) = &prefill {
                put_text(body, "assistant", &prefill.text);
            }
        });
        put_tools(body, conversation);
        put_format(body, conversation, &mut dropped);
        put_think(body, conversation, rest, model, settings);
        put_options(body, conversation, rest, settings);
        let keep_alive = rest.get("keep_alive").cloned();
        if let Some(keep_alive) = keep_alive.or_else(|| settings.keep_alive.as_deref().map(number_or_text)) {
            body.key("keep_alive").value(&keep_alive);
        }
        body.key("stream").value(&conversation.stream);
    });
    dropped.extend(inexpressible(conversation, rest));
    thinking::tell_carried(conversation, &mut dropped);
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

/// Writes a turn as messages: one for each result, and one for the remaining parts.
fn put_turn(body: &mut Encoder, turn: &Turn, calls: &CallsById<'_>, dropped: &mut Vec<String>) {
    let mut has_more = turn.parts.is_empty();
    for part in &turn.parts {
        let Part::Result(output) = part else {
            has_more = true;
            continue;
        };
        body.object(|body| {
            body.key("role").string("tool");
            body.key("content").string(&output.content);
            let tool = calls.tool_of(output);
            if !tool.is_empty() {
                body.key("tool_name").string(tool);
            }
        });
    }
    if has_more {
        put_message(body, turn, dropped);
    }
}

fn put_message(body: &mut Encoder, turn: &Turn, dropped: &mut Vec<String>) {
    let role = match turn.role {
        Role::System | Role::Developer => "system",
        // A result that was rewritten as text becomes a user message.
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    };
    let (mut thinking, mut images, mut calls) = (String::new(), Vec::new(), Vec::new());
    for part in &turn.parts {
        match part {
            Part::Text(_) | Part::Result(_) => {}
            Part::Call(call) => calls.push(call),
            Part::Reasoning { text, signature, .. } => {
                thinking.push_str(text);
                if signature.is_some() {
                    dropped.push("messages[].reasoning.signature".to_owned());
                }
            }
            Part::Image { url, .. } => match data_url(url) {
                Some((_, data)) => images.push(data),
                // The server does not load images from URLs.
                None => dropped.push("messages[].content[].image_url".to_owned()),
            },
            Part::Other(_) => dropped.push("messages[].content[]".to_owned()),
        }
    }
    let foreign = turn.rest.foreign_keys(CHAT).filter(|_| turn.rest.from_dialect(OLLAMA).is_none());
    dropped.extend(foreign.map(|key| format!("messages[].{key}")));
    body.object(|body| {
        body.key("role").string(role);
        body.key("content").string(&turn.joined_text());
        if !thinking.is_empty() {
            body.key("thinking").string(&thinking);
        }
        if !images.is_empty() {
            body.key("images").array(|body| images.iter().for_each(|data| body.string(data)));
        }
        if !calls.is_empty() {
            body.key("tool_calls").array(|body| calls.iter().for_each(|call| put_call(body, call)));
        }
        for (key, value) in turn.rest.from_dialect(OLLAMA).into_iter().flatten() {
            body.key(key).value(value);
        }
    });
}

fn put_text(body: &mut Encoder, role: &str, text: &str) {
    body.object(|body| {
        body.key("role").string(role);
        body.key("content").string(text);
    });
}

fn put_call(body: &mut Encoder, call: &Call) {
    body.object(|body| {
        body.key("function").object(|body| {
            body.key("name").string(&call.name);
            Arguments::of(&call.arguments).put(body.key("arguments"), "arguments");
        });
    });
}

/// Writes the tools that may be called. The API has no `tool_choice`, so all other tools are left out.
fn put_tools(body: &mut Encoder, conversation: &Conversation) {
    let mut tools = conversation.callable_tools().peekable();
    if tools.peek().is_some() {
        body.key("tools").array(|body| tools.for_each(|tool| declaration(body, tool)));
    }
}

fn declaration(body: &mut Encoder, tool: &Tool) {
    body.object(|body| {
        body.key("type").string("function");
        body.key("function").object(|body| {
            body.key("name").string(&tool.name);
            if !tool.description.is_empty() {
                body.key("description").string(&tool.description);
            }
            match &tool.parameters {
                Some(parameters) => body.key("parameters").raw(parameters.view()),
                None => body.key("parameters").value(&json!({"type": "object", "properties": {}})),
            }
        });
    });
}

/// Writes `format`, which is `"json"` or a schema.
fn put_format(body: &mut Encoder, conversation: &Conversation, dropped: &mut Vec<String>) {
    if let Some(Constraint::Schema(schema)) = &conversation.constraint {
        return body.key("format").value(schema);
    }
    let Some(format) = &conversation.sampling.response_format else { return };
    match (format.get("type").and_then(Value::as_str), response_schema(format)) {
        (Some("json_schema" | "json_object"), Some(schema)) => body.key("format").value(&schema),
        (Some("json_object" | "json_schema"), _) => body.key("format").string("json"),
        (Some("text"), _) => {}
        _ => dropped.push("response_format".to_owned()),
    }
}

/// Writes `think`: the client's own value, or one that fits the requested effort and the model.
fn put_think(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    model: &str,
    settings: &Options,
) {
    if let Some(own) = rest.get("think") {
        return body.key("think").value(own);
    }
    let is_off = thinking::is_off(conversation, Dialect::Ollama);
    let effort = if is_off { Some("none") } else { conversation.sampling.reasoning_effort.as_deref() };
    let Some(effort) = effort else { return };
    let effort = effort.to_ascii_lowercase();
    let level = match effort.as_str() {
        "minimal" | "low" => "low",
        "medium" => "medium",
        _ => "high",
    };
    match settings.think.for_model(model) {
        Think::Off => {}
        _ if effort == "none" => body.key("think").value(&false),
        Think::Level => body.key("think").string(level),
        Think::Auto | Think::Switch => body.key("think").value(&true),
    }
}

/// Writes `options`: sampling settings and limits. The client's values take precedence over the configured
/// ones.
fn put_options(
    body: &mut Encoder,
    conversation: &Conversation,
    rest: &Map<String, Value>,
    settings: &Options,
) {
    let sampling = &conversation.sampling;
    let mut options = Map::new();
    let mut put = |key: &str, value: Value| options.insert(key.to_owned(), value);
    let newer = rest.get("max_completion_tokens").and_then(Value::as_u64);
    newer.or(sampling.max_tokens).map(|limit| put("num_predict", limit.into()));
    sampling.temperature.clone().map(|temperature| put("temperature", Value::Number(temperature)));
    sampling.top_p.clone().map(|top_p| put("top_p", Value::Number(top_p)));
    sampling.seed.clone().map(|seed| put("seed", Value::Number(seed)));
    if !sampling.stop.is_empty() {
        put("stop", sampling.stop.clone().into());
    }
    let all = conversation.rest.fields().into_iter().flatten();
    for (key, value) in all.filter(|(key, _)| SHARED.contains(&key.as_str())) {
        put(key, value.clone());
    }
    for (key, value) in rest.iter().filter_map(|(key, value)| Some((key.strip_prefix(OPTION)?, value))) {
        put(key, value.clone());
    }
    for (key, value) in rest.get("options").and_then(Value::as_object).into_iter().flatten() {
        put(key, value.clone());
    }
    for (key, value) in settings.options() {
        options.entry(key).or_insert_with(|| number_or_text(value));
    }
    if !options.is_empty() {
        body.key("options").value(&options);
    }
}

/// Parses a number, `true` or `false`. Any other text is a string.
fn number_or_text(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => text.into(),
    }
}

fn inexpressible(conversation: &Conversation, rest: &Map<String, Value>) -> Vec<String> {
    let has_tools = !conversation.tools.is_empty();
    let known = [
        ("tool_choice", conversation.tool_choice.requires_call()),
        ("parallel_tool_calls", !conversation.parallel_calls && has_tools),
        ("tools[].function.strict", conversation.tools.iter().any(|tool| tool.strict == Some(true))),
    ];
    let known = known.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned());
    let is_sent = |key: &&String| {
        let key = key.as_str();
        HANDLED.contains(&key) || SHARED.contains(&key) || OWN.contains(&key) || key.starts_with(OPTION)
    };
    let fields = rest.keys().filter(|key| !is_sent(key)).cloned();
    let is_foreign = conversation.rest.from_dialect(OLLAMA).is_none();
    let foreign = conversation.rest.foreign_keys(CHAT).filter(|_| is_foreign);
    let foreign = foreign.filter(|key| !SHARED.contains(&key.as_str())).cloned();
    known.chain(fields).chain(foreign).collect()
}

pub(super) fn option(text: &str) -> Option<(String, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_owned(), value.trim()))
}
