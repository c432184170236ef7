//! OpenAI Responses.

use serde_json::Value;

use super::{Reading, text};
use toolwire_pipeline::event::Finish;

/// Reads an event.
pub(super) fn event(reading: &mut Reading, name: &str, event: &Value) {
    let kind = match text(event, "type") {
        "" => name,
        kind => kind,
    };
    let delta = text(event, "delta");
    let received = &mut reading.received;
    match kind {
        "response.output_text.delta" => received.text.push_str(delta),
        "response.refusal.delta" => received.refusal.push_str(delta),
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            received.reasoning.push_str(delta);
        }
        "response.output_item.added" | "response.output_item.done" => {
            let index = event.get("output_index").map(ToString::to_string).unwrap_or_default();
            let Some(item) = event.get("item").filter(|item| text(item, "type") == "function_call") else {
                return;
            };
            reading.call(index, |call| {
                call.id = text(item, "call_id").to_owned();
                call.name = text(item, "name").to_owned();
                call.arguments = text(item, "arguments").to_owned();
            });
        }
        "response.completed" | "response.incomplete" => {
            let response = event.get("response").unwrap_or(&Value::Null);
            let count = |key: &str| response.pointer(key).and_then(Value::as_u64);
            received.usage = (count("/usage/input_tokens"), count("/usage/output_tokens"));
            let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
            received.finish = match (text(response, "status"), reason) {
                ("completed", _) if received.calls.is_empty() => Some(Finish::Stop),
                ("completed", _) => Some(Finish::Calls),
                ("incomplete", Some("max_output_tokens")) => Some(Finish::Length),
                ("incomplete", Some("content_filter")) => Some(Finish::Filter),
                _ => None,
            };
        }
        _ => {}
    }
}
