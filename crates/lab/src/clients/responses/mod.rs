//! OpenAI's Responses.

mod assemble;
mod follow;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{Asked, ClientApi, members, put, tools_as, with_image};
use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::event::Finish;

pub(super) struct Responses;

impl ClientApi for Responses {
    fn path(&self, _model: &str, _streams: bool) -> Cow<'static, str> {
        "/responses".into()
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let input =
            with_image(&asked, "input_text", |url| json!({ "type": "input_image", "image_url": url }));
        let tools = tools_as(
            &asked,
            |[name, description, schema]| json!({ "type": "function", "name": name, "description": description, "parameters": schema, "strict": false }),
        );
        let mut body =
            members(json!({ "model": asked.model, "stream": asked.streams, "input": input, "store": false }));
        put(&mut body, "tools", tools);
        put(&mut body, "max_output_tokens", asked.max_tokens.map(Value::from));
        Value::Object(body)
    }

    fn content_member(&self) -> &'static str {
        "input"
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        request.insert("max_output_tokens".to_owned(), tokens.into());
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Responses>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "completed" if answer.calls.is_empty() => Finish::Stop,
            "completed" => Finish::Calls,
            "max_output_tokens" => Finish::Length,
            "content_filter" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        (count("input_tokens"), count("output_tokens"))
    }
}
