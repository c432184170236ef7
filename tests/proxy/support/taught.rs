//! A model that is taught a tool and answers depending on the request, and a proxy in front of it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolwire::{
    config::ToolStyle,
    dialect::{UpstreamDialect, chat},
    format::HERMES,
    rules::Enforce,
};

use super::{
    client::{Client, chat_request, weather},
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

#[derive(Clone)]
pub(crate) enum ModelAnswer {
    /// Text in pieces, and the finish reason.
    Text(Vec<String>, &'static str),
    /// A refusal in the format of OpenAI's models.
    Refusal(&'static str),
    /// An error with this status and message.
    Refused(&'static str, &'static str),
}

impl ModelAnswer {
    /// Complete text in one piece.
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(vec![text.to_owned()], "stop")
    }
}

/// The requests that an upstream has received.
pub(crate) type Asked = Arc<Mutex<Vec<Value>>>;

/// A Chat Completions upstream, and its requests. Requests other than completions are rejected.
pub(crate) async fn model(
    answer: impl Fn(&Value) -> ModelAnswer + Send + Sync + 'static,
) -> (Upstream, Asked) {
    describing_model(answer, |_| Some(("404 Not Found", String::new()))).await
}

/// Like [`model`], but answers `GET` requests depending on their path. `None` means no answer.
pub(crate) async fn describing_model(
    answer: impl Fn(&Value) -> ModelAnswer + Send + Sync + 'static,
    describe: impl Fn(&str) -> Option<(&'static str, String)> + Send + Sync + 'static,
) -> (Upstream, Asked) {
    let describe = Arc::new(describe);
    let (asked, answer) = (Asked::default(), Arc::new(answer));
    let seen = Arc::clone(&asked);
    let upstream = Upstream::start(move |mut exchange| {
        let (seen, answer, describe) = (Arc::clone(&seen), Arc::clone(&answer), Arc::clone(&describe));
        async move {
            if exchange.head.starts_with("get ") {
                let described = describe(exchange.head.split(' ').nth(1).unwrap());
                let Some((status, body)) = described else { return std::future::pending().await };
                exchange.whole(status, "content-type: application/json\r\n", &body).await;
                return exchange;
            }
            let request: Value = serde_json::from_slice(&exchange.body).unwrap();
            let said = answer(&request);
            seen.lock().unwrap().push(request);
            match said {
                ModelAnswer::Text(pieces, finish) => {
                    exchange.begin().await;
                    for piece in pieces {
                        exchange.piece(chunk(json!({"content": piece}), Value::Null)).await;
                    }
                    exchange.piece(chunk(json!({}), finish.into())).await;
                    exchange.piece("data: [DONE]\n\n").await;
                    exchange.end().await;
                }
                ModelAnswer::Refusal(text) => {
                    exchange.begin().await;
                    exchange.piece(chunk(json!({"refusal": text}), Value::Null)).await;
                    exchange.piece(chunk(json!({}), "stop".into()) + "data: [DONE]\n\n").await;
                    exchange.end().await;
                }
                ModelAnswer::Refused(status, message) => {
                    let error = json!({"error": {"message": message}}).to_string();
                    exchange.whole(status, "content-type: application/json\r\n", &error).await;
                }
            }
            exchange
        }
    })
    .await;
    (upstream, asked)
}

fn chunk(delta: Value, finish: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

pub(crate) fn setup(upstream: &Upstream, server: chat::Server, enforce: Enforce) -> Setup {
    let mut setup = Setup::new(upstream.address);
    let options = chat::Options { server, stream: chat::Streaming::Always, ..chat::Options::of_host("") };
    setup.upstream.options = UpstreamDialect::Chat(options);
    setup.tools = ToolStyle::Format(&HERMES);
    setup.settings.enforce = enforce;
    setup
}

pub(crate) fn required(fields: Value) -> Value {
    let mut request = weather(fields);
    let choice = request.as_object_mut().unwrap().entry("tool_choice");
    choice.or_insert_with(|| "required".into());
    request
}

/// Returns the response to `request`, which must not ask for streaming.
pub(crate) async fn response(proxy: &Proxy, request: &Value) -> Value {
    Client::new().send(chat_request(proxy, request.to_string())).await.unwrap().json().await
}

/// Returns a response's text, the name and the arguments of its first call, and its finish reason.
pub(crate) fn gist(response: &Value) -> (Option<&str>, Option<(&str, &str)>, &str) {
    let choice = &response["choices"][0];
    let call = &choice["message"]["tool_calls"][0]["function"];
    let call = call["name"].as_str().zip(call["arguments"].as_str());
    (choice["message"]["content"].as_str(), call, choice["finish_reason"].as_str().unwrap_or_default())
}
