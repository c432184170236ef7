//! Calls and results of tools that are part of an API and that servers or clients ran. In all APIs, the type
//! of a call ends with `_call` or `_tool_use`, and that of a result with `_output` or `_tool_result`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::pieces::{Piece, kind_of, read_all, readable, text};
use crate::{
    conversation::{Call, Part, Turn, loaded_line},
    media::mime_of_base64,
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Shown<'v> {
    Call { id: &'v str, tool: &'v str, value: &'v Value },
    Output { id: &'v str, tool: &'v str, value: &'v Value },
}

/// Members of a call that are not its arguments.
const ENVELOPE: [&str; 16] = [
    "type",
    "id",
    "call_id",
    "status",
    "name",
    "server_label",
    "server_name",
    "namespace",
    "caller",
    "execution",
    "cache_control",
    "approval_request_id",
    "pending_safety_checks",
    "fingerprint",
    "created_by",
    "error",
];

/// Members of a call in which its result may be.
const RESULTS: [&str; 5] = ["output", "outputs", "results", "result", "error"];

/// The server's name with which toolwire shows clients the calls that an upstream ran.
const UPSTREAM: &str = "upstream";

impl<'v> Shown<'v> {
    pub(super) fn of(value: &'v Value) -> Option<Self> {
        let kind = kind_of(value);
        let string = |key: &str| text(value, key).filter(|text| !text.is_empty());
        let given = || string("call_id").or_else(|| string("tool_use_id"));
        let ends = |ends: &[&str]| ends.iter().find_map(|end| kind.strip_suffix(end));
        if let Some(tool) = ends(&["_tool_result", "_output", "tool_result"]) {
            return Some(Self::Output { id: given().or_else(|| string("id"))?, tool, value });
        }
        let tool = match ends(&["_call", "_tool_use", "tool_use"]) {
            Some(tool) => tool,
            None if string("call_id").is_some() => kind,
            None => return None,
        };
        let tool = string("name").unwrap_or(tool);
        Some(Self::Call { id: given().or_else(|| string("id"))?, tool, value })
    }
}

/// Finds the calls to which results belong.
#[derive(Debug, Default)]
pub(super) struct CallIndex<'v> {
    /// The id of each call, by every id with which a result may refer to it.
    calls: HashMap<&'v str, &'v str>,
    answered: HashSet<&'v str>,
}

impl<'v> CallIndex<'v> {
    /// Indexes `turns`. `foreign` returns the value of a part that must be translated.
    pub(super) fn new(turns: &'v [Turn], foreign: impl Fn(&'v Part) -> Option<&'v Value>) -> Self {
        let mut index = Self::default();
        for part in turns.iter().flat_map(|turn| &turn.parts) {
            match (part, foreign(part).and_then(Shown::of)) {
                (Part::Call(call), _) => _ = index.calls.insert(&call.id, &call.id),
                (Part::Result(output), _) => _ = index.answered.insert(&output.id),
                (_, Some(Shown::Call { id, value, .. })) => {
                    index.calls.insert(id, id);
                    if let Some(other) = text(value, "id") {
                        index.calls.entry(other).or_insert(id);
                    }
                }
                (_, Some(Shown::Output { id, .. })) => _ = index.answered.insert(id),
                _ => {}
            }
        }
        let answered = index.answered.iter().filter_map(|id| index.calls.get(id)).copied();
        index.answered = answered.collect();
        index
    }

    /// The id of the call that a result refers to as `id`.
    pub(super) fn call_of(&self, id: &str) -> Option<&'v str> {
        self.calls.get(id).copied()
    }

    pub(super) fn is_answered(&self, id: &str) -> bool {
        self.answered.contains(id)
    }
}

pub(super) fn call(id: &str, tool: &str, value: &Value) -> Call {
    let given = ["arguments", "input"].into_iter().find_map(|key| match value.get(key)? {
        Value::String(text) if key == "arguments" => Some(text.clone()),
        Value::Object(members) => Some(Value::Object(members.clone()).to_string()),
        _ => None,
    });
    let arguments = given.unwrap_or_else(|| {
        let is_argument =
            |key: &String| !ENVELOPE.contains(&key.as_str()) && !RESULTS.contains(&key.as_str());
        let members = value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| is_argument(key) && !value.is_null());
        let members: Map<String, Value> =
            members.map(|(key, value)| (key.clone(), readable(value))).collect();
        match members.values().next() {
            Some(Value::Object(only)) if members.len() == 1 => Value::Object(only.clone()).to_string(),
            _ => Value::Object(members).to_string(),
        }
    });
    Call::new(id, name_of(tool, value), arguments)
}

/// The name of a called tool. The name of its MCP server precedes it, because several servers may have the same tool.
fn name_of(tool: &str, value: &Value) -> String {
    let server = ["server_label", "server_name"].into_iter().find_map(|key| text(value, key));
    match server.filter(|server| !server.is_empty() && *server != UPSTREAM) {
        Some(server) => format!("{server}__{tool}"),
        None => tool.to_owned(),
    }
}

/// Adds the names of the tools that a search has found. Those in a namespace are declared with its name before their own.
fn found(tools: &[Value], out: &mut Vec<Piece>) {
    if tools.is_empty() {
        out.push(Piece::Text("No tools were found.".to_owned()));
    }
    for tool in tools {
        let Some(name) = text(tool, "name") else { continue };
        match tool.get("tools").and_then(Value::as_array) {
            Some(members) => {
                let members = members.iter().filter_map(|member| text(member, "name"));
                out.extend(members.map(|member| Piece::Text(loaded_line(&format!("{name}__{member}")))));
            }
            None => out.push(Piece::Text(loaded_line(name))),
        }
    }
}

/// Adds the contents of a result, or of a call that includes its result.
pub(super) fn output(value: &Value, out: &mut Vec<Piece>) {
    let before = out.len();
    if let Some(tools) = value.get("tools").and_then(Value::as_array) {
        found(tools, out);
    }
    for key in RESULTS.into_iter().chain(["content"]) {
        match value.get(key) {
            // A generated image.
            Some(Value::String(data)) if key == "result" && !mime_of_base64(data).is_empty() => {
                let url = format!("data:{};base64,{data}", mime_of_base64(data));
                out.push(Piece::Image { url, detail: None });
            }
            Some(content) => read_all(content, out),
            None => {}
        }
    }
    if out.len() == before {
        let status = text(value, "status").map(|status| serde_json::json!({ "status": status }).to_string());
        out.extend(status.map(Piece::Text));
    }
}

pub(super) fn is_error(value: &Value) -> bool {
    let is_marked = value.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let code = |content: &Value| content.get("error_code").is_some_and(Value::is_string);
    is_marked
        || value.get("error").is_some_and(|error| !error.is_null())
        || value.get("content").is_some_and(code)
        || text(value, "status") == Some("failed")
}
