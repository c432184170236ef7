//! Tests answers that reveal what requests a model accepts: how it names reasoning, and whether roles must
//! alternate.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::time::{Duration, sleep, timeout};
use toolwire::dialect::{
    UpstreamDialect,
    chat::{Options, PastReasoning, Server},
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream},
};

/// The bodies of the requests that an upstream has received.
type Asked = Arc<Mutex<Vec<Value>>>;

/// Sends the assistant's message, streaming if the request asks for it.
async fn answer(mut exchange: Exchange, request: &Value, message: Value) -> Exchange {
    let choice = |key: &str| json!({"index": 0, key: message, "finish_reason": "stop"});
    if request["stream"] == true {
        let chunk = json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [choice("delta")]});
        return exchange.stream(format!("data: {chunk}\n\ndata: [DONE]\n\n")).await;
    }
    let whole = json!({"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice("message")]});
    exchange.whole("200 OK", "content-type: application/json\r\n", &whole.to_string()).await;
    exchange
}

/// An upstream that answers with the fields that a request's last message contains as JSON.
async fn echo() -> (Upstream, Asked) {
    let asked = Asked::default();
    let upstream = Upstream::start_sharing(Arc::clone(&asked), |exchange, asked| async move {
        let request: Value = serde_json::from_slice(&exchange.body).unwrap();
        let last = request["messages"].as_array().unwrap().last().unwrap();
        let message = serde_json::from_str(last["content"].as_str().unwrap()).unwrap();
        asked.lock().unwrap().push(request.clone());
        answer(exchange, &request, message).await
    })
    .await;
    (upstream, asked)
}

async fn start(upstream: &Upstream, options: Options) -> Proxy {
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Chat(options);
    setup.wildcard = true;
    setup.start().await
}

async fn ask(proxy: &Proxy, request: Value) -> (u16, String) {
    let reply = Client::new().send(chat_request(proxy, request.to_string())).await.unwrap();
    (reply.status().as_u16(), reply.rest().await)
}

/// Returns the assistant's message in the next request that the upstream gets after it has answered with `seen`.
async fn replayed(options: Options, seen: &[(&str, Value)], stream: bool) -> Value {
    let (upstream, asked) = echo().await;
    let proxy = start(&upstream, options).await;
    for (model, message) in seen {
        let messages = json!([{"role": "user", "content": message.to_string()}]);
        ask(&proxy, json!({"model": model, "stream": stream, "messages": messages})).await;
    }
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "why"},
        {"role": "user", "content": "{\"content\":\"c\"}"},
    ]);
    ask(&proxy, json!({"model": "m", "messages": messages})).await;
    let asked = asked.lock().unwrap();
    asked.last().unwrap()["messages"][1].clone()
}

fn under(field: &str) -> Value {
    json!({"role": "assistant", "content": "b", field: "why"})
}

#[tokio::test]
async fn reasoning_goes_back_under_the_name_that_the_server_uses() {
    let new = || Options::of_host("");
    let reasoning = || json!({"content": "x", "reasoning": "r"});
    let both = || json!({"content": "x", "reasoning": "r", "reasoning_content": "r"});
    let content = || json!({"content": "x", "reasoning_content": "r"});
    for stream in [true, false] {
        assert_eq!(replayed(new(), &[], stream).await, under("reasoning_content"));
        assert_eq!(replayed(new(), &[("m", reasoning())], stream).await, under("reasoning"));
        assert_eq!(replayed(new(), &[("m", both())], stream).await, under("reasoning_content"));
        let changed = [("m", reasoning()), ("m", content())];
        assert_eq!(replayed(new(), &changed, stream).await, under("reasoning_content"));
        let silent = [("m", reasoning()), ("m", json!({"content": "x", "reasoning": ""}))];
        assert_eq!(replayed(new(), &silent, stream).await, under("reasoning"));
        assert_eq!(replayed(new(), &[("other", reasoning())], stream).await, under("reasoning_content"));
    }
}

#[tokio::test]
async fn settings_and_the_server_win_over_the_name_that_was_seen() {
    let seen = [("m", json!({"content": "x", "reasoning": "r"}))];
    let explicit = Options { past_reasoning: PastReasoning::ReasoningContent, ..Options::of_host("") };
    assert_eq!(replayed(explicit, &seen, true).await, under("reasoning_content"));
    let vllm = Options { server: Server::Vllm, ..Options::of_host("") };
    let content = [("m", json!({"content": "x", "reasoning_content": "r"}))];
    assert_eq!(replayed(vllm, &content, true).await, under("reasoning"));
    let off = Options { past_reasoning: PastReasoning::Off, ..Options::of_host("") };
    assert_eq!(replayed(off, &seen, true).await, json!({"role": "assistant", "content": "b"}));
}

/// An upstream whose template rejects roles that do not alternate, and system messages anywhere but at the start.
async fn strict(status: &'static str, message: &'static str) -> (Upstream, Asked) {
    let asked = Asked::default();
    let upstream =
        Upstream::start_sharing(Arc::clone(&asked), move |mut exchange: Exchange, asked: Asked| async move {
            let request: Value = serde_json::from_slice(&exchange.body).unwrap();
            asked.lock().unwrap().push(request.clone());
            let roles: Vec<_> =
                request["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
            let is_late = roles.iter().skip(1).any(|role| role == "system");
            if is_late || roles.windows(2).any(|pair| pair[0] == pair[1]) {
                let body = json!({"error": {"message": message, "type": "BadRequestError", "code": 400}});
                exchange.whole(status, "content-type: application/json\r\n", &body.to_string()).await;
                return exchange;
            }
            answer(exchange, &request, json!({"role": "assistant", "content": "fine"})).await
        })
        .await;
    (upstream, asked)
}

const BEGINNING: &str = "System message must be at the beginning.";

fn scattered(model: &str, stream: bool) -> Value {
    json!({"model": model, "stream": stream, "messages": [
        {"role": "system", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "system", "content": "three"},
        {"role": "user", "content": "four"},
    ]})
}

#[tokio::test]
async fn refused_roles_are_repaired_once_and_remembered_for_the_model() {
    let alternate = "Conversation roles must alternate user/assistant/user/assistant/...";
    for (status, message) in [
        ("400 Bad Request", BEGINNING),
        ("500 Internal Server Error", BEGINNING),
        ("400 Bad Request", alternate),
    ] {
        for stream in [true, false] {
            let (upstream, asked) = strict(status, message).await;
            let proxy = start(&upstream, Options::of_host("")).await;
            for requests in [2, 3] {
                let (status, body) = ask(&proxy, scattered("m", stream)).await;
                assert!(status == 200 && body.contains("fine"), "{body}");
                let asked = asked.lock().unwrap();
                assert_eq!(asked.len(), requests);
                let joined = json!([{"role": "system", "content": "one\n\nthree"}, {"role": "user", "content": "two\n\nfour"}]);
                assert_eq!(asked.last().unwrap()["messages"], joined);
            }
            ask(&proxy, scattered("another", stream)).await;
            assert_eq!(asked.lock().unwrap().len(), 5, "another model may take them");
        }
    }
}

#[tokio::test]
async fn other_refusals_and_requests_without_anything_to_join_are_not_repaired() {
    let (upstream, asked) = strict("400 Bad Request", "`temperature` is too high").await;
    let proxy = start(&upstream, Options::of_host("")).await;
    assert_eq!(ask(&proxy, scattered("m", false)).await.0, 400);
    assert_eq!(asked.lock().unwrap().len(), 1);
    let (upstream, asked) = strict("400 Bad Request", BEGINNING).await;
    let proxy = start(&upstream, Options::of_host("")).await;
    let repeated = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]);
    let (status, body) = ask(&proxy, json!({"model": "m", "messages": repeated})).await;
    assert!(status == 400 && body.contains(BEGINNING), "{body}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

/// The corrected request keeps the slot of the rejected one.
#[tokio::test]
async fn repaired_request_does_not_queue_again() {
    let (upstream, asked) = strict("400 Bad Request", BEGINNING).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    let first = ask(&proxy, scattered("m", false));
    let second = async {
        sleep(Duration::from_millis(1)).await;
        ask(&proxy, json!({"model": "m", "messages": [{"role": "user", "content": "other"}]})).await
    };
    let (first, second) =
        timeout(Duration::from_secs(60), async { tokio::join!(first, second) }).await.unwrap();
    assert_eq!((first.0, second.0), (200, 200));
    let asked = asked.lock().unwrap();
    let position = |text: &str| asked.iter().position(|request| request.to_string().contains(text));
    let repaired = position("one\\n\\nthree").unwrap();
    assert_eq!(repaired, position("three").unwrap() + 1, "{asked:?}");
}
