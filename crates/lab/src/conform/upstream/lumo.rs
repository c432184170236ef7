//! Proton Lumo, second version: docs/protocols/lumo.md#v2-stream.

use serde_json::{Value, json};

use super::{Frames, MODEL, Scenario, Step, data};
use toolwire_pipeline::event::Finish;

/// Returns the response as chunks. Lumo runs its native calls itself, so a scenario's calls are left out.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let chunk =
        |choice: Value| data(&json!({"object": "CompletionChunk", "model": MODEL, "choices": [choice]}));
    let delta = |delta: Value| chunk(json!({"index": 0, "delta": delta}));
    let pieces = scenario.steps.iter().filter_map(|step| match step {
        Step::Text(text) => Some(delta(json!({ "content": text }))),
        Step::Reasoning(text) => Some(delta(json!({"target": "reasoning", "content": text}))),
        Step::Call(_) => None,
    });
    let mut all: Vec<_> = pieces.collect();
    let before_finish = all.len();
    let finish = match scenario.finish {
        Finish::Stop | Finish::Calls => "stop",
        Finish::Length => "length",
        Finish::Filter => "content_filter",
    };
    all.push(chunk(json!({"index": 0, "delta": {}, "finish_reason": finish})));
    all.push(b"data: [DONE]\n\n".to_vec());
    Frames { all, before_finish }
}
