//! Builds the stream of a Responses upstream from events in the notation of the conformance cases.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Builds a stream in which an item ends when another kind of content begins. The value of a `d` event is either a
/// call in the format of Chat Completions or an event of the Responses API.
pub(crate) fn stream(events: &[Value]) -> String {
    let mut stream = Stream::default();
    let response = stream.response("in_progress");
    stream.put(json!({"type": "response.created", "response": response}));
    events.iter().for_each(|event| stream.event(event[0].as_str().expect("a word"), &event[1]));
    stream.frames
}

#[derive(Default)]
struct Stream {
    frames: String,
    count: u64,
    /// The items so far, each in its final form.
    items: Vec<Value>,
    /// The index of the open text or reasoning item, if any.
    open: Option<usize>,
    /// Maps a call's number in the events to the index of its item.
    calls: HashMap<u64, usize>,
    usage: Value,
    finish: Option<String>,
}

impl Stream {
    fn put(&mut self, mut event: Value) {
        event["sequence_number"] = self.count.into();
        self.count += 1;
        let kind = event["type"].as_str().expect("a type");
        self.frames.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    }

    fn response(&self, status: &str) -> Value {
        json!({"id": "resp_up", "object": "response", "created_at": 7, "model": "m", "status": status,
               "output": self.items, "error": null, "incomplete_details": null, "usage": self.usage})
    }

    fn add(&mut self, item: Value) -> usize {
        let place = self.items.len();
        self.put(json!({"type": "response.output_item.added", "output_index": place, "item": item}));
        self.items.push(item);
        place
    }

    fn end_item(&mut self, place: usize) {
        let item = self.items[place].clone();
        self.put(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
    }

    fn close(&mut self) {
        if let Some(place) = self.open.take() {
            self.end_item(place);
        }
    }

    fn piece(&mut self, kind: &'static str, text: &Value) {
        let (list, part, event) = match kind {
            "message" => ("content", "output_text", "output_text"),
            _ => ("summary", "summary_text", "reasoning_summary_text"),
        };
        let open = self.open.filter(|place| self.items[*place]["type"] == kind);
        let place = open.unwrap_or_else(|| {
            self.close();
            self.add(json!({"type": kind, "id": format!("it_{}", self.items.len()), list: []}))
        });
        self.open = Some(place);
        self.put(json!({"type": format!("response.{event}.delta"), "output_index": place, "content_index": 0, "delta": text}));
        let said = self.items[place][list][0]["text"].as_str().unwrap_or_default();
        let said = format!("{said}{}", text.as_str().unwrap_or_default());
        self.items[place][list] = json!([{"type": part, "text": said}]);
    }

    fn call(&mut self, element: &Value) {
        let number = element["index"].as_u64().unwrap_or(0);
        let function = &element["function"];
        if element["id"].is_string() {
            self.close();
            let item = json!({"type": "function_call", "id": format!("fc_{}", self.items.len()),
                              "call_id": element["id"], "name": function["name"], "arguments": ""});
            let place = self.add(item);
            self.calls.insert(number, place);
        }
        let Some(place) = self.calls.get(&number).copied() else { return };
        let piece = function["arguments"].as_str().unwrap_or_default();
        self.put(
            json!({"type": "response.function_call_arguments.delta", "output_index": place, "delta": piece}),
        );
        let arguments = format!("{}{piece}", self.items[place]["arguments"].as_str().expect("arguments"));
        self.items[place]["arguments"] = arguments.into();
    }

    fn event(&mut self, word: &str, value: &Value) {
        match word {
            "m" => self.piece("message", value),
            "r" => self.piece("reasoning", value),
            "d" if value["tool_calls"].is_array() => {
                value["tool_calls"].as_array().into_iter().flatten().for_each(|element| self.call(element));
            }
            // The item arrives in one piece.
            "d" if value["type"] == "response.output_item.done" => {
                self.close();
                let place = self.add(value["item"].clone());
                self.end_item(place);
            }
            "d" => self.put(value.clone()),
            "u" => {
                self.usage = json!({"input_tokens": value["prompt_tokens"], "output_tokens": value["completion_tokens"],
                                    "total_tokens": value["total_tokens"]});
            }
            "fin" => {
                self.close();
                let mut places: Vec<_> = self.calls.values().copied().collect();
                places.sort_unstable();
                places.into_iter().for_each(|place| self.end_item(place));
                self.finish = value.as_str().map(str::to_owned);
            }
            "err" => {
                let mut event = value.clone();
                event["type"] = "error".into();
                self.put(event);
            }
            "c" => self.frames.push_str(&format!(":{}\n\n", value.as_str().expect("a comment"))),
            "done" => self.last(),
            other => panic!("unknown event {other}"),
        }
    }

    fn last(&mut self) {
        let reason = match self.finish.as_deref() {
            Some("length") => Some("max_output_tokens"),
            Some("content_filter") => Some("content_filter"),
            _ => None,
        };
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let mut response = self.response(status);
        response["incomplete_details"] = reason.map_or(Value::Null, |reason| json!({ "reason": reason }));
        self.put(json!({"type": format!("response.{status}"), "response": response}));
    }
}
