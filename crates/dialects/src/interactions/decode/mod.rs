//! Decodes a client's request into a [`Conversation`].

mod content;
mod steps;
mod tools;

pub(super) use content::is_content;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{CONTINUED, DIALECT, PREVIOUS, history::unknown_interaction};
use crate::{
    conversation::{Conversation, Rest, Role, Sampling, Text, ToolChoice, Turn},
    failure::Failure,
    fields::{self, Fields, wrong_type, wrong_value},
    wire::json::{Json, Kind},
};

/// What precedes the names of members of `generation_config` in the fields that are kept.
pub(super) const CONFIG_MEMBER: &str = "generation_config.";

/// A field that the response repeats: whether thoughts are left out.
pub(super) const NO_THOUGHTS: &str = "no_thoughts";

/// Decodes a request without checking the tool choice.
pub(super) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_body(body, conversation)
}

fn conversation(mut fields: Fields<'_, '_>) -> Result<Conversation, Failure> {
    refuse_unsupported(&fields)?;
    if let Some(id) = fields.string(PREVIOUS)?.filter(|id| !id.is_empty()) {
        return Err(unknown_interaction(&id));
    }
    let mut repeated = Map::new();
    if let Some(id) = fields.any(CONTINUED) {
        repeated.insert(PREVIOUS.to_owned(), id.to_value());
    }
    let mut turns = Vec::from_iter(instructions(&mut fields)?);
    turns.extend(steps::take(&mut fields)?);
    let toolbox = tools::take(&mut fields)?;
    let mut config = config(&mut fields)?;
    config.sampling.response_format = response_format(&mut fields)?;
    if !config.has_thoughts {
        repeated.insert(NO_THOUGHTS.to_owned(), true.into());
    }
    let model = fields.string("model")?.unwrap_or_default();
    Ok(Conversation {
        model: model.strip_prefix("models/").unwrap_or(&model).to_owned(),
        turns,
        tools: toolbox.tools,
        server_tools: toolbox.server,
        tool_choice: config.choice,
        parallel_calls: true,
        stream: fields.boolean("stream")?.unwrap_or(false),
        // Every response in this API has token counts.
        include_usage: true,
        sampling: config.sampling,
        stored: fields.boolean("store")?.unwrap_or(true),
        repeated: Rest::new(DIALECT, repeated),
        rest: Rest::new(DIALECT, fields.into_rest()),
        ..Conversation::default()
    })
}

/// Whether a member with this value relies on Google's servers.
type Relies = fn(Json<'_>) -> bool;

/// Rejects what only Google's servers have. Ignoring it would change what the model sees or what the client gets.
fn refuse_unsupported(fields: &Fields<'_, '_>) -> Result<(), Failure> {
    let is_set = |value: Json<'_>| value.as_bool() == Some(true);
    let is_media = |value: Json<'_>| {
        value.elements().any(|kind| kind.as_str().is_none_or(|kind| !kind.eq_ignore_ascii_case("text")))
    };
    let why: [(&str, Relies, &str); 6] = [
        ("agent", |_| true, "is not supported: agents run on Google's servers; name a `model`"),
        ("background", is_set, "is not supported; leave it out, or use `stream`"),
        (
            "cached_content",
            |_| true,
            "is not supported: the contents are on Google's servers; send them as `input`",
        ),
        ("continuation_token", |_| true, "is not supported: toolwire's interactions are not interrupted"),
        ("environment", |_| true, "is not supported: environments are on Google's servers"),
        ("response_modalities", is_media, "asks for more than text, which cannot be given; leave it out"),
    ];
    match why.into_iter().find(|(key, relies, _)| fields.peek(key).is_some_and(relies)) {
        Some((key, _, why)) => Err(wrong_value(fields.at(key), why).with_code("unsupported_parameter")),
        None => Ok(()),
    }
}

/// Reads `system_instruction`, a text.
fn instructions(fields: &mut Fields<'_, '_>) -> Result<Option<Turn>, Failure> {
    let Some(given) = fields.any("system_instruction") else { return Ok(None) };
    let text = Text::received(given)
        .ok_or_else(|| wrong_type(fields.at("system_instruction"), "a string", given))?;
    Ok((!text.is_empty()).then(|| Turn::text(Role::System, text)))
}

struct Config {
    sampling: Sampling,
    choice: ToolChoice,
    has_thoughts: bool,
}

/// Takes `generation_config`. What it says besides stays for the list of what is left out.
fn config(fields: &mut Fields<'_, '_>) -> Result<Config, Failure> {
    let none = Config { sampling: Sampling::default(), choice: ToolChoice::Auto, has_thoughts: true };
    let Some(mut config) = fields.object("generation_config")? else { return Ok(none) };
    let sampling = Sampling {
        max_tokens: config.count("max_output_tokens")?,
        temperature: config.number("temperature")?,
        top_p: config.number("top_p")?,
        stop: config.texts("stop_sequences")?,
        seed: config.number("seed")?,
        reasoning_effort: config.string("thinking_level")?.map(Cow::into_owned),
        response_format: None,
    };
    let has_thoughts = config.string("thinking_summaries")?.is_none_or(|summaries| summaries != "none");
    let choice = tools::choice(&mut config)?;
    for (key, value) in config.into_rest() {
        fields.keep(&format!("{CONFIG_MEMBER}{key}"), value);
    }
    Ok(Config { sampling, choice, has_thoughts })
}

/// Reads `response_format`, which is a format, a list of one, or a schema, as OpenAI's.
fn response_format(fields: &mut Fields<'_, '_>) -> Result<Option<Value>, Failure> {
    let is_json = fields.string("response_mime_type")?.is_some_and(|mime| mime == "application/json");
    let Some(given) = fields.any("response_format") else {
        return Ok(is_json.then(|| json!({"type": "json_object"})));
    };
    let path = fields.at("response_format");
    let mut all: Vec<_> = if given.kind() == Kind::Array { given.elements().collect() } else { vec![given] };
    let (Some(format), true) = (all.pop(), all.is_empty()) else {
        return Err(wrong_value(path, "must be one format; several cannot be given"));
    };
    if format.kind() != Kind::Object {
        return Err(wrong_type(path, "an object", format));
    }
    let schema =
        |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "response", "schema": schema}});
    let mime = format.get("mime_type").and_then(|mime| mime.as_str());
    match format.get("type").and_then(|kind| kind.as_str()).as_deref() {
        Some("text") if mime.as_deref() == Some("text/plain") => Ok(None),
        Some("text") => Ok(match format.get("schema").filter(|schema| !schema.is_null()) {
            Some(given) => Some(schema(given.to_value())),
            None => mime.map(|_| json!({"type": "json_object"})),
        }),
        Some("audio" | "image" | "video") => {
            Err(wrong_value(path, "asks for more than text, which cannot be given; leave it out"))
        }
        _ => Ok(Some(schema(format.to_value()))),
    }
}
