//! Text completions in OpenAI's form: docs/protocols/completions.md.

use serde_json::{Value, json};

use super::{super::scenario::USAGE, CREATED, Frames, MODEL, Scenario, Step, data, with};
use toolwire_pipeline::event::Finish;

/// Returns the response as chunks. They contain no reasoning and no native calls.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let chunk = |choices: Value, more: Value| {
        let head =
            json!({"id": "cmpl-conform", "object": "text_completion", "created": CREATED, "model": MODEL});
        data(&with(with(head, json!({ "choices": choices })), more))
    };
    let text = |text: &str, finish: Option<&str>| {
        chunk(json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]), json!({}))
    };
    let pieces = scenario.steps.iter().filter_map(|step| match step {
        Step::Text(piece) => Some(text(piece, None)),
        Step::Reasoning(_) | Step::Call(_) => None,
    });
    let mut all: Vec<_> = pieces.collect();
    let before_finish = all.len();
    all.push(text("", Some(if scenario.finish == Finish::Length { "length" } else { "stop" })));
    let (input, output) = USAGE;
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    all.push(chunk(json!([]), json!({ "usage": usage })));
    all.push(b"data: [DONE]\n\n".to_vec());
    Frames { all, before_finish }
}
