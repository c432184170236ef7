//! The dialects whose responses consist of items or blocks with start and end events: OpenAI Responses
//! (docs/protocols/responses.md) and Anthropic Messages (docs/protocols/messages.md#events).

use serde_json::{Value, json};

use super::{
    Api,
    writer::{Content, FrameWriter, Identity, Item, Kind, Usage, with},
};
use toolwire_pipeline::event::Finish;

impl FrameWriter {
    pub(super) fn begin_response(&mut self) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress");
            self.event(kind, json!({ "response": response }), Content::New);
        }
    }

    pub(super) fn begin_message(&mut self, input: u64) {
        let Identity { name, model, .. } = self.identity;
        let message = json!({"id": format!("msg_{name}"), "type": "message", "role": "assistant", "content": [],
            "model": model, "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": input, "output_tokens": 1}});
        self.event("message_start", json!({ "message": message }), Content::New);
        self.event("ping", json!({}), Content::New);
    }

    pub(super) fn end_response(&mut self, finish: Finish, Usage { input, output }: Usage) {
        let (status, reason) = match finish {
            Finish::Stop | Finish::Calls => ("completed", None),
            Finish::Length => ("incomplete", Some("max_output_tokens")),
            Finish::Filter => ("incomplete", Some("content_filter")),
        };
        let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input + output});
        let details = reason.map(|reason| json!({ "reason": reason }));
        let response = with(self.response(status), json!({"usage": usage, "incomplete_details": details}));
        self.event(&format!("response.{status}"), json!({ "response": response }), Content::Response);
    }

    pub(super) fn end_message(&mut self, finish: Finish, output: u64) {
        let reason = match finish {
            Finish::Stop => "end_turn",
            Finish::Calls => "tool_use",
            Finish::Length => "max_tokens",
            Finish::Filter => "refusal",
        };
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        let members = json!({"delta": delta, "usage": {"output_tokens": output}});
        self.event("message_delta", members, Content::New);
        self.event("message_stop", json!({}), Content::New);
    }

    /// Writes a piece of the current item. If that item is of another kind, starts a new one first.
    pub(super) fn block_delta(&mut self, kind: Kind, piece: &str) {
        if self.open.as_ref().is_none_or(|item| item.kind != kind) {
            self.close();
            self.open_item(Item { kind, id: String::new(), name: String::new(), content: String::new() });
        }
        let Some(item) = &mut self.open else { return };
        item.content.push_str(piece);
        if self.api == Api::Interactions {
            return self.step_delta(kind, piece);
        }
        if self.api == Api::Messages {
            return self.message_delta(match kind {
                Kind::Text => json!({"type": "text_delta", "text": piece}),
                Kind::Reasoning => json!({"type": "thinking_delta", "thinking": piece}),
                Kind::Call => json!({"type": "input_json_delta", "partial_json": piece}),
            });
        }
        let (event, delta) = match kind {
            Kind::Text => ("response.output_text.delta", json!({"delta": piece, "logprobs": []})),
            Kind::Reasoning => ("response.reasoning_summary_text.delta", json!({ "delta": piece })),
            Kind::Call => ("response.function_call_arguments.delta", json!({ "delta": piece })),
        };
        let place = place(item, self.identity);
        self.item_event(event, with(place, delta), Content::New);
    }

    /// Begins an item. In dialects without items, only stores it.
    pub(super) fn open_item(&mut self, item: Item) {
        match self.api {
            Api::Interactions => self.open_step(&item),
            Api::Messages => {
                let block = match item.kind {
                    Kind::Text => json!({"type": "text", "text": ""}),
                    Kind::Reasoning => json!({"type": "thinking", "thinking": "", "signature": ""}),
                    Kind::Call => json!({"type": "tool_use", "id": item.id.replace("call_", "toolu_"),
                        "name": item.name, "input": {}}),
                };
                let members = json!({"index": self.items.len(), "content_block": block});
                self.event("content_block_start", members, Content::ItemStart);
            }
            Api::Responses => {
                let added = json!({ "item": whole(&item, self.identity, "in_progress") });
                self.item_event("response.output_item.added", added, Content::ItemStart);
                if let Some((event, part)) = part(&item) {
                    let members = with(place(&item, self.identity), json!({ "part": part }));
                    self.item_event(&format!("response.{event}.added"), members, Content::New);
                }
            }
            _ => {}
        }
        self.open = Some(item);
    }

    pub(super) fn close_block(&mut self, item: Item) {
        if self.api == Api::Interactions {
            return self.close_step(&item);
        }
        let done = whole(&item, self.identity, "completed");
        if self.api == Api::Messages {
            if item.kind == Kind::Reasoning {
                self.message_delta(json!({"type": "signature_delta", "signature": "c2lnbmF0dXJl"}));
            }
            self.event("content_block_stop", json!({ "index": self.items.len() }), Content::New);
        } else {
            let content = item.content.as_str();
            let (event, text) = match item.kind {
                Kind::Text => ("output_text", json!({"text": content, "logprobs": []})),
                Kind::Reasoning => ("reasoning_summary_text", json!({ "text": content })),
                Kind::Call => ("function_call_arguments", json!({"name": item.name, "arguments": content})),
            };
            let place = place(&item, self.identity);
            self.item_event(&format!("response.{event}.done"), with(place.clone(), text), Content::Item);
            if let Some((event, part)) = part(&item) {
                let members = with(place, json!({ "part": part }));
                self.item_event(&format!("response.{event}.done"), members, Content::Item);
            }
            self.item_event("response.output_item.done", json!({ "item": done }), Content::Item);
        }
        self.items.push(done);
    }

    fn message_delta(&mut self, delta: Value) {
        let members = json!({"index": self.items.len(), "delta": delta});
        self.event("content_block_delta", members, Content::New);
    }

    /// Writes an event of Responses for the current item.
    fn item_event(&mut self, kind: &str, members: Value, content: Content) {
        self.event(kind, with(json!({ "output_index": self.items.len() }), members), content);
    }

    fn event(&mut self, kind: &str, members: Value, content: Content) {
        let mut event = json!({ "type": kind });
        if self.api == Api::Responses {
            event = with(event, json!({ "sequence_number": self.count }));
            self.count += 1;
        }
        self.push(self.api.frame(&with(event, members)), content);
    }

    fn response(&self, status: &str) -> Value {
        let Identity { name, model, created } = self.identity;
        json!({"id": format!("resp_{name}"), "object": "response", "created_at": created, "status": status,
            "error": null, "incomplete_details": null, "instructions": null, "max_output_tokens": null,
            "metadata": {}, "model": model, "output": self.items, "parallel_tool_calls": true,
            "previous_response_id": null, "reasoning": {"effort": null, "summary": null}, "store": false,
            "temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "truncation": "disabled", "usage": null})
    }
}

fn item_id(item: &Item, identity: &Identity) -> String {
    match item.kind {
        Kind::Text => format!("msg_{}", identity.name),
        Kind::Reasoning => format!("rs_{}", identity.name),
        Kind::Call => item.id.replace("call_", "fc_"),
    }
}

/// Returns the members of an event of Responses that identify the part of the item.
fn place(item: &Item, identity: &Identity) -> Value {
    let id = item_id(item, identity);
    match item.kind {
        Kind::Text => json!({"item_id": id, "content_index": 0}),
        Kind::Reasoning => json!({"item_id": id, "summary_index": 0}),
        Kind::Call => json!({ "item_id": id }),
    }
}

/// Returns the event name and the content so far of the part in an item of Responses. Calls have no parts.
fn part(item: &Item) -> Option<(&'static str, Value)> {
    let text = &item.content;
    match item.kind {
        Kind::Text => Some((
            "content_part",
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
        )),
        Kind::Reasoning => Some(("reasoning_summary_part", json!({"type": "summary_text", "text": text}))),
        Kind::Call => None,
    }
}

/// Returns an item of Responses. It lists its parts only once it is complete.
fn whole(item: &Item, identity: &Identity, status: &str) -> Value {
    let id = item_id(item, identity);
    let part = part(item).filter(|_| status == "completed").map(|(_, part)| part);
    let parts: Vec<Value> = part.into_iter().collect();
    match item.kind {
        Kind::Text => {
            json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": parts})
        }
        Kind::Reasoning => json!({"id": id, "type": "reasoning", "summary": parts}),
        Kind::Call => json!({"id": id, "type": "function_call", "status": status, "call_id": item.id,
            "name": item.name, "arguments": item.content}),
    }
}
