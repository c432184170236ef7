//! OpenAI's Chat Completions.

mod assemble;
mod follow;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Asked, ClientApi, members, put, with_image};
use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::event::Finish;

pub(super) struct Chat;

impl ClientApi for Chat {
    fn path(&self, _model: &str, _streams: bool) -> Cow<'static, str> {
        "/chat/completions".into()
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let messages =
            with_image(&asked, "text", |url| json!({ "type": "image_url", "image_url": { "url": url } }));
        let mut body =
            members(json!({ "model": asked.model, "stream": asked.streams, "messages": messages }));
        put(&mut body, "stream_options", asked.streams.then(|| json!({ "include_usage": true })));
        put(&mut body, "tools", (!asked.tools.is_empty()).then(|| json!(asked.tools)));
        put(&mut body, "max_tokens", asked.max_tokens.map(Value::from));
        Value::Object(body)
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        request.insert("max_tokens".to_owned(), tokens.into());
    }

    fn allows_cr(&self) -> bool {
        false
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Chat>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "stop" => Finish::Stop,
            "tool_calls" => Finish::Calls,
            "length" => Finish::Length,
            "content_filter" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        (count("prompt_tokens"), count("completion_tokens"))
    }
}
