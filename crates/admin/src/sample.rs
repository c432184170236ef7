//! `POST /admin/sample`: an exchange with a built-in request and upstream response. It gives the console something to
//! show before there is a client or a working upstream.
//!
//! The request, pipeline, events and logs are the same as for every exchange; only the upstream is missing.

use std::{fmt::Write as _, sync::Arc};

use serde_json::json;

use toolwire_config as config;
use toolwire_gateway::service::MadeResponse;
use toolwire_pipeline::failure::{Failure, Kind};

/// A configuration with a single model. Nothing is ever sent to the address of its upstream.
const CONFIG: &str = r#"
[[upstreams]]
name = "sample"
dialect = "chat"
base_url = "http://127.0.0.1:9/v1"
[[models]]
name = "sample"
upstream = "sample"
tools = "hermes"
detect = ["hermes"]
"#;

/// The client's request, in the dialect `chat`.
pub(super) const REQUEST: &str = r#"{"model": "sample", "stream": true, "stream_options": {"include_usage": true},
"messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
"tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city, now",
"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]}"#;

/// The model's text. Markers are split in two so that some text is held back.
const PIECES: [&str; 9] = [
    "I will look",
    " it up.",
    "\n<tool",
    "_call>\n{\"name\": ",
    "\"get_weather\", ",
    "\"arguments\": {\"ci",
    "ty\": \"Oslo\"}",
    "}\n</tool_",
    "call>",
];

/// Returns the built-in response.
///
/// # Errors
/// [`Kind::Internal`] if the built-in configuration is invalid.
pub(super) fn response() -> Result<MadeResponse, Failure> {
    let config = config::of_text(CONFIG.to_owned())
        .map_err(|_| Failure::new(Kind::Internal, "the sample has no configuration"))?;
    Ok(MadeResponse { config: Arc::new(config), body: body().into() })
}

/// Encodes [`PIECES`] as an upstream's response.
fn body() -> String {
    let mut stream = String::new();
    let mut put = |choice, usage| {
        let chunk = json!({
            "id": "sample", "object": "chat.completion.chunk", "created": 0, "model": "sample", "choices": choice,
            "usage": usage,
        });
        let _ = write!(stream, "data: {chunk}\n\n");
    };
    for piece in PIECES {
        put(json!([{"index": 0, "delta": {"content": piece}, "finish_reason": null}]), json!(null));
    }
    put(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), json!(null));
    put(json!([]), json!({"prompt_tokens": 180, "completion_tokens": 27, "total_tokens": 207}));
    stream.push_str("data: [DONE]\n\n");
    stream
}
