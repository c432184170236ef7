//! Decodes a client's request body into a [`Conversation`] and encodes conversations for upstreams
//! ([`encode`]).
//!
//! Each tool result becomes a turn of its own, so a user message may become several turns:
//!
//! ```text
//! user [tool_result, tool_result, text]  ─▶  Tool [result], Tool [result], User [text]
//! ```

mod blocks;
mod built_in;
mod encode;
mod own;
mod tools;

pub(super) use encode::encode;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    Dialect,
    conversation::{
        Compaction, CompactionForm, Conversation, Deferral, Part, Rest, Role, Sampling, Tool, Turn,
    },
    failure::{Failure, Kind},
    fields::{self, Fields, Path, missing, wrong_type, wrong_value},
    wire::json::{Json, Kind as JsonKind},
};
use blocks::Blocks;

/// Decodes a Messages request without checking the tool choice.
///
/// # Errors
/// [`Kind::Request`] with the path of the field in `param`, and a message that helps to correct the request.
pub(super) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_body(body, conversation)
}

fn conversation(mut fields: Fields<'_, '_>) -> Result<Conversation, Failure> {
    let mut turns = system(&mut fields)?;
    let (history, late) = messages(&mut fields)?;
    turns.extend(history);
    let mut toolbox = tools::take(&mut fields)?;
    let late_tools = toolbox.add_late(late);
    let sampling = sampling(&mut fields)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let stored = fields.boolean(HELD)?.unwrap_or(false);
    let compaction = compaction(&fields)?;
    Ok(Conversation {
        model: without_context(&fields.string("model")?.unwrap_or_default()).to_owned(),
        turns,
        tools: toolbox.tools,
        namespaced: toolbox.namespaced,
        late_tools,
        server_tools: toolbox.server,
        deferral: Deferral { deferred: toolbox.deferred, ..Deferral::default() },
        tool_choice: toolbox.choice,
        parallel_calls: toolbox.parallel,
        stream,
        // Every response in this API has token counts.
        include_usage: true,
        sampling,
        stored,
        compaction,
        rest: Rest::new(Dialect::Messages.name(), fields.into_rest()),
        ..Conversation::default()
    })
}

/// The model's name without the suffix by which Claude Code asks for the long context. The feature itself is in
/// `anthropic-beta`.
fn without_context(model: &str) -> &str {
    model.strip_suffix("[1m]").filter(|model| !model.is_empty()).unwrap_or(model)
}

/// The compaction that `compaction` asks for. The field stays, for upstreams of this dialect.
fn compaction(fields: &Fields<'_, '_>) -> Result<Option<Compaction>, Failure> {
    let Some(compaction) = fields.peek("compaction") else { return Ok(None) };
    let path = fields.at("compaction");
    if compaction.kind() != JsonKind::Object {
        return Err(wrong_type(path, "an object", compaction));
    }
    let question = compaction.get("instructions").and_then(|question| question.as_str());
    let question = question.filter(|question| !question.trim().is_empty()).map(Into::into);
    Ok(Some(Compaction { form: CompactionForm::Content, question }))
}

/// Replaces `thread` once the history has been added to `messages`. A request that still has `thread` is not
/// held by toolwire.
pub(super) const HELD: &str = "toolwire_thread";

/// Reads `system`, which is a string or a list of text blocks.
fn system(fields: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    let Some(system) = fields.any("system") else { return Ok(Vec::new()) };
    let blocks = Blocks::read(fields.at("system"), system)?;
    if let Some(place) = blocks.parts.iter().position(|part| !matches!(part, Part::Text(_))) {
        let path = fields.at("system");
        return Err(wrong_value(
            Path::Element(&path, place),
            "is not a text block; `system` accepts only text",
        ));
    }
    Ok(Vec::from_iter((!blocks.parts.is_empty()).then(|| blocks.into_turn(Role::System, Map::new()))))
}

/// Reads the turns, and the tools that system messages between them add.
fn messages(fields: &mut Fields<'_, '_>) -> Result<(Vec<Turn>, Vec<Tool>), Failure> {
    let messages = fields.list("messages")?;
    let path = fields.at("messages");
    let (mut turns, mut late) = (Vec::new(), Vec::new());
    for (place, message) in messages.enumerate() {
        message_turns(Fields::new(Path::Element(&path, place), message)?, &mut turns, &mut late)?;
    }
    if turns.is_empty() {
        let message = "`messages` is missing or empty; it must be an array of at least one message";
        return Err(Failure::new(Kind::Request, message).with_param("messages"));
    }
    Ok((turns, late))
}

/// Reads the turns of one message. Tools that it adds are appended to `late`.
fn message_turns(
    mut message: Fields<'_, '_>,
    turns: &mut Vec<Turn>,
    late: &mut Vec<Tool>,
) -> Result<(), Failure> {
    let role = message.needed_string("role")?;
    let role = match &*role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // Claude Code sends system messages between other messages (docs/protocols/messages.md#requests).
        "system" => Role::System,
        other => {
            let why = format_args!("is `{other}`; known are `user`, `assistant` and `system`");
            return Err(wrong_value(message.at("role"), why));
        }
    };
    let Some(content) = message.any("content") else {
        return Err(missing(message.at("content"), "a string or an array of content blocks"));
    };
    let blocks = Blocks::read(message.at("content"), content)?;
    if role == Role::System {
        late.extend(tools::added(message.at("content"), content)?);
        turns.push(blocks.into_turn(role, message.into_rest()));
    } else {
        blocks.into_turns(role, message.into_rest(), turns);
    }
    Ok(())
}

fn sampling(fields: &mut Fields<'_, '_>) -> Result<Sampling, Failure> {
    // The API requires this field, except in requests that only count tokens.
    let max_tokens = fields.count("max_tokens")?;
    if max_tokens == Some(0) {
        return Err(wrong_value(fields.at("max_tokens"), "is 0; it must be at least 1"));
    }
    let (reasoning_effort, response_format) = output_config(fields)?;
    Ok(Sampling {
        max_tokens,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: stop_sequences(fields)?,
        reasoning_effort,
        response_format,
        seed: None,
    })
}

fn stop_sequences(fields: &mut Fields<'_, '_>) -> Result<Vec<String>, Failure> {
    let sequences = fields.list("stop_sequences")?;
    let path = fields.at("stop_sequences");
    let text = |(place, value): (usize, Json<'_>)| match value.as_str() {
        Some(text) => Ok(text.into_owned()),
        None => Err(wrong_type(Path::Element(&path, place), "a string", value)),
    };
    sequences.enumerate().map(text).collect()
}

/// Reads `output_config`: the effort, and the format, which is converted to OpenAI's. Its other members stay
/// unchanged.
fn output_config(fields: &mut Fields<'_, '_>) -> Result<(Option<String>, Option<Value>), Failure> {
    let Some(mut config) = fields.object("output_config")? else { return Ok((None, None)) };
    let effort = config.string("effort")?.map(Into::into);
    let format = match config.any("format") {
        Some(format) if format.kind() == JsonKind::Object => response_format(format),
        Some(format) => return Err(wrong_type(config.at("format"), "an object", format)),
        None => None,
    };
    let rest = config.into_rest();
    if !rest.is_empty() {
        fields.keep("output_config", rest);
    }
    Ok((effort, format))
}

fn response_format(format: Json<'_>) -> Option<Value> {
    let schema = format.get("schema")?.to_value();
    Some(json!({
        "type": "json_schema",
        "json_schema": {"name": "response", "schema": schema, "strict": true},
    }))
}
