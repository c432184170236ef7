//! Decodes a client's request to `/api/chat` or `/api/generate` into a [`Conversation`]
//! (docs/protocols/ollama.md#clients).
//!
//! Options that have no place in a conversation become fields: those that other APIs also have under their own
//! names, and all others as `options.NAME`, so that each is reported by name where it is not sent.

mod messages;
mod options;
mod tools;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    Dialect,
    conversation::{Conversation, Rest, Role, Sampling, Turn},
    endpoint::PATH_MEMBER,
    failure::Failure,
    fields::{self, Fields, wrong_type, wrong_value},
    wire::json::Kind as JsonKind,
};

pub(super) use options::{OPTION, SHARED};

/// Whether the request has a prompt instead of messages: a member of what the path says, and a field that the
/// response repeats.
pub(super) const IS_PROMPT: &str = "generate";

/// Decodes a request without checking the tool choice.
pub(super) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_body(body, conversation)
}

/// The model that a request to `/api/show` names.
pub(super) fn model(body: &Bytes) -> Result<String, Failure> {
    fields::read_body(body, |mut fields| {
        // Older clients write `name`.
        let older = fields.string("name")?;
        let name = fields.string("model")?.or(older).unwrap_or_default();
        match name.is_empty() {
            true => Err(fields::missing(fields.at("model"), "a model's name")),
            false => Ok(name.into_owned()),
        }
    })
}

fn conversation(mut fields: Fields<'_, '_>) -> Result<Conversation, Failure> {
    let said = fields.any(PATH_MEMBER).and_then(|said| said.get(IS_PROMPT));
    let said = said.and_then(|said| said.as_bool());
    let is_prompt =
        said.unwrap_or_else(|| fields.peek("messages").is_none() && fields.peek("prompt").is_some());
    let turns = if is_prompt { prompt(&mut fields)? } else { messages::take(&mut fields)? };
    let tools = tools::take(&mut fields)?;
    let format = format(&mut fields)?;
    let effort = think(&mut fields)?;
    let sampling =
        Sampling { response_format: format, reasoning_effort: effort, ..options::take(&mut fields)? };
    let repeated = Map::from_iter(is_prompt.then(|| (IS_PROMPT.to_owned(), true.into())));
    Ok(Conversation {
        model: fields.string("model")?.unwrap_or_default().into_owned(),
        turns,
        tools,
        parallel_calls: true,
        stream: fields.boolean("stream")?.unwrap_or(true),
        // Every response in this API has token counts.
        include_usage: true,
        sampling,
        repeated: Rest::new(Dialect::Ollama.name(), repeated),
        rest: Rest::new(Dialect::Ollama.name(), fields.into_rest()),
        ..Conversation::default()
    })
}

/// Reads the fields of `/api/generate`. Without a prompt, the server only loads the model.
fn prompt(fields: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    for (key, why) in [
        ("raw", "is set; toolwire applies the model's template, so leave `raw` out"),
        ("suffix", "is set; text cannot be inserted before a suffix, so leave `suffix` out"),
        ("template", "is set; the template of a model cannot be replaced, so leave `template` out"),
    ] {
        let value = fields.any(key);
        if value.is_some_and(|value| !matches!(value.raw(), "false" | "\"\"")) {
            return Err(wrong_value(fields.at(key), why));
        }
    }
    let system = fields.string("system")?;
    let images = messages::images(fields)?;
    let prompt = fields.any("prompt").map(|prompt| messages::text(fields.at("prompt"), prompt));
    let Some(prompt) = prompt.transpose()?.filter(|prompt| !prompt.is_empty()) else { return Ok(Vec::new()) };
    let system = system.filter(|system| !system.is_empty());
    let system = system.map(|system| Turn::text(Role::System, system));
    Ok(system.into_iter().chain([messages::spoken(Role::User, images, prompt)]).collect())
}

/// Reads `format`, which is `"json"` or a schema, as OpenAI's `response_format`.
fn format(fields: &mut Fields<'_, '_>) -> Result<Option<Value>, Failure> {
    let Some(format) = fields.any("format") else { return Ok(None) };
    match (format.as_str().as_deref(), format.kind()) {
        (Some(""), _) => Ok(None),
        (Some("json"), _) => Ok(Some(json!({"type": "json_object"}))),
        (None, JsonKind::Object) => {
            let schema = format.to_value();
            Ok(Some(json!({"type": "json_schema", "json_schema": {"name": "response", "schema": schema}})))
        }
        _ => Err(wrong_type(fields.at("format"), "\"json\" or a JSON Schema object", format)),
    }
}

/// Reads `think`. A switch stays a field, since other APIs have switches of their own for it. Returns the effort
/// that a level means.
fn think(fields: &mut Fields<'_, '_>) -> Result<Option<String>, Failure> {
    let Some(think) = fields.any("think") else { return Ok(None) };
    match (think.as_bool(), think.as_str()) {
        (Some(switch), _) => {
            fields.keep("think", switch);
            Ok(None)
        }
        (None, Some(level)) if matches!(&*level, "low" | "medium" | "high") => {
            fields.keep("think", &*level);
            Ok(Some(level.into_owned()))
        }
        _ => Err(wrong_type(fields.at("think"), "true, false, \"low\", \"medium\" or \"high\"", think)),
    }
}
