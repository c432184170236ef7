//! Tests API-specific content that is converted for upstreams with another API: nothing may be lost silently.

mod calls;
mod files;
mod parts;
mod said;
mod tools;

use serde_json::{Value, json};
use toolwire::{
    dialect::{ClientDialect, Dialect, UpstreamDialect, fitted},
    failure::Failure,
};

/// The upstream dialects that take messages rather than a single prompt.
const UPSTREAMS: [Dialect; 6] =
    [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama, Dialect::Lumo];

/// Returns the request for an `upstream` when `client` sends a request with these `fields`.
fn sent(client: ClientDialect, fields: Value, upstream: Dialect) -> Result<Value, Failure> {
    let mut request = json!({"model": "m", "max_tokens": 100});
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let body = request.to_string();
    let conversation = client.side().decode(body.as_bytes())?;
    let upstream = UpstreamDialect::try_from(upstream).unwrap();
    let fitted = fitted(&conversation, client.dialect(), upstream.side())
        .map_err(|unfit| unfit.failure(Some(body.as_bytes())))?;
    Ok(serde_json::from_slice(&upstream.side().encode(&fitted, "m").body).unwrap())
}

/// Returns the error message of a refused request, and the location that the error names.
fn refused(client: ClientDialect, fields: Value, upstream: Dialect) -> (String, String) {
    let failure = sent(client, fields, upstream).expect_err("a failure");
    assert_eq!(failure.status(), 400);
    (failure.message().to_owned(), failure.param().unwrap_or_default().to_owned())
}

/// A user message with these parts, from a client of Chat or Messages.
fn user(parts: Value) -> Value {
    json!({"messages": [{"role": "user", "content": parts}]})
}

/// A user message with these parts, from a client of Responses.
fn input(parts: Value) -> Value {
    json!({"input": [{"role": "user", "content": parts}]})
}

/// A call to `f` with a result that consists of `blocks`, from a client of Messages.
fn result(blocks: Value) -> Value {
    json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": blocks}]},
    ]})
}

/// Places items between two user messages, from a client of Responses.
fn between(items: Value) -> Value {
    let mut input = vec![json!({"role": "user", "content": "q"})];
    input.extend(items.as_array().unwrap().iter().cloned());
    input.push(json!({"role": "user", "content": "r"}));
    json!({ "input": input })
}
