//! OpenAI Chat Completions.

use serde_json::Value;

use super::{Reading, text};
use toolwire_pipeline::event::Finish;

/// Reads a chunk.
pub(super) fn event(reading: &mut Reading, chunk: &Value) {
    let count = |key: &str| chunk.pointer(key).and_then(Value::as_u64);
    if chunk.get("usage").is_some_and(Value::is_object) {
        reading.received.usage = (count("/usage/prompt_tokens"), count("/usage/completion_tokens"));
    }
    let Some(choice) = chunk.pointer("/choices/0") else { return };
    if let Some(delta) = choice.get("delta") {
        let received = &mut reading.received;
        received.text.push_str(text(delta, "content"));
        received.refusal.push_str(text(delta, "refusal"));
        let reasoning = [text(delta, "reasoning_content"), text(delta, "reasoning")];
        received.reasoning.extend(reasoning.into_iter().find(|piece| !piece.is_empty()));
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            call_delta(reading, call);
        }
    }
    reading.received.finish = match text(choice, "finish_reason") {
        "stop" => Some(Finish::Stop),
        "tool_calls" => Some(Finish::Calls),
        "length" => Some(Finish::Length),
        "content_filter" => Some(Finish::Filter),
        _ => reading.received.finish,
    };
}

fn call_delta(reading: &mut Reading, delta: &Value) {
    let index = delta.get("index").map(ToString::to_string).unwrap_or_default();
    reading.call(index, |call| {
        if call.id.is_empty() {
            call.id.push_str(text(delta, "id"));
        }
        if let Some(function) = delta.get("function") {
            if call.name.is_empty() {
                call.name.push_str(text(function, "name"));
            }
            call.arguments.push_str(text(function, "arguments"));
        }
    });
}
