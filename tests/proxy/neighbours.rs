//! Tests requests for features that other servers have at these paths, but that toolwire lacks or implements
//! differently.

use serde_json::{Value, json};

use crate::support::{
    client::{Client, WHOLE},
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse},
    upstream::{Upstream, at_once},
};

async fn send(proxy: &Proxy, line: &str, headers: &str, body: &str) -> RawResponse {
    let mut client = Raw::connect(proxy).await;
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    client.send(format!("{head}{headers}content-length: {length}\r\n\r\n{body}")).await;
    client.response().await
}

fn error(response: &RawResponse) -> Value {
    serde_json::from_str::<Value>(&response.body).unwrap_or_else(|_| panic!("{}", response.body))
}

#[tokio::test]
async fn websocket_is_answered_with_426_and_the_connection_goes_on() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["k"];
    let proxy = setup.start().await;
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/models", "/v1/responses/resp_1"] {
        for upgrade in ["websocket", "WebSocket", "h2c, websocket"] {
            let mut client = Raw::connect(&proxy).await;
            let handshake = "connection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            client
                .send(format!(
                    "GET {path} HTTP/1.1\r\nhost: localhost\r\nupgrade: {upgrade}\r\n{handshake}\r\n"
                ))
                .await;
            let response = client.response().await;
            assert_eq!(response.status, 426, "{path}");
            assert_eq!(
                (response.header("upgrade"), response.header("connection")),
                (Some("http/1.1"), Some("upgrade"))
            );
            let error = error(&response);
            assert!(error["error"]["message"].as_str().unwrap().contains("over HTTP"), "{error}");
            assert_eq!(error["type"] == "error", path == "/v1/messages", "{error}");
            client
                .send("GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer k\r\n\r\n")
                .await;
            assert_eq!(client.response().await.status, 200, "the connection persists");
        }
    }
    let other = send(
        &proxy,
        "GET /v1/models",
        "connection: upgrade\r\nupgrade: h2c\r\nauthorization: Bearer k\r\n",
        "",
    )
    .await;
    assert_eq!(other.status, 200, "other upgrades are offers");
    let removed =
        send(&proxy, "GET /v1/responses", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "").await;
    assert_eq!(
        (removed.status, removed.header("upgrade")),
        (426, Some("http/1.1")),
        "a proxy removed the upgrade"
    );
    let nowhere = send(&proxy, "GET /v1/realtime", "connection: upgrade\r\nupgrade: websocket\r\n", "").await;
    assert_eq!(nowhere.status, 404);
    let mut old = Raw::connect(&proxy).await;
    old.send("GET /healthz HTTP/1.0\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").await;
    assert!(old.until("\r\n").await.contains(" 200 "), "HTTP/1.0 has no upgrades");
    assert_eq!(upstream.requests(), 0);
}

/// The body is not read, so the connection must be closed, which the response announces.
#[tokio::test]
async fn websocket_with_a_body_ends_the_connection() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    let length = WHOLE.len();
    let head = "GET /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n";
    client.send(format!("{head}content-length: {length}\r\n\r\n{WHOLE}")).await;
    let response = client.rest().await.to_ascii_lowercase();
    assert!(response.starts_with("http/1.1 426 ") && response.contains("upgrade: http/1.1"), "{response}");
    assert!(response.contains("connection: upgrade") && response.contains("close"), "{response}");
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn paths_that_toolwire_does_not_have_are_not_taken_for_ids() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (line, part) in [
        ("POST /v1/models/gemini-2:batchGenerateContent", "toolwire speaks"),
        ("POST /v1/models/qwen3:8b:predict?alt=sse", "toolwire speaks"),
        ("POST /v1/models/m:embedContent", "toolwire speaks"),
        ("POST /v1beta/models/m:embedContent", "toolwire speaks"),
    ] {
        let response = send(&proxy, line, "", "{}").await;
        assert_eq!(response.status, 404, "{line}: {}", response.body);
        assert!(error(&response)["error"]["message"].as_str().unwrap().contains(part), "{}", response.body);
    }
    for (line, status) in
        [("POST /v1/models/m", 405), ("POST /v1/responses/resp_1", 405), ("GET /v1/responses/resp_1", 404)]
    {
        assert_eq!(send(&proxy, line, "", "").await.status, status, "{line}");
    }
}

#[tokio::test]
async fn stored_response_is_not_streamed() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let made = send(&proxy, "POST /v1/responses", "", r#"{"model":"m","input":"hi"}"#).await;
    let id = error(&made)["id"].as_str().unwrap().to_owned();
    for (query, status) in [
        ("", 200),
        ("?include=x", 200),
        ("?stream=false", 200),
        ("?stream=true", 400),
        ("?starting_after=3&stream=True", 400),
    ] {
        let response = send(&proxy, &format!("GET /v1/responses/{id}{query}"), "", "").await;
        assert_eq!(response.status, status, "{query}");
        if status == 400 {
            assert_eq!(error(&response)["error"]["param"], "stream");
        }
    }
}

#[tokio::test]
async fn clients_of_anthropic_get_models_in_their_form() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["k"];
    let proxy = setup.start().await;
    let version = "anthropic-version: 2023-06-01\r\nx-api-key: k\r\n";
    let list = error(&send(&proxy, "GET /v1/models?limit=1000", version, "").await);
    assert_eq!(
        (&list["has_more"], &list["first_id"], &list["last_id"]),
        (&json!(false), &json!("m"), &json!("org/other"))
    );
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    assert_eq!(list.as_object().unwrap().len(), 4);
    let one = error(&send(&proxy, "GET /v1/models/m", version, "").await);
    assert_eq!(list["data"][0], one);
    assert_eq!((&one["type"], &one["id"], &one["display_name"]), (&json!("model"), &json!("m"), &json!("m")));
    let created = one["created_at"].as_str().unwrap();
    assert!(created.len() == 20 && created.ends_with('Z'), "{created}");
    for (line, headers, status, kind) in [
        ("GET /v1/models/nobody", version, 404, "not_found_error"),
        ("GET /v1/models", "anthropic-version: 2023-06-01\r\n", 401, "authentication_error"),
        ("POST /v1/models", version, 405, "invalid_request_error"),
        ("GET /v1/nothing", version, 404, "not_found_error"),
    ] {
        let response = send(&proxy, line, headers, "").await;
        let error = error(&response);
        assert_eq!(
            (response.status, &error["type"], &error["error"]["type"]),
            (status, &json!("error"), &json!(kind)),
            "{line}"
        );
    }
    let plain = error(&send(&proxy, "GET /v1/models", "x-api-key: k\r\n", "").await);
    assert_eq!((&plain["object"], &plain["data"][0]["object"]), (&json!("list"), &json!("model")));
}

#[tokio::test]
async fn multipliers_of_the_upstreams_work_have_a_limit() {
    let upstream = Upstream::start(at_once).await;
    let mut narrow = Setup::new(upstream.address);
    narrow.limits.max_n = 4;
    for (proxy, max) in [(Setup::new(upstream.address).start().await, 128_u64), (narrow.start().await, 4)] {
        for name in ["n", "best_of", "top_logprobs", "prompt_logprobs"] {
            for (value, status) in [
                (json!(1), 200),
                (json!(max), 200),
                (json!(max + 1), 400),
                (json!(1_000_000_000), 400),
                (json!(9_223_372_036_854_775_808_u64), 400),
                (json!(-1), 400),
                (json!(1e308), 400),
                (Value::Null, if name == "n" { 0 } else { 200 }),
            ] {
                let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}], name: value});
                let reply = Client::new().chat(&proxy, body.to_string()).await;
                if status == 0 {
                    continue;
                }
                assert_eq!(reply.status(), status, "{name}: {value}");
                if status == 400 {
                    let error = reply.json().await;
                    assert_eq!(error["error"]["param"], name, "{error}");
                }
            }
        }
        let text = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "best_of": "1000"});
        assert_eq!(
            Client::new().chat(&proxy, text.to_string()).await.status(),
            400,
            "servers read texts as numbers"
        );
    }
}
