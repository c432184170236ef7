//! Tests requests in the forms that upstreams accept, with tools taught in the prompt or declared.

mod case;
mod custom;
mod forms;
mod refused;
mod replayed;
mod taught;

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::{
        chat::{
            Options,
            request::{decode, encode},
        },
        lumo,
    },
    format::{self, Teaching},
};

/// An upstream without extensions.
fn plain() -> Options {
    Options { keep_developer: false, keep_custom_tools: false, ..Options::default() }
}

#[track_caller]
fn decoded(request: &Value) -> Conversation {
    decode(request.to_string().as_bytes()).unwrap()
}

fn encoded(conversation: &Conversation, options: &Options) -> Value {
    serde_json::from_slice(&encode(conversation, "m", options).body).unwrap()
}

/// Returns the request for an upstream whose model is taught tools in `format`. The examples are in the
/// instructions, so all turns are the client's own.
fn taught(request: &Value, format: &str) -> Value {
    taught_as(request, format, &Teaching { example_turns: false, ..Teaching::default() })
}

fn taught_as(request: &Value, format: &str, teaching: &Teaching) -> Value {
    let format = format::by_name(format).unwrap();
    encoded(&format::instruct(decoded(request), format, teaching), &plain())
}

fn lumo(request: &Value) -> Value {
    let request = lumo::encode(&decoded(request), "lumo", &lumo::Options::default());
    serde_json::from_slice(&request.body).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "shot", "parameters": {"type": "object"}}}])
}
