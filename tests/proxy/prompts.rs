//! Tests clients of text completions: their prompts at upstreams of this dialect and of others.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use toolwire::dialect::{
    UpstreamDialect,
    completions::{Options, Server},
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A proxy in front of an upstream that answers with `body`. Also returns the path and the body of each request that
/// the upstream receives.
async fn before(options: UpstreamDialect, kind: &'static str, body: String) -> (Proxy, Upstream, Asked) {
    let asked = Asked::default();
    let (seen, body) = (asked.clone(), Arc::new(body));
    let upstream = Upstream::start(move |mut exchange| {
        let (seen, body) = (seen.clone(), body.clone());
        async move {
            let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().await.push((path, serde_json::from_slice(&exchange.body).unwrap()));
            exchange.whole("200 OK", &format!("content-type: {kind}\r\n"), &body).await;
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = options;
    setup.chat_template = Some(r#"{"chat_template": "[template] {{ messages[0].content }}"}"#.to_owned());
    (setup.start().await, upstream, asked)
}

fn completions(server: Server) -> UpstreamDialect {
    UpstreamDialect::Completions(Options { server, ..Options::default() })
}

/// Asks for a completion. Returns the status, the header that names what was left out, and the body.
async fn ask(proxy: &Proxy, members: Value) -> (u16, Option<String>, String) {
    let mut body = json!({"model": "m", "prompt": "Once <|x|>"});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let mut request = chat_request(proxy, body.to_string());
    *request.uri_mut() = proxy.url("/v1/completions").parse().unwrap();
    let reply = Client::new().send(request).await.unwrap();
    let left_out = reply.header("x-toolwire-left-out").map(str::to_owned);
    (reply.status().as_u16(), left_out, reply.rest().await)
}

const WHOLE: &str = r#"{"id":"c","object":"text_completion","created":1,"model":"m","choices":[
    {"text":"a <think>","index":0,"logprobs":{"tokens":["a"]},"finish_reason":"stop"},
    {"text":"b","index":1,"logprobs":null,"finish_reason":"length"}]}"#;

#[tokio::test]
async fn prompt_is_sent_without_a_template_and_its_response_is_kept() {
    for (server, path) in [(Server::OpenAi, "/base/completions"), (Server::LlamaCpp, "/base/v1/completions")]
    {
        let (proxy, _upstream, asked) =
            before(completions(server), "application/json", WHOLE.to_owned()).await;
        let members = json!({"n": 2, "suffix": "end", "echo": true, "logprobs": 2, "own": {"x": 1}});
        let (status, left_out, body) = ask(&proxy, members.clone()).await;
        assert_eq!((status, left_out), (200, None), "{body}");
        let (told, given): (Value, Value) =
            (serde_json::from_str(&body).unwrap(), serde_json::from_str(WHOLE).unwrap());
        assert_eq!(told["choices"], given["choices"]);
        let asked = asked.lock().await;
        let mut sent = asked[0].1.clone();
        sent.as_object_mut().unwrap().remove("stream");
        let mut wanted = members;
        wanted
            .as_object_mut()
            .unwrap()
            .extend([("model".to_owned(), json!("m")), ("prompt".to_owned(), json!("Once <|x|>"))]);
        assert_eq!((asked[0].0.as_str(), sent), (path, wanted));
    }
}

#[tokio::test]
async fn frames_of_a_stream_are_forwarded() {
    let frame = |index: u64, text: &str, finish: Value| {
        let choice = json!({"text": text, "index": index, "logprobs": null, "finish_reason": finish});
        let chunk =
            json!({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let body = [
        frame(0, "a</think>", Value::Null),
        frame(1, "b", Value::Null),
        frame(0, "", json!("stop")),
        frame(1, "", json!("length")),
        "data: [DONE]\n\n".to_owned(),
    ];
    let (proxy, _upstream, _) = before(completions(Server::Vllm), "text/event-stream", body.concat()).await;
    let (status, _, told) = ask(&proxy, json!({"stream": true, "prompt": ["x", "y"]})).await;
    assert_eq!((status, told), (200, body.concat()));
}

#[tokio::test]
async fn what_cannot_be_carried_is_refused_or_named() {
    let body = r#"{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let chat = UpstreamDialect::Chat(toolwire::dialect::chat::Options::default());
    let (proxy, upstream, asked) = before(chat, "application/json", body.to_owned()).await;
    let (status, left_out, told) = ask(&proxy, json!({"logprobs": 1, "best_of": 1})).await;
    assert_eq!((status, left_out.as_deref()), (200, Some("best_of, logprobs")), "{told}");
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["choices"][0]["text"], "hi");
    assert_eq!(asked.lock().await[0].1["messages"], json!([{"role": "user", "content": "Once <|x|>"}]));
    for (members, param) in [
        (json!({"n": 2}), "n"),
        (json!({"prompt": ["a", "b"]}), "prompt"),
        (json!({"prompt": [1]}), "prompt"),
        (json!({"suffix": "x"}), "suffix"),
        (json!({"echo": true}), "echo"),
        (json!({"tools": [{}]}), "tools"),
        (json!({"prompt": ""}), ""),
        (json!({"model": "other"}), "model"),
    ] {
        let (status, _, told) = ask(&proxy, members.clone()).await;
        let told: Value = serde_json::from_str(&told).unwrap();
        assert!([400, 404].contains(&status), "{members}: {told}");
        assert_eq!(told["error"]["type"], "invalid_request_error", "{members}: {told}");
        assert_eq!(told["error"]["param"].as_str().unwrap_or_default(), param, "{members}: {told}");
    }
    assert_eq!(upstream.requests(), 1);
}

/// Each prompt of a list costs the upstream as much as a choice.
#[tokio::test]
async fn prompts_count_as_choices() {
    let (proxy, upstream, _) = before(completions(Server::Vllm), "application/json", WHOLE.to_owned()).await;
    let many = vec!["x"; 1 << 16];
    for members in
        [json!({"prompt": many}), json!({"prompt": ["a", "b"], "n": 100}), json!({"best_of": 100_000})]
    {
        let (status, _, told) = ask(&proxy, members).await;
        assert!(status == 400 && told.contains("limits.max_n"), "{told}");
    }
    assert_eq!(upstream.requests(), 0);
}
