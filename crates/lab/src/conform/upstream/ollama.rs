//! Ollama's own API, `/api/chat`, as lines of JSON.

use serde_json::{Value, json};

use super::{super::scenario::USAGE, Frames, MODEL, Scenario, Step, line, parsed, with};
use toolwire_pipeline::event::Finish;

/// The response as lines.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let head = |message: Value, done: bool| {
        json!({"model": MODEL, "created_at": "2025-06-15T15:06:40.000Z",
            "message": with(json!({"role": "assistant"}), message), "done": done})
    };
    let lines = scenario.steps.iter().map(|step| {
        let message = match step {
            Step::Text(text) => json!({ "content": text }),
            Step::Reasoning(text) => json!({"content": "", "thinking": text}),
            Step::Call(call) => {
                let function = json!({"name": call.name, "arguments": parsed(call)});
                json!({"content": "", "tool_calls": [{ "function": function }]})
            }
        };
        line(&head(message, false))
    });
    let mut all: Vec<_> = lines.collect();
    let before_finish = all.len();
    let reason = if scenario.finish == Finish::Length { "length" } else { "stop" };
    let (input, output) = USAGE;
    let counts = json!({"done_reason": reason, "total_duration": 5_000_000, "load_duration": 1_000_000,
        "prompt_eval_count": input, "prompt_eval_duration": 1_000_000, "eval_count": output,
        "eval_duration": 3_000_000});
    all.push(line(&with(head(json!({"content": ""}), true), counts)));
    Frames { all, before_finish }
}
