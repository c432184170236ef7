//! Encodes turns as items of `input`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{DIALECT, namespaces::Namespaces, tools};
use crate::{
    conversation::{Arguments, CUSTOM_INPUT, Call, CallOutput, Conversation, Part, Role, Turn},
    responses::{
        built_in::BuiltInTool,
        request::items::{ITEMS, meaning},
        upstream::Options,
    },
    wire::json::{Encoder, Json},
};

/// What the items of a request depend on.
#[derive(Clone, Copy)]
pub(super) struct Context<'c> {
    pub(super) conversation: &'c Conversation,
    pub(super) options: &'c Options,
    pub(super) namespaces: &'c Namespaces<'c>,
}

/// Writes the items of `turns`. If the client speaks this dialect, its own items are written, provided that
/// they still represent the turn.
pub(super) fn put(body: &mut Encoder, turns: &[Turn], context: Context<'_>, dropped: &mut Vec<String>) {
    let Context { conversation, options, namespaces } = context;
    let mut items = Items {
        built_in_calls: built_in_calls(turns, conversation),
        customs: tools::customs(conversation, namespaces),
        custom_calls: HashSet::new(),
        namespaces,
        plain: options.server.takes_plain_reasoning().then_some(0),
        dropped,
    };
    for turn in turns {
        items.note_customs(turn);
        match originals(turn) {
            Some(originals) => {
                let mut ids = turn.parts.iter().filter_map(|part| match part {
                    Part::Call(call) => Some(call.id.as_str()),
                    Part::Result(output) => Some(output.id.as_str()),
                    _ => None,
                });
                originals.iter().for_each(|original| put_original(body, original, &mut ids));
            }
            None => items.turn(body, turn),
        }
    }
}

/// The client's items for a turn, if they still represent it. The ids of calls may have changed.
fn originals(turn: &Turn) -> Option<&Vec<Value>> {
    let items = turn.rest.from_dialect(DIALECT)?.get(ITEMS)?.as_array()?;
    let mut meant = meaning(items)?;
    if meant.len() != turn.parts.len() {
        return None;
    }
    for (meant, part) in meant.iter_mut().zip(&turn.parts) {
        match (meant, part) {
            (Part::Call(meant), Part::Call(call)) => meant.id.clone_from(&call.id),
            (Part::Result(meant), Part::Result(output)) => meant.id.clone_from(&output.id),
            _ => {}
        }
    }
    (meant == turn.parts).then_some(items)
}

/// Writes one of the client's items. Calls and results get the next id in `ids`. The ids of items are left
/// out, because they refer to stored items that the upstream does not have.
fn put_original<'t>(body: &mut Encoder, original: &Value, ids: &mut impl Iterator<Item = &'t str>) {
    match original.as_object() {
        Some(members) => body.object(|body| {
            let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
            let is_call = kind.ends_with("_call");
            let id = is_call_or_result(kind, original).then(|| ids.next()).flatten();
            // Outputs of local shells have no other id.
            let has_call_id = members.contains_key("call_id");
            let is_own = has_call_id || !(is_call || BuiltInTool::is_output(kind));
            let id_key = if has_call_id { "call_id" } else { "id" };
            for (key, value) in members.iter().filter(|(key, _)| *key != "id" || !is_own) {
                match (value, id) {
                    (_, Some(id)) if key == id_key => body.key(key).string(id),
                    (Value::String(text), _) if is_call && key == "arguments" => {
                        body.key(key).string(&Arguments::of(text).into_text(CUSTOM_INPUT));
                    }
                    _ => body.key(key).value(value),
                }
            }
        }),
        None => body.value(original),
    }
}

/// Whether an item is a call that the client runs, or the result of one, and thus [`Part::Call`] or
/// [`Part::Result`].
fn is_call_or_result(kind: &str, item: &Value) -> bool {
    let is_run_by_client = || {
        let item = item.to_string();
        Json::parse(&item).is_ok_and(|item| BuiltInTool::of_call(kind, item).is_some())
    };
    matches!(kind, "function_call" | "custom_tool_call" | "function_call_output" | "custom_tool_call_output")
        || BuiltInTool::is_output(kind)
        || BuiltInTool::is_call(kind) && is_run_by_client()
}

fn built_in_calls<'t>(turns: &'t [Turn], conversation: &Conversation) -> HashMap<&'t str, BuiltInTool> {
    let declared = tools::built_in(conversation);
    if declared.is_empty() {
        return HashMap::new();
    }
    let is_item = |turn: &&Turn| turn.rest.from_dialect(DIALECT).is_some_and(|rest| rest.contains_key(ITEMS));
    let answered: HashSet<&str> = turns
        .iter()
        .filter(is_item)
        .flat_map(|turn| &turn.parts)
        .filter_map(|part| match part {
            Part::Result(output) => Some(output.id.as_str()),
            _ => None,
        })
        .collect();
    let tool = |part: &'t Part| {
        let Part::Call(call) = part else { return None };
        let kind = declared.get(call.name.as_str()).filter(|_| answered.contains(&*call.id))?;
        Some((call.id.as_str(), BuiltInTool::of_kind(kind)?))
    };
    turns.iter().flat_map(|turn| &turn.parts).filter_map(tool).collect()
}

struct Items<'a> {
    /// The built-in tools of past calls whose outputs are items of the client, by the calls' ids. Other calls
    /// and results are those of functions.
    built_in_calls: HashMap<&'a str, BuiltInTool>,
    customs: HashSet<&'a str>,
    custom_calls: HashSet<&'a str>,
    namespaces: &'a Namespaces<'a>,
    /// The number of items with reasoning in plain text so far, if the server takes it.
    plain: Option<usize>,
    dropped: &'a mut Vec<String>,
}

impl<'a> Items<'a> {
    fn note_customs(&mut self, turn: &'a Turn) {
        for part in &turn.parts {
            if let Part::Call(call) = part
                && self.customs.contains(&*call.name)
            {
                self.custom_calls.insert(&call.id);
            }
        }
    }

    fn turn(&mut self, body: &mut Encoder, turn: &Turn) {
        if let (Role::Tool, [Part::Result(output), media @ ..]) = (turn.role, turn.parts.as_slice()) {
            return self.result(body, output, media);
        }
        let mut rest = turn.parts.as_slice();
        while let Some((first, behind)) = rest.split_first() {
            let spoken = rest.iter().take_while(|part| is_spoken(part)).count();
            if let Some((message, behind)) = rest.split_at_checked(spoken).filter(|_| spoken > 0) {
                self.message(body, turn.role, message);
                rest = behind;
                continue;
            }
            self.item(body, first);
            rest = behind;
        }
    }

    fn item(&mut self, body: &mut Encoder, part: &Part) {
        match part {
            Part::Call(call) => self.call(body, call),
            Part::Result(output) => self.result(body, output, &[]),
            Part::Reasoning { text, signature, .. } => {
                let state = signature.as_ref().and_then(|signature| signature.from_dialect(DIALECT));
                match (state.filter(|state| !state.is_empty()), &mut self.plain) {
                    (Some(state), _) => reasoning(body, text, state),
                    (None, Some(number)) if !text.is_empty() => {
                        plain_reasoning(body, text, *number);
                        *number += 1;
                    }
                    // OpenAI's API accepts only reasoning that it can decrypt.
                    (None, _) => self.dropped.push("messages[].reasoning".to_owned()),
                }
            }
            // An item of a server tool.
            Part::Other(other) => {
                if let Some(item) = other.from_dialect(DIALECT) {
                    body.value(item);
                }
            }
            Part::Text(_) | Part::Image { .. } => {}
        }
    }

    fn message(&mut self, body: &mut Encoder, role: Role, parts: &[Part]) {
        let (role, text_kind) = match role {
            Role::System => ("system", "input_text"),
            Role::Developer => ("developer", "input_text"),
            Role::User | Role::Tool => ("user", "input_text"),
            Role::Assistant => ("assistant", "output_text"),
        };
        if parts.iter().all(|part| matches!(part, Part::Text(text) if text.is_empty())) {
            return;
        }
        body.object(|body| {
            body.key("type").string("message");
            body.key("role").string(role);
            body.key("content").array(|body| parts.iter().for_each(|part| content(body, part, text_kind)));
        });
    }

    fn call(&self, body: &mut Encoder, call: &Call) {
        let built_in = self.built_in_calls.get(call.id.as_str());
        if let Some((tool, members)) =
            built_in.and_then(|tool| Some((tool, tool.members(&call.arguments, false)?)))
        {
            return body.object(|body| {
                body.key("type").string(tool.call_kind());
                body.key("call_id").string(&call.id);
                body.key("status").string("completed");
                members.iter().for_each(|(key, value)| body.key(key).value(value));
            });
        }
        let is_custom = self.custom_calls.contains(call.id.as_str());
        body.object(|body| {
            body.key("type").string(if is_custom { "custom_tool_call" } else { "function_call" });
            body.key("call_id").string(&call.id);
            self.namespaces.put_name(body, &call.name);
            if is_custom {
                let input =
                    Json::parse(&call.arguments).ok().and_then(|json| json.get(CUSTOM_INPUT)?.as_str());
                body.key("input").string(input.as_deref().unwrap_or(&call.arguments));
            } else {
                body.key("arguments").string(&Arguments::of(&call.arguments).into_text(CUSTOM_INPUT));
            }
        });
    }

    fn result(&self, body: &mut Encoder, output: &CallOutput, media: &[Part]) {
        let is_custom = self.custom_calls.contains(output.id.as_str());
        let media: Vec<&Part> = media.iter().filter(|part| is_spoken(part)).collect();
        body.object(|body| {
            body.key("type").string(if is_custom {
                "custom_tool_call_output"
            } else {
                "function_call_output"
            });
            body.key("call_id").string(&output.id);
            if media.is_empty() {
                body.key("output").string(&output.content);
            } else {
                body.key("output").array(|body| {
                    content(body, &Part::Text(output.content.clone().into()), "input_text");
                    media.iter().for_each(|part| content(body, part, "input_text"));
                });
            }
        });
    }
}

/// Whether a part belongs to the content of a message instead of being an item itself.
fn is_spoken(part: &Part) -> bool {
    match part {
        Part::Text(_) | Part::Image { .. } => true,
        Part::Other(other) => other
            .from_dialect(DIALECT)
            .and_then(|other| other.get("type")?.as_str())
            .is_some_and(|kind| kind.starts_with("input_")),
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => false,
    }
}

fn content(body: &mut Encoder, part: &Part, text_kind: &str) {
    match part {
        Part::Text(text) => body.object(|body| {
            body.key("type").string(text_kind);
            text.put(body.key("text"));
        }),
        Part::Image { url, detail } => body.object(|body| {
            body.key("type").string("input_image");
            body.key("image_url").string(url);
            if let Some(detail) = detail {
                body.key("detail").string(detail);
            }
        }),
        Part::Other(other) => {
            if let Some(value) = other.from_dialect(DIALECT) {
                body.value(value);
            }
        }
        Part::Call(_) | Part::Result(_) | Part::Reasoning { .. } => {}
    }
}

fn reasoning(body: &mut Encoder, text: &str, state: &str) {
    body.object(|body| {
        body.key("type").string("reasoning");
        body.key("summary").array(|body| {
            if !text.is_empty() {
                body.object(|body| {
                    body.key("type").string("summary_text");
                    body.key("text").string(text);
                });
            }
        });
        body.key("encrypted_content").string(state);
    });
}

/// Writes reasoning as servers of open models write it. They require an id, but do not look it up.
fn plain_reasoning(body: &mut Encoder, text: &str, number: usize) {
    body.object(|body| {
        body.key("type").string("reasoning");
        body.key("id").string(&format!("rs_{number}"));
        body.key("summary").array(|_| {});
        body.key("content").array(|body| {
            body.object(|body| {
                body.key("type").string("reasoning_text");
                body.key("text").string(text);
            });
        });
    });
}
