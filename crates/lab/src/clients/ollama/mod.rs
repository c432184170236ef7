//! Ollama's API.

mod assemble;
mod follow;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Asked, ClientApi, members, put, word};
use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::event::Finish;

pub(super) struct Ollama;

impl ClientApi for Ollama {
    fn path(&self, _model: &str, _streams: bool) -> Cow<'static, str> {
        "/api/chat".into()
    }

    fn has_version(&self) -> bool {
        false
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let mut messages = asked.messages;
        if let (Some(Value::Object(last)), Some(image)) = (messages.last_mut(), asked.image) {
            last.insert("images".to_owned(), json!([image]));
        }
        let mut body =
            members(json!({ "model": asked.model, "stream": asked.streams, "messages": messages }));
        put(&mut body, "tools", (!asked.tools.is_empty()).then(|| json!(asked.tools)));
        if let Some(tokens) = asked.max_tokens {
            self.limit(&mut body, tokens);
        }
        Value::Object(body)
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        if let Value::Object(options) = request.entry("options").or_insert_with(|| json!({})) {
            options.insert("num_predict".to_owned(), tokens.into());
        }
    }

    fn has_lines(&self) -> bool {
        true
    }

    fn has_argument_values(&self) -> bool {
        true
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Ollama>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "stop" if !answer.calls.is_empty() => Finish::Calls,
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "content_filter" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        (count("prompt_eval_count"), count("eval_count"))
    }

    fn error(&self, body: &Value, lacks: &mut dyn FnMut(bool, &str)) -> Option<String> {
        lacks(body.get("error").is_some_and(Value::is_string), "an error is not a text");
        word(body, "/error")
    }
}
