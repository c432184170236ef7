//! [`UpstreamMembers`]: members in the response of a Messages upstream that no event represents.

use serde_json::{Map, Value};

use crate::event::Finish;

/// Members of the message and of its last event.
#[derive(Debug, Default)]
pub(super) struct UpstreamMembers {
    /// The members that the writers do not write themselves.
    others: Map<String, Value>,
    /// The stop reason and what belongs to it: `stop_reason`, `stop_sequence` and others.
    stop: Map<String, Value>,
}

/// The members of a message that the writers write themselves.
const WRITTEN: [&str; 10] = [
    "id",
    "type",
    "role",
    "model",
    "content",
    "usage",
    "toolwire",
    "stop_reason",
    "stop_sequence",
    "stop_details",
];

impl UpstreamMembers {
    /// Records the stop reason in a frame, which is a `message_delta` or a complete message. A word that the
    /// API does not know, or that contradicts `finish`, is ignored.
    pub(super) fn take_stop(&mut self, frame: &str, finish: Finish) {
        let Ok(Value::Object(mut event)) = serde_json::from_str(frame) else { return };
        match event.remove("delta") {
            Some(Value::Object(delta)) => {
                self.stop = delta;
                event.retain(|key, _| !WRITTEN.contains(&key.as_str()));
                self.others = event;
            }
            _ => self.stop = event.into_iter().filter(|(key, _)| key.starts_with("stop_")).collect(),
        }
        if !self.stop.get("stop_reason").and_then(Value::as_str).is_some_and(|word| agrees(word, finish)) {
            self.stop.retain(|key, _| !WRITTEN.contains(&key.as_str()));
        }
    }

    /// Records the members of a complete message. Returns their size in bytes.
    pub(super) fn take_message(&mut self, frame: &str) -> usize {
        let Ok(Value::Object(mut message)) = serde_json::from_str(frame) else { return 0 };
        if message.get("type").is_none_or(|kind| kind != "message") {
            return 0;
        }
        message.retain(|key, _| !WRITTEN.contains(&key.as_str()));
        self.others = message;
        Value::from(self.others.clone()).to_string().len()
    }

    /// Adds the recorded members to a complete message.
    pub(super) fn extend_message(&mut self, message: &mut Map<String, Value>) {
        message.append(&mut self.stop);
        for (key, value) in std::mem::take(&mut self.others) {
            message.entry(key).or_insert(value);
        }
    }

    /// Adds the recorded members to a `message_delta`.
    pub(super) fn extend_delta(&mut self, event: &mut Map<String, Value>) {
        if let Some(Value::Object(delta)) = event.get_mut("delta") {
            delta.append(&mut self.stop);
        }
        for (key, value) in std::mem::take(&mut self.others) {
            event.entry(key).or_insert(value);
        }
    }
}

/// Whether the stop reason `word` is consistent with `finish`.
fn agrees(word: &str, finish: Finish) -> bool {
    match finish {
        Finish::Stop => matches!(word, "end_turn" | "stop_sequence"),
        Finish::Calls => word == "tool_use",
        Finish::Length => {
            matches!(word, "max_tokens" | "model_context_window_exceeded" | "pause_turn" | "compaction")
        }
        Finish::Filter => word == "refusal",
    }
}
