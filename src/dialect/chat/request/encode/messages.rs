//! Encodes a turn as messages.

use serde_json::{Map, Value};

use super::{super::original, DIALECT};
use crate::{
    conversation::{Call, CallOutput, Part, Role, Turn},
    dialect::chat::Options,
    wire::json::Encoder,
};

/// The messages of a turn: one, or one for each result and one for the rest of it.
pub(super) fn put(body: &mut Encoder, turn: &Turn, options: &Options, dropped: &mut Vec<String>) {
    let no_rest = Map::new();
    let rest = turn.rest.from_dialect(DIALECT).unwrap_or(&no_rest);
    if let (Role::Tool, [Part::Result(output), media @ ..]) = (turn.role, turn.parts.as_slice()) {
        return result(body, output, media, rest);
    }
    let mut has_content = turn.parts.is_empty();
    for part in &turn.parts {
        match part {
            Part::Result(output) if turn.parts.len() == 1 => result(body, output, &[], rest),
            Part::Result(output) => result(body, output, &[], &no_rest),
            _ => has_content = true,
        }
    }
    if has_content {
        message(body, (turn, rest), options, dropped);
    }
}

/// A result and its media; in the form from before November 2023 if it has no id.
fn result(body: &mut Encoder, output: &CallOutput, media: &[Part], rest: &Map<String, Value>) {
    let media: Vec<_> = media.iter().filter(|part| is_expressible(part)).collect();
    body.object(|body| {
        if output.id.is_empty() {
            body.key("role").string("function");
        } else {
            body.key("role").string("tool");
            body.key("tool_call_id").string(&output.id);
        }
        if !output.name.is_empty() {
            body.key("name").string(&output.name);
        }
        match rest.get("content").filter(|content| original::result_text(content) == output.content) {
            Some(original) => body.key("content").value(original),
            None if media.is_empty() => body.key("content").string(&output.content),
            None => body.key("content").array(|body| {
                element(body, &Part::Text(output.content.clone()), rest);
                media.iter().for_each(|part| element(body, part, rest));
            }),
        }
        extend(body, rest);
    });
}

fn message(
    body: &mut Encoder,
    (turn, rest): (&Turn, &Map<String, Value>),
    options: &Options,
    dropped: &mut Vec<String>,
) {
    let (role, may_be_null) = match turn.role {
        Role::Developer if options.keep_developer => ("developer", false),
        Role::System | Role::Developer => ("system", false),
        // A result as text is a user message: servers reject a `tool` message without an id.
        Role::User | Role::Tool => ("user", false),
        Role::Assistant => ("assistant", true),
    };
    body.object(|body| {
        body.key("role").string(role);
        content(body.key("content"), &turn.parts, rest, may_be_null);
        put_reasoning(body, &turn.parts, dropped);
        put_calls(body, &turn.parts, rest, options);
        extend(body, rest);
    });
}

fn content(body: &mut Encoder, parts: &[Part], rest: &Map<String, Value>, may_be_null: bool) {
    let has_originals = rest.contains_key("content");
    let parts: Vec<&Part> = parts.iter().filter(|part| is_expressible(part)).collect();
    match parts.as_slice() {
        [] if may_be_null => body.value(&()),
        [] => body.string(""),
        [Part::Text(text)] if !has_originals => body.string(text),
        parts => body.array(|body| parts.iter().for_each(|part| element(body, part, rest))),
    }
}

/// Whether a part can be expressed in a message's content in this dialect.
fn is_expressible(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::Image { .. } => true,
        Part::Other(other) => other.from_dialect(DIALECT).is_some(),
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => false,
    }
}

fn element(body: &mut Encoder, part: &Part, rest: &Map<String, Value>) {
    let means_it = |element: &Value| original::part(element).as_ref() == Some(part);
    if let Some(original) = original::find(rest, "content", means_it) {
        return body.value(original);
    }
    match part {
        Part::Text(text) => body.object(|body| {
            body.key("type").string("text");
            body.key("text").string(text);
        }),
        Part::Image { url, detail } => body.object(|body| {
            body.key("type").string("image_url");
            body.key("image_url").object(|body| {
                body.key("url").string(url);
                if let Some(detail) = detail {
                    body.key("detail").string(detail);
                }
            });
        }),
        Part::Other(other) => {
            if let Some(value) = other.from_dialect(DIALECT) {
                body.value(value);
            }
        }
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => {}
    }
}

/// Past reasoning is sent as `reasoning_content`: Kimi rejects a past call without it, and accepts an empty
/// one.
fn put_reasoning(body: &mut Encoder, parts: &[Part], dropped: &mut Vec<String>) {
    let mut joined: Option<String> = None;
    for part in parts {
        let Part::Reasoning { text, signature, .. } = part else { continue };
        joined.get_or_insert_default().push_str(text);
        if signature.is_some() {
            dropped.push("messages[].reasoning.signature".to_owned());
        }
    }
    if let Some(text) = joined {
        body.key("reasoning_content").string(&text);
    }
}

fn put_calls(body: &mut Encoder, parts: &[Part], rest: &Map<String, Value>, options: &Options) {
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    let (legacy, calls): (Vec<_>, Vec<_>) = calls.partition(|call| call.id.is_empty());
    if !calls.is_empty() {
        body.key("tool_calls")
            .array(|body| calls.into_iter().for_each(|call| call_element(body, call, rest, options)));
    }
    if let [call, ..] = legacy.as_slice() {
        function(body.key("function_call"), call);
    }
}

fn call_element(body: &mut Encoder, call: &Call, rest: &Map<String, Value>, options: &Options) {
    let is_known = |element: &Value| options.keep_custom_tools || !original::is_custom_call(element);
    let means_it = |element: &Value| is_known(element) && original::call(element).as_ref() == Some(call);
    match original::find(rest, "tool_calls", means_it) {
        Some(original) => body.value(original),
        None => body.object(|body| {
            body.key("id").string(&call.id);
            body.key("type").string("function");
            function(body.key("function"), call);
        }),
    }
}

fn function(body: &mut Encoder, call: &Call) {
    body.object(|body| {
        body.key("name").string(&call.name);
        body.key("arguments").string(&call.arguments);
    });
}

/// Writes the remaining fields of the message, except the originals.
fn extend(body: &mut Encoder, rest: &Map<String, Value>) {
    for (key, value) in rest {
        if !matches!(key.as_str(), "content" | "tool_calls") {
            body.key(key).value(value);
        }
    }
}
