//! Tests requests of Responses clients for a summary that replaces the conversation, and for the number of tokens.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::{
    config::ToolStyle,
    dialect::{UpstreamDialect, responses::Options},
    format::HERMES,
};

use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream, text},
};

/// The paths and bodies of the requests that an upstream has received.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

fn keep(asked: &Asked, exchange: &Exchange) -> (String, Value) {
    let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
    let request: (String, Value) = (path, serde_json::from_slice(&exchange.body).unwrap());
    asked.lock().unwrap().push(request.clone());
    request
}

const USAGE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\"choices\":[],\
    \"usage\":{\"prompt_tokens\":70,\"completion_tokens\":7,\"total_tokens\":77}}\n\ndata: [DONE]\n\n";

fn finish(reason: &str) -> String {
    let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// An upstream of Chat Completions that says this.
async fn chat(says: &'static str, reason: &'static str) -> (Upstream, Asked) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |exchange: Exchange| {
        keep(&kept, &exchange);
        let said = if says.is_empty() { String::new() } else { text(says) };
        exchange.stream(said + &finish(reason) + USAGE)
    });
    (upstream.await, asked)
}

/// An upstream of Responses that has the paths in `has`.
async fn responses(has: &'static [&'static str]) -> (Upstream, Asked, Setup) {
    let asked = Asked::default();
    let kept = Arc::clone(&asked);
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        let (path, body) = keep(&kept, &exchange);
        async move {
            let usage = json!({"input_tokens": 5, "output_tokens": 1, "total_tokens": 6});
            let compaction = json!({"type": "compaction", "id": "cmp_theirs", "encrypted_content": "gAAAA"});
            let name = path.rsplit('/').next().unwrap();
            let is_summary = body["input"].to_string().contains("Summarize the conversation");
            let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "OWN", "annotations": []}]});
            let answer = match name {
                "responses" => json!({"id": "resp_theirs", "object": "response", "status": "completed",
                    "output": [if is_summary { message } else { compaction }], "usage": usage}),
                "compact" => json!({"id": "resp_theirs", "object": "response.compaction", "output": [compaction], "usage": usage}),
                _ => json!({"object": "response.input_tokens", "input_tokens": 12345}),
            };
            if body["stream"] == true {
                let item = json!({"type": "response.output_item.done", "output_index": 0, "item": answer["output"][0]});
                let end = json!({"type": "response.completed", "response": answer});
                let frame = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
                return exchange.stream(frame(&item) + &frame(&end)).await;
            }
            let (status, answer) = match name == "responses" || has.contains(&name) {
                true => ("200 OK", answer),
                false => ("404 Not Found", json!({"error": {"message": "not here"}})),
            };
            exchange.whole(status, "content-type: application/json\r\n", &answer.to_string()).await;
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Responses(Options::default());
    (upstream, asked, setup)
}

async fn post(proxy: &Proxy, path: &str, body: &Value) -> (u16, String) {
    let request = Request::builder().method(Method::POST).uri(proxy.url(path));
    let request = request.header("content-type", "application/json").header("authorization", "Bearer key");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let reply = Client::new().send(request).await.unwrap();
    (reply.status().as_u16(), reply.rest().await)
}

async fn json_of(proxy: &Proxy, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = post(proxy, path, body).await;
    (status, serde_json::from_str(&text).unwrap())
}

/// What Codex sends when the context is full.
fn triggered(stream: bool) -> Value {
    json!({"model": "m", "store": false, "stream": stream, "instructions": "You are an agent.",
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}, {"type": "web_search"}],
    "tool_choice": "auto", "parallel_tool_calls": true,
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "compaction_trigger"},
    ]})
}

fn events(stream: &str) -> Vec<Value> {
    stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn texts(messages: &Value) -> String {
    messages.to_string()
}

#[tokio::test]
async fn compaction_is_a_summary_by_the_model_without_tools() {
    let (upstream, asked) = chat("The user wants it done.", "stop").await;
    for tools in [ToolStyle::Native, ToolStyle::Format(&HERMES)] {
        let mut setup = Setup::new(upstream.address);
        setup.tools = tools;
        let proxy = setup.start().await;
        let (status, stream) = post(&proxy, "/v1/responses", &triggered(true)).await;
        assert_eq!(status, 200, "{stream}");
        let events = events(&stream);
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let [created, in_progress, added, done, completed] = &kinds[..] else { panic!("{kinds:?}") };
        assert_eq!((*created, *in_progress), ("response.created", "response.in_progress"));
        assert_eq!((*added, *done), ("response.output_item.added", "response.output_item.done"));
        assert_eq!((*completed, &events[3]["output_index"]), ("response.completed", &json!(0)));
        let response = &events[4]["response"];
        assert_eq!(response["output"], json!([events[3]["item"]]));
        assert_eq!(
            (&response["usage"]["input_tokens"], &response["usage"]["output_tokens"]),
            (&json!(70), &json!(7))
        );
        let item = &events[3]["item"];
        assert_eq!(item["type"], "compaction");
        {
            let asked = asked.lock().unwrap();
            let (_, body) = asked.last().unwrap();
            assert!(body.get("tools").is_none() && body.get("tool_choice").is_none(), "{body}");
            let messages = body["messages"].as_array().unwrap();
            assert_eq!(messages[0]["content"], "You are an agent.");
            let last = messages.last().unwrap();
            assert!(last["role"] == "user" && texts(last).contains("Summarize the conversation"), "{body}");
            assert!(
                texts(&body["messages"]).contains("Do it.") && texts(&body["messages"]).contains("done"),
                "{body}"
            );
        }
        // The next request has the summary in place of the conversation.
        let input = json!([item, {"role": "user", "content": "And now?"}]);
        let next = json!({"model": "m", "store": false, "input": input});
        assert_eq!(post(&proxy, "/v1/responses", &next).await.0, 200);
        let asked = asked.lock().unwrap();
        let messages = &asked.last().unwrap().1["messages"];
        assert_eq!(messages.as_array().unwrap().len(), 2, "{messages}");
        assert!(texts(&messages[0]).contains("The user wants it done."), "{messages}");
        assert_eq!(messages[1]["content"], "And now?");
    }
    let proxy = Setup::new(upstream.address).start().await;
    let (status, whole) = json_of(&proxy, "/v1/responses", &triggered(false)).await;
    assert_eq!(
        (status, &whole["output"][0]["type"], whole["output"].as_array().unwrap().len()),
        (200, &json!("compaction"), 1)
    );
}

/// An empty summary would lose the conversation.
#[tokio::test]
async fn compaction_without_a_complete_summary_fails() {
    for (says, reason, why) in [
        ("", "stop", "empty"),
        (" \n", "stop", "empty"),
        ("The user wa", "length", "limit"),
        ("The user wa", "content_filter", "filter"),
    ] {
        let (upstream, _) = chat(says, reason).await;
        let proxy = Setup::new(upstream.address).start().await;
        for (path, stream) in
            [("/v1/responses", false), ("/v1/responses", true), ("/v1/responses/compact", false)]
        {
            let mut body = triggered(stream);
            if path.ends_with("compact") {
                body["input"].as_array_mut().unwrap().pop();
            }
            let (status, answer) = post(&proxy, path, &body).await;
            assert!(!answer.contains("toolwire_summary"), "{answer}");
            assert!(answer.contains(why), "{says}, {stream}: {answer}");
            match status {
                200 => assert!(stream && answer.contains("event: response.failed"), "{answer}"),
                status => assert_eq!(status, 502, "{answer}"),
            }
        }
    }
}

#[tokio::test]
async fn trigger_needs_a_conversation_and_comes_last() {
    let (upstream, _) = chat("Summary", "stop").await;
    let proxy = Setup::new(upstream.address).start().await;
    let trigger = json!({"type": "compaction_trigger"});
    for input in [json!([trigger]), json!([trigger, {"role": "user", "content": "hi"}])] {
        let (status, body) = json_of(&proxy, "/v1/responses", &json!({"model": "m", "input": input})).await;
        assert_eq!((status, &body["error"]["type"]), (400, &json!("invalid_request_error")), "{body}");
    }
    for damaged in ["toolwire_summary_1:", "toolwire_summary_1:0:x", "toolwire_summary_1:0000000000000000:x"]
    {
        let item = json!({"type": "compaction", "encrypted_content": damaged});
        let body = json!({"model": "m", "input": [item, {"role": "user", "content": "hi"}]});
        let (status, body) = json_of(&proxy, "/v1/responses", &body).await;
        assert_eq!((status, &body["error"]["param"]), (400, &json!("input[0].encrypted_content")), "{body}");
    }
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn upstream_of_responses_compacts_itself() {
    let (_upstream, asked, setup) = responses(&[]).await;
    let proxy = setup.start().await;
    for stream in [false, true] {
        let (status, answer) = post(&proxy, "/v1/responses", &triggered(stream)).await;
        assert_eq!(status, 200, "{answer}");
        let response = match stream {
            false => serde_json::from_str(&answer).unwrap(),
            true => events(&answer).last().unwrap()["response"].clone(),
        };
        let item = json!({"type": "compaction", "id": "cmp_theirs", "encrypted_content": "gAAAA"});
        assert_eq!(response["output"], json!([item]), "{stream}");
        let asked = asked.lock().unwrap();
        let (path, body) = asked.last().unwrap();
        assert!(path.ends_with("/responses"), "{path}");
        assert_eq!(body["input"].as_array().unwrap().last().unwrap(), &json!({"type": "compaction_trigger"}));
        assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn compaction_is_a_resource_with_the_messages_of_the_user() {
    let (upstream, asked) = chat("The user wants it done.", "stop").await;
    let proxy = Setup::new(upstream.address).start().await;
    let input = json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "ok"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
    ]);
    let (_, first) = json_of(&proxy, "/v1/responses", &json!({"model": "m", "input": "zero"})).await;
    for (input, previous, users) in [
        (input, Value::Null, vec!["one", "two"]),
        (json!("only"), Value::Null, vec!["only"]),
        (json!("more"), first["id"].clone(), vec!["zero", "more"]),
        (Value::Null, first["id"].clone(), vec!["zero"]),
    ] {
        let body = json!({"model": "m", "input": input, "previous_response_id": previous, "stream": true, "store": true});
        let (status, compacted) = json_of(&proxy, "/v1/responses/compact", &body).await;
        assert_eq!((status, &compacted["object"]), (200, &json!("response.compaction")), "{compacted}");
        assert!(compacted["id"].is_string() && compacted["created_at"].is_u64());
        assert_eq!(compacted["usage"]["total_tokens"], 77);
        let output = compacted["output"].as_array().unwrap();
        let said: Vec<_> = output
            .iter()
            .filter(|item| item["role"] == "user")
            .map(|item| item["content"][0]["text"].as_str().unwrap())
            .collect();
        assert_eq!(said, users, "{compacted}");
        assert_eq!((output.len(), &output.last().unwrap()["type"]), (users.len() + 1, &json!("compaction")));
        let mut next = compacted["output"].clone();
        next.as_array_mut().unwrap().push(json!({"role": "user", "content": "And now?"}));
        assert_eq!(post(&proxy, "/v1/responses", &json!({"model": "m", "input": next})).await.0, 200);
        let asked = asked.lock().unwrap();
        let messages = &asked.last().unwrap().1["messages"];
        assert!(
            texts(messages).contains("The user wants it done.") && texts(messages).contains(users[0]),
            "{messages}"
        );
    }
    for (body, status) in [
        (json!({"model": "m"}), 400),
        (json!({"model": "m", "input": []}), 400),
        (json!({"model": "nobody", "input": "one"}), 404),
        (json!({"model": "m", "input": "one", "previous_response_id": "resp_x"}), 404),
        (json!([]), 400),
    ] {
        assert_eq!(post(&proxy, "/v1/responses/compact", &body).await.0, status, "{body}");
    }
}

/// What was compacted is not sent again.
#[tokio::test]
async fn stored_compaction_replaces_its_conversation() {
    let (upstream, asked) = chat("The user wants it done.", "stop").await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut body = triggered(false);
    body["store"] = json!(true);
    let (_, compacted) = json_of(&proxy, "/v1/responses", &body).await;
    let next = json!({"model": "m", "input": "And now?", "previous_response_id": compacted["id"]});
    assert_eq!(post(&proxy, "/v1/responses", &next).await.0, 200);
    let asked = asked.lock().unwrap();
    let messages = asked.last().unwrap().1["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "user", "user"], "{messages:?}");
    assert!(texts(&messages[1]).contains("The user wants it done."));
}

#[tokio::test]
async fn paths_of_an_upstream_of_responses_are_used() {
    let (_upstream, asked, setup) = responses(&["compact", "input_tokens"]).await;
    let proxy = setup.start().await;
    let body = json!({"model": "org/other", "input": "one", "instructions": "Be brief."});
    let (status, compacted) = json_of(&proxy, "/v1/responses/compact", &body).await;
    assert_eq!((status, &compacted["id"]), (200, &json!("resp_theirs")), "{compacted}");
    let (status, count) = json_of(&proxy, "/v1/responses/input_tokens", &body).await;
    assert_eq!((status, count), (200, json!({"object": "response.input_tokens", "input_tokens": 12345})));
    let asked = asked.lock().unwrap();
    let [compact, count] = &asked[..] else { panic!("{asked:?}") };
    assert!(compact.0.ends_with("/responses/compact") && count.0.ends_with("/responses/input_tokens"));
    for (_, body) in [compact, count] {
        assert_eq!((&body["model"], &body["instructions"]), (&json!("theirs"), &json!("Be brief.")));
        for key in ["stream", "store", "include"] {
            assert!(body.get(key).is_none(), "{body}");
        }
    }
}

#[tokio::test]
async fn paths_that_an_upstream_of_responses_lacks_are_served() {
    let (_upstream, asked, setup) = responses(&[]).await;
    let proxy = setup.start().await;
    let body = json!({"model": "m", "input": "one"});
    let (status, compacted) = json_of(&proxy, "/v1/responses/compact", &body).await;
    assert_eq!((status, &compacted["object"]), (200, &json!("response.compaction")), "{compacted}");
    assert!(compacted["output"][1]["encrypted_content"].as_str().unwrap().ends_with(":OWN"), "{compacted}");
    assert!(!asked.lock().unwrap().last().unwrap().1.to_string().contains("toolwire"));
    let (status, count) = json_of(&proxy, "/v1/responses/input_tokens", &body).await;
    assert!(status == 200 && count["input_tokens"].as_u64().unwrap() < 100, "{count}");
}

#[tokio::test]
async fn tokens_of_a_request_are_counted() {
    let (upstream, _) = chat("Summary", "stop").await;
    let proxy = Setup::new(upstream.address).start().await;
    let count = async |body: Value| {
        let (status, count) = json_of(&proxy, "/v1/responses/input_tokens", &body).await;
        assert_eq!((status, &count["object"]), (200, &json!("response.input_tokens")), "{count}");
        count["input_tokens"].as_u64().unwrap()
    };
    let short = count(json!({"model": "m", "input": "one"})).await;
    let long = "word ".repeat(1000);
    assert!(short < 20 && count(json!({"model": "m", "input": long})).await > 1000);
    let (_, first) = json_of(&proxy, "/v1/responses", &json!({"model": "m", "input": long})).await;
    assert!(count(json!({"model": "m", "input": "two", "previous_response_id": first["id"]})).await > 1000);
}
