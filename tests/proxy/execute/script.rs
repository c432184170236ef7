//! An upstream that answers with a series of chat completions, and hosted tools that run as programs.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

/// The requests that an upstream has received.
pub(super) type Asked = Arc<Mutex<Vec<Value>>>;

fn chunk(delta: Value, finish: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

pub(super) fn text(text: &str) -> String {
    chunk(json!({"content": text}), Value::Null)
}

/// Writes a call in three pieces.
pub(super) fn call(index: usize, id: &str, name: &str, arguments: &str) -> String {
    let (half, rest) = arguments.split_at_checked(arguments.len() / 2).unwrap_or((arguments, ""));
    let piece = |arguments: &str| {
        let call = json!({"index": index, "function": {"arguments": arguments}});
        chunk(json!({"tool_calls": [call]}), Value::Null)
    };
    let begin =
        json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
    chunk(json!({"tool_calls": [begin]}), Value::Null) + &piece(half) + &piece(rest)
}

/// Writes the finish reason, the token counts and the end marker.
pub(super) fn end(finish: &str) -> String {
    let usage = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}});
    chunk(json!({}), finish.into()) + &format!("data: {usage}\n\ndata: [DONE]\n\n")
}

/// An upstream that answers each request with the next of these streams. Also returns the requests.
pub(super) async fn upstream(streams: impl IntoIterator<Item = String>) -> (Upstream, Asked) {
    let (asked, streams) = (Asked::default(), Arc::new(streams.into_iter().collect::<Vec<_>>()));
    let shared = (Arc::clone(&asked), streams);
    let upstream = Upstream::start_sharing(shared, |exchange, (asked, streams)| async move {
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(serde_json::from_slice(&exchange.body).unwrap());
            asked.len() - 1
        };
        let stream = streams.get(number).cloned().unwrap_or_default();
        exchange.stream(stream).await
    });
    (upstream.await, asked)
}

/// What an upstream does with a request.
#[derive(Debug, Clone)]
pub(super) enum Scripted {
    /// Sends a complete response with this status line, additional headers and body.
    Whole(String, String, Vec<u8>),
    Stream(Vec<u8>),
    /// Sends the beginning of a stream and then nothing.
    Stalls(Vec<u8>),
    /// Sends these bytes as the response, and keeps the connection open.
    Raw(String),
    Silent,
    /// Closes the connection without a response.
    Close,
}

impl Scripted {
    pub(super) fn stream(events: Vec<u8>) -> Self {
        Self::Stream(events)
    }

    /// A complete response whose JSON body may be invalid.
    pub(super) fn whole(status: &str, body: &str) -> Self {
        Self::Whole(status.to_owned(), "content-type: application/json\r\n".to_owned(), body.into())
    }

    pub(super) async fn play(self, mut exchange: Exchange) -> Exchange {
        match self {
            Self::Whole(status, headers, body) => {
                exchange.whole(&status, &headers, std::str::from_utf8(&body).unwrap()).await;
                exchange
            }
            Self::Stream(events) => exchange.stream(events).await,
            Self::Stalls(events) => {
                exchange.begin().await;
                exchange.piece(events).await;
                exchange.silent().await
            }
            Self::Raw(bytes) => {
                exchange.raw(bytes).await;
                exchange.silent().await
            }
            Self::Silent => exchange.silent().await,
            Self::Close => exchange,
        }
    }
}

/// An upstream that handles each request with the next of these responses.
pub(super) async fn scripted(responses: Vec<Scripted>) -> (Upstream, Asked) {
    let asked = Asked::default();
    let shared = (Arc::clone(&asked), Arc::new(responses));
    let upstream = Upstream::start_sharing(shared, |exchange: Exchange, (asked, responses)| async move {
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(serde_json::from_slice(&exchange.body).unwrap());
            asked.len() - 1
        };
        let response = responses.get(number).cloned().unwrap_or(Scripted::Close);
        response.play(exchange).await
    });
    (upstream.await, asked)
}

/// An upstream of any dialect that answers each request with the next of these responses, in pieces of `size`
/// bytes.
pub(super) async fn speaking(responses: Vec<Vec<u8>>, size: usize) -> (Upstream, Asked) {
    let (asked, responses) = (Asked::default(), Arc::new(responses));
    let shared = (Arc::clone(&asked), responses);
    let upstream = Upstream::start_sharing(shared, move |mut exchange, (asked, responses)| async move {
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(serde_json::from_slice(&exchange.body).unwrap());
            asked.len() - 1
        };
        let response = responses.get(number).cloned().unwrap_or_default();
        exchange.begin().await;
        for piece in response.chunks(size) {
            exchange.piece(piece).await;
        }
        exchange.end().await;
        exchange
    });
    (upstream.await, asked)
}

/// Hosted tools: `search` returns `found ` and its arguments, `slow` takes some seconds, and `broken` fails.
pub(super) const TOOLS: &str = r#"
[[providers]]
name = "search"
kind = "command"
command = ["sh", "-c", "printf 'found '; cat"]
description = "Searches."
parameters = { type = "object", properties = { query = { type = "string" } } }

[[providers]]
name = "slow"
kind = "command"
command = ["sleep", "30"]

[[providers]]
name = "broken"
kind = "command"
command = ["false"]
"#;

/// A proxy with these tools. `settings` are lines of `[execution]`.
pub(super) fn setup(upstream: &Upstream, settings: &str) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.execution = format!("[execution]\n{settings}\n{TOOLS}");
    setup
}

/// Returns the messages of a request that follow the client's `own` messages.
pub(super) fn added(request: &Value, own: usize) -> Vec<Value> {
    request["messages"].as_array().unwrap().iter().skip(own).cloned().collect()
}
