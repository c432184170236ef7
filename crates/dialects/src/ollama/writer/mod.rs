//! Encodes events for a client of Ollama, as JSON Lines or as a single object (docs/protocols/ollama.md#clients).
//!
//! A call's arguments are an object, so a call is held until it has ended. A call that did not end properly is no
//! call for the client: it is in the member `toolwire` of the last line, with its text as the model wrote it.

mod calls;
mod last;
mod stream;
mod whole;

use bytes::Bytes;

use super::decode::IS_PROMPT;
use crate::{
    Answering, Dialect, Made, ResponseWriter, Stamp,
    conversation::Conversation,
    event::Start,
    wire::{calendar::rfc3339, json::Encoder},
};
use serde_json::{Value, json};

/// Writes a response to a client that speaks Ollama's API.
pub type Writer = ResponseWriter<stream::Stream, whole::Whole>;

/// The content type of a stream.
const LINES: &str = "application/x-ndjson";

/// What all lines of a response have.
#[derive(Debug)]
struct Head {
    model: String,
    created: u64,
    /// Whether the request had a prompt instead of messages.
    is_prompt: bool,
}

impl Head {
    fn new(answering: &Answering) -> Self {
        let repeated = answering.repeated.from_dialect(Dialect::Ollama.name());
        Self {
            model: answering.model.clone(),
            created: answering.stamp.created,
            is_prompt: repeated.is_some_and(|repeated| repeated.contains_key(IS_PROMPT)),
        }
    }

    /// Replaces the values with the upstream's.
    fn take(&mut self, start: &Start<'_>) {
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
        self.created = start.created.unwrap_or(self.created);
    }

    fn put(&self, line: &mut Encoder) {
        line.key("model").string(&self.model);
        line.key("created_at").string(&rfc3339(self.created));
    }
}

/// The response to a request that only loads or unloads a model.
pub(super) fn loaded(conversation: &Conversation, stamp: &Stamp) -> Made {
    let head = Head::new(&Answering::new(conversation, stamp.clone()));
    // A model is unloaded by keeping it for no time.
    let is_unload = match conversation.rest.get("keep_alive") {
        Some(Value::Number(time)) => time.as_f64() == Some(0.0),
        Some(Value::String(time)) => {
            let digits = time.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
            digits.parse::<f64>().is_ok_and(|time| time == 0.0)
        }
        _ => false,
    };
    let mut line = Encoder::default();
    line.object(|line| {
        head.put(line);
        match head.is_prompt {
            true => line.key("response").string(""),
            false => line.key("message").value(&json!({"role": "assistant", "content": ""})),
        }
        line.key("done").value(&true);
        line.key("done_reason").string(if is_unload { "unload" } else { "load" });
    });
    let mut body = line.finish_text();
    if conversation.stream {
        body.push('\n');
    }
    let content_type = if conversation.stream { LINES } else { "application/json" };
    Made { content_type, body: Bytes::from(body) }
}
