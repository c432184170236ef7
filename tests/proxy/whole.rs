//! Tests non-streaming responses, and streams whose only end is the end of the body.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};
use toolwire::dialect::{
    UpstreamDialect,
    chat::{Options, Streaming},
};

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request, stream_error},
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream, text},
};

const SHORT: Duration = Duration::from_millis(250);

const DONE: &str = "data: [DONE]\n\n";

/// A non-streaming response with fields that toolwire does not interpret.
fn completion() -> Value {
    json!({
        "id": "c1", "object": "chat.completion", "created": 1, "model": "up", "system_fingerprint": "fp",
        "choices": [
            {"index": 0, "logprobs": {"content": []}, "finish_reason": "stop",
             "message": {"role": "assistant", "content": "hello", "refusal": null, "audio": {"id": "a"}}},
            {"index": 1, "logprobs": null, "finish_reason": "length",
             "message": {"role": "assistant", "content": "other"}},
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "x": {"y": 1.50}},
    })
}

/// Records the request and answers with `body`.
async fn noted(asked: &Mutex<Vec<Value>>, mut exchange: Exchange, status: &str, body: &str) -> Exchange {
    asked.lock().await.push(serde_json::from_slice(&exchange.body).unwrap());
    exchange.whole(status, "content-type: application/json\r\n", body).await;
    exchange
}

/// A proxy in front of an upstream that answers with `status` and `body`. Also returns the requests that the
/// upstream gets.
async fn before(
    status: &'static str,
    body: String,
    change: impl FnOnce(&mut Setup),
) -> (Proxy, Upstream, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let body = Arc::new(body);
    let upstream = Upstream::start(move |exchange| {
        let (seen, body) = (seen.clone(), body.clone());
        async move { noted(&seen, exchange, status, &body).await }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    change(&mut setup);
    (setup.start().await, upstream, asked)
}

#[tokio::test]
async fn unstreamed_response_is_requested_and_keeps_all_fields() {
    let (proxy, _upstream, asked) = before("200 OK", completion().to_string(), |_| {}).await;
    let two_choices = WHOLE.replacen('{', r#"{"n":2,"#, 1);
    let reply = Client::new().chat(&proxy, two_choices).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.json().await, completion());
    let asked = asked.lock().await;
    assert_eq!(asked[0]["stream"], false);
    assert_eq!(asked[0].get("stream_options"), None);
}

#[tokio::test]
async fn missing_usage_counts_are_omitted() {
    let mut completion = completion();
    completion.as_object_mut().unwrap().remove("usage");
    let (proxy, _upstream, _) = before("200 OK", completion.to_string(), |_| {}).await;
    let reply = Client::new().chat(&proxy, WHOLE).await;
    assert_eq!(reply.json().await.get("usage"), None);
}

#[tokio::test]
async fn always_stream_requests_a_stream_for_unstreamed_responses() {
    let change = |setup: &mut Setup| {
        setup.upstream.options =
            UpstreamDialect::Chat(Options { stream: Streaming::Always, ..Options::of_host("") });
    };
    let (proxy, _upstream, asked) = before("200 OK", completion().to_string(), change).await;
    assert_eq!(Client::new().chat(&proxy, WHOLE).await.status(), 200);
    let asked = asked.lock().await;
    assert_eq!(asked[0]["stream"], true);
    assert_eq!(asked[0]["stream_options"]["include_usage"], true);
}

#[tokio::test]
async fn upstream_error_for_an_unstreamed_request_keeps_its_status() {
    let body =
        r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let (proxy, upstream, _) = before("400 Bad Request", body.to_owned(), |_| {}).await;
    let reply = Client::new().chat(&proxy, WHOLE).await;
    assert_eq!(reply.status(), 400);
    assert_eq!(reply.json().await["error"]["code"], "context_length_exceeded");
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn calls_written_as_text_are_found_in_unstreamed_responses() {
    let mut completion = completion();
    completion["choices"].as_array_mut().unwrap().truncate(1);
    completion["choices"][0]["message"]["content"] =
        "Ok.\n<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>".into();
    let (proxy, _upstream, _) = before("200 OK", completion.to_string(), |_| {}).await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
                      "tools": [{"type": "function", "function": {"name": "f"}}]});
    let answer = Client::new().send(chat_request(&proxy, body.to_string())).await.unwrap().json().await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
    assert_eq!(choice["message"]["content"], "Ok.");
    assert_eq!(answer["usage"]["total_tokens"], 14);
}

#[tokio::test]
async fn oversized_unstreamed_response_reaches_the_limit() {
    let change = |setup: &mut Setup| setup.settings.limits.max_answer = 100;
    let (proxy, _upstream, _) = before("200 OK", completion().to_string(), change).await;
    let reply = Client::new().chat(&proxy, WHOLE).await;
    assert_eq!(reply.status(), 502);
    assert_eq!(reply.json().await["error"]["code"], "limit_exceeded");
}

/// The head is only sent with the complete response, so the timeout does not apply.
#[tokio::test]
async fn header_timeout_does_not_apply_to_unstreamed_responses() {
    let upstream = Upstream::start(|mut exchange| async move {
        tokio::time::sleep(3 * SHORT).await;
        exchange.whole("200 OK", "", &completion().to_string()).await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.timeouts.header = SHORT;
    let proxy = setup.start().await;
    assert_eq!(Client::new().chat(&proxy, WHOLE).await.status(), 200);
}

#[tokio::test]
async fn client_disconnect_cancels_an_unstreamed_response() {
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell_asked, tell_gone) = (asked.clone(), gone.clone());
    let upstream = Upstream::start(move |mut exchange| {
        let (asked, gone) = (tell_asked.clone(), tell_gone.clone());
        async move {
            asked.notify_one();
            exchange.gone().await;
            gone.notify_one();
            exchange
        }
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    tokio::select! {
        _ = client.chat(&proxy, WHOLE) => panic!("nobody has answered"),
        () = soon("the request", asked.notified()) => {}
    }
    drop(client);
    soon("the upstream's connection to close", gone.notified()).await;
}

/// Returns the client's response to a stream with content and an end marker, but without a finish reason.
async fn unfinished<F>(script: fn(Exchange) -> F) -> String
where
    F: Future<Output = Exchange> + Send + 'static,
{
    let upstream = Upstream::start(script).await;
    let proxy = Setup::new(upstream.address).start().await;
    Client::new().chat(&proxy, STREAM).await.rest().await
}

async fn marked(mut exchange: Exchange) -> Exchange {
    exchange.begin().await;
    exchange.piece(text("first")).await;
    exchange.piece(DONE).await;
    exchange
}

#[tokio::test]
async fn done_without_a_finish_reason_needs_the_end_of_the_body() {
    let good = unfinished(|exchange| async {
        let mut exchange = marked(exchange).await;
        exchange.end().await;
        exchange
    });
    let body = good.await;
    assert!(body.contains(r#""finish_reason":"stop""#) && body.ends_with(DONE), "{body}");
    let by_close = unfinished(|mut exchange| async {
        exchange.raw("HTTP/1.1 200 OK\r\n\r\n").await;
        exchange.raw(text("first") + DONE).await;
        exchange
    });
    let body = by_close.await;
    assert!(body.contains(r#""finish_reason":"stop""#) && body.ends_with(DONE), "{body}");
    let broken = unfinished(marked);
    let held_open = unfinished(|exchange| async {
        let mut exchange = marked(exchange).await;
        exchange.gone().await;
        exchange
    });
    for body in [broken.await, held_open.await] {
        assert!(body.contains("first") && !body.contains(r#""finish_reason":"stop""#), "{body}");
        assert_eq!(stream_error(&body)["code"], "upstream_truncated");
    }
}
