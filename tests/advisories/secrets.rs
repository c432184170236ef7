//! Tests that keys appear neither in logs nor in answers.

use std::fs;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;

use crate::{
    program::{Server, ask, toolwire},
    support::{
        client::Client,
        proxy::Setup,
        upstream::{Exchange, Upstream},
    },
};

const CLIENT: &str = "key-of-the-client-5f3a";
const UPSTREAM: &str = "key-of-the-upstream-81c2";
const WRONG: &str = "a-key-that-is-wrong-77e1";

/// CVE-2025-62232 (Apache APISIX): the log had the passwords of requests.
#[test]
fn log_has_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolwire.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nstore = \"off\"\napi_keys = [\"{CLIENT}\"]\n[admin]\napi_keys = [\"{CLIENT}-admin\"]\n\
         [[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://localhost:9/v1\"\napi_key = \"{UPSTREAM}\"\n\
         [[models]]\nname = \"*\"\n"
    );
    fs::write(&file, text).unwrap();
    let mut serve = toolwire(&["serve", "--config", &file.display().to_string()]);
    let server = Server::start(serve.env("TOOLWIRE_LOG", "trace"));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let mut statuses = Vec::new();
    for (path, headers) in [
        ("/v1/chat/completions", format!("authorization: Bearer {CLIENT}\r\n")),
        ("/v1/chat/completions", format!("authorization: Bearer {WRONG}\r\n")),
        ("/v1/chat/completions", format!("authorization: Basic {WRONG}\r\n")),
        ("/v1/chat/completions", format!("authorization: {WRONG}\r\n")),
        ("/v1/chat/completions", format!("x-api-key: {CLIENT}\r\nauthorization: Bearer {WRONG}\r\n")),
        ("/v1/chat/completions", format!("x-goog-api-key: {WRONG}\r\ncookie: key={WRONG}\r\n")),
        (&*format!("/v1/chat/completions?key={WRONG}"), String::new()),
        (&*format!("/v1beta/models/m:generateContent?key={CLIENT}"), String::new()),
        ("/admin/tools", format!("authorization: Bearer {WRONG}\r\n")),
        ("/admin/session", String::new()),
    ] {
        let body = if path == "/admin/session" { json!({"key": WRONG}).to_string() } else { body.clone() };
        let (head, answer) = ask(&server, path, &headers, &body);
        statuses.push(head.split(' ').nth(1).unwrap().to_owned());
        let answer = head + &String::from_utf8(answer).unwrap();
        assert!(!answer.contains(UPSTREAM) && !answer.contains(CLIENT), "{path}: {answer}");
    }
    assert_eq!(statuses[..2], ["502", "401"], "{statuses:?}");
    let start = server.start.clone();
    let (_, rest) = server.stop();
    let log = start + &rest;
    assert!(log.lines().filter(|line| line.contains("401")).count() > 3, "{log}");
    for key in [CLIENT, UPSTREAM, WRONG] {
        let found: Vec<_> = log.lines().filter(|line| line.contains(key)).collect();
        assert!(found.is_empty(), "{key}: {found:#?}");
    }
}

/// CVE-2026-4994 (OpenUI): error messages told clients what was meant for the server.
#[tokio::test]
async fn errors_of_an_upstream_do_not_tell_its_key() {
    const ECHO: &str = "Incorrect API key provided: upstream-key. Authorization: Bearer upstream-key";
    for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "429 Slow", "500 Oops", "503 Away"]
    {
        for is_json in [true, false] {
            let upstream = Upstream::start(move |mut exchange: Exchange| async move {
                let error =
                    json!({"error": {"message": ECHO, "key": "upstream-key", "type": "x"}}).to_string();
                let body = if is_json { &*error } else { ECHO };
                exchange.whole(status, "www-authenticate: Bearer error=\"upstream-key\"\r\n", body).await;
                exchange
            })
            .await;
            let proxy = Setup::new(upstream.address).start().await;
            let messages = json!([{"role": "user", "content": "hi"}]);
            for (path, body) in [
                ("/v1/chat/completions", json!({"model": "m", "messages": messages})),
                ("/v1/chat/completions", json!({"model": "m", "messages": messages, "stream": true})),
                ("/v1/responses", json!({"model": "m", "input": "hi"})),
                ("/v1/messages", json!({"model": "m", "max_tokens": 9, "messages": messages})),
            ] {
                let request = Request::post(proxy.url(path)).header("content-type", "application/json");
                let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
                let reply = Client::new().send(request).await.unwrap();
                assert!(!reply.status().is_success(), "{status} {path}");
                assert!(reply.header("www-authenticate").is_none_or(|value| !value.contains("upstream-key")));
                let body = reply.rest().await;
                assert!(!body.contains("upstream-key"), "{status} {path}: {body}");
            }
        }
    }
}
