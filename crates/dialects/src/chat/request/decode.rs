//! Decodes a client's request body into a [`Conversation`].
//!
//! Known fields are removed from the object and checked; all others are stored unchanged. Every error is the
//! client's fault: it gives the path of the field and describes a valid value.

mod messages;
mod own;
mod tools;

use std::borrow::Cow;

use bytes::Bytes;

use crate::{
    Dialect,
    conversation::{Conversation, Rest, Sampling},
    failure::{Failure, Kind},
    fields::{self, Fields},
    openai_fields::include_usage,
};

/// Decodes a Chat Completions request.
///
/// # Errors
/// [`Kind::Request`] with the path of the field in `param`, and a message that helps to correct the request.
pub fn decode(body: &[u8]) -> Result<Conversation, Failure> {
    let conversation = read(&Bytes::copy_from_slice(body))?;
    fields::check_choice(&conversation)?;
    Ok(conversation)
}

/// Like [`decode`], but does not check the tool choice.
pub(crate) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_body(body, conversation)
}

fn conversation(mut fields: Fields<'_, '_>) -> Result<Conversation, Failure> {
    let turns = messages::take(&mut fields)?;
    let toolbox = tools::take(&mut fields)?;
    let sampling = sampling(&mut fields)?;
    let include_usage = include_usage(&mut fields)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    Ok(Conversation {
        model: fields.string("model")?.unwrap_or_default().into_owned(),
        turns,
        tools: toolbox.tools,
        custom_tools: toolbox.custom,
        server_tools: toolbox.server,
        tool_choice: toolbox.choice,
        parallel_calls: toolbox.parallel,
        stream,
        include_usage: stream && include_usage,
        legacy_functions: toolbox.legacy,
        sampling,
        choices: choices(&fields)?,
        rest: Rest::new(Dialect::Chat.name(), fields.into_rest()),
        ..Conversation::default()
    })
}

fn sampling(fields: &mut Fields<'_, '_>) -> Result<Sampling, Failure> {
    Ok(Sampling {
        max_tokens: max_tokens(fields)?,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: fields.texts("stop")?,
        reasoning_effort: fields.string("reasoning_effort")?.map(Cow::into_owned),
        response_format: fields.any("response_format").map(|format| format.to_value()),
        seed: fields.number("seed")?,
    })
}

/// Reads `n`, which stays among the fields that are forwarded.
fn choices(fields: &Fields<'_, '_>) -> Result<Option<u64>, Failure> {
    let Some(n) = fields.peek("n") else { return Ok(None) };
    match n.as_u64() {
        Some(choices @ 1..) => Ok(Some(choices)),
        _ => {
            let n = n.to_value();
            let message = format!("`n` must be a whole number of at least 1, but it is {n}");
            Err(Failure::new(Kind::Request, message).with_param("n"))
        }
    }
}

/// Takes `max_completion_tokens`, or else the older `max_tokens`. If the newer field is given, both also stay
/// in `rest`, so that an upstream can receive the limit under the names that the client used.
fn max_tokens(fields: &mut Fields<'_, '_>) -> Result<Option<u64>, Failure> {
    let older = fields.count("max_tokens")?;
    let newer = fields.count("max_completion_tokens")?;
    if let Some(limit) = newer {
        fields.keep("max_completion_tokens", limit);
        if let Some(limit) = older {
            fields.keep("max_tokens", limit);
        }
    }
    Ok(newer.or(older))
}
