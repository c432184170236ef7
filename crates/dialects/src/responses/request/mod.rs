//! Decodes a client's request body into a [`Conversation`] and encodes conversations for upstreams
//! ([`encode`]).
//!
//! `input` is a flat list of items. Consecutive items that belong together form a turn:
//!
//! ```text
//! reasoning, message, function_call, function_call  ─▶  Assistant [reasoning, text, call, call]
//! function_call_output, function_call_output        ─▶  Tool [result], Tool [result]
//! ```

mod approvals;
mod content;
mod encode;
mod items;
mod own;
mod tools;

pub(super) use encode::encode;
pub(super) use items::{clip, unknown_item};
pub(super) use tools::flat_names;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    Dialect,
    conversation::{
        COMPACTION_TRIGGER, Compaction, CompactionForm, Conversation, Deferral, Part, Rest, Role, Sampling,
        Turn,
    },
    failure::{Failure, Kind},
    fields::{self, Fields, Path, missing, wrong_type, wrong_value},
    wire::json::{Json, Kind as JsonKind},
};

/// The dialect under which received values are stored.
const DIALECT: &str = Dialect::Responses.name();

/// Decodes a Responses request without checking the tool choice.
///
/// # Errors
/// [`Kind::Request`] with the path of the field in `param`, and a message that helps to correct the request.
pub(super) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_body(body, conversation)
}

fn conversation(mut fields: Fields<'_, '_>) -> Result<Conversation, Failure> {
    refuse_unsupported(&fields)?;
    if let Some(id) = fields.string(PREVIOUS)? {
        return Err(unknown_response(&id));
    }
    let mut repeated = repeated(&mut fields);
    let mut toolbox = tools::take(&mut fields)?;
    let mut turns = Vec::from_iter(instructions(&mut fields)?);
    let input = fields.peek("input");
    let (history, late, mcp) = items::take(&mut fields, &toolbox)?;
    let compaction = compaction(&history);
    match compaction.as_ref().map(|compaction| compaction.form) {
        Some(_) if history.len() == 1 => return Err(no_input(&fields)),
        Some(CompactionForm::Resource) => _ = repeated.insert(USERS.to_owned(), users(input)),
        _ => {}
    }
    turns.extend(history);
    let late_tools = toolbox.add_late(fields.at("input"), &late)?;
    let sampling = sampling(&mut fields)?;
    let stored = fields.boolean("store")?.unwrap_or(true);
    let stream = fields.boolean("stream")?.unwrap_or(false);
    Ok(Conversation {
        model: fields.string("model")?.unwrap_or_default().into_owned(),
        turns,
        tools: toolbox.tools,
        late_tools,
        custom_tools: toolbox.custom,
        namespaced: toolbox.namespaced,
        built_in: toolbox.built_in,
        server_tools: toolbox.server,
        server_choice: toolbox.server_choice,
        mcp,
        deferral: Deferral { deferred: toolbox.deferred, ..Deferral::default() },
        tool_choice: toolbox.choice,
        parallel_calls: toolbox.parallel,
        stream,
        // Every response in this API has token counts.
        include_usage: true,
        sampling,
        stored,
        compaction,
        repeated: Rest::new(DIALECT, repeated),
        rest: Rest::new(DIALECT, fields.into_rest()),
        ..Conversation::default()
    })
}

/// Rejects fields that refer to state that toolwire does not have. Ignoring them would lose part of the
/// history or of the prompt.
fn refuse_unsupported(fields: &Fields<'_, '_>) -> Result<(), Failure> {
    let why = match () {
        () if fields.peek("conversation").is_some() => {
            Some(("conversation", "is not supported; use `previous_response_id`, or send the whole `input`"))
        }
        () if fields.peek("prompt").is_some() => {
            Some(("prompt", "is not supported; send the prompt as `instructions` and `input`"))
        }
        () if fields.peek("background").and_then(|value| value.as_bool()) == Some(true) => {
            Some(("background", "is not supported; leave it out, or use `stream`"))
        }
        () => None,
    };
    match why {
        Some((key, why)) => Err(wrong_value(fields.at(key), why).with_code("unsupported_parameter")),
        None => Ok(()),
    }
}

/// The compaction for which the last item asks.
fn compaction(turns: &[Turn]) -> Option<Compaction> {
    let [Part::Other(item)] = turns.last()?.parts.as_slice() else { return None };
    let (_, item) = item.parts();
    let is_trigger = item.get("type").is_some_and(|kind| kind == COMPACTION_TRIGGER);
    let is_resource = item.get(RESOURCE).is_some_and(|flag| flag == true);
    let form = if is_resource { CompactionForm::Resource } else { CompactionForm::Content };
    is_trigger.then(|| Compaction::new(form))
}

/// Marks a trigger of a compaction that is to become a resource of its own.
pub(super) const RESOURCE: &str = "toolwire_resource";

/// The key under which the user's messages are repeated in such a resource.
pub(super) const USERS: &str = "input";

/// The user's messages in an input, as items of a response.
fn users(input: Option<Json<'_>>) -> Value {
    let message = |content: Value| json!({"type": "message", "role": "user", "status": "completed", "content": content});
    let text = |text: &str| json!([{"type": "input_text", "text": text}]);
    let Some(input) = input else { return Value::Array(Vec::new()) };
    if let Some(only) = input.as_str() {
        return json!([message(text(&only))]);
    }
    let items = input.elements().map(|item| item.to_value());
    let items = items.filter(|item| item.get("role").is_some_and(|role| role == "user"));
    let items = items.filter_map(|mut item| match item.get_mut("content")?.take() {
        Value::String(content) => Some(message(text(&content))),
        content => Some(message(content)),
    });
    items.collect()
}

/// The fields that a response repeats (docs/protocols/responses.md#response).
const REPEATED: [&str; 17] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

fn repeated(fields: &mut Fields<'_, '_>) -> Map<String, Value> {
    let value = |key: &&str| Some(((*key).to_owned(), fields.peek(key)?.to_value()));
    let mut repeated: Map<_, _> = REPEATED.iter().filter_map(value).collect();
    for tool in repeated.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        without_secrets(tool);
    }
    if let Some(id) = fields.any(CONTINUED) {
        repeated.insert(PREVIOUS.to_owned(), id.to_value());
    }
    repeated
}

/// Removes what the client sends to an MCP server. The API does not repeat it either.
fn without_secrets(tool: &mut Value) {
    if let Some(tool) = tool.as_object_mut().filter(|tool| tool.get("type").is_some_and(|kind| kind == "mcp"))
    {
        tool.retain(|key, _| !matches!(key.as_str(), "authorization" | "headers"));
    }
}

pub(super) const PREVIOUS: &str = "previous_response_id";

/// Replaces [`PREVIOUS`] once the history has been added to `input`. A request that still has [`PREVIOUS`]
/// lacks its history and is rejected.
pub(super) const CONTINUED: &str = "toolwire_previous_response_id";

/// The failure for a request that continues a response which is not stored, and would therefore lose its
/// history.
pub(super) fn unknown_response(id: &str) -> Failure {
    let id = items::clip(id);
    let message = format!("there is no stored response `{id}`; send the whole conversation as `input`");
    Failure::new(Kind::NotFound, message).with_param(PREVIOUS).with_code("previous_response_not_found")
}

/// Reads `instructions`, which is a string or a list of items as in `input`.
fn instructions(fields: &mut Fields<'_, '_>) -> Result<Option<Turn>, Failure> {
    let Some(value) = fields.any("instructions") else { return Ok(None) };
    let text = match (value.as_str(), value.kind()) {
        (Some(text), _) => text.into_owned(),
        (None, JsonKind::Array) => {
            let path = fields.at("instructions");
            let mut texts = Vec::new();
            for (place, item) in value.elements().enumerate() {
                texts.extend(instruction(Path::Element(&path, place), item)?);
            }
            texts.join("\n")
        }
        (None, _) => return Err(wrong_type(fields.at("instructions"), "a string", value)),
    };
    Ok((!text.is_empty()).then(|| Turn::text(Role::System, text)))
}

/// Reads the text of one item of `instructions`. Upstreams receive it as part of a single string.
fn instruction(path: Path<'_>, item: Json<'_>) -> Result<Vec<String>, Failure> {
    let Some(content) = item.get("content") else {
        return Err(missing(Path::Member(&path, "content"), "a string or an array of content parts"));
    };
    let path = Path::Member(&path, "content");
    let parts = content::read(path, content)?.parts.into_iter().enumerate();
    let text = |(place, part)| match part {
        Part::Text(text) => Ok(String::from(text)),
        _ => Err(wrong_value(Path::Element(&path, place), "is no text; `instructions` take text only")),
    };
    parts.map(text).collect()
}

fn sampling(fields: &mut Fields<'_, '_>) -> Result<Sampling, Failure> {
    let max_tokens = fields.count("max_output_tokens")?;
    if max_tokens == Some(0) {
        return Err(wrong_value(fields.at("max_output_tokens"), "is 0; it must be at least 1"));
    }
    Ok(Sampling {
        max_tokens,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        // The API has no such field, but clients send it to servers that have it.
        stop: fields.texts("stop")?,
        reasoning_effort: reasoning(fields)?,
        response_format: text(fields)?,
        seed: fields.number("seed")?,
    })
}

/// Reads `reasoning.effort`. The other members stay unchanged.
fn reasoning(fields: &mut Fields<'_, '_>) -> Result<Option<String>, Failure> {
    let Some(mut reasoning) = fields.object("reasoning")? else { return Ok(None) };
    let effort = reasoning.string("effort")?.map(Into::into);
    let rest = reasoning.into_rest();
    if !rest.is_empty() {
        fields.keep("reasoning", rest);
    }
    Ok(effort)
}

/// Reads `text.format`, and converts it to `response_format` of Chat Completions. The other members stay
/// unchanged.
fn text(fields: &mut Fields<'_, '_>) -> Result<Option<Value>, Failure> {
    let Some(mut text) = fields.object("text")? else { return Ok(None) };
    let format = match text.any("format") {
        Some(format) if format.kind() == JsonKind::Object => response_format(&text, format)?,
        Some(format) => return Err(wrong_type(text.at("format"), "an object", format)),
        None => None,
    };
    let rest = text.into_rest();
    if !rest.is_empty() {
        fields.keep("text", rest);
    }
    Ok(format)
}

fn response_format(text: &Fields<'_, '_>, format: Json<'_>) -> Result<Option<Value>, Failure> {
    let kind = format.get("type").and_then(|kind| kind.as_str());
    let mut members = Map::new();
    match kind.as_deref() {
        Some("text") => return Ok(None),
        Some("json_schema") => {
            if format.get("schema").is_none() {
                return Err(missing(text.at("format"), "an object with `name` and `schema`"));
            }
            let others = format.members().filter(|(key, _)| key != "type");
            let schema = others.map(|(key, value)| (key.into_owned(), value.to_value()));
            members.insert("type".to_owned(), "json_schema".into());
            members.insert("json_schema".to_owned(), schema.collect::<Map<_, _>>().into());
        }
        _ => members.extend(format.members().map(|(key, value)| (key.into_owned(), value.to_value()))),
    }
    Ok(Some(members.into()))
}

fn no_input(fields: &Fields<'_, '_>) -> Failure {
    let message = "`input` is missing or empty; it must be a string, or an array of at least one item";
    Failure::new(Kind::Request, message)
        .with_param(fields.at("input").to_string())
        .with_code("missing_required_parameter")
}
