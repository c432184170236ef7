//! Gemini's API.

mod assemble;
mod follow;

use std::borrow::Cow;

use http::HeaderName;
use serde_json::{Map, Value, json};

use super::{Asked, ClientApi, members, put, tools_as, without_system, word};
use crate::{
    fixture::{Answer, assemble::Assembler},
    follow::EventReader,
};
use toolwire_pipeline::event::Finish;

const CONFIG: &str = "generationConfig";

pub(super) struct Gemini;

impl ClientApi for Gemini {
    fn path(&self, model: &str, streams: bool) -> Cow<'static, str> {
        let method = if streams { "streamGenerateContent?alt=sse" } else { "generateContent" };
        format!("/models/{model}:{method}").into()
    }

    fn names_model(&self) -> bool {
        false
    }

    fn key_header(&self, key: &str) -> (HeaderName, String) {
        (HeaderName::from_static("x-goog-api-key"), key.to_owned())
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let (system, messages) = without_system(asked.messages.clone());
        let mut contents: Vec<_> = messages.iter().map(content).collect();
        let parts = contents.last_mut().and_then(|last| last.get_mut("parts")?.as_array_mut());
        if let (Some(parts), Some(image)) = (parts, asked.image) {
            parts.push(json!({ "inlineData": { "mimeType": "image/png", "data": image } }));
        }
        let declarations = tools_as(
            &asked,
            |[name, description, schema]| json!({ "name": name, "description": description, "parametersJsonSchema": schema }),
        );
        let thoughts = json!({ "thinkingConfig": { "includeThoughts": true } });
        let mut body = members(json!({ "contents": contents, CONFIG: thoughts }));
        put(&mut body, "systemInstruction", system.map(|text| json!({ "parts": [{ "text": text }] })));
        put(&mut body, "tools", declarations.map(|all| json!([{ "functionDeclarations": all }])));
        if let Some(tokens) = asked.max_tokens {
            self.limit(&mut body, tokens);
        }
        Value::Object(body)
    }

    fn content_member(&self) -> &'static str {
        "contents"
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        let config = request.entry(CONFIG).or_insert_with(|| json!({}));
        if let Value::Object(config) = config {
            config.insert("maxOutputTokens".to_owned(), tokens.into());
        }
    }

    fn has_argument_values(&self) -> bool {
        true
    }

    /// The response says in words that a call was broken.
    fn has_broken_calls(&self) -> bool {
        false
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Gemini>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "STOP" if answer.calls.is_empty() => Finish::Stop,
            "STOP" => Finish::Calls,
            "MAX_TOKENS" => Finish::Length,
            "SAFETY" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        let thoughts = count("thoughtsTokenCount").unwrap_or(0);
        (count("promptTokenCount"), count("candidatesTokenCount").map(|output| output + thoughts))
    }

    fn error(&self, body: &Value, lacks: &mut dyn FnMut(bool, &str)) -> Option<String> {
        lacks(word(body, "/error/message").is_some(), "an error has no error.message");
        lacks(word(body, "/error/status").is_some(), "an error has no error.status");
        word(body, "/error/message")
    }
}

/// Returns a message of Chat Completions as a content. Other parts than texts are left out.
fn content(message: &Value) -> Value {
    let text = |value: &Value| value.as_str().map(|text| json!({ "text": text }));
    let parts: Vec<_> = match message.get("content") {
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| text(part.get("text")?)).collect(),
        content => content.and_then(text).into_iter().collect(),
    };
    let is_assistant = message.get("role").and_then(Value::as_str) == Some("assistant");
    json!({ "role": if is_assistant { "model" } else { "user" }, "parts": parts })
}
