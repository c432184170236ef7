//! Builds streams of Google's Interactions API, in which a step ends when another kind of content begins.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Builds a stream. The value of a `d` event is a step, or calls in the format of Chat Completions.
pub(super) fn stream(events: &[Value]) -> String {
    let mut stream = Steps::default();
    stream.put(json!({"event_type": "interaction.created",
        "interaction": {"id": "v1_up", "object": "interaction", "status": "in_progress", "model": "m"}}));
    events.iter().for_each(|event| stream.event(event[0].as_str().expect("a word"), &event[1]));
    stream.frames
}

#[derive(Default)]
struct Steps {
    frames: String,
    next: u64,
    /// The type and the index of the open output or thought.
    open: Option<(&'static str, u64)>,
    /// Maps a call's number in the events to the index of its step.
    calls: HashMap<u64, u64>,
    usage: Value,
}

impl Steps {
    fn put(&mut self, event: Value) {
        let kind = event["event_type"].as_str().expect("a type");
        self.frames.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    }

    fn start(&mut self, step: &Value) -> u64 {
        let index = self.next;
        self.next += 1;
        self.put(json!({"event_type": "step.start", "index": index, "step": step}));
        index
    }

    fn delta(&mut self, index: u64, delta: &Value) {
        self.put(json!({"event_type": "step.delta", "index": index, "delta": delta}));
    }

    fn stop(&mut self, index: u64) {
        self.put(json!({"event_type": "step.stop", "index": index}));
    }

    fn close(&mut self) {
        if let Some((_, index)) = self.open.take() {
            self.stop(index);
        }
    }

    fn piece(&mut self, kind: &'static str, delta: &Value) {
        if self.open.is_none_or(|(open, _)| open != kind) {
            self.close();
            let index = self.start(&json!({ "type": kind }));
            self.open = Some((kind, index));
        }
        self.delta(self.open.map_or(0, |(_, index)| index), delta);
    }

    fn call(&mut self, element: &Value) {
        let number = element["index"].as_u64().unwrap_or(0);
        let function = &element["function"];
        if element["id"].is_string() {
            self.close();
            let step = json!({"type": "function_call", "id": element["id"], "name": function["name"], "arguments": {}});
            let index = self.start(&step);
            self.calls.insert(number, index);
        }
        let index = self.calls.get(&number).copied().unwrap_or(99);
        self.delta(index, &json!({"type": "arguments_delta", "arguments": function["arguments"]}));
    }

    fn event(&mut self, word: &str, value: &Value) {
        match word {
            "m" => self.piece("model_output", &json!({"type": "text", "text": value})),
            "r" => {
                let content = json!({"type": "text", "text": value});
                self.piece("thought", &json!({"type": "thought_summary", "content": content}));
            }
            "d" if value["tool_calls"].is_array() => {
                value["tool_calls"].as_array().into_iter().flatten().for_each(|element| self.call(element));
            }
            "d" if value["event_type"].is_string() => self.put(value.clone()),
            "d" => {
                self.close();
                let index = self.start(value);
                self.stop(index);
            }
            "u" => {
                self.usage = json!({"total_input_tokens": value["prompt_tokens"],
                    "total_output_tokens": value["completion_tokens"]});
            }
            "fin" => {
                self.close();
                let status = match value.as_str() {
                    Some("stop") => "completed",
                    Some("length" | "content_filter") => "incomplete",
                    Some("tool_calls") => "requires_action",
                    other => other.expect("a word"),
                };
                let usage = std::mem::take(&mut self.usage);
                self.put(json!({"event_type": "interaction.completed",
                    "interaction": {"id": "v1_up", "status": status, "usage": usage}}));
            }
            "err" => self.put(json!({"event_type": "error", "error": value})),
            "c" => self.frames.push_str(&format!(":{}\n\n", value.as_str().expect("a comment"))),
            "done" => self.frames.push_str("event: done\ndata: [DONE]\n\n"),
            other => panic!("unknown event {other}"),
        }
    }
}
