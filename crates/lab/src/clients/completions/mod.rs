//! Text completions.

mod assemble;
mod follow;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Asked, ClientApi, members, put};
use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::event::Finish;

pub(super) struct Completions;

impl ClientApi for Completions {
    fn path(&self, _model: &str, _streams: bool) -> Cow<'static, str> {
        "/completions".into()
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let texts = asked.messages.iter().filter_map(|message| message.get("content")?.as_str());
        let prompt = texts.collect::<Vec<_>>().join("\n\n");
        let mut body = members(json!({ "model": asked.model, "stream": asked.streams, "prompt": prompt }));
        put(&mut body, "stream_options", asked.streams.then(|| json!({ "include_usage": true })));
        put(&mut body, "max_tokens", asked.max_tokens.map(Value::from));
        Value::Object(body)
    }

    fn content_member(&self) -> &'static str {
        "prompt"
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        request.insert("max_tokens".to_owned(), tokens.into());
    }

    fn has_tools(&self) -> bool {
        false
    }

    fn has_images(&self) -> bool {
        false
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Completions>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "content_filter" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        (count("prompt_tokens"), count("completion_tokens"))
    }
}
