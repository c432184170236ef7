//! Responses in one piece, as upstreams answer requests that do not ask for a stream.

use serde_json::{Map, Value, json};

use super::{
    scenario::{Scenario, Step, USAGE},
    upstream::{Frames, IDENTITY, written},
};
use crate::upstream::{Api, Usage};
use toolwire_pipeline::event::Finish;

/// Whether a request, with this path and body, asks for a stream. Lumo has no other responses.
pub(crate) fn asks_for_stream(api: Api, path: &str, body: &Value) -> bool {
    match api {
        Api::Lumo | Api::LumoV1 => true,
        Api::Gemini => path.ends_with(":streamGenerateContent"),
        _ => body.get("stream").and_then(Value::as_bool).unwrap_or(api == Api::Ollama),
    }
}

/// Writes a scenario, leaving out parts that the dialect does not support.
pub(crate) fn whole(scenario: &Scenario, api: Api) -> Value {
    let (input, output) = USAGE;
    let (name, model, created) = (IDENTITY.name, IDENTITY.model, IDENTITY.created);
    match api {
        Api::Chat | Api::Completions => {
            let usage =
                json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
            let (object, choice) = match api {
                Api::Completions => (
                    "text_completion",
                    json!({"index": 0, "text": scenario.joined_text(), "logprobs": null, "finish_reason": finish(scenario, ["stop", "stop", "length", "content_filter"])}),
                ),
                _ => (
                    "chat.completion",
                    json!({"index": 0, "message": chat_message(scenario), "finish_reason": finish(scenario, ["stop", "tool_calls", "length", "content_filter"])}),
                ),
            };
            json!({"id": format!("cmpl-{name}"), "object": object, "created": created, "model": model, "choices": [choice], "usage": usage})
        }
        Api::Messages => {
            let stop = finish(scenario, ["end_turn", "tool_use", "max_tokens", "refusal"]);
            json!({"id": format!("msg_{name}"), "type": "message", "role": "assistant", "model": model,
                "content": blocks(scenario), "stop_reason": stop, "stop_sequence": null,
                "usage": {"input_tokens": input, "output_tokens": output}})
        }
        Api::Gemini => {
            let usage = json!({"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output});
            let content = json!({"role": "model", "parts": parts(scenario)});
            let stop = finish(scenario, ["STOP", "STOP", "MAX_TOKENS", "SAFETY"]);
            json!({"candidates": [{"index": 0, "content": content, "finishReason": stop}],
                "usageMetadata": usage, "modelVersion": model, "responseId": format!("resp-{name}")})
        }
        Api::Ollama => {
            let stop = finish(scenario, ["stop", "stop", "length", "stop"]);
            json!({"model": model, "created_at": "2025-06-15T15:06:40.000Z", "message": ollama_message(scenario),
                "done": true, "done_reason": stop, "prompt_eval_count": input, "eval_count": output})
        }
        Api::Interactions => {
            written(scenario, api).whole_interaction(scenario.finish, Usage { input, output })
        }
        // The last event contains the complete response.
        Api::Responses => {
            let frames = Frames::of(scenario, api).all;
            let last = frames.last().and_then(|frame| str::from_utf8(frame).ok()?.split_once("data: "));
            let event: Value = last.and_then(|(_, data)| serde_json::from_str(data).ok()).unwrap_or_default();
            event.get("response").cloned().unwrap_or_default()
        }
        Api::Lumo | Api::LumoV1 => Value::Null,
    }
}

/// Chooses the dialect's word: for the end, calls, the token limit or the content filter.
fn finish(scenario: &Scenario, [stop, calls, length, filter]: [&'static str; 4]) -> &'static str {
    match scenario.finish {
        Finish::Stop => stop,
        Finish::Calls => calls,
        Finish::Length => length,
        Finish::Filter => filter,
    }
}

fn chat_message(scenario: &Scenario) -> Value {
    let calls = scenario.calls().map(|call| {
        json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.joined()}})
    });
    message(scenario, "reasoning_content", calls.collect())
}

fn ollama_message(scenario: &Scenario) -> Value {
    let calls = scenario
        .calls()
        .map(|call| json!({"function": {"name": call.name, "arguments": value(&call.joined())}}));
    message(scenario, "thinking", calls.collect())
}

fn message(scenario: &Scenario, reasoning_member: &str, calls: Vec<Value>) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), scenario.joined_text().into());
    let reasoning = scenario.joined_reasoning();
    if !reasoning.is_empty() {
        message.insert(reasoning_member.to_owned(), reasoning.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(message)
}

fn blocks(scenario: &Scenario) -> Vec<Value> {
    let thinking = Some(scenario.joined_reasoning()).filter(|text| !text.is_empty());
    let thinking = thinking.map(|text| json!({"type": "thinking", "thinking": text, "signature": "c2ln"}));
    let text = Some(scenario.joined_text()).filter(|text| !text.is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let calls = scenario.calls().map(
        |call| json!({"type": "tool_use", "id": call.id, "name": call.name, "input": value(&call.joined())}),
    );
    thinking.into_iter().chain(text).chain(calls).collect()
}

fn parts(scenario: &Scenario) -> Vec<Value> {
    let part = |step: &Step| match step {
        Step::Text(text) => json!({ "text": text }),
        Step::Reasoning(text) => json!({"thought": true, "text": text}),
        Step::Call(call) => {
            json!({"functionCall": {"id": call.id, "name": call.name, "args": value(&call.joined())}})
        }
    };
    scenario.steps.iter().map(part).collect()
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}
