//! Decodes a client's request body into a [`Conversation`].
//!
//! Every known field is taken out of the object and checked; the others are kept unchanged. All errors are
//! the client's: they name the field by its path and describe a valid value.

mod fields;
mod messages;
mod tools;

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    conversation::{Conversation, Rest, Sampling},
    dialect::Dialect,
    failure::{Failure, Kind},
    wire::json::{Index, Json, Kind as JsonKind, mend_surrogates},
};
use fields::{Fields, Path, wrong_type, wrong_value};

/// Decodes a Chat Completions request.
///
/// # Errors
/// [`Kind::Request`] with a `param` path and a sentence that helps to correct the request.
pub fn decode(body: &[u8]) -> Result<Conversation, Failure> {
    let text = str::from_utf8(body).map_err(|_| unreadable(body))?;
    let text = mend_surrogates(text);
    let mut index = Index::default();
    let json = index.parse(&text).map_err(|_| unreadable(body))?;
    let mut fields = Fields::new(Path::Body, json)?;
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
        tool_choice: toolbox.choice,
        parallel_calls: toolbox.parallel,
        stream,
        include_usage: stream && include_usage,
        legacy_functions: toolbox.legacy,
        sampling,
        choices: choices(&fields)?,
        constraint: None,
        rest: Rest::new(Dialect::Chat.name(), fields.into_rest()),
    })
}

/// Describes why `body` is not valid JSON, in the words of serde_json.
fn unreadable(body: &[u8]) -> Failure {
    let message = match serde_json::from_slice::<Value>(body) {
        _ if body.is_empty() => "the request body is empty; it must be a JSON object".to_owned(),
        Ok(_) => "the request body cannot be read as JSON".to_owned(),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let whole = error.to_string();
            let why = whole.split(" at line ").next().unwrap_or("syntax error");
            format!("the request body cannot be read as JSON: {why} at line {line}, column {column}")
        }
    };
    Failure::new(Kind::Request, message).with_code("invalid_json")
}

fn sampling(fields: &mut Fields<'_, '_>) -> Result<Sampling, Failure> {
    Ok(Sampling {
        max_tokens: max_tokens(fields)?,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: stop(fields)?,
        reasoning_effort: fields.string("reasoning_effort")?.map(Cow::into_owned),
        response_format: fields.any("response_format").map(|format| format.to_value()),
        seed: fields.number("seed")?,
    })
}

/// `n`, which stays among the fields that are passed on.
fn choices(fields: &Fields<'_, '_>) -> Result<Option<u64>, Failure> {
    let Some(n) = fields.peek("n") else { return Ok(None) };
    match n.as_u64() {
        Some(choices @ 1..) => Ok(Some(choices)),
        _ => {
            let n = n.to_value();
            let message = format!("`n` must be a whole number from 1 on, but it is {n}");
            Err(Failure::new(Kind::Request, message).with_param("n"))
        }
    }
}

/// `max_completion_tokens` is the newer name and takes precedence. Under that name the limit also stays in
/// the rest, since an upstream may know only the name that its clients use.
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

fn stop(fields: &mut Fields<'_, '_>) -> Result<Vec<String>, Failure> {
    let Some(stop) = fields.any("stop") else { return Ok(Vec::new()) };
    let path = fields.at("stop");
    let text = |(place, value): (usize, Json<'_>)| {
        let text = value.as_str().map(Cow::into_owned);
        text.ok_or_else(|| wrong_type(Path::Element(&path, place), "a string", value))
    };
    match (stop.as_str(), stop.kind()) {
        (Some(text), _) => Ok(vec![text.into_owned()]),
        (None, JsonKind::Array) => stop.elements().enumerate().map(text).collect(),
        (None, _) => Err(wrong_type(path, "a string or an array of strings", stop)),
    }
}

/// Takes `include_usage` out of `stream_options` and keeps the other options.
fn include_usage(fields: &mut Fields<'_, '_>) -> Result<bool, Failure> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    let wanted = options.boolean("include_usage")?.unwrap_or(false);
    let others = options.into_rest();
    if !others.is_empty() {
        fields.keep("stream_options", others);
    }
    Ok(wanted)
}

/// Checks a tool's name: the API limits its characters and its length (`Chat Completions`, `function.name`).
fn check_name(path: Path<'_>, name: &str) -> Result<(), Failure> {
    const LONGEST: usize = 64;
    if name.is_empty() {
        return Err(wrong_value(path, "is empty; a tool needs a name"));
    }
    let is_legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if let Some(letter) = name.chars().find(|letter| !is_legal(*letter)) {
        return Err(wrong_value(
            path,
            format_args!("has the character {letter:?}; only letters, digits, `_` and `-` are allowed"),
        ));
    }
    if name.len() > LONGEST {
        return Err(wrong_value(
            path,
            format_args!("is {} characters long; {LONGEST} are allowed", name.len()),
        ));
    }
    Ok(())
}
