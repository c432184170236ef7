//! Decodes a client's request into a [`Conversation`] whose only turn is the prompt.
//!
//! A prompt that is a text is a text part. Tokens and several prompts are stored as they are, for upstreams of this
//! dialect; `fit` rejects them elsewhere.

use bytes::Bytes;

use crate::{
    Dialect,
    conversation::{Conversation, Part, Received, Rest, Role, Sampling, Text, Turn},
    failure::Failure,
    fields::{self, Fields, Path, missing, wrong_type, wrong_value},
    openai_fields::include_usage,
    wire::json::{Json, Kind},
};

/// Members of Chat Completions that a completion has no place for.
const CHAT_ONLY: [&str; 5] = ["messages", "tools", "tool_choice", "functions", "function_call"];

/// Decodes a request.
pub(super) fn read(body: &Bytes) -> Result<Conversation, Failure> {
    fields::read_body(body, conversation)
}

fn conversation(mut fields: Fields<'_, '_>) -> Result<Conversation, Failure> {
    refuse_chat(&fields)?;
    let Some(prompt) = fields.any("prompt") else {
        return Err(missing(fields.at("prompt"), "a string"));
    };
    let Prompts { part, count } = prompts(fields.at("prompt"), prompt)?;
    let choices = match fields.peek("n").map(|n| (n, n.as_u64())) {
        None => 1,
        Some((_, Some(choices @ 1..))) => choices,
        Some((n, _)) => return Err(wrong_type(fields.at("n"), "a whole number, 1 or more", n)),
    };
    let sampling = Sampling {
        max_tokens: fields.count("max_tokens")?,
        temperature: fields.number("temperature")?,
        top_p: fields.number("top_p")?,
        stop: fields.texts("stop")?,
        response_format: fields.any("response_format").map(|format| format.to_value()),
        seed: fields.number("seed")?,
        reasoning_effort: None,
    };
    let include_usage = include_usage(&mut fields)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    Ok(Conversation {
        model: fields.string("model")?.unwrap_or_default().into_owned(),
        turns: vec![Turn::of(Role::User, vec![part])],
        is_prompt: true,
        parallel_calls: true,
        choices: Some(choices.saturating_mul(count)).filter(|choices| *choices > 1),
        stream,
        include_usage: stream && include_usage,
        sampling,
        rest: Rest::new(Dialect::Completions.name(), fields.into_rest()),
        ..Conversation::default()
    })
}

/// Rejects the members of a chat request, which would have no effect.
fn refuse_chat(fields: &Fields<'_, '_>) -> Result<(), Failure> {
    let is_given = |value: Json<'_>| value.kind() != Kind::Array || value.elements().next().is_some();
    match CHAT_ONLY.into_iter().find(|key| fields.peek(key).is_some_and(is_given)) {
        Some(key) => Err(wrong_value(
            fields.at(key),
            "is not supported: a completion has a prompt and no tools; send it to /v1/chat/completions",
        )),
        None => Ok(()),
    }
}

struct Prompts {
    part: Part,
    count: u64,
}

/// Reads `prompt`: a text, a list of texts, the tokens of a prompt, or a list of those.
fn prompts(path: Path<'_>, prompt: Json<'_>) -> Result<Prompts, Failure> {
    if let Some(text) = Text::received(prompt) {
        return Ok(Prompts { part: Part::Text(text), count: 1 });
    }
    let wanted = "a string, an array of strings, or arrays of tokens";
    let Some(first) = prompt.elements().next().filter(|_| prompt.kind() == Kind::Array) else {
        return match prompt.kind() {
            Kind::Array => Err(wrong_value(path, "is empty; it must contain a prompt")),
            _ => Err(wrong_type(path, wanted, prompt)),
        };
    };
    let mut count = 0;
    for (place, element) in prompt.elements().enumerate() {
        let is_tokens = |json: Json<'_>| json.elements().all(|token| token.as_u64().is_some());
        let is_valid = match first.kind() {
            Kind::String | Kind::Number => element.kind() == first.kind(),
            _ => element.kind() == Kind::Array && is_tokens(element),
        };
        if !is_valid || (first.kind() == Kind::Number && element.as_u64().is_none()) {
            let wanted = match first.kind() {
                Kind::String => "a string, like the first prompt",
                Kind::Number => "a token, which is a whole number",
                _ => "an array of tokens",
            };
            return Err(wrong_type(Path::Element(&path, place), wanted, element));
        }
        count += 1;
    }
    let part = match Text::received(first).filter(|_| count == 1) {
        Some(text) => Part::Text(text),
        None => Part::Other(Received::new(Dialect::Completions.name(), prompt.to_value())),
    };
    Ok(Prompts { part, count: if first.kind() == Kind::Number { 1 } else { count } })
}
