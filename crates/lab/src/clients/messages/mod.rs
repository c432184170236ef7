//! Anthropic's Messages.

mod assemble;
mod follow;

use std::borrow::Cow;

use http::HeaderName;
use serde_json::{Map, Value, json};

use super::{Asked, ClientApi, members, put, tools_as, with_image, without_system, word};
use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::event::Finish;

/// The default `max_tokens`, which is required.
const MAX_TOKENS: u64 = 1024;

pub(super) struct Messages;

impl ClientApi for Messages {
    fn path(&self, _model: &str, _streams: bool) -> Cow<'static, str> {
        "/messages".into()
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn key_header(&self, key: &str) -> (HeaderName, String) {
        (HeaderName::from_static("x-api-key"), key.to_owned())
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let image = asked.image.unwrap_or_default();
        let source = json!({ "type": "base64", "media_type": "image/png", "data": image });
        let (system, messages) =
            without_system(with_image(&asked, "text", |_| json!({ "type": "image", "source": source })));
        let tools = tools_as(
            &asked,
            |[name, description, schema]| json!({ "name": name, "description": description, "input_schema": schema }),
        );
        let max_tokens = asked.max_tokens.unwrap_or(MAX_TOKENS);
        let mut body =
            members(json!({ "model": asked.model, "stream": asked.streams, "max_tokens": max_tokens }));
        put(&mut body, "system", system.map(Value::from));
        put(&mut body, "messages", Some(messages.into()));
        put(&mut body, "tools", tools);
        Value::Object(body)
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        request.insert("max_tokens".to_owned(), tokens.into());
    }

    /// The start event of a call has an empty object, which remains if there are no deltas.
    fn no_arguments(&self) -> &'static str {
        "{}"
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Messages>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "end_turn" | "stop_sequence" => Finish::Stop,
            "tool_use" => Finish::Calls,
            "max_tokens" => Finish::Length,
            "refusal" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        (count("input_tokens"), count("output_tokens"))
    }

    fn error(&self, body: &Value, lacks: &mut dyn FnMut(bool, &str)) -> Option<String> {
        lacks(word(body, "/error/message").is_some(), "an error has no error.message");
        lacks(word(body, "/error/type").is_some(), "an error has no error.type");
        lacks(word(body, "/type").as_deref() == Some("error"), "an error's type is not error");
        word(body, "/error/message")
    }
}
