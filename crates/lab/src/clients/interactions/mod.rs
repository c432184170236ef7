//! Google's Interactions API.

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

const CONFIG: &str = "generation_config";

pub(super) struct Interactions;

impl ClientApi for Interactions {
    fn path(&self, _model: &str, _streams: bool) -> Cow<'static, str> {
        "/interactions".into()
    }

    fn key_header(&self, key: &str) -> (HeaderName, String) {
        (HeaderName::from_static("x-goog-api-key"), key.to_owned())
    }

    fn request(&self, asked: Asked<'_>) -> Value {
        let (system, messages) = without_system(asked.messages.clone());
        let mut steps: Vec<_> = messages.iter().map(step).collect();
        let contents = steps.last_mut().and_then(|last| last.get_mut("content")?.as_array_mut());
        if let (Some(contents), Some(image)) = (contents, asked.image) {
            contents.push(json!({ "type": "image", "mime_type": "image/png", "data": image }));
        }
        let tools = tools_as(
            &asked,
            |[name, description, schema]| json!({ "type": "function", "name": name, "description": description, "parameters": schema }),
        );
        let mut body = members(json!({
            "model": asked.model,
            "stream": asked.streams,
            "store": false,
            "input": steps,
            CONFIG: { "thinking_summaries": "auto" },
        }));
        put(&mut body, "system_instruction", system.map(Value::from));
        put(&mut body, "tools", tools);
        if let Some(tokens) = asked.max_tokens {
            self.limit(&mut body, tokens);
        }
        Value::Object(body)
    }

    fn content_member(&self) -> &'static str {
        "input"
    }

    fn limit(&self, request: &mut Map<String, Value>, tokens: u64) {
        let config = request.entry(CONFIG).or_insert_with(|| json!({}));
        if let Value::Object(config) = config {
            config.insert("max_output_tokens".to_owned(), tokens.into());
        }
    }

    /// Complete responses have values, while streams have texts.
    fn has_argument_values(&self) -> bool {
        true
    }

    /// The start event of a call has an empty object, which remains if there are no deltas.
    fn no_arguments(&self) -> &'static str {
        "{}"
    }

    fn reader(&self) -> Box<dyn EventReader> {
        Box::<follow::Interactions>::default()
    }

    fn assembler(&self) -> Box<dyn Assembler> {
        Box::<assemble::Client>::default()
    }

    /// The assembler adds the code of the error to the status `incomplete`.
    fn finish(&self, answer: &Answer) -> Option<Finish> {
        Some(match answer.finish.as_deref()? {
            "completed" => Finish::Stop,
            "requires_action" | "incomplete: malformed_function_call" => Finish::Calls,
            "incomplete: max_tokens" => Finish::Length,
            "incomplete: content_filter" => Finish::Filter,
            _ => return None,
        })
    }

    fn tokens(&self, count: &dyn Fn(&str) -> Option<u64>) -> (Option<u64>, Option<u64>) {
        let thoughts = count("total_thought_tokens").unwrap_or(0);
        (count("total_input_tokens"), count("total_output_tokens").map(|output| output + thoughts))
    }

    fn error(&self, body: &Value, lacks: &mut dyn FnMut(bool, &str)) -> Option<String> {
        lacks(word(body, "/error/message").is_some(), "an error has no error.message");
        lacks(word(body, "/error/status").is_some(), "an error has no error.status");
        word(body, "/error/message")
    }
}

/// Returns a message of Chat Completions as a step. Other parts than texts are left out.
fn step(message: &Value) -> Value {
    let text = |value: &Value| value.as_str().map(|text| json!({ "type": "text", "text": text }));
    let contents: Vec<_> = match message.get("content") {
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| text(part.get("text")?)).collect(),
        content => content.and_then(text).into_iter().collect(),
    };
    let is_assistant = message.get("role").and_then(Value::as_str) == Some("assistant");
    json!({ "type": if is_assistant { "model_output" } else { "user_input" }, "content": contents })
}
