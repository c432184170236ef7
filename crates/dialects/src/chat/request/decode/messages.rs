//! Decodes `messages` into the turns of the conversation.

use std::collections::HashMap;

use serde_json::Value;

use super::{super::original, own};
use crate::{
    Dialect,
    conversation::{Call, CallOutput, Part, Rest, Role, Text, Turn},
    failure::{Failure, Kind},
    fields::{Fields, Path, missing, wrong_type, wrong_value},
    wire::json::{Json, Kind as JsonKind},
};

pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    let messages = request.list("messages")?;
    let path = request.at("messages");
    let mut turns = Vec::new();
    // The results that the upstream gave for calls in the latest response, with their positions in `turns`.
    let mut given = HashMap::new();
    for (place, message) in messages.enumerate() {
        let mut message = Fields::new(Path::Element(&path, place), message)?;
        if message.peek("role").and_then(|role| role.as_str()).as_deref() == Some("assistant") {
            given.clear();
            let own::Taken { before, results } = own::take(&mut message);
            turns.extend(before);
            turns.push(turn(message)?);
            for output in results {
                given.insert(output.id.clone(), turns.len());
                turns.push(own::answer(output));
            }
            continue;
        }
        let turn = turn(message)?;
        // The client ran the call as well, so its own result is used.
        if let [Part::Result(output), ..] = turn.parts.as_slice()
            && let Some(given) = given.remove(&output.id).and_then(|place| turns.get_mut(place))
        {
            *given = turn;
            continue;
        }
        turns.push(turn);
    }
    if turns.is_empty() {
        let message = "`messages` is missing or empty; it must be an array of at least one message";
        return Err(Failure::new(Kind::Request, message)
            .with_param("messages")
            .with_code("missing_messages"));
    }
    Ok(turns)
}

fn turn(mut message: Fields<'_, '_>) -> Result<Turn, Failure> {
    let role = message.needed_string("role")?;
    let (role, parts) = match &*role {
        "system" => (Role::System, spoken(&mut message)?),
        "developer" => (Role::Developer, spoken(&mut message)?),
        "user" => (Role::User, spoken(&mut message)?),
        "assistant" => (Role::Assistant, answered(&mut message)?),
        "tool" => (Role::Tool, result(&mut message)?),
        "function" => (Role::Tool, function_result(&mut message)?),
        other => {
            let known = "`system`, `developer`, `user`, `assistant`, `tool` and `function`";
            return Err(wrong_value(message.at("role"), format_args!("is `{other}`; known are {known}")));
        }
    };
    Ok(Turn { role, parts, rest: Rest::new(Dialect::Chat.name(), message.into_rest()) })
}

/// Reads the content of a message that must not be empty.
fn spoken(message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    if message.peek("content").is_none() {
        return Err(missing(message.at("content"), "a string or an array of content parts"));
    }
    content(message)
}

/// Reads an assistant turn: its reasoning, text and calls. `content` may be null or absent.
fn answered(message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    // `reasoning` stays in `rest`, so that an upstream of this API receives it unchanged.
    let reasoning = match message.peek("reasoning_content").and_then(|text| text.as_str()) {
        Some(text) => {
            message.any("reasoning_content");
            Some(text)
        }
        None => message.peek("reasoning").and_then(|text| text.as_str()),
    };
    if let Some(text) = reasoning {
        parts.push(Part::Reasoning { text: text.into_owned(), signature: None, redacted: false });
    }
    parts.extend(content(message)?);
    parts.extend(calls(message)?.into_iter().map(Part::Call));
    if let Some(mut function) = message.object("function_call")? {
        let name = function.needed_string("name")?.into_owned();
        let arguments = function.string("arguments")?.unwrap_or_default().into_owned();
        parts.push(Part::Call(Call::new("", name, arguments)));
    }
    Ok(parts)
}

fn content(message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    let Some(content) = message.any("content") else { return Ok(Vec::new()) };
    match (Text::received(content), content.kind()) {
        (Some(text), _) => Ok(vec![Part::Text(text)]),
        (None, JsonKind::Array) => parts(content, message),
        (None, _) => Err(wrong_type(message.at("content"), "a string or an array of content parts", content)),
    }
}

/// Reads content parts. If one contains more than a [`Part`] can represent, the complete list is stored as
/// well.
fn parts(content: Json<'_>, message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    if let Some(parts) = content.elements().map(original::plain_part).collect::<Option<Vec<_>>>() {
        return Ok(parts.into_iter().map(original::adopted_part).collect());
    }
    let path = message.at("content");
    let part = |(place, element)| part(Path::Element(&path, place), element);
    let parts = content.elements().enumerate().map(part).collect::<Result<_, _>>()?;
    message.keep("content", content.to_value());
    Ok(parts)
}

/// Reads a content part field by field, so that an error can name the invalid field.
fn part(path: Path<'_>, element: Json<'_>) -> Result<Part, Failure> {
    if let Some(part) = original::part(&element.to_value()) {
        return Ok(original::adopted_part(part));
    }
    let mut fields = Fields::new(path, element)?;
    match &*fields.needed_string("type")? {
        "text" => fields.needed_text("text").map(Part::Text),
        _ => {
            let url = fields.needed_object("image_url")?.needed_string("url")?.into_owned();
            Ok(Part::Image { url, detail: None })
        }
    }
}

/// Reads calls. If one contains more than a [`Call`] can represent, the complete list is stored as well.
fn calls(message: &mut Fields<'_, '_>) -> Result<Vec<Call>, Failure> {
    let elements: Vec<_> = message.list("tool_calls")?.collect();
    if let Some(calls) = elements.iter().map(|element| original::plain_call(*element)).collect() {
        return Ok(calls);
    }
    let path = message.at("tool_calls");
    let call = |(place, element): (_, &Json<'_>)| call(Path::Element(&path, place), *element);
    let calls = elements.iter().enumerate().map(call).collect::<Result<_, _>>()?;
    message.keep("tool_calls", elements.iter().map(Json::to_value).collect::<Value>());
    Ok(calls)
}

fn call(path: Path<'_>, element: Json<'_>) -> Result<Call, Failure> {
    if let Some(call) = original::call(&element.to_value()) {
        return Ok(call);
    }
    let mut fields = Fields::new(path, element)?;
    let id = fields.needed_string("id")?.into_owned();
    let key = if fields.peek("custom").is_some() { "custom" } else { "function" };
    let name = fields.needed_object(key)?.needed_string("name")?.into_owned();
    Ok(Call::new(id, name, ""))
}

/// Reads a `tool` message: the result's text, and those of its parts that are not text.
fn result(message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    let Some(id) = message.string("tool_call_id")?.filter(|id| !id.is_empty()) else {
        return Err(missing(message.at("tool_call_id"), "the id of the call that this message answers"));
    };
    let name = message.string("name")?.unwrap_or_default().into_owned();
    output(message, id.into_owned(), name)
}

/// Reads a `function` message, as used before November 2023. It names the function and has no id.
fn function_result(message: &mut Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    let name = message.needed_string("name")?.into_owned();
    output(message, String::new(), name)
}

fn output(message: &mut Fields<'_, '_>, id: String, name: String) -> Result<Vec<Part>, Failure> {
    let result = |content: String| Part::Result(CallOutput { id, name, content, is_error: false });
    let Some(content) = message.any("content") else { return Ok(vec![result(String::new())]) };
    match (content.as_str(), content.kind()) {
        (Some(text), _) => Ok(vec![result(text.into_owned())]),
        (None, JsonKind::Array) => {
            let content = content.to_value();
            let mut parts = vec![result(original::result_text(&content))];
            parts.extend(original::result_media(&content));
            message.keep("content", content);
            Ok(parts)
        }
        (None, _) => Err(wrong_type(message.at("content"), "a string or an array of content parts", content)),
    }
}
