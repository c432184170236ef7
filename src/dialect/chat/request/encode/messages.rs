//! One turn made the messages that say it.

use serde_json::{Map, Value, json};

use super::super::original;
use crate::conversation::{Call, CallOutput, Part, Role, Turn};

/// The messages of a turn: one, or one for each result and one for what else it holds.
pub(super) fn encode(turn: &Turn, dropped: &mut Vec<String>) -> Vec<Value> {
    let results = turn.parts.iter().filter_map(|part| match part {
        Part::Result(output) => Some(output),
        _ => None,
    });
    let alone = turn.parts.len() == 1;
    let no_rest = Map::new();
    let mut messages: Vec<_> =
        results.map(|output| result(output, if alone { &turn.rest } else { &no_rest })).collect();
    let says_more = turn.parts.iter().any(|part| !matches!(part, Part::Result(_)));
    if says_more || messages.is_empty() {
        messages.push(message(turn, dropped));
    }
    messages
}

/// A result; the form of before 2023-11 if it has no id.
fn result(output: &CallOutput, rest: &Map<String, Value>) -> Value {
    let mut message = Map::new();
    let original = rest.get("content").filter(|content| original::result_text(content) == output.content);
    let content = original.cloned().unwrap_or_else(|| output.content.as_str().into());
    if output.id.is_empty() {
        put(&mut message, "role", "function");
    } else {
        put(&mut message, "role", "tool");
        put(&mut message, "tool_call_id", output.id.as_str());
    }
    if !output.name.is_empty() {
        put(&mut message, "name", output.name.as_str());
    }
    put(&mut message, "content", content);
    extend(&mut message, rest);
    message.into()
}

fn message(turn: &Turn, dropped: &mut Vec<String>) -> Value {
    let mut message = Map::new();
    let (role, may_be_null) = match turn.role {
        Role::System => ("system", false),
        Role::Developer => ("developer", false),
        // A result told in words is the user's word: a `tool` message without an id is refused everywhere.
        Role::User | Role::Tool => ("user", false),
        Role::Assistant => ("assistant", true),
    };
    put(&mut message, "role", role);
    put(&mut message, "content", content(turn, may_be_null));
    put_reasoning(&mut message, &turn.parts, dropped);
    put_calls(&mut message, turn);
    extend(&mut message, &turn.rest);
    message.into()
}

fn content(turn: &Turn, may_be_null: bool) -> Value {
    let spoken = |part: &&Part| matches!(part, Part::Text(_) | Part::Image { .. } | Part::Other(_));
    let has_originals = turn.rest.contains_key("content");
    let parts: Vec<&Part> = turn.parts.iter().filter(spoken).collect();
    match parts.as_slice() {
        [] if may_be_null => Value::Null,
        [] => "".into(),
        [Part::Text(text)] if !has_originals => text.as_str().into(),
        parts => parts.iter().map(|part| element(part, &turn.rest)).collect(),
    }
}

fn element(part: &Part, rest: &Map<String, Value>) -> Value {
    let means_it = |element: &Value| original::part(element).as_ref() == Some(part);
    if let Some(original) = original::find(rest, "content", means_it) {
        return original.clone();
    }
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Image { url, detail: None } => json!({"type": "image_url", "image_url": {"url": url}}),
        Part::Image { url, detail } => {
            json!({"type": "image_url", "image_url": {"url": url, "detail": detail}})
        }
        Part::Other(value) => value.clone(),
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => Value::Null,
    }
}

/// Past reasoning goes back as `reasoning_content`: Kimi refuses a past call without it, even an empty one counts.
fn put_reasoning(message: &mut Map<String, Value>, parts: &[Part], dropped: &mut Vec<String>) {
    let mut joined: Option<String> = None;
    for part in parts {
        let Part::Reasoning { text, signature } = part else { continue };
        joined.get_or_insert_default().push_str(text);
        if signature.is_some() {
            dropped.push("messages[].reasoning.signature".to_owned());
        }
    }
    if let Some(text) = joined {
        put(message, "reasoning_content", text);
    }
}

fn put_calls(message: &mut Map<String, Value>, turn: &Turn) {
    let calls = turn.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    let (legacy, calls): (Vec<_>, Vec<_>) = calls.partition(|call| call.id.is_empty());
    if !calls.is_empty() {
        let elements: Value = calls.into_iter().map(|call| call_element(call, &turn.rest)).collect();
        put(message, "tool_calls", elements);
    }
    if let [call, ..] = legacy.as_slice() {
        put(message, "function_call", json!({"name": call.name, "arguments": call.arguments}));
    }
}

fn call_element(call: &Call, rest: &Map<String, Value>) -> Value {
    let means_it = |element: &Value| original::call(element).as_ref() == Some(call);
    match original::find(rest, "tool_calls", means_it) {
        Some(original) => original.clone(),
        None => json!({
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }),
    }
}

/// Adds what is left of the message, originals excepted.
fn extend(message: &mut Map<String, Value>, rest: &Map<String, Value>) {
    for (key, value) in rest {
        if !matches!(key.as_str(), "content" | "tool_calls") {
            message.insert(key.clone(), value.clone());
        }
    }
}

fn put(message: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    message.insert(key.to_owned(), value.into());
}
