//! Google's Interactions API, whose responses consist of steps with start and end events
//! (docs/protocols/interactions.md).

use serde_json::{Value, json};

use super::writer::{Content, FrameWriter, Item, Kind, Usage, with};
use toolwire_pipeline::event::Finish;

impl FrameWriter {
    pub(super) fn begin_interaction(&mut self) {
        let interaction = self.interaction("in_progress");
        self.step_event("interaction.created", json!({ "interaction": interaction }), Content::New);
    }

    pub(super) fn end_interaction(&mut self, finish: Finish, usage: Usage) {
        let interaction = with(self.interaction(status(finish)), json!({ "usage": counts(usage) }));
        self.step_event("interaction.completed", json!({ "interaction": interaction }), Content::New);
        self.push(b"event: done\ndata: [DONE]\n\n".to_vec(), Content::New);
    }

    pub(super) fn open_step(&mut self, item: &Item) {
        let step = match item.kind {
            Kind::Text => json!({"type": "model_output", "content": []}),
            Kind::Reasoning => json!({"type": "thought"}),
            Kind::Call => json!({"type": "function_call", "id": item.id, "name": item.name, "arguments": {}}),
        };
        self.step_event("step.start", json!({ "step": step }), Content::ItemStart);
    }

    pub(super) fn step_delta(&mut self, kind: Kind, piece: &str) {
        let delta = match kind {
            Kind::Text => json!({"type": "text", "text": piece}),
            Kind::Reasoning => json!({"type": "thought_summary", "content": {"type": "text", "text": piece}}),
            Kind::Call => json!({"type": "arguments_delta", "arguments": piece}),
        };
        self.step_event("step.delta", json!({ "delta": delta }), Content::New);
    }

    pub(super) fn close_step(&mut self, item: &Item) {
        if item.kind == Kind::Reasoning {
            let delta = json!({"type": "thought_signature", "signature": SIGNATURE});
            self.step_event("step.delta", json!({ "delta": delta }), Content::New);
        }
        self.step_event("step.stop", json!({}), Content::New);
        self.items.push(whole_step(item));
    }

    /// Writes an event. Those of steps have the number of the current one.
    fn step_event(&mut self, kind: &str, members: Value, content: Content) {
        let mut event = json!({ "event_type": kind });
        if kind.starts_with("step.") {
            event = with(event, json!({ "index": self.items.len() }));
        }
        let event = with(event, members);
        self.push(format!("event: {kind}\ndata: {event}\n\n").into_bytes(), content);
    }

    fn interaction(&self, status: &str) -> Value {
        json!({"id": format!("v1_{}", self.identity.name), "object": "interaction", "status": status,
            "model": self.identity.model})
    }

    /// The complete interaction, after its last event.
    pub(crate) fn whole_interaction(&self, finish: Finish, usage: Usage) -> Value {
        let members = json!({"steps": self.items, "usage": counts(usage)});
        with(self.interaction(status(finish)), members)
    }
}

const SIGNATURE: &str = "c2lnbmF0dXJl";

fn status(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "completed",
        Finish::Calls => "requires_action",
        Finish::Length | Finish::Filter => "incomplete",
    }
}

fn counts(Usage { input, output }: Usage) -> Value {
    json!({"total_input_tokens": input, "total_output_tokens": output, "total_tokens": input + output})
}

fn whole_step(item: &Item) -> Value {
    let text = json!([{"type": "text", "text": item.content}]);
    match item.kind {
        Kind::Text => json!({"type": "model_output", "content": text}),
        Kind::Reasoning => json!({"type": "thought", "signature": SIGNATURE, "summary": text}),
        Kind::Call => {
            let arguments: Value = serde_json::from_str(&item.content).unwrap_or_default();
            json!({"type": "function_call", "id": item.id, "name": item.name, "arguments": arguments})
        }
    }
}
