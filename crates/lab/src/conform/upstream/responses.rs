//! OpenAI Responses: docs/protocols/responses.md.

use serde_json::{Value, json};

use super::{super::scenario::USAGE, CREATED, Frames, MODEL, Scenario, Step, event, with};
use toolwire_pipeline::event::Finish;

/// The response as events.
pub(super) fn frames(scenario: &Scenario) -> Frames {
    let mut writer = Writer::default();
    for kind in ["response.created", "response.in_progress"] {
        let response = writer.response("in_progress");
        writer.event(kind, json!({ "response": response }));
    }
    for step in &scenario.steps {
        match step {
            Step::Text(text) => writer.text(text),
            Step::Reasoning(text) => writer.reasoning(text),
            Step::Call(call) => {
                writer.close();
                let id = call.id.replace("call_", "fc_");
                let item = |arguments: &str, status: &str| {
                    json!({"id": id, "type": "function_call", "status": status, "call_id": call.id,
                        "name": call.name, "arguments": arguments})
                };
                writer.item("added", &item("", "in_progress"));
                for piece in &call.arguments {
                    writer.event(
                        "response.function_call_arguments.delta",
                        json!({"item_id": id, "delta": piece}),
                    );
                }
                let whole = call.joined();
                let done = json!({"item_id": id, "name": call.name, "arguments": whole});
                writer.event("response.function_call_arguments.done", done);
                writer.done(item(&whole, "completed"));
            }
        }
    }
    writer.close();
    let before_finish = writer.all.len();
    let (status, reason) = match scenario.finish {
        Finish::Stop | Finish::Calls => ("completed", None),
        Finish::Length => ("incomplete", Some("max_output_tokens")),
        Finish::Filter => ("incomplete", Some("content_filter")),
    };
    let (input, output) = USAGE;
    let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output});
    let details = reason.map(|reason| json!({ "reason": reason }));
    let response = with(writer.response(status), json!({"usage": usage, "incomplete_details": details}));
    let kind = format!("response.{status}");
    writer.last(&kind, json!({ "response": response }));
    Frames { all: writer.all, before_finish }
}

#[derive(Default)]
struct Writer {
    all: Vec<Vec<u8>>,
    /// The completed items.
    items: Vec<Value>,
    /// The type and content of the open message or reasoning, if one is open.
    open: Option<(&'static str, String)>,
}

impl Writer {
    fn response(&self, status: &str) -> Value {
        json!({"id": "resp_conform", "object": "response", "created_at": CREATED, "status": status, "error": null,
            "incomplete_details": null, "instructions": null, "max_output_tokens": null, "metadata": {},
            "model": MODEL, "output": self.items, "parallel_tool_calls": true, "previous_response_id": null,
            "reasoning": {"effort": null, "summary": null}, "store": false, "temperature": 1.0,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "truncation": "disabled", "usage": null})
    }

    /// Adds an event. Unless it concerns the response, it belongs to the current item.
    fn event(&mut self, kind: &str, members: Value) {
        let place = match members.get("response") {
            Some(_) => json!({}),
            None => json!({ "output_index": self.items.len() }),
        };
        self.last(kind, with(place, members));
    }

    fn last(&mut self, kind: &str, members: Value) {
        let head = json!({"type": kind, "sequence_number": self.all.len()});
        self.all.push(event(&with(head, members)));
    }

    fn item(&mut self, step: &str, item: &Value) {
        self.event(&format!("response.output_item.{step}"), json!({ "item": item }));
    }

    /// Completes the item.
    fn done(&mut self, item: Value) {
        self.item("done", &item);
        self.items.push(item);
    }

    fn text(&mut self, piece: &str) {
        if self.open("message") {
            let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
            self.event("response.content_part.added", with(message_place(), json!({ "part": part })));
        }
        self.push(piece);
        let members = json!({"delta": piece, "logprobs": []});
        self.event("response.output_text.delta", with(message_place(), members));
    }

    fn reasoning(&mut self, piece: &str) {
        if self.open("reasoning") {
            let part = json!({"type": "summary_text", "text": ""});
            self.event(
                "response.reasoning_summary_part.added",
                with(reasoning_place(), json!({ "part": part })),
            );
        }
        self.push(piece);
        let members = with(reasoning_place(), json!({ "delta": piece }));
        self.event("response.reasoning_summary_text.delta", members);
    }

    /// Opens a message or reasoning. Returns `false` if it was already open.
    fn open(&mut self, kind: &'static str) -> bool {
        if self.open.as_ref().is_some_and(|(open, _)| *open == kind) {
            return false;
        }
        self.close();
        let item = match kind {
            "message" => json!({"id": "msg_conform", "type": "message", "status": "in_progress",
                "role": "assistant", "content": []}),
            _ => json!({"id": "rs_conform", "type": "reasoning", "summary": []}),
        };
        self.item("added", &item);
        self.open = Some((kind, String::new()));
        true
    }

    fn push(&mut self, piece: &str) {
        if let Some((_, content)) = &mut self.open {
            content.push_str(piece);
        }
    }

    fn close(&mut self) {
        let Some((kind, text)) = self.open.take() else { return };
        if kind == "message" {
            let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
            let members = json!({"text": text, "logprobs": []});
            self.event("response.output_text.done", with(message_place(), members));
            self.event("response.content_part.done", with(message_place(), json!({ "part": part })));
            self.done(json!({"id": "msg_conform", "type": "message", "status": "completed",
                "role": "assistant", "content": [part]}));
        } else {
            let part = json!({"type": "summary_text", "text": text});
            let members = with(reasoning_place(), json!({ "text": text }));
            self.event("response.reasoning_summary_text.done", members);
            let members = with(reasoning_place(), json!({ "part": part }));
            self.event("response.reasoning_summary_part.done", members);
            self.done(json!({"id": "rs_conform", "type": "reasoning", "summary": [part]}));
        }
    }
}

fn message_place() -> Value {
    json!({"item_id": "msg_conform", "content_index": 0})
}

fn reasoning_place() -> Value {
    json!({"item_id": "rs_conform", "summary_index": 0})
}
