//! Tests threads of Messages clients: conversations that toolwire holds, and of which each request sends only what
//! is new.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolwire::{
    config::StoreKind,
    dialect::{UpstreamDialect, messages::Options},
    store::StoreAddress,
};

use crate::{
    independent::redis_server::RedisServer,
    support::{
        client::Client,
        proxy::{Proxy, Setup},
        upstream::{Exchange, Upstream, at_once},
    },
};

/// The bodies of the requests that an upstream has received, with their `anthropic-beta`.
type Asked = Arc<Mutex<Vec<(Value, Option<String>)>>>;

fn keep(asked: &Asked, exchange: &Exchange) {
    let body = serde_json::from_slice(&exchange.body).unwrap();
    let betas = exchange.header("anthropic-beta").map(str::to_owned);
    asked.lock().unwrap().push((body, betas));
}

/// An upstream of Chat Completions.
async fn chat() -> (Upstream, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |exchange: Exchange| {
        keep(&kept, &exchange);
        at_once(exchange)
    });
    (upstream.await, asked)
}

/// An upstream of Messages, all of whose messages have the same id.
async fn messages(content: Value) -> (Upstream, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        keep(&kept, &exchange);
        let content = content.clone();
        async move {
            let asked: Value = serde_json::from_slice(&exchange.body).unwrap();
            let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
            if asked["stream"] == true {
                return exchange.stream(streamed(&message, &content)).await;
            }
            let mut whole = message;
            whole["content"] = content;
            exchange.whole("200 OK", "content-type: application/json\r\n", &whole.to_string()).await;
            exchange
        }
    });
    (upstream.await, asked)
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn streamed(message: &Value, blocks: &Value) -> String {
    let mut head = message.clone();
    (head["content"], head["stop_reason"]) = (json!([]), Value::Null);
    let mut stream = event("message_start", &json!({"type": "message_start", "message": head}));
    for (index, block) in blocks.as_array().unwrap().iter().enumerate() {
        let mut start = block.clone();
        let delta = match block["type"].as_str().unwrap() {
            "text" => {
                start["text"] = json!("");
                json!({"type": "text_delta", "text": block["text"]})
            }
            "tool_use" => {
                start["input"] = json!({});
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
            }
            other => json!({"type": format!("{other}_delta"), "content": block["content"]}),
        };
        stream += &event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": index, "content_block": start}),
        );
        let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
        stream += &event("content_block_delta", &delta);
        stream += &event("content_block_stop", &json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": null},
        "usage": {"output_tokens": 1}});
    stream + &event("message_delta", &end) + &event("message_stop", &json!({"type": "message_stop"}))
}

fn setup(upstream: &Upstream) -> Setup {
    Setup::new(upstream.address)
}

/// A setup for an upstream of Messages.
fn messages_setup(upstream: &Upstream) -> Setup {
    let mut setup = setup(upstream);
    setup.upstream.options = UpstreamDialect::Messages(Options::default());
    setup
}

const BETAS: &str = "message-threads-2026-08-12,other-2026-01-01";

async fn send(proxy: &Proxy, method: Method, path: &str, key: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(proxy.url(path)).header("x-api-key", key);
    let request = request.header("content-type", "application/json").header("anthropic-beta", BETAS);
    let reply = Client::new().send(request.body(Full::new(body)).unwrap()).await.unwrap();
    (reply.status().as_u16(), reply.json().await)
}

/// Sends a request with these fields. Returns the status and the message.
async fn create(proxy: &Proxy, key: &str, fields: Value) -> (u16, Value) {
    let mut body = json!({"model": "m", "max_tokens": 9});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    if body["stream"] != true {
        return send(proxy, Method::POST, "/v1/messages", key, &body).await;
    }
    let request = Request::post(proxy.url("/v1/messages")).header("x-api-key", key);
    let request = request.header("content-type", "application/json").header("anthropic-beta", BETAS);
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let reply = Client::new().send(request).await.unwrap();
    let status = reply.status().as_u16();
    let stream = reply.rest().await;
    let start = stream.lines().filter_map(|line| line.strip_prefix("data: ")).next().unwrap();
    (status, serde_json::from_str::<Value>(start).unwrap()["message"].take())
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

fn begin(text: &str) -> Value {
    json!({"thread": {"type": "create"}, "system": "Be brief.", "tools": [tool()], "messages": user(text)})
}

fn tool() -> Value {
    json!({"name": "get_weather", "description": "Weather", "input_schema": {"type": "object"}})
}

fn go_on(message: &Value, messages: Value) -> Value {
    json!({"thread": {"type": "continue", "previous_message_id": message["id"]}, "messages": messages})
}

/// The last request that an upstream has received, without what is not part of the conversation.
fn told(asked: &Asked) -> Value {
    let (body, _) = asked.lock().unwrap().last().unwrap().clone();
    json!({"messages": body["messages"], "system": body["system"], "tools": body["tools"]})
}

#[tokio::test]
async fn thread_is_continued_with_all_that_it_holds() {
    let (upstream, asked) = chat().await;
    let proxy = setup(&upstream).start().await;
    for stream in [false, true] {
        let mut fields = begin("one");
        fields["stream"] = json!(stream);
        let (status, first) = create(&proxy, "", fields).await;
        assert_eq!((status, &first["type"]), (200, &json!("message")));
        let mut next = go_on(&first, user("two"));
        next["stream"] = json!(stream);
        let (status, second) = create(&proxy, "", next).await;
        assert_eq!(status, 200, "{second}");
        assert_ne!(first["id"], second["id"]);
        let body = told(&asked);
        let texts: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        assert_eq!(texts, ["system", "user", "assistant", "user"], "{body}");
        assert_eq!(body["messages"][0]["content"], "Be brief.");
        assert_eq!(body["messages"][3]["content"], "two");
        assert_eq!(body["tools"][0]["function"]["name"], "get_weather");
        let (status, third) = create(&proxy, "", go_on(&second, user("three"))).await;
        assert_eq!(status, 200, "{third}");
        assert_eq!(told(&asked)["messages"].as_array().unwrap().len(), 6);
    }
}

/// An upstream of Messages does not get `thread` or its beta feature, and its own ids are not unique.
#[tokio::test]
async fn upstream_of_messages_gets_the_whole_conversation() {
    let content = json!([
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
    ]);
    let (upstream, asked) = messages(content.clone()).await;
    let proxy = messages_setup(&upstream).start().await;
    for stream in [false, true] {
        let mut fields = begin("one");
        fields["stream"] = json!(stream);
        let (_, first) = create(&proxy, "", fields.clone()).await;
        let (_, other) = create(&proxy, "", fields).await;
        assert_ne!(first["id"], other["id"]);
        let result = json!([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18 °C"}]}]);
        let (status, message) = create(&proxy, "", go_on(&first, result.clone())).await;
        assert_eq!(status, 200, "{message}");
        let messages = [user("one"), json!([{"role": "assistant", "content": content}]), result];
        let messages: Vec<Value> =
            messages.iter().flat_map(|list| list.as_array().unwrap().clone()).collect();
        let expected = json!({"messages": messages, "system": "Be brief.", "tools": [tool()]});
        assert_eq!(told(&asked), expected, "{stream}");
        let (body, betas) = asked.lock().unwrap().last().unwrap().clone();
        assert!(body.get("thread").is_none() && body.get("toolwire_thread").is_none(), "{body}");
        assert_eq!(betas.as_deref(), Some("other-2026-01-01"));
    }
}

#[tokio::test]
async fn unknown_foreign_and_deleted_messages_are_not_found() {
    let (upstream, _) = chat().await;
    let mut setup = setup(&upstream);
    setup.keys = vec!["alpha", "beta"];
    let proxy = setup.start().await;
    let (_, own) = create(&proxy, "alpha", begin("one")).await;
    let (_, second) = create(&proxy, "alpha", go_on(&own, user("two"))).await;
    let (_, unheld) = create(&proxy, "alpha", json!({"messages": user("one")})).await;
    let (_, response) = {
        let body = json!({"model": "m", "input": "one"});
        send(&proxy, Method::POST, "/v1/responses", "alpha", &body).await
    };
    let path = format!("/v1/messages/{}", own["id"].as_str().unwrap());
    assert_eq!(send(&proxy, Method::DELETE, &path, "beta", &Value::Null).await.0, 404);
    let requests = upstream.requests();
    for (key, id) in [
        ("beta", &own["id"]),
        ("alpha", &unheld["id"]),
        ("alpha", &response["id"]),
        ("alpha", &json!("msg_x")),
        ("alpha", &json!("\u{0}é/")),
    ] {
        let (status, body) = create(&proxy, key, go_on(&json!({"id": id}), user("two"))).await;
        let error = &body["error"];
        assert_eq!((status, &error["type"]), (404, &json!("not_found_error")), "{body}");
        assert_eq!(error["details"], json!({"error_code": "thread_not_found"}));
    }
    let continued = json!({"model": "m", "input": "two", "previous_response_id": own["id"]});
    let (status, _) = send(&proxy, Method::POST, "/v1/responses", "alpha", &continued).await;
    assert_eq!(status, 404);
    assert_eq!(upstream.requests(), requests, "nothing was asked without the history");
    assert_eq!(send(&proxy, Method::GET, &path, "alpha", &Value::Null).await.0, 405);
    let (status, deleted) = send(&proxy, Method::DELETE, &path, "alpha", &Value::Null).await;
    assert_eq!((status, deleted), (200, json!({"id": own["id"], "type": "message_deleted"})));
    assert_eq!(create(&proxy, "alpha", go_on(&own, user("two"))).await.0, 404);
    assert_eq!(create(&proxy, "alpha", go_on(&second, user("three"))).await.0, 200);
}

/// Each branch has its own history.
#[tokio::test]
async fn one_message_is_continued_many_times_at_once() {
    let (upstream, asked) = chat().await;
    let proxy = Arc::new(setup(&upstream).start().await);
    let (_, first) = create(&proxy, "", begin("one")).await;
    let mut branches = JoinSet::new();
    for branch in 0..8 {
        let (proxy, fields) = (Arc::clone(&proxy), go_on(&first, user(&format!("branch {branch}"))));
        branches.spawn(async move { (branch, create(&proxy, "", fields).await) });
    }
    let mut ids = std::collections::HashSet::new();
    for (branch, (status, message)) in branches.join_all().await {
        assert!(status == 200 && ids.insert(message["id"].to_string()), "{message}");
        assert_eq!(create(&proxy, "", go_on(&message, user("end"))).await.0, 200);
        let told = told(&asked);
        assert_eq!(told["messages"][3]["content"], format!("branch {branch}"), "{told}");
        assert_eq!(told["messages"].as_array().unwrap().len(), 6);
    }
}

#[tokio::test]
async fn what_is_no_thread_is_refused() {
    let (upstream, _) = chat().await;
    let proxy = setup(&upstream).start().await;
    let (_, first) = create(&proxy, "", begin("one")).await;
    let id = &first["id"];
    for (thread, param) in [
        (json!("create"), "thread"),
        (json!([]), "thread"),
        (json!({}), "thread.type"),
        (json!({"type": "fork", "previous_message_id": id}), "thread.type"),
        (json!({"type": "continue"}), "thread.previous_message_id"),
        (json!({"type": "continue", "previous_message_id": null}), "thread.previous_message_id"),
        (json!({"type": "continue", "previous_message_id": 7}), "thread.previous_message_id"),
    ] {
        let (status, body) = create(&proxy, "", json!({"thread": thread, "messages": user("two")})).await;
        assert_eq!(
            (status, &body["error"]["type"]),
            (400, &json!("invalid_request_error")),
            "{thread}: {body}"
        );
        assert!(body["error"]["message"].as_str().unwrap().contains(param), "{thread}: {body}");
    }
    let (status, body) =
        create(&proxy, "", json!({"Thread": {"type": "create"}, "messages": user("two")})).await;
    assert!(status == 400 && body["error"]["message"].as_str().unwrap().contains("`thread`"), "{body}");
    for (changed, is_ok) in [
        (json!({"system": "Be brief."}), true),
        (json!({"system": "Be long."}), false),
        (json!({"tools": [tool()]}), true),
        (json!({"tools": []}), false),
        (json!({"system": null, "tools": null, "max_tokens": 5}), true),
    ] {
        let mut fields = go_on(&first, user("two"));
        fields.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let (status, body) = create(&proxy, "", fields).await;
        assert_eq!(status, if is_ok { 200 } else { 400 }, "{changed}: {body}");
        let code = if is_ok { Value::Null } else { json!("thread_fingerprint_mismatch") };
        assert_eq!(body["error"]["details"]["error_code"], code);
    }
    assert_eq!(create(&proxy, "", json!({"thread": null, "messages": user("two")})).await.0, 200);
}

/// Without a store, only an upstream of the same API can hold a thread.
#[tokio::test]
async fn thread_is_refused_or_left_to_the_upstream_if_the_store_is_off() {
    let (upstream, _) = chat().await;
    let mut off = setup(&upstream);
    off.store = StoreKind::Off;
    let proxy = off.start().await;
    for fields in [begin("one"), go_on(&json!({"id": "msg_1"}), user("two"))] {
        let (status, body) = create(&proxy, "", fields).await;
        let details = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
        assert_eq!((status, &body["error"]["details"]), (400, &details), "{body}");
    }
    assert_eq!(upstream.requests(), 0);
    let (upstream, asked) = messages(json!([{"type": "text", "text": "ok"}])).await;
    let mut off = messages_setup(&upstream);
    off.store = StoreKind::Off;
    let proxy = off.start().await;
    let fields = go_on(&json!({"id": "msg_1"}), user("two"));
    let (status, message) = create(&proxy, "", fields.clone()).await;
    assert_eq!((status, &message["id"]), (200, &json!("msg_1")), "the upstream's id");
    let (body, betas) = asked.lock().unwrap().last().unwrap().clone();
    assert_eq!((&body["thread"], betas.as_deref()), (&fields["thread"], Some(BETAS)));
}

/// Anthropic's SDKs react to this code, whoever has no such thread.
#[tokio::test]
async fn upstream_that_has_no_such_thread_says_so_to_the_client() {
    let upstream = Upstream::start(async |mut exchange: Exchange| {
        let error = json!({"type": "error", "error": {"type": "not_found_error", "message": "no such thread",
            "details": {"error_code": "thread_not_found"}}});
        exchange.whole("404 Not Found", "content-type: application/json\r\n", &error.to_string()).await;
        exchange
    })
    .await;
    let mut off = messages_setup(&upstream);
    off.store = StoreKind::Off;
    let proxy = off.start().await;
    let (status, body) = create(&proxy, "", go_on(&json!({"id": "msg_1"}), user("two"))).await;
    assert_eq!(
        (status, &body["error"]["details"]["error_code"]),
        (404, &json!("thread_not_found")),
        "{body}"
    );
}

#[tokio::test]
async fn history_that_is_too_large_is_refused() {
    let (upstream, _) = chat().await;
    let mut limited = setup(&upstream);
    limited.limits.max_body = 4096;
    let proxy = limited.start().await;
    let (_, first) = create(&proxy, "", begin(&"x".repeat(3000))).await;
    let (status, body) = create(&proxy, "", go_on(&first, user(&"y".repeat(2000)))).await;
    assert_eq!((status, &body["error"]["type"]), (413, &json!("request_too_large")), "{body}");
    assert_eq!(create(&proxy, "", go_on(&first, user(&"y".repeat(500)))).await.0, 200);
}

/// A block whose deltas toolwire does not know cannot be stored.
#[tokio::test]
async fn message_that_cannot_be_held_in_full_is_not_held() {
    let (upstream, _) = messages(json!([{"type": "novel", "content": "later API"}])).await;
    let proxy = messages_setup(&upstream).start().await;
    for (stream, expected) in [(false, 200), (true, 404)] {
        let mut fields = begin("one");
        fields["stream"] = json!(stream);
        let (_, first) = create(&proxy, "", fields).await;
        assert_eq!(create(&proxy, "", go_on(&first, user("two"))).await.0, expected, "{stream}");
    }
}

#[tokio::test]
async fn tokens_of_the_whole_thread_are_counted() {
    let (upstream, _) = chat().await;
    let proxy = setup(&upstream).start().await;
    let (_, first) = create(&proxy, "", begin(&"word ".repeat(1000))).await;
    let mut body = go_on(&first, user("two"));
    body["model"] = json!("m");
    let (status, count) = send(&proxy, Method::POST, "/v1/messages/count_tokens", "", &body).await;
    assert!(status == 200 && count["input_tokens"].as_u64().unwrap() > 1000, "{count}");
    let (status, _) = {
        body["thread"]["previous_message_id"] = json!("msg_x");
        send(&proxy, Method::POST, "/v1/messages/count_tokens", "", &body).await
    };
    assert_eq!(status, 404);
}

#[tokio::test]
async fn thread_survives_a_restart() {
    let (upstream, asked) = chat().await;
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let mut setup = setup(&upstream);
        setup.state_dir = Some(folder.path().join("state"));
        setup.start().await
    };
    let mut proxy = start().await;
    let (_, first) = create(&proxy, "", begin("one")).await;
    proxy.stop();
    proxy.ended().await;
    drop(proxy);
    let proxy = start().await;
    assert_eq!(create(&proxy, "", go_on(&first, user("two"))).await.0, 200);
    assert_eq!(told(&asked)["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn thread_is_continued_at_another_instance() {
    let Some(server) = RedisServer::start().unwrap() else { return };
    let (upstream, asked) = chat().await;
    let start = async || {
        let mut setup = setup(&upstream);
        setup.store = StoreKind::Redis(StoreAddress::parse(&server.url()).unwrap());
        setup.limits.instances = 2;
        setup.start().await
    };
    let (one, other) = (start().await, start().await);
    for _ in 0..5 {
        let (_, first) = create(&one, "", begin("one")).await;
        assert_eq!(create(&other, "", go_on(&first, user("two"))).await.0, 200);
        assert_eq!(told(&asked)["messages"].as_array().unwrap().len(), 4);
    }
}
