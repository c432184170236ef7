//! Assembles a response as a single `chat.completion` object.

use std::borrow::Cow;

use bytes::BytesMut;
use serde_json::{Map, Value, json};

use super::{
    ID,
    delta::{self, Running, numbered},
    reasoning::ReasoningField,
    remainder::Remainder,
};
use crate::{
    Answering, WholeForm,
    chat::{error_body, extra},
    custom_tools::Customs,
    event::{CallEnd, Event, Finish, Usage},
    failure::Failure,
    openai_chunk::Head,
    openai_usage,
};

/// The response so far.
#[derive(Debug)]
pub struct Whole {
    head: Head,
    legacy_functions: bool,
    reasoning_field: ReasoningField,
    content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    calls: Vec<Call>,
    customs: Customs,
    results: Vec<Value>,
    running: Running,
    annotations: Vec<Value>,
    images: Vec<Value>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    warnings: Vec<Value>,
    remainder: Remainder,
    /// Approximate size of the collected events in bytes.
    kept: usize,
}

#[derive(Debug)]
struct Call {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    /// `extra_content`: the upstream's state for the call.
    extra: Option<Value>,
    /// Whether this is a call to a custom tool, whose arguments are its plain-text input.
    is_custom: bool,
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering, ID),
            legacy_functions: answering.legacy_functions,
            reasoning_field: ReasoningField::new(answering.reasoning),
            content: None,
            reasoning: None,
            refusal: None,
            calls: Vec::new(),
            customs: Customs::new(answering),
            results: Vec::new(),
            running: Running::default(),
            annotations: Vec::new(),
            images: Vec::new(),
            usage: None,
            finish: None,
            warnings: Vec::new(),
            remainder: Remainder::new(answering.reasoning),
            kept: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.kept += weight(event);
        match event {
            Event::Start(start) => self.head.take(start),
            Event::Text(text) => join(&mut self.content, text),
            Event::Reasoning(reasoning) => join(&mut self.reasoning, &reasoning.text),
            Event::Refusal(text) => join(&mut self.refusal, text),
            Event::CallStart(start) => {
                let is_custom = self.customs.begin(start).is_some();
                self.calls.push(Call {
                    index: start.index,
                    id: start.id.to_string(),
                    name: start.name.to_string(),
                    arguments: String::new(),
                    extra: start.signature.as_ref().map(extra::extra_content),
                    is_custom,
                });
            }
            Event::CallArguments { index, piece } => match self.customs.get(*index) {
                Some(input) => {
                    let piece = input.piece(piece);
                    self.arguments(*index, &piece);
                }
                None => self.arguments(*index, piece),
            },
            Event::CallEnd { index, end } => self.call_end(*index, *end),
            Event::Ping(_) | Event::Phase { .. } | Event::Mcp(_) => {}
            Event::CallResult(result) => self.results.push(delta::result(result)),
            Event::ServerCall(call) => {
                if let Some(call) = self.running.whole(call) {
                    self.results.push(numbered(delta::server_call(&call), self.results.len()));
                }
            }
            Event::Annotation(annotation) => self.annotations.push(delta::annotation(annotation)),
            Event::Media(media) => self.images.extend(delta::image(media)),
            Event::Usage(usage) => self.usage = Some(usage.clone()),
            Event::Warning(warning) => self.warnings.push(delta::warning(warning)),
            Event::Finish(finish) => self.finish = Some(*finish),
            Event::Verbatim { frame, means } => {
                self.remainder.take(frame, *means);
                means.iter().for_each(|event| self.event(event));
            }
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let finish = self.finish.map(|finish| delta::finish_word(finish, self.legacy_functions));
        let mut choice = object(json!({
            "index": 0,
            "message": self.message(),
            "logprobs": null,
            "finish_reason": finish,
        }));
        choice.append(&mut self.remainder.choice);
        let choices = [choice.into()].into_iter().chain(self.remainder.other_choices()).collect::<Value>();
        let mut completion = object(json!({
            "id": self.head.id,
            "object": "chat.completion",
            "created": self.head.created,
            "model": self.head.model,
            "choices": choices,
        }));
        if let Some(usage) = self.usage.as_ref().map(openai_usage::object).filter(|usage| !usage.is_empty()) {
            completion.insert("usage".to_owned(), usage.into());
        }
        completion.append(&mut self.remainder.outer);
        if !self.warnings.is_empty() {
            completion.insert("toolwire".to_owned(), delta::notes(std::mem::take(&mut self.warnings)));
        }
        out.extend_from_slice(Value::Object(completion).to_string().as_bytes());
    }

    /// Approximate size of the collected contents in bytes, without the overhead of storing them.
    fn kept(&self) -> usize {
        self.kept + self.remainder.kept
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }
}

impl Whole {
    fn message(&mut self) -> Map<String, Value> {
        let mut message = Map::new();
        let mut put = |key: &str, value: Value| message.insert(key.to_owned(), value);
        put("role", "assistant".into());
        put("content", self.content.take().into());
        put("refusal", self.refusal.take().into());
        if let Some(reasoning) = self.reasoning.take() {
            put(self.reasoning_field.name(), reasoning.into());
        }
        match (self.legacy_functions, self.calls.as_slice()) {
            (_, []) => {}
            (true, [call, ..]) => {
                _ = put("function_call", json!({"name": call.name, "arguments": call.arguments}))
            }
            (false, calls) => _ = put("tool_calls", calls.iter().map(tool_call).collect()),
        }
        let lists = [
            ("tool_results", &mut self.results),
            ("annotations", &mut self.annotations),
            ("images", &mut self.images),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                put(key, std::mem::take(list).into());
            }
        }
        for (key, more) in std::mem::take(&mut self.remainder.message) {
            match (message.get_mut(&key), more) {
                (Some(Value::Array(list)), Value::Array(mut more)) => list.append(&mut more),
                (_, more) => _ = message.insert(key, more),
            }
        }
        message
    }

    fn call_end(&mut self, index: u32, end: CallEnd) {
        if let Some(rest) = self.customs.get(index).map(|input| input.end(end)) {
            return self.arguments(index, &rest);
        }
        let is_bare = |call: &Call| call.index == index && call.arguments.is_empty();
        if end == CallEnd::Complete && self.calls.iter().any(is_bare) {
            self.arguments(index, "{}");
        }
    }

    fn arguments(&mut self, index: u32, piece: &str) {
        if let Some(call) = self.calls.iter_mut().rfind(|call| call.index == index) {
            call.arguments.push_str(piece);
        }
    }
}

/// Number of bytes that an event adds. What a frame contains in addition to its event is counted by
/// [`Remainder`].
fn weight(event: &Event<'_>) -> usize {
    match event {
        Event::Text(text) | Event::Refusal(text) => text.len(),
        Event::Reasoning(reasoning) => reasoning.text.len(),
        Event::CallStart(start) => {
            let state = start.signature.as_ref().map_or(0, |state| state.text.len());
            start.id.len() + start.name.len() + state
        }
        Event::CallArguments { piece, .. } => piece.len(),
        Event::CallResult(result) => result.id.len() + result.content.len(),
        Event::ServerCall(call) => {
            let text = |text: &Option<Cow<'_, str>>| text.as_ref().map_or(0, |text| text.len());
            call.id.len() + call.name.len() + text(&call.arguments) + text(&call.content)
        }
        Event::Annotation(annotation) => annotation.url.len() + annotation.title.len(),
        Event::Media(media) => media.id.len() + media.data.len(),
        _ => 0,
    }
}

fn join(text: &mut Option<String>, piece: &str) {
    if !piece.is_empty() {
        text.get_or_insert_default().push_str(piece);
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn tool_call(call: &Call) -> Value {
    let mut element = if call.is_custom {
        json!({"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}})
    } else {
        json!({
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        })
    };
    if let (Some(object), Some(extra)) = (element.as_object_mut(), &call.extra) {
        object.insert("extra_content".to_owned(), extra.clone());
    }
    element
}
