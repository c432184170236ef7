//! `messages`: the turns of the conversation.

use serde_json::Value;

use super::{
    super::original,
    fields::{Fields, missing, wrong_type, wrong_value},
};
use crate::{
    conversation::{Call, CallOutput, Part, Role, Turn},
    failure::{Failure, Kind},
};

/// Takes `messages` out of the request.
pub(super) fn take(request: &mut Fields) -> Result<Vec<Turn>, Failure> {
    let messages = request.list("messages")?.unwrap_or_default();
    if messages.is_empty() {
        let message = "`messages` is missing or empty; it must be an array of at least one message";
        return Err(Failure::new(Kind::Request, message)
            .with_param("messages")
            .with_code("missing_messages"));
    }
    let turn = |(place, message)| Fields::new(format!("messages[{place}]"), message).and_then(turn);
    messages.into_iter().enumerate().map(turn).collect()
}

fn turn(mut message: Fields) -> Result<Turn, Failure> {
    let role = message.needed_string("role")?;
    let (role, parts) = match role.as_str() {
        "system" => (Role::System, spoken(&mut message)?),
        "developer" => (Role::Developer, spoken(&mut message)?),
        "user" => (Role::User, spoken(&mut message)?),
        "assistant" => (Role::Assistant, answered(&mut message)?),
        "tool" => (Role::Tool, vec![result(&mut message)?]),
        "function" => (Role::Tool, vec![function_result(&mut message)?]),
        other => {
            let known = "`system`, `developer`, `user`, `assistant`, `tool` and `function`";
            return Err(wrong_value(&message.at("role"), format_args!("is `{other}`; known are {known}")));
        }
    };
    Ok(Turn { role, parts, rest: message.into_rest() })
}

/// The content of a message that must have some.
fn spoken(message: &mut Fields) -> Result<Vec<Part>, Failure> {
    if message.peek("content").is_none() {
        return Err(missing(&message.at("content"), "a string or an array of content parts"));
    }
    content(message)
}

/// An assistant's turn: its reasoning, its text, its calls. Content may be null or absent.
fn answered(message: &mut Fields) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    if message.peek("reasoning_content").is_some_and(Value::is_string) {
        let text = message.string("reasoning_content")?.unwrap_or_default();
        parts.push(Part::Reasoning { text, signature: None });
    }
    parts.extend(content(message)?);
    parts.extend(calls(message)?.into_iter().map(Part::Call));
    if let Some(mut function) = message.object("function_call")? {
        let name = function.needed_string("name")?;
        let arguments = function.string("arguments")?.unwrap_or_default();
        parts.push(Part::Call(Call { id: String::new(), name, arguments }));
    }
    Ok(parts)
}

fn content(message: &mut Fields) -> Result<Vec<Part>, Failure> {
    let path = message.at("content");
    match message.any("content") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::Text(text)]),
        Some(Value::Array(elements)) => {
            let part = |(place, element)| part(&format!("{path}[{place}]"), element);
            let parts = elements.iter().enumerate().map(part).collect::<Result<_, _>>()?;
            if !elements.iter().all(original::is_plain_part) {
                message.keep("content", elements);
            }
            Ok(parts)
        }
        Some(other) => Err(wrong_type(&path, "a string or an array of content parts", &other)),
    }
}

/// One content part. Its path is checked field by field, so that the error names the one at fault.
fn part(path: &str, element: &Value) -> Result<Part, Failure> {
    if let Some(part) = original::part(element) {
        return Ok(part);
    }
    let mut fields = Fields::new(path, element.clone())?;
    match fields.needed_string("type")?.as_str() {
        "text" => fields.needed_string("text").map(Part::Text),
        _ => {
            let url = fields.needed_object("image_url")?.needed_string("url")?;
            Ok(Part::Image { url, detail: None })
        }
    }
}

fn calls(message: &mut Fields) -> Result<Vec<Call>, Failure> {
    let path = message.at("tool_calls");
    let elements = message.list("tool_calls")?.unwrap_or_default();
    let call = |(place, element)| call(&format!("{path}[{place}]"), element);
    let calls = elements.iter().enumerate().map(call).collect::<Result<_, _>>()?;
    if !elements.iter().all(original::is_plain_call) {
        message.keep("tool_calls", elements);
    }
    Ok(calls)
}

fn call(path: &str, element: &Value) -> Result<Call, Failure> {
    if let Some(call) = original::call(element) {
        return Ok(call);
    }
    let mut fields = Fields::new(path, element.clone())?;
    let id = fields.needed_string("id")?;
    let key = if fields.peek("custom").is_some() { "custom" } else { "function" };
    let name = fields.needed_object(key)?.needed_string("name")?;
    Ok(Call { id, name, arguments: String::new() })
}

/// A `tool` message.
fn result(message: &mut Fields) -> Result<Part, Failure> {
    let Some(id) = message.string("tool_call_id")?.filter(|id| !id.is_empty()) else {
        let path = message.at("tool_call_id");
        return Err(missing(&path, "the id of the call that this message answers"));
    };
    let name = message.string("name")?.unwrap_or_default();
    Ok(Part::Result(CallOutput { id, name, content: output(message)?, is_error: false }))
}

/// A `function` message, the form of before 2023-11: it names the function and knows no ids.
fn function_result(message: &mut Fields) -> Result<Part, Failure> {
    let name = message.needed_string("name")?;
    Ok(Part::Result(CallOutput { id: String::new(), name, content: output(message)?, is_error: false }))
}

fn output(message: &mut Fields) -> Result<String, Failure> {
    let path = message.at("content");
    match message.any("content") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(content @ Value::Array(_)) => {
            let text = original::result_text(&content);
            message.keep("content", content);
            Ok(text)
        }
        Some(other) => Err(wrong_type(&path, "a string or an array of text parts", &other)),
    }
}
