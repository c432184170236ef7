//! Puts an instance of a type into messages or items.

use serde_json::{Value, json};
use toolwire::dialect::Dialect;

use super::embed::question;

/// The messages or items with the instance, and without it. `None` for other kinds.
pub(super) fn around(own: Dialect, kind: &str, name: &str, one: Value) -> Option<(Vec<Value>, Vec<Value>)> {
    let (before, with, without) = match (own, kind) {
        (Dialect::Chat, "message") => (call_before(own, name), vec![one], vec![]),
        (Dialect::Chat, "message member") if !matches!(name, "role" | "content") => {
            let mut message = json!({"role": "assistant", "content": "t"});
            let without = message.clone();
            message[name] = one;
            (vec![], vec![message], vec![without])
        }
        (Dialect::Chat, "message member") => return None,
        (Dialect::Chat, "part") => {
            let role = if name == "refusal" { "assistant" } else { "user" };
            (vec![], vec![json!({"role": role, "content": [one]})], vec![])
        }
        (Dialect::Chat, "call") => (vec![], vec![json!({"role": "assistant", "tool_calls": [one]})], vec![]),
        (Dialect::Responses, "item") => (call_before(own, name), vec![one], vec![]),
        (Dialect::Responses, "part") => {
            let role = if matches!(name, "output_text" | "refusal") { "assistant" } else { "user" };
            (vec![], vec![json!({"role": role, "content": [one]})], vec![])
        }
        (Dialect::Responses, "part of a result") => {
            let output =
                |parts: Value| json!({"type": "function_call_output", "call_id": "call_1", "output": parts});
            (call_before(own, "function_call_output"), vec![output(json!([one]))], vec![output(json!([]))])
        }
        (Dialect::Responses, "annotation") => {
            let text = |list: Value| {
                let part = json!({"type": "output_text", "text": "t", "annotations": list});
                json!({"type": "message", "role": "assistant", "content": [part]})
            };
            (vec![], vec![text(json!([one]))], vec![text(json!([]))])
        }
        (Dialect::Messages, "citation") => {
            let said = |list: Value| {
                let text = json!({"type": "text", "text": "t", "citations": list});
                json!({"role": "assistant", "content": [text]})
            };
            (vec![], vec![said(json!([one]))], vec![said(json!([]))])
        }
        (Dialect::Messages, "block") => (call_before(own, name), vec![message_of(name, one)], vec![]),
        (Dialect::Messages, "block of a result") => {
            let result =
                |blocks: Value| json!({"type": "tool_result", "tool_use_id": "use_1", "content": blocks});
            let message = |blocks| message_of("tool_result", result(blocks));
            (call_before(own, "tool_result"), vec![message(json!([one]))], vec![message(json!([]))])
        }
        (Dialect::Messages, "image source" | "document source") => {
            let kind = kind.split(' ').next().unwrap();
            (vec![], vec![message_of(kind, json!({"type": kind, "source": one}))], vec![])
        }
        _ => return None,
    };
    let all = |middle: Vec<Value>| {
        let before = before.iter().cloned();
        [question("q")].into_iter().chain(before).chain(middle).chain([question("r")]).collect()
    };
    Some((all(with), all(without)))
}

/// A message with this block, by the author who writes such blocks.
fn message_of(name: &str, block: Value) -> Value {
    let role = match name {
        "tool_addition" | "tool_removal" => "system",
        "tool_result" => "user",
        "thinking" | "redacted_thinking" | "compaction" | "fallback" | "mcp_tool_listing" => "assistant",
        name if name.ends_with("tool_use") || name.ends_with("_tool_result") => "assistant",
        _ => "user",
    };
    json!({"role": role, "content": [block]})
}

/// The call that a result must follow.
fn call_before(own: Dialect, name: &str) -> Vec<Value> {
    let called = match (own, name) {
        (Dialect::Chat, "tool") => {
            let call =
                json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
            json!({"role": "assistant", "tool_calls": [call]})
        }
        (Dialect::Chat, "function") => {
            json!({"role": "assistant", "function_call": {"name": "name_text_2", "arguments": "{}"}})
        }
        (Dialect::Responses, "function_call_output" | "custom_tool_call_output") => {
            json!({"type": name.trim_end_matches("_output"), "call_id": "call_1", "name": "f"})
        }
        (Dialect::Responses, "mcp_approval_response") => {
            json!({"type": "mcp_approval_request", "id": "id_1", "name": "f", "server_label": "s", "arguments": "{}"})
        }
        (Dialect::Responses, "program_output") => {
            json!({"type": "program", "id": "id_2", "call_id": "call_1", "code": "c", "fingerprint": "f"})
        }
        (Dialect::Responses, name) if name.ends_with("_output") => {
            let kind = format!("{}_call", name.trim_end_matches("_output").trim_end_matches("_call"));
            json!({"type": kind, "id": "id_1", "call_id": "call_1", "status": "completed", "action": {"commands": ["c"]}})
        }
        (Dialect::Messages, "tool_result") => {
            message_of("tool_use", json!({"type": "tool_use", "id": "use_1", "name": "f", "input": {}}))
        }
        (Dialect::Messages, "mcp_tool_result") => message_of(
            "mcp_tool_use",
            json!({"type": "mcp_tool_use", "id": "use_1", "name": "f", "server_name": "s", "input": {}}),
        ),
        (Dialect::Messages, name) if name.ends_with("_tool_result") => message_of(
            "server_tool_use",
            json!({"type": "server_tool_use", "id": "use_1", "name": "web_search", "input": {}}),
        ),
        _ => return Vec::new(),
    };
    vec![called]
}
