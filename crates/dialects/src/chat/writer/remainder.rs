//! Collects the parts of an upstream's response that no event represents, for a client that does not stream.
//! They come from frames that would be forwarded in a stream, or from a complete response.
//!
//! In a stream, such frames are forwarded unchanged. They contain log probabilities, fingerprints, further
//! choices or reasoning details. For a complete response, their pieces are joined in the same way as in
//! client libraries: strings and lists are concatenated, list elements with the same index are merged, and
//! everything else is replaced.

use serde_json::{Map, Value};

use crate::{event::Event, joined::join, rules::Reasoning, wire::json::Json};

/// OpenRouter's member for reasoning parts and their state.
const DETAILS: &str = "reasoning_details";

#[derive(Debug)]
pub(super) struct Remainder {
    /// Whether the client receives the details of the reasoning.
    has_reasoning: bool,
    /// Members of the chunks.
    pub(super) outer: Map<String, Value>,
    /// Members of choice 0 and of its message.
    pub(super) choice: Map<String, Value>,
    pub(super) message: Map<String, Value>,
    others: Vec<Other>,
    pub(super) kept: usize,
}

#[derive(Debug)]
struct Other {
    index: u64,
    choice: Map<String, Value>,
    message: Map<String, Value>,
}

impl Remainder {
    /// Creates an empty remainder. `reasoning` is the way in which reasoning is passed on.
    pub(super) fn new(reasoning: Reasoning) -> Self {
        Self {
            has_reasoning: reasoning.has_field(),
            outer: Map::new(),
            choice: Map::new(),
            message: Map::new(),
            others: Vec::new(),
            kept: 0,
        }
    }

    /// Collects what `frame` contains in addition to its event, `means`.
    pub(super) fn take(&mut self, frame: &str, means: Option<&Event<'_>>) {
        let Ok(chunk) = Json::parse(frame) else { return };
        for (key, value) in chunk.members() {
            match &*key {
                "id" | "object" | "created" | "model" | "usage" | "obfuscation" => {}
                "choices" => value.elements().for_each(|choice| self.take_choice(choice, means)),
                _ if value.is_null() => {}
                key => {
                    self.kept += key.len() + value.raw().len();
                    _ = self
                        .outer
                        .insert(key.to_owned(), serde_json::from_str(value.raw()).unwrap_or_default())
                }
            }
        }
    }

    fn take_choice(&mut self, json: Json<'_>, means: Option<&Event<'_>>) {
        let has_reasoning = self.has_reasoning;
        let index = json.get("index").and_then(|index| index.as_u64()).unwrap_or(0);
        let mut kept = 0;
        let is_left_out = |key: &str| index == 0 && key == DETAILS && !has_reasoning;
        let (choice, message) = match index {
            0 => (&mut self.choice, &mut self.message),
            index => self.other(index),
        };
        for (key, value) in json.members() {
            match &*key {
                "index" => {}
                "delta" => {
                    let is_new = |key: &str| (index != 0 || !is_told(key, means)) && !is_left_out(key);
                    let members = value.members().filter(|(key, value)| is_new(key) && !value.is_null());
                    members.for_each(|(key, value)| {
                        kept += key.len() + value.raw().len();
                        join(message, &key, value, true);
                    });
                }
                "message" => {
                    let members =
                        value.members().filter(|(key, value)| !value.is_null() && !is_left_out(key));
                    members.for_each(|(key, value)| {
                        let value = if index == 0 { untold(&key, value) } else { read(value) };
                        if let Some(value) = value {
                            kept += key.len() + value.to_string().len();
                            message.insert(key.into_owned(), value);
                        }
                    })
                }
                "finish_reason" if index == 0 => {}
                _ if value.is_null() => {}
                key => {
                    kept += key.len() + value.raw().len();
                    join(choice, key, value, false);
                }
            }
        }
        self.kept += kept;
    }

    fn other(&mut self, index: u64) -> (&mut Map<String, Value>, &mut Map<String, Value>) {
        let at = self.others.partition_point(|other| other.index < index);
        if self.others.get(at).is_none_or(|other| other.index != index) {
            self.others.insert(at, Other { index, choice: Map::new(), message: Map::new() });
        }
        match self.others.get_mut(at) {
            Some(other) => (&mut other.choice, &mut other.message),
            None => (&mut self.choice, &mut self.message),
        }
    }

    /// Removes and returns the choices that no stage reads, in order of their indexes.
    pub(super) fn other_choices(&mut self) -> impl Iterator<Item = Value> {
        self.others.drain(..).map(|Other { index, choice, mut message }| {
            for call in message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
                call.as_object_mut().and_then(|call| call.shift_remove("index"));
            }
            message.entry("content").or_insert(Value::Null);
            let mut object = Map::new();
            object.insert("index".to_owned(), index.into());
            object.insert("message".to_owned(), message.into());
            object.extend(choice);
            for key in ["logprobs", "finish_reason"] {
                object.entry(key).or_insert(Value::Null);
            }
            object.into()
        })
    }
}

/// Whether events represent the complete value of a delta's member.
fn is_told(key: &str, means: Option<&Event<'_>>) -> bool {
    match key {
        "role" | "content" | "reasoning_content" | "reasoning" | "refusal" | "tool_calls"
        | "function_call" => true,
        "annotations" | "tool_results" | "images" => means.is_some(),
        _ => false,
    }
}

/// The part of a complete message's member that no event represents.
fn untold(key: &str, member: Json<'_>) -> Option<Value> {
    let is_event = |element: Json<'_>| match key {
        "annotations" => element.get("url_citation").is_some(),
        _ => {
            let url = element.get("image_url").and_then(|image| image.get("url")?.string_body());
            url.is_some_and(|url| url.starts_with("data:"))
        }
    };
    match key {
        "annotations" | "images" => {
            let rest: Vec<_> =
                member.elements().filter(|element| !is_event(*element)).filter_map(read).collect();
            (!rest.is_empty()).then(|| rest.into())
        }
        "tool_results" => None,
        key => read(member).filter(|_| !is_told(key, None)),
    }
}

fn read(json: Json<'_>) -> Option<Value> {
    serde_json::from_str(json.raw()).ok()
}
