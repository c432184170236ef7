//! Anthropic Messages.

use serde_json::Value;

use super::{Reading, text};
use toolwire_pipeline::event::Finish;

/// Reads an event.
pub(super) fn event(reading: &mut Reading, event: &Value) {
    let count = |key: &str| event.pointer(key).and_then(Value::as_u64);
    let index = event.get("index").map(ToString::to_string).unwrap_or_default();
    let nothing = Value::Null;
    match text(event, "type") {
        "message_start" => {
            let input = count("/message/usage/input_tokens");
            reading.received.usage = (input, count("/message/usage/output_tokens"));
        }
        "content_block_start" => block(reading, index, event.get("content_block").unwrap_or(&nothing)),
        "content_block_delta" => {
            let delta = event.get("delta").unwrap_or(&nothing);
            reading.received.text.push_str(text(delta, "text"));
            reading.received.reasoning.push_str(text(delta, "thinking"));
            if delta.get("partial_json").is_some() && reading.places.contains_key(&index) {
                reading.call(index, |call| call.arguments.push_str(text(delta, "partial_json")));
            }
        }
        "content_block_stop" if reading.places.contains_key(&index) => reading.call(index, |call| {
            // Without a delta, the input is the block's empty object.
            if call.arguments.is_empty() {
                call.arguments.push_str("{}");
            }
        }),
        "message_delta" => {
            let usage = &mut reading.received.usage;
            usage.0 = count("/usage/input_tokens").or(usage.0);
            usage.1 = count("/usage/output_tokens").or(usage.1);
            let reason = event.pointer("/delta/stop_reason").and_then(Value::as_str).unwrap_or_default();
            reading.received.finish = match reason {
                "end_turn" | "stop_sequence" => Some(Finish::Stop),
                "tool_use" => Some(Finish::Calls),
                "max_tokens" => Some(Finish::Length),
                "refusal" => Some(Finish::Filter),
                _ => reading.received.finish,
            };
        }
        _ => {}
    }
}

fn block(reading: &mut Reading, index: String, block: &Value) {
    match text(block, "type") {
        "text" => reading.received.text.push_str(text(block, "text")),
        "thinking" => reading.received.reasoning.push_str(text(block, "thinking")),
        "tool_use" => reading.call(index, |call| {
            call.id.push_str(text(block, "id"));
            call.name.push_str(text(block, "name"));
            let input = block.get("input").filter(|input| input.as_object().is_some_and(|it| !it.is_empty()));
            call.arguments.extend(input.map(ToString::to_string));
        }),
        _ => {}
    }
}
