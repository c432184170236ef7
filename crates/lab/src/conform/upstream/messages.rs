//! Anthropic Messages: docs/protocols/messages.md#events.

use serde_json::{Value, json};

use super::{super::scenario::USAGE, Frames, MODEL, Scenario, Step, event};
use toolwire_pipeline::event::Finish;

/// The response as events.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let (input, output) = USAGE;
    let message = json!({"id": "msg_conform", "type": "message", "role": "assistant", "content": [],
        "model": MODEL, "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": 1}});
    let mut all =
        vec![event(&json!({"type": "message_start", "message": message})), event(&json!({"type": "ping"}))];
    let mut blocks = Blocks::default();
    for step in &scenario.steps {
        match step {
            Step::Text(text) => {
                blocks.open("text", &json!({"type": "text", "text": ""}), &mut all);
                blocks.delta(&json!({"type": "text_delta", "text": text}), &mut all);
            }
            Step::Reasoning(text) => {
                let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                blocks.open("thinking", &block, &mut all);
                blocks.delta(&json!({"type": "thinking_delta", "thinking": text}), &mut all);
            }
            Step::Call(call) => {
                blocks.close(&mut all);
                let block = json!({"type": "tool_use", "id": call.id.replace("call_", "toolu_"),
                    "name": call.name, "input": {}});
                blocks.open("tool_use", &block, &mut all);
                for piece in &call.arguments {
                    blocks.delta(&json!({"type": "input_json_delta", "partial_json": piece}), &mut all);
                }
                blocks.close(&mut all);
            }
        }
    }
    blocks.close(&mut all);
    let before_finish = all.len();
    let reason = match scenario.finish {
        Finish::Stop => "end_turn",
        Finish::Calls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Filter => "refusal",
    };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    all.push(event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}})));
    all.push(event(&json!({"type": "message_stop"})));
    Frames { all, before_finish }
}

/// The blocks of a message.
#[derive(Default)]
struct Blocks {
    /// The type of the open block, if one is open.
    open: Option<&'static str>,
    /// Number of closed blocks.
    closed: u64,
}

impl Blocks {
    /// Opens a block, unless a block of the same type is open.
    fn open(&mut self, kind: &'static str, block: &Value, all: &mut Vec<Vec<u8>>) {
        if self.open == Some(kind) {
            return;
        }
        self.close(all);
        self.open = Some(kind);
        all.push(event(
            &json!({"type": "content_block_start", "index": self.closed, "content_block": block}),
        ));
    }

    fn delta(&self, delta: &Value, all: &mut Vec<Vec<u8>>) {
        all.push(event(&json!({"type": "content_block_delta", "index": self.closed, "delta": delta})));
    }

    fn close(&mut self, all: &mut Vec<Vec<u8>>) {
        if self.open == Some("thinking") {
            self.delta(&json!({"type": "signature_delta", "signature": "c2lnbmF0dXJl"}), all);
        }
        if self.open.take().is_some() {
            all.push(event(&json!({"type": "content_block_stop", "index": self.closed})));
            self.closed += 1;
        }
    }
}
