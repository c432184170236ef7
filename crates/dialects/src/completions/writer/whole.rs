//! Assembles a response as a single object.

use std::collections::BTreeMap;

use bytes::BytesMut;
use serde_json::{Map, Value};

use super::{ID, OBJECT, finish_word};
use crate::{
    Answering, WholeForm,
    beside::Beside,
    event::{Event, Finish, Usage},
    failure::Failure,
    joined::join,
    openai_chunk::Head,
    openai_error::error_body,
    openai_usage,
    wire::json::{Encoder, Json},
};

/// The response so far.
#[derive(Debug)]
pub struct Whole {
    head: Head,
    text: String,
    reasoning: String,
    finish: Option<Finish>,
    usage: Option<Usage>,
    beside: Beside,
    /// Members of the upstream's response that no event represents.
    outer: Map<String, Value>,
    /// The same for its choices, by index. Only the first choice has events.
    choices: BTreeMap<u64, Map<String, Value>>,
    /// Size of the collected contents in bytes.
    kept: usize,
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self {
            head: Head::new(answering, ID),
            text: String::new(),
            reasoning: String::new(),
            finish: None,
            usage: None,
            beside: Beside::default(),
            outer: Map::new(),
            choices: BTreeMap::new(),
            kept: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => self.head.take(start),
            Event::Text(piece) | Event::Refusal(piece) => {
                self.kept += piece.len();
                self.text.push_str(piece);
            }
            Event::Reasoning(reasoning) => {
                self.kept += reasoning.text.len();
                self.reasoning.push_str(&reasoning.text);
            }
            Event::Finish(finish) => self.finish = Some(*finish),
            Event::Usage(usage) => self.usage = Some(usage.clone()),
            Event::Verbatim { frame, means } => {
                self.take(frame);
                means.iter().for_each(|event| self.event(event));
            }
            event => self.beside.event(event),
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let mut body = Encoder::with_capacity(self.kept + 512);
        body.object(|body| {
            self.head.put(OBJECT, body);
            body.key("choices").array(|choices| self.put_choices(choices));
            let usage = self.usage.as_ref().map(openai_usage::object);
            if let Some(usage) = usage.filter(|usage| !usage.is_empty()) {
                body.key("usage").value(&usage);
            }
            self.outer.iter().for_each(|(key, value)| body.key(key).value(value));
            self.beside.put(body);
        });
        out.extend_from_slice(&body.finish());
    }

    fn kept(&self) -> usize {
        self.kept + self.beside.kept()
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }
}

impl Whole {
    /// Collects what `frame` contains in addition to its events.
    fn take(&mut self, frame: &str) {
        let Ok(chunk) = Json::parse(frame) else { return };
        for (key, value) in chunk.members() {
            match &*key {
                "id" | "object" | "created" | "model" | "usage" | "toolwire" => {}
                "choices" => value.elements().for_each(|choice| self.take_choice(choice)),
                _ if value.is_null() => {}
                key => {
                    self.kept += key.len() + value.raw().len();
                    join(&mut self.outer, key, value, false);
                }
            }
        }
    }

    fn take_choice(&mut self, choice: Json<'_>) {
        let index = choice.get("index").and_then(|index| index.as_u64()).unwrap_or(0);
        let members = self.choices.entry(index).or_default();
        for (key, value) in choice.members() {
            let is_told = key == "index" || index == 0 && matches!(&*key, "text" | "finish_reason");
            if is_told || value.is_null() {
                continue;
            }
            self.kept += key.len() + value.raw().len();
            join(members, &key, value, key == "text");
        }
    }

    fn put_choices(&mut self, choices: &mut Encoder) {
        let mut all = std::mem::take(&mut self.choices);
        all.entry(0).or_default();
        for (index, mut members) in all {
            let is_first = index == 0;
            choices.object(|choice| {
                match members.shift_remove("text").filter(|_| !is_first) {
                    Some(text) => choice.key("text").value(&text),
                    None => choice.key("text").string(if is_first { &self.text } else { "" }),
                }
                choice.key("index").value(&index);
                choice.key("logprobs").value(&members.shift_remove("logprobs"));
                let finish = members.shift_remove("finish_reason").filter(|_| !is_first);
                let first = self.finish.filter(|_| is_first).map(|finish| finish_word(finish).into());
                choice.key("finish_reason").value(&finish.or(first));
                if is_first && !self.reasoning.is_empty() {
                    members.shift_remove("reasoning_content");
                    choice.key("reasoning_content").string(&self.reasoning);
                }
                members.iter().for_each(|(key, value)| choice.key(key).value(value));
            });
        }
    }
}
