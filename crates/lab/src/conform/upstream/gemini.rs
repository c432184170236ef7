//! Google Gemini, `streamGenerateContent` as an event stream.

use serde_json::{Value, json};

use super::{super::scenario::USAGE, Frames, MODEL, Scenario, Step, data, parsed, with};
use toolwire_pipeline::event::Finish;

/// The response as events.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let chunk = |candidate: Value, more: Value| {
        let head = json!({"candidates": [candidate], "modelVersion": MODEL, "responseId": "resp-conform"});
        data(&with(head, more))
    };
    let part =
        |part: Value| chunk(json!({"index": 0, "content": {"role": "model", "parts": [part]}}), json!({}));
    let parts = scenario.steps.iter().map(|step| match step {
        Step::Text(text) => part(json!({ "text": text })),
        Step::Reasoning(text) => part(json!({"thought": true, "text": text})),
        Step::Call(call) => part(json!({"functionCall": {"name": call.name, "args": parsed(call)}})),
    });
    let mut all: Vec<_> = parts.collect();
    let before_finish = all.len();
    let finish = match scenario.finish {
        Finish::Stop | Finish::Calls => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filter => "SAFETY",
    };
    let (input, output) = USAGE;
    let usage =
        json!({"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output});
    let last =
        json!({"index": 0, "content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": finish});
    all.push(chunk(last, json!({ "usageMetadata": usage })));
    Frames { all, before_finish }
}
