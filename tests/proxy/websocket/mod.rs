//! Tests Responses over a WebSocket.

mod continuation;
mod hostile;

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolwire::proxy::ReloadReason;

use crate::independent::upstream::Speech;
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse},
    soon,
    upstream::{END, Exchange, Upstream, at_once, held, text},
    websocket::{Received, WebSocket, frame, handshake, refused},
};

/// The bodies of the requests that an upstream has received.
type Asked = Arc<Mutex<Vec<Value>>>;

fn has(body: &[u8], word: &str) -> bool {
    memchr::memmem::find(body, word.as_bytes()).is_some()
}

async fn upstream() -> (Upstream, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |exchange: Exchange| {
        kept.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        at_once(exchange)
    });
    (upstream.await, asked)
}

/// The messages of the latest request.
fn messages(asked: &Asked) -> Vec<String> {
    let asked = asked.lock().unwrap();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    let text = |message: &Value| {
        format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
    };
    messages.iter().map(text).collect()
}

async fn metrics(proxy: &Proxy) -> String {
    Client::new().get(proxy, "/metrics").await.rest().await
}

fn error(response: &RawResponse) -> Value {
    serde_json::from_str::<Value>(&response.body).unwrap_or_else(|_| panic!("{}", response.body))["error"]
        .clone()
}

#[tokio::test]
async fn events_are_those_of_the_stream_over_http() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = r#"{"model":"m","input":"hi","stream":true}"#;
    let mut http = Raw::connect(&proxy).await;
    http.send(format!(
        "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    let streamed = http.response().await.body;
    let data = streamed.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut over_http: Vec<Value> =
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect();
    let mut socket = WebSocket::connect(&proxy, "").await;
    for stream in [json!({}), json!({"stream": true}), json!({"stream": false})] {
        let mut members = json!({"input": "hi"});
        members.as_object_mut().unwrap().extend(stream.as_object().unwrap().clone());
        socket.create(members).await;
        let mut events = socket.until("response.completed").await;
        for event in over_http.iter_mut().chain(&mut events) {
            without_ids(event);
        }
        assert_eq!(events, over_http);
    }
}

/// Removes what differs between two equal responses.
fn without_ids(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| !matches!(key.as_str(), "id" | "item_id" | "created_at"));
            members.values_mut().for_each(without_ids);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_ids),
        _ => {}
    }
}

#[tokio::test]
async fn lanes_run_side_by_side_and_each_in_order() {
    let go_on = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(Arc::clone(&go_on), |mut exchange, go_on| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        if has(&exchange.body, "wait") {
            go_on.notified().await;
        }
        exchange.finished().await
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "wait", "stream_id": "slow"})).await;
    socket.until("response.output_text.delta").await;
    socket.create(json!({"input": "second", "stream_id": "slow"})).await;
    socket.create(json!({"input": "quick", "stream_id": "quick"})).await;
    socket.create(json!({"input": "unnamed"})).await;
    let mut ended = Vec::new();
    while ended.len() < 4 {
        let event = socket.event().await;
        if event["type"] == "response.completed" {
            ended.push(event["stream_id"].as_str().map(str::to_owned));
        }
        if ended.len() == 2 && upstream.requests() == 3 {
            go_on.notify_one();
        }
    }
    ended[..2].sort();
    assert_eq!(ended, [None, Some("quick".into()), Some("slow".into()), Some("slow".into())]);
}

#[tokio::test]
async fn cancelled_response_ends_its_upstream_request() {
    let gone = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(Arc::clone(&gone), |mut exchange, gone| async move {
        if !has(&exchange.body, "wait") {
            return at_once(exchange).await;
        }
        exchange.begin().await;
        exchange.piece(text("first")).await;
        exchange.gone().await;
        gone.notify_one();
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    for (lane, other) in [(json!(null), json!("other")), (json!("lane"), json!(null))] {
        socket.create(json!({"input": "wait", "stream_id": lane})).await;
        socket.until("response.output_text.delta").await;
        socket.text(&json!({"type": "response.cancel", "stream_id": other}).to_string()).await;
        let event = socket.event().await;
        assert_eq!((&event["error"]["code"], &event["status"]), (&json!("response_not_active"), &json!(400)));
        socket.text(&json!({"type": "response.cancel", "stream_id": lane}).to_string()).await;
        let event = socket.event().await;
        assert_eq!(
            (&event["type"], &event["error"]["code"]),
            (&json!("error"), &json!("response_cancelled"))
        );
        assert_eq!(event["stream_id"], lane);
        soon("the upstream's request to end", gone.notified()).await;
        socket.create(json!({"input": "next", "stream_id": lane})).await;
        socket.response().await;
    }
    // Closing the connection cancels as well.
    socket.create(json!({"input": "wait"})).await;
    socket.until("response.output_text.delta").await;
    socket.raw(frame(0x88, &1000_u16.to_be_bytes())).await;
    soon("the upstream's request to end", gone.notified()).await;
    socket.closed(1000).await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "wait"})).await;
    socket.until("response.output_text.delta").await;
    drop(socket);
    soon("the upstream's request to end", gone.notified()).await;
    let counted = async { while !metrics(&proxy).await.contains("toolwire_client_disconnects_total 4\n") {} };
    soon("the cancelled responses to be counted", counted).await;
}

#[tokio::test]
async fn errors_of_the_upstream_are_events() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        let body = r#"{"error":{"message":"too many","type":"x","code":"slow_down"}}"#;
        if has(&exchange.body, "cut") {
            exchange.begin().await;
            exchange.piece(text("first")).await;
            return exchange;
        }
        exchange
            .whole("429 Too Many Requests", "content-type: application/json\r\nretry-after: 7\r\n", body)
            .await;
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "refused", "stream_id": "a"})).await;
    let event = socket.event().await;
    assert_eq!((&event["status"], &event["stream_id"]), (&json!(429), &json!("a")), "{event}");
    assert_eq!(
        (&event["headers"]["retry-after"], &event["error"]["headers"]["retry-after"]),
        (&json!("7"), &json!("7"))
    );
    socket.create(json!({"input": "cut"})).await;
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Value| event["type"] != "response.failed") {
        events.push(socket.event().await);
    }
    assert_eq!(events.iter().filter(|event| event["type"] == "error").count(), 1, "{events:?}");
    socket.create(json!({"input": "refused"})).await;
    assert_eq!(socket.event().await["status"], 429);
}

#[tokio::test]
async fn silent_upstream_is_bridged_with_pings() {
    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.keep_alive = Duration::from_millis(50);
    let proxy = setup.start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "hi"})).await;
    while socket.next().await != Received::Ping {}
    socket.raw(frame(0x8a, b"")).await;
    socket.raw(frame(0x89, b"are you there?")).await;
    while socket.next().await != Received::Pong(b"are you there?".to_vec()) {}
    go_on.notify_one();
    while !matches!(socket.next().await, Received::Text(text) if text.contains("response.completed")) {}
}

#[tokio::test]
async fn handshake_is_checked_like_a_request() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["k"];
    let proxy = setup.start().await;
    let without = refused(&proxy, &handshake("/v1/responses", "")).await;
    assert_eq!((without.status, without.header("www-authenticate")), (401, Some("bearer")));
    let key = "authorization: Bearer k\r\n";
    let wrong = refused(&proxy, &handshake("/v1/responses", key).replace("version: 13", "version: 8")).await;
    assert_eq!((wrong.status, wrong.header("sec-websocket-version")), (426, Some("13")));
    let nonce = handshake("/v1/responses", key).replace("sec-websocket-key: AA", "sec-websocket-key: A");
    let nonce = refused(&proxy, &nonce).await;
    assert_eq!((nonce.status, error(&nonce)["param"].as_str()), (400, Some("sec-websocket-key")));
    let body = handshake("/v1/responses", &format!("{key}content-length: 2\r\n")) + "{}";
    let body = refused(&proxy, &body).await;
    assert_eq!((body.status, body.header("connection")), (400, Some("close")));
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses/resp_1"] {
        assert_eq!(refused(&proxy, &handshake(path, key)).await.status, 426, "{path}");
    }
    let plain = refused(&proxy, "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(plain.status, 405);
    let mut socket = WebSocket::connect(&proxy, key).await;
    socket.create(json!({"input": "hi"})).await;
    socket.response().await;
    let counted = metrics(&proxy).await;
    assert!(counted.contains("route=\"responses\""), "{counted}");
}

/// Browsers let any page open a WebSocket, and say which page it is.
#[tokio::test]
async fn pages_of_other_sites_open_no_websocket() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for headers in ["origin: https://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"]
    {
        let response = refused(&proxy, &handshake("/v1/responses", headers)).await;
        assert_eq!(
            (response.status, error(&response)["code"].as_str()),
            (403, Some("other_origin")),
            "{headers}"
        );
    }
    let rebound = handshake("/v1/responses", "").replace("host: localhost", "host: evil.example");
    assert_eq!(error(&refused(&proxy, &rebound).await)["code"], "wrong_host");
    let mut setup = Setup::new(upstream.address);
    setup.cors_origins = toolwire::config::Origins::parse(&["https://ui.example"]).unwrap();
    let proxy = setup.start().await;
    let mut socket = WebSocket::connect(&proxy, "origin: https://ui.example\r\n").await;
    socket.create(json!({"input": "hi"})).await;
    socket.response().await;
    assert_eq!(
        refused(&proxy, &handshake("/v1/responses", "origin: https://evil.example\r\n")).await.status,
        403
    );
}

#[tokio::test]
async fn limits_of_a_client_hold_for_each_request() {
    let upstream = Upstream::start(at_once).await;
    let execution =
        "[[keys]]\nname = \"team\"\nkey = \"k\"\nmodels = [\"m\"]\nrequests_per_minute = 2\n".to_owned();
    let proxy = Setup { execution, ..Setup::new(upstream.address) }.start().await;
    let mut socket = WebSocket::connect(&proxy, "authorization: Bearer k\r\n").await;
    socket.create(json!({"model": "org/other", "input": "hi"})).await;
    assert_eq!(socket.event().await["status"], 403);
    for _ in 0..2 {
        socket.create(json!({"input": "hi"})).await;
        socket.response().await;
    }
    socket.create(json!({"input": "hi"})).await;
    let event = socket.event().await;
    assert_eq!(
        (&event["status"], &event["error"]["type"]),
        (&json!(429), &json!("rate_limit_error")),
        "{event}"
    );
    assert!(
        event["headers"]["retry-after"].is_string()
            && event["headers"]["x-ratelimit-limit-requests"].is_string()
    );
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn reload_holds_for_the_next_request() {
    let (upstream, _) = upstream().await;
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    let write = |model: &str, key: &str| {
        let upstream = upstream.address;
        fs::write(
            &file,
            format!(
                "listen = \"127.0.0.1:0\"\nthreads = 1\nstore = \"off\"\napi_keys = [\"{key}\"]\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
                 base_url = \"http://{upstream}/v1\"\n[[models]]\nname = \"{model}\"\n"
            ),
        )
        .unwrap();
    };
    write("m", "a-key-of-tests");
    let proxy = Proxy::of_file(&file);
    let mut socket = WebSocket::connect(&proxy, "authorization: Bearer a-key-of-tests\r\n").await;
    socket.create(json!({"input": "hi", "store": false})).await;
    let first = socket.response().await;
    write("other", "a-key-of-tests");
    soon("the reload", proxy.reloads.reload(ReloadReason::Signal)).await.unwrap();
    socket.create(json!({"input": "hi"})).await;
    assert_eq!(socket.event().await["error"]["code"], "model_not_found");
    socket.create(json!({"model": "other", "input": "hi", "previous_response_id": first["id"]})).await;
    assert_eq!(socket.response().await["previous_response_id"], first["id"]);
    write("other", "another-key-of-tests");
    soon("the reload", proxy.reloads.reload(ReloadReason::Signal)).await.unwrap();
    socket.create(json!({"model": "other", "input": "hi"})).await;
    assert_eq!(socket.event().await["status"], 401);
}

#[tokio::test]
async fn drain_ends_connections_after_their_responses() {
    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let mut idle = WebSocket::connect(&proxy, "").await;
    let mut busy = WebSocket::connect(&proxy, "").await;
    busy.create(json!({"input": "hi"})).await;
    busy.until("response.output_text.delta").await;
    proxy.stop();
    idle.closed(1001).await;
    busy.create(json!({"input": "later", "stream_id": "other"})).await;
    let refused = busy.event().await;
    assert_eq!((&refused["status"], &refused["stream_id"]), (&json!(503), &json!("other")), "{refused}");
    go_on.notify_one();
    busy.response().await;
    busy.closed(1001).await;
    soon("the server to end", proxy.ended()).await;
}

#[tokio::test]
async fn frames_of_a_responses_upstream_are_passed_on_and_remembered() {
    let (upstream, asked) = responses_upstream().await;
    let proxy = Proxy::of(&format!(
        "[[upstreams]]\nname = \"up\"\ndialect = \"responses\"\nbase_url = \"http://{}/v1\"\n[[models]]\nname = \"m\"\n",
        upstream.address
    ));
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "one", "store": false, "stream_id": "a"})).await;
    let events = socket.until("response.completed").await;
    assert!(events.iter().all(|event| event["stream_id"] == "a"), "{events:?}");
    let first = &events.last().unwrap()["response"];
    assert_eq!(first["output"][0]["content"][0]["text"], "hello");
    socket
        .create(
            json!({"input": "two", "store": false, "stream_id": "a", "previous_response_id": first["id"]}),
        )
        .await;
    socket.response().await;
    let asked = asked.lock().unwrap();
    assert_eq!(asked[1]["input"].as_array().unwrap().len(), 3, "{}", asked[1]);
    for own in ["stream_id", "generate", "type", "previous_response_id"] {
        assert_eq!(asked[1].get(own), None, "{own}");
    }
}

async fn responses_upstream() -> (Upstream, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |exchange: Exchange| {
        kept.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        let events = Speech::Responses.says(&["hello"], "stop");
        async move { exchange.stream(events).await }
    });
    (upstream.await, asked)
}

#[tokio::test]
async fn long_response_arrives_whole() {
    let long = "é".repeat(300_000);
    let events = text(&long) + END;
    let upstream =
        Upstream::start_sharing(events, |exchange, events| async move { exchange.stream(events).await })
            .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "hi", "store": false})).await;
    let response = socket.response().await;
    assert_eq!(response["output"][0]["content"][0]["text"], long);
    // A large message is read on another thread.
    socket.create(json!({"input": long, "store": false, "previous_response_id": response["id"]})).await;
    socket.response().await;
}
