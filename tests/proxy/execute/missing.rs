//! Tests what a model and the clients of each dialect learn about servers whose tools are missing.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::script::{end, setup, text, upstream};
use crate::support::client::Client;

const SERVERS: &str = "[[providers]]\nname = \"crm\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\noauth_login_per = \"key\"\n\
    [[keys]]\nname = \"alice\"\nkey = \"key-of-alice\"\n";

const OF_ALICE: &str = "The tools of `crm` are missing: the client key `alice` must log in with `toolwire mcp login crm --key alice`.";

/// A request of each dialect, streamed and whole.
fn requests() -> Vec<(&'static str, Value)> {
    let (messages, parts) =
        (json!([{"role": "user", "content": "hi"}]), json!([{"parts": [{"text": "hi"}]}]));
    let mut requests = vec![
        ("/v1beta/models/m:streamGenerateContent?alt=sse", json!({"contents": parts})),
        ("/v1beta/models/m:generateContent", json!({"contents": parts})),
    ];
    for stream in [true, false] {
        let chat = json!({"model": "m", "stream": stream, "max_tokens": 99, "messages": messages});
        for path in ["/v1/chat/completions", "/v1/messages", "/api/chat"] {
            requests.push((path, chat.clone()));
        }
        requests.push(("/v1/responses", json!({"model": "m", "stream": stream, "input": "hi"})));
        requests.push(("/v1beta/interactions", json!({"model": "m", "stream": stream, "input": "hi"})));
    }
    requests
}

#[tokio::test]
async fn model_and_client_of_each_dialect_learn_which_login_is_missing() {
    for (path, body) in requests() {
        let (upstream, asked) = upstream([text("Hello.") + &end("stop")]).await;
        let mut setup = setup(&upstream, "");
        setup.execution.push_str(SERVERS);
        let proxy = setup.start().await;
        let request = Request::post(proxy.url(path)).header("content-type", "application/json");
        let request = request.header("authorization", "Bearer key-of-alice");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let answer = Client::new().send(request).await.unwrap().rest().await;
        let warning = json!({"code": "tools_missing", "message": OF_ALICE}).to_string();
        assert!(answer.contains(&warning), "{path} {body}: {answer}");
        let asked = asked.lock().unwrap();
        let system = asked[0]["messages"][0]["content"].as_str().unwrap();
        assert!(system.ends_with(&format!("say why:\n{OF_ALICE}")), "{path}: {system}");
    }
}
