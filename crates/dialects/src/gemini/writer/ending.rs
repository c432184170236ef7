//! [`Ending`]: what the end of a response says: why it ended, the token counts, the sources and notices.

use serde_json::{Map, Value, json};

use super::{DIALECT, Head, grounding::Sources, parts::Call};
use crate::{
    event::{CallEnd, Event, Finish, Usage},
    wire::json::{Encoder, Json},
};

#[derive(Debug, Default)]
pub(super) struct Ending {
    finish: Option<Finish>,
    refused: bool,
    /// Calls that were not written, with what has arrived of them.
    broken: Vec<String>,
    pub(super) sources: Sources,
    usage: Option<Box<Usage>>,
    warnings: Vec<Value>,
    /// The members of the upstream's own candidate and response for which there are no events.
    candidate: Map<String, Value>,
    response: Map<String, Value>,
    kept: usize,
}

impl Ending {
    /// Notes an event that concerns the end.
    pub(super) fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Refusal(_) => self.refused = true,
            Event::Annotation(annotation) => self.sources.cite(annotation),
            Event::Usage(usage) => self.usage = Some(Box::new(usage.clone())),
            Event::Warning(warning) => {
                self.warnings.push(json!({"code": warning.code, "message": warning.message}));
            }
            Event::Finish(finish) => self.finish = Some(*finish),
            _ => {}
        }
    }

    /// Notes that a call is not written.
    pub(super) fn broken(&mut self, call: &Call, end: CallEnd) {
        let why = if end == CallEnd::Cut { "was cut off" } else { "has no valid arguments" };
        let note = call.described(why);
        self.kept += note.len();
        self.broken.push(note);
    }

    /// Collects the members of the upstream's own frame for which there are no events.
    pub(super) fn take_frame(&mut self, frame: &str) {
        let Ok(json) = Json::parse(frame) else { return };
        self.kept += frame.len();
        for (key, value) in json.members() {
            match &*key {
                "usageMetadata" | "modelVersion" | "responseId" => {}
                "candidates" => {
                    let members = value.elements().next().into_iter().flat_map(|first| first.members());
                    for (key, value) in members.filter(|(key, _)| key != "content" && key != "index") {
                        self.candidate.insert(key.into_owned(), value.to_value());
                    }
                }
                key => _ = self.response.insert(key.to_owned(), value.to_value()),
            }
        }
    }

    /// Size in bytes, without the overhead of storing it.
    pub(super) fn size(&self) -> usize {
        self.kept + self.sources.size()
    }

    /// Writes the members of the candidate, except its content.
    pub(super) fn put_candidate(&self, body: &mut Encoder) {
        if let Some(word) = self.word() {
            body.key("finishReason").string(word);
        }
        if !self.broken.is_empty() {
            body.key("finishMessage").string(&self.broken.join("\n"));
        }
        body.key("index").value(&0);
        match self.candidate.get("groundingMetadata") {
            Some(_) => {}
            None => self.sources.put(body),
        }
        for (key, value) in &self.candidate {
            let is_written = key == "finishReason" || key == "finishMessage" && !self.broken.is_empty();
            if !is_written {
                body.key(key).value(value);
            }
        }
    }

    /// Writes the members of the response, except its candidates.
    pub(super) fn put_response(&self, head: &Head, body: &mut Encoder) {
        body.key("usageMetadata").value(&self.usage.as_deref().map_or_else(no_counts, counts));
        head.put(body);
        for (key, value) in &self.response {
            body.key(key).value(value);
        }
        if !self.warnings.is_empty() {
            body.key("toolwire").value(&json!({ "warnings": self.warnings }));
        }
    }

    /// The finish reason. The API has the same one for calls as for text.
    fn word(&self) -> Option<&str> {
        let finish = self.finish?;
        let is_broken = !self.broken.is_empty();
        let theirs = self.candidate.get("finishReason").and_then(Value::as_str);
        Some(match finish {
            Finish::Length => "MAX_TOKENS",
            Finish::Filter => theirs.unwrap_or("SAFETY"),
            Finish::Stop | Finish::Calls if is_broken => "MALFORMED_FUNCTION_CALL",
            Finish::Stop if self.refused => "SAFETY",
            Finish::Stop | Finish::Calls => "STOP",
        })
    }
}

/// The counts of an upstream that sends none. The API always has them, and clients fail without.
fn no_counts() -> Map<String, Value> {
    let counts = ["promptTokenCount", "candidatesTokenCount", "totalTokenCount"];
    counts.map(|key| (key.to_owned(), 0.into())).into_iter().collect()
}

/// The token counts, or the upstream's own object if it has the same API. The model's thoughts are counted apart
/// from the rest of its output.
fn counts(usage: &Usage) -> Map<String, Value> {
    let raw = usage.raw.as_ref().filter(|raw| raw.dialect == DIALECT);
    if let Some(raw) = raw.and_then(|raw| serde_json::from_str::<Map<String, Value>>(raw.object.get()).ok()) {
        return raw;
    }
    let reasoning = usage.reasoning.filter(|count| *count > 0);
    let output = usage.output.map(|output| output.saturating_sub(reasoning.unwrap_or(0)));
    let sum = || usage.input?.checked_add(usage.output?);
    let counts = [
        ("promptTokenCount", usage.input),
        ("candidatesTokenCount", output),
        ("totalTokenCount", usage.total.or_else(sum)),
        ("thoughtsTokenCount", reasoning),
        ("cachedContentTokenCount", usage.cached),
    ];
    counts.into_iter().filter_map(|(key, count)| Some((key.to_owned(), count?.into()))).collect()
}
