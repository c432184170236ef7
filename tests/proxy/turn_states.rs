//! Tests turns with state that must be sent back to the upstream. toolwire restores the state for clients that replay
//! only the turn's calls.

use std::sync::{Arc, Mutex};

use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use toolwire::{
    conversation::WantsBack,
    dialect::{
        Dialect, UpstreamDialect,
        chat::{Options, PastReasoning},
    },
};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream},
};

/// The bodies of the requests that an upstream has received.
type Asked = Arc<Mutex<Vec<Value>>>;

fn frame(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

/// An upstream that answers every request with these deltas.
async fn upstream(deltas: Vec<Value>) -> (Upstream, Asked) {
    let asked = Asked::default();
    let body: String = deltas.iter().map(|delta| frame(delta, None)).collect();
    let body = body + &frame(&json!({}), Some("tool_calls")) + "data: [DONE]\n\n";
    let shared = (Arc::clone(&asked), body);
    let upstream = Upstream::start_sharing(shared, |exchange: Exchange, (asked, body)| async move {
        asked.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        exchange.stream(body).await
    })
    .await;
    (upstream, asked)
}

fn setup(upstream: &Upstream, change: impl FnOnce(&mut Options)) -> Setup {
    let mut setup = Setup::new(upstream.address);
    let mut options = Options::of_host("");
    change(&mut options);
    setup.upstream.options = UpstreamDialect::Chat(options);
    setup
}

fn kimi(options: &mut Options) {
    options.wants_back = WantsBack::Reasoning;
}

fn request(text: &str) -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}],
        "tools": [{"type": "function", "function": {"name": "f"}}]})
}

/// Returns the request that follows `first`, whose response contained the call `id`. The client replays nothing
/// else from that response.
fn replay(first: &Value, id: &str) -> Value {
    let mut request = first.clone();
    let messages = request["messages"].as_array_mut().unwrap();
    let call = json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    messages.push(json!({"role": "tool", "tool_call_id": id, "content": "1"}));
    request
}

async fn ask(proxy: &Proxy, key: &str, request: &Value) -> String {
    let mut request = chat_request(proxy, request.to_string());
    if !key.is_empty() {
        request.headers_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
    }
    Client::new().send(request).await.unwrap().rest().await
}

fn replayed(asked: &Asked) -> Value {
    let asked = asked.lock().unwrap();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    messages.iter().find(|message| message["role"] == "assistant").unwrap().clone()
}

fn call(index: u32, id: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
}

fn reasoning_call(id: &str) -> Vec<Value> {
    vec![
        json!({"reasoning_content": "h"}),
        json!({"reasoning_content": "m\n"}),
        json!({"tool_calls": [call(0, id)]}),
    ]
}

#[tokio::test]
async fn reasoning_returns_with_the_replayed_call() {
    let (upstream, asked) = upstream(reasoning_call("functions.f:0")).await;
    let proxy = setup(&upstream, kimi).start().await;
    let first = request("hi");
    ask(&proxy, "", &first).await;
    ask(&proxy, "", &replay(&first, "functions.f:0")).await;
    let message = replayed(&asked);
    assert_eq!(message["reasoning_content"], "hm\n");
    assert_eq!(message["tool_calls"][0]["id"], "functions.f:0");
    // No client has received this ID, so there is no state for it.
    ask(&proxy, "", &replay(&first, "functions.f:1")).await;
    assert_eq!(replayed(&asked).get("reasoning_content"), None);
}

#[tokio::test]
async fn nothing_is_kept_unless_the_upstream_wants_it() {
    let (upstream, asked) = upstream(reasoning_call("c1")).await;
    let proxy = setup(&upstream, |_| ()).start().await;
    ask(&proxy, "", &request("hi")).await;
    ask(&proxy, "", &replay(&request("hi"), "c1")).await;
    assert_eq!(replayed(&asked).get("reasoning_content"), None);
}

#[tokio::test]
async fn state_never_reaches_another_client() {
    let (upstream, asked) = upstream(reasoning_call("c1")).await;
    let mut setup = setup(&upstream, kimi);
    setup.keys = vec!["alice", "bob"];
    let proxy = setup.start().await;
    let first = request("hi");
    ask(&proxy, "alice", &first).await;
    ask(&proxy, "bob", &replay(&first, "c1")).await;
    assert_eq!(replayed(&asked).get("reasoning_content"), None);
    ask(&proxy, "alice", &replay(&first, "c1")).await;
    assert_eq!(replayed(&asked)["reasoning_content"], "hm\n");
}

#[tokio::test]
async fn state_is_found_from_every_connection() {
    let (upstream, asked) = upstream(reasoning_call("c1")).await;
    let mut setup = setup(&upstream, kimi);
    setup.threads = 3;
    let proxy = setup.start().await;
    let first = request("hi");
    ask(&proxy, "", &first).await;
    for _ in 0..6 {
        ask(&proxy, "", &replay(&first, "c1")).await;
        assert_eq!(replayed(&asked)["reasoning_content"], "hm\n");
    }
}

#[tokio::test]
async fn a_response_that_fails_leaves_no_state() {
    let asked = Asked::default();
    let shared = Arc::clone(&asked);
    let upstream = Upstream::start_sharing(shared, |exchange: Exchange, asked| async move {
        asked.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        let body: String = reasoning_call("c1").iter().map(|delta| frame(delta, None)).collect();
        exchange.stream(body + "data: {\"error\":{\"message\":\"boom\"}}\n\n").await
    })
    .await;
    let proxy = setup(&upstream, kimi).start().await;
    ask(&proxy, "", &request("hi")).await;
    ask(&proxy, "", &replay(&request("hi"), "c1")).await;
    assert_eq!(replayed(&asked).get("reasoning_content"), None);
}

#[tokio::test]
async fn signature_of_a_call_is_offered_and_returns() {
    let signed = |id: &str, signature: Option<&str>| {
        let mut call = json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        if let Some(signature) = signature {
            call["extra_content"] = json!({"google": {"thought_signature": signature}});
        }
        call
    };
    // Gemini's compatible API sends complete calls without an index.
    let calls = json!({"tool_calls": [signed("a", Some("c2ln")), signed("b", None)]});
    let (upstream, asked) = upstream(vec![calls]).await;
    let change = |options: &mut Options| {
        options.wants_back = WantsBack::Signatures;
        options.past_reasoning = PastReasoning::Off;
    };
    let proxy = setup(&upstream, change).start().await;
    let first = request("hi");
    let stream = ask(&proxy, "", &first).await;
    assert!(stream.contains(r#""extra_content":{"google":{"thought_signature":"c2ln"}}"#), "{stream}");
    assert_eq!(stream.matches("extra_content").count(), 1, "{stream}");
    let mut whole = first.clone();
    whole["stream"] = false.into();
    let body: Value = serde_json::from_str(&ask(&proxy, "", &whole).await).unwrap();
    let calls = &body["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["extra_content"]["google"]["thought_signature"], "c2ln");
    assert_eq!(calls[1].get("extra_content"), None);
    // This client drops the state.
    ask(&proxy, "", &replay(&first, "a")).await;
    assert_eq!(replayed(&asked)["tool_calls"][0], signed("a", Some("c2ln")));
    ask(&proxy, "", &replay(&first, "b")).await;
    assert_eq!(replayed(&asked)["tool_calls"][0], signed("b", None));
    // This client returns the state, which is forwarded whatever it contains.
    for extra in [json!({"google": {"thought_signature": "own\r\n"}}), json!({"x": [1, {}]})] {
        let mut carried = replay(&first, "a");
        carried["messages"][1]["tool_calls"][0]["extra_content"] = extra.clone();
        ask(&proxy, "", &carried).await;
        assert_eq!(replayed(&asked)["tool_calls"][0]["extra_content"], extra);
    }
    // A value that is not state does not replace the stored state.
    for extra in [json!("s"), json!(null), json!({})] {
        let mut carried = replay(&first, "a");
        carried["messages"][1]["tool_calls"][0]["extra_content"] = extra;
        ask(&proxy, "", &carried).await;
        assert_eq!(replayed(&asked)["tool_calls"][0], signed("a", Some("c2ln")));
    }
    // State from another dialect is not sent to this upstream.
    let mut foreign = replay(&first, "a");
    foreign["messages"][1]["tool_calls"][0]["extra_content"] =
        json!({"google": {"thought_signature": "lumo:x"}});
    ask(&proxy, "", &foreign).await;
    assert_eq!(replayed(&asked)["tool_calls"][0], signed("a", None));
}

#[tokio::test]
async fn reasoning_details_return_as_they_were() {
    let detail = |text: &str, signature: Value| json!({"type": "reasoning.text", "text": text, "signature": signature, "format": "f", "index": 0});
    let hidden =
        json!({"type": "reasoning.encrypted", "data": "AAAA", "id": "c1", "format": "f", "index": 1});
    let (upstream, asked) = upstream(vec![
        json!({"reasoning": "h", "reasoning_details": [detail("h", json!(null))]}),
        json!({"reasoning": "m", "reasoning_details": [detail("m", json!("sig"))]}),
        json!({"reasoning_details": [hidden]}),
        json!({"tool_calls": [call(0, "c1")]}),
    ])
    .await;
    let change = |options: &mut Options| {
        options.wants_back = WantsBack::Reasoning;
        options.past_reasoning = PastReasoning::Reasoning;
    };
    let proxy = setup(&upstream, change).start().await;
    let first = request("hi");
    ask(&proxy, "", &first).await;
    ask(&proxy, "", &replay(&first, "c1")).await;
    let message = replayed(&asked);
    let details = json!([detail("hm", json!("sig")), hidden]);
    assert_eq!((&message["reasoning_details"], &message["reasoning"]), (&details, &json!("hm")));
    // Details that the client returns are not added a second time.
    let mut carried = replay(&first, "c1");
    carried["messages"][1]["reasoning_details"] = details.clone();
    let text = carried.to_string();
    ask(&proxy, "", &serde_json::from_str(&text).unwrap()).await;
    assert_eq!(replayed(&asked)["reasoning_details"], details);
}

/// Clients of other APIs cannot send signed thinking back, so toolwire must.
#[tokio::test]
async fn signed_thinking_returns_to_an_upstream_of_messages() {
    let asked = Asked::default();
    let upstream = Upstream::start_sharing(Arc::clone(&asked), |exchange: Exchange, asked| async move {
        asked.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        let events = [
            json!({"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "model": "m",
                "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "signature_delta", "signature": "sig"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1,
                "content_block": {"type": "redacted_thinking", "data": "hidden"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "content_block_start", "index": 2,
                "content_block": {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
            json!({"type": "content_block_stop", "index": 2}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ];
        let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        exchange.stream(events.iter().map(event).collect::<String>()).await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::try_from(Dialect::Messages).unwrap();
    let proxy = setup.start().await;
    let first = request("hi");
    let stream = ask(&proxy, "", &first).await;
    assert!(stream.contains(r#""id":"toolu_1""#) && !stream.contains("sig"), "{stream}");
    for carried in [None, Some("hm")] {
        let mut again = replay(&first, "toolu_1");
        if let Some(text) = carried {
            again["messages"][1]["reasoning_content"] = text.into();
        }
        ask(&proxy, "", &again).await;
        let content = &replayed(&asked)["content"];
        assert_eq!(content[0], json!({"type": "thinking", "thinking": "hm", "signature": "sig"}));
        assert_eq!(content[1], json!({"type": "redacted_thinking", "data": "hidden"}));
        assert_eq!((&content[2]["type"], &content[2]["id"]), (&json!("tool_use"), &json!("toolu_1")));
    }
}

#[tokio::test]
async fn thought_signature_returns_to_gemini() {
    let asked = Asked::default();
    let upstream = Upstream::start_sharing(Arc::clone(&asked), |exchange: Exchange, asked| async move {
        asked.lock().unwrap().push(serde_json::from_slice(&exchange.body).unwrap());
        let part = json!({"functionCall": {"id": "g1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"});
        let candidate =
            json!({"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0});
        let body = json!({"candidates": [candidate], "modelVersion": "m", "responseId": "r"});
        exchange.stream(format!("data: {body}\n\n")).await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::try_from(Dialect::Gemini).unwrap();
    let proxy = setup.start().await;
    let first = request("hi");
    let stream = ask(&proxy, "", &first).await;
    assert!(stream.contains(r#""extra_content":{"google":{"thought_signature":"c2ln"}}"#), "{stream}");
    let carried = {
        let mut carried = replay(&first, "unknown here");
        let extra = json!({"google": {"thought_signature": "c2ln"}});
        carried["messages"][1]["tool_calls"][0]["extra_content"] = extra;
        carried
    };
    for again in [replay(&first, "g1"), carried] {
        ask(&proxy, "", &again).await;
        let sent = asked.lock().unwrap().last().unwrap().to_string();
        assert!(sent.contains(r#""thoughtSignature":"c2ln""#), "{sent}");
    }
    ask(&proxy, "", &replay(&first, "unknown")).await;
    let sent = asked.lock().unwrap().last().unwrap().to_string();
    assert!(!sent.contains("c2ln"), "{sent}");
}
