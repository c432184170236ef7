//! Whatever mixture of items or blocks a client sends, the upstream's request has nothing empty.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use toolwire::dialect::Dialect;

use super::{UPSTREAMS, instances, messages::around, sent};

/// The messages or items that contain an instance, for all types of this dialect.
fn pieces(own: Dialect) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    for (kind, names) in instances(own) {
        for (name, instance) in names {
            for instance in [emptied(&instance), instance] {
                if let Some((mut turns, _)) = around(own, &kind, &name, instance) {
                    // Without the questions around it.
                    turns.pop();
                    turns.remove(0);
                    found.push(turns);
                }
            }
        }
    }
    found.push(vec![json!({"role": "assistant", "content": ""})]);
    found.push(vec![json!({"role": "user", "content": "q"})]);
    found
}

/// The instance with empty texts and lists.
fn emptied(instance: &Value) -> Value {
    match instance {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let is_form = matches!(key.as_str(), "type" | "role" | "name") || key.ends_with("id");
                (key.clone(), if is_form { value.clone() } else { emptied(value) })
            })
            .collect(),
        Value::String(_) => "".into(),
        Value::Array(_) => json!([]),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn nothing_empty_is_sent(
        own in select(vec![Dialect::Chat, Dialect::Responses, Dialect::Messages]),
        places in vec(any::<prop::sample::Index>(), 1..6),
        upstream in select(UPSTREAMS.to_vec()),
    ) {
        let pieces = pieces(own);
        let turns: Vec<Value> = places.iter().flat_map(|place| place.get(&pieces).clone()).collect();
        let key = if own == Dialect::Responses { "input" } else { "messages" };
        let request = json!({"model": "m", "max_tokens": 9, key: turns});
        if own != upstream && let Ok(body) = sent(own, &request, upstream) {
            let faults = faults(upstream, &body);
            prop_assert!(faults.is_empty(), "{:?} in {} of {}", faults, body, request);
        }
    }
}

/// What is empty in the request for an upstream.
fn faults(upstream: Dialect, body: &Value) -> Vec<String> {
    let list =
        ["messages", "input", "contents", "turns"].into_iter().find_map(|key| body.get(key)?.as_array());
    let list =
        list.or_else(|| body["Prompt"]["turns"].as_array()).or_else(|| body["prompt"]["turns"].as_array());
    let Some(list) = list else { return vec![format!("{upstream} has no messages")] };
    let mut faults = Vec::new();
    if list.is_empty() {
        faults.push("no message".to_owned());
    }
    for (place, message) in list.iter().enumerate() {
        let is_models = matches!(message["role"].as_str(), Some("assistant" | "model"));
        if is_models && !says_something(message) {
            faults.push(format!("an empty turn of the assistant: {message}"));
        }
        let text = message.to_string();
        let is_heading = text.contains("Attached to the result of")
            && !text.contains("Attached to the result of the user");
        let media = ["image", "file", "inlineData", "input_audio", "document", "fileData"];
        let next = list.get(place + 1).map(Value::to_string).unwrap_or_default();
        if is_heading && !media.iter().any(|key| text.contains(key) || next.contains(key)) {
            faults.push(format!("a heading without contents: {message}"));
        }
    }
    faults
}

fn says_something(message: &Value) -> bool {
    const SAID: [&str; 9] = [
        "content",
        "tool_calls",
        "parts",
        "refusal",
        "reasoning_content",
        "reasoning",
        "thinking",
        "function_call",
        "audio",
    ];
    SAID.into_iter().any(|key| match &message[key] {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => list.iter().any(|part| part.get("text").is_none_or(|text| text != "")),
        Value::Object(_) => true,
        _ => false,
    })
}
