//! OpenAI Chat Completions: docs/protocols/chat.md#stream.

use serde_json::{Value, json};

use super::{super::scenario::USAGE, CREATED, Frames, MODEL, Scenario, Step, data, with};
use toolwire_pipeline::event::Finish;

/// The response as chunks.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let mut all = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    let mut index = 0;
    for step in &scenario.steps {
        match step {
            Step::Text(text) => all.push(delta(json!({ "content": text }), None)),
            Step::Reasoning(text) => all.push(delta(json!({ "reasoning_content": text }), None)),
            Step::Call(call) => {
                let function = json!({"name": call.name, "arguments": ""});
                let begin = json!({"index": index, "id": call.id, "type": "function", "function": function});
                all.push(delta(json!({ "tool_calls": [begin] }), None));
                for piece in &call.arguments {
                    let more = json!({"index": index, "function": {"arguments": piece}});
                    all.push(delta(json!({ "tool_calls": [more] }), None));
                }
                index += 1;
            }
        }
    }
    let before_finish = all.len();
    let finish = match scenario.finish {
        Finish::Stop => "stop",
        Finish::Calls => "tool_calls",
        Finish::Length => "length",
        Finish::Filter => "content_filter",
    };
    all.push(delta(json!({}), Some(finish)));
    let (input, output) = USAGE;
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    all.push(data(&chunk(json!([]), json!({ "usage": usage }))));
    all.push(b"data: [DONE]\n\n".to_vec());
    Frames { all, before_finish }
}

fn delta(delta: Value, finish: Option<&str>) -> Vec<u8> {
    data(&chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]), json!({})))
}

fn chunk(choices: Value, more: Value) -> Value {
    let head = json!({"id": "chatcmpl-conform", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL});
    with(with(head, json!({ "choices": choices })), more)
}
