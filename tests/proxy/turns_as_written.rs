//! Tests that turns with calls as text stand in the next prompt as the model wrote them.

use std::sync::{Arc, Mutex};

use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use toolwire::{config::ToolStyle, format::HERMES};

use crate::support::{
    client::{Client, chat_request},
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream},
};

/// The bodies of the requests that an upstream has received.
type Asked = Arc<Mutex<Vec<Value>>>;

const WRITTEN: &str = "Sure.\n\n\n<tool_call>\n{\"arguments\" :{\"x\":1.50, \"s\":\"\\u00e9\"},  \"name\": \"f\"}\n</tool_call>\n\
                       <tool_call>{\"name\":\"f\",\"arguments\":{}}\n</tool_call>";

/// The same without state.
const REWRITTEN: &str = "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1.50, \"s\": \"é\"}}\n</tool_call>\n\
                         <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";

/// An upstream that answers every request with this text.
async fn upstream(text: &'static str) -> (Upstream, Asked) {
    let asked = Asked::default();
    let upstream = Upstream::start_sharing(Arc::clone(&asked), move |exchange: Exchange, asked| async move {
        let request: Value = serde_json::from_slice(&exchange.body).unwrap();
        let head = json!({"id": "r", "created": 1, "model": "m"});
        let body = |kind: &str, choice: &Value| {
            let mut body = head.clone();
            (body["object"], body["choices"]) = (kind.into(), json!([choice]));
            body.to_string()
        };
        let is_stream = request["stream"] == true;
        asked.lock().unwrap().push(request);
        if !is_stream {
            let message = json!({"role": "assistant", "content": text});
            let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
            let mut exchange = exchange;
            let head = "content-type: application/json\r\n";
            exchange.whole("200 OK", head, &body("chat.completion", &choice)).await;
            return exchange;
        }
        let pieces: Vec<String> =
            text.chars().collect::<Vec<_>>().chunks(3).map(|piece| piece.iter().collect()).collect();
        let deltas = pieces
            .iter()
            .map(|piece| json!({"index": 0, "delta": {"content": piece}, "finish_reason": null}));
        let end = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
        let frames =
            deltas.chain([end]).map(|choice| format!("data: {}\n\n", body("chat.completion.chunk", &choice)));
        exchange.stream(frames.collect::<String>() + "data: [DONE]\n\n").await
    })
    .await;
    (upstream, asked)
}

fn setup(upstream: &Upstream) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.tools = ToolStyle::Format(&HERMES);
    setup
}

fn request(is_stream: bool) -> Value {
    let parameters =
        json!({"type": "object", "properties": {"x": {"type": "number"}, "s": {"type": "string"}}});
    json!({"model": "m", "stream": is_stream, "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]})
}

async fn ask(proxy: &Proxy, key: &str, request: &Value) -> String {
    let mut request = chat_request(proxy, request.to_string());
    if !key.is_empty() {
        request.headers_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
    }
    Client::new().send(request).await.unwrap().rest().await
}

/// The message that a client makes of a response.
fn received(request: &Value, body: &str) -> Value {
    if request["stream"] != true {
        return serde_json::from_str::<Value>(body).unwrap()["choices"][0]["message"].take();
    }
    let (mut content, mut calls) = (String::new(), Vec::<Value>::new());
    for line in body.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let chunk: Value = serde_json::from_str(&format!("{{{line}")).unwrap();
        let delta = &chunk["choices"][0]["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                calls.push(piece.clone());
                continue;
            }
            let more = piece["function"]["arguments"].as_str().unwrap();
            let arguments = calls[index]["function"]["arguments"].as_str().unwrap().to_owned() + more;
            calls[index]["function"]["arguments"] = arguments.into();
        }
    }
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

/// The request with the turn that the client received, which `change` may have changed, and its results.
fn replay(first: &Value, mut turn: Value, change: impl Fn(&mut Value)) -> Value {
    change(&mut turn);
    let results = turn["tool_calls"].as_array().unwrap().iter();
    let results: Vec<_> =
        results.map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "1"})).collect();
    let mut request = first.clone();
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(turn);
    messages.extend(results);
    request
}

fn last_turn(asked: &Asked) -> String {
    let asked = asked.lock().unwrap();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    let turn = messages.iter().rfind(|message| message["role"] == "assistant").unwrap();
    turn["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_turn_that_the_client_sends_back_is_repeated_as_it_was_written() {
    let (upstream, asked) = upstream(WRITTEN).await;
    let proxy = setup(&upstream).start().await;
    for is_stream in [true, false] {
        let first = request(is_stream);
        let turn = received(&first, &ask(&proxy, "", &first).await);
        assert_eq!((&turn["content"], turn["tool_calls"].as_array().unwrap().len()), (&json!("Sure."), 2));
        // Clients parse arguments and write them again.
        let rewrite = |turn: &mut Value| {
            turn["tool_calls"][0]["function"]["arguments"] = r#"{ "s": "é", "x": 1.5 }"#.into();
        };
        for next in [replay(&first, turn.clone(), |_| ()), replay(&first, turn.clone(), rewrite)] {
            ask(&proxy, "", &next).await;
            assert_eq!(last_turn(&asked), WRITTEN);
        }
    }
}

#[tokio::test]
async fn reasoning_is_not_repeated() {
    const TEXT: &str =
        "<think>Hm?</think>\n\nOk.<tool_call>\n{\"name\":\"f\",\"arguments\":{\"x\": 1}}</tool_call>";
    let (upstream, asked) = upstream(TEXT).await;
    let proxy = setup(&upstream).start().await;
    for is_stream in [true, false] {
        let first = request(is_stream);
        let turn = received(&first, &ask(&proxy, "", &first).await);
        ask(&proxy, "", &replay(&first, turn, |_| ())).await;
        assert_eq!(
            last_turn(&asked),
            "Ok.<tool_call>\n{\"name\":\"f\",\"arguments\":{\"x\": 1}}</tool_call>"
        );
    }
}

#[tokio::test]
async fn what_the_client_changes_is_never_replaced() {
    let (upstream, asked) = upstream(WRITTEN).await;
    let proxy = setup(&upstream).start().await;
    let first = request(false);
    let turn = received(&first, &ask(&proxy, "", &first).await);
    let arguments = |turn: &mut Value| {
        turn["tool_calls"][0]["function"]["arguments"] = r#"{"x":2}"#.into();
    };
    ask(&proxy, "", &replay(&first, turn.clone(), arguments)).await;
    let expected = REWRITTEN.replace("{\"x\": 1.50, \"s\": \"é\"}", "{\"x\": 2}");
    assert_eq!(last_turn(&asked), expected);
    ask(&proxy, "", &replay(&first, turn.clone(), |turn| turn["content"] = "No.".into())).await;
    assert_eq!(last_turn(&asked), REWRITTEN.replace("Sure.", "No."));
    let one = |turn: &mut Value| drop(turn["tool_calls"].as_array_mut().unwrap().pop());
    ask(&proxy, "", &replay(&first, turn, one)).await;
    assert_eq!(
        last_turn(&asked),
        REWRITTEN.split("\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}").next().unwrap()
    );
}

#[tokio::test]
async fn what_a_model_wrote_never_reaches_another_client() {
    let (upstream, asked) = upstream(WRITTEN).await;
    let mut setup = setup(&upstream);
    setup.keys = vec!["alice", "bob"];
    let proxy = setup.start().await;
    let first = request(false);
    let turn = received(&first, &ask(&proxy, "alice", &first).await);
    ask(&proxy, "bob", &replay(&first, turn.clone(), |_| ())).await;
    assert_eq!(last_turn(&asked), REWRITTEN);
    ask(&proxy, "alice", &replay(&first, turn, |_| ())).await;
    assert_eq!(last_turn(&asked), WRITTEN);
}

#[tokio::test]
async fn what_exceeds_the_limit_is_not_kept() {
    let (upstream, asked) = upstream(WRITTEN).await;
    for (limit, repeated) in [(512, WRITTEN), (WRITTEN.len() - 1, REWRITTEN)] {
        let mut setup = setup(&upstream);
        setup.settings.limits.max_hold = limit;
        let proxy = setup.start().await;
        let first = request(true);
        let turn = received(&first, &ask(&proxy, "", &first).await);
        ask(&proxy, "", &replay(&first, turn, |_| ())).await;
        assert_eq!(last_turn(&asked), repeated);
    }
}

#[tokio::test]
async fn what_a_model_wrote_survives_a_restart_if_there_is_a_folder() {
    let (upstream, asked) = upstream(WRITTEN).await;
    let folder = tempfile::tempdir().unwrap();
    for (state, repeated) in [(None, REWRITTEN), (Some(folder.path().join("state")), WRITTEN)] {
        let start = async || {
            let mut setup = setup(&upstream);
            setup.state_dir = state.clone();
            setup.start().await
        };
        let mut proxy = start().await;
        let first = request(false);
        let turn = received(&first, &ask(&proxy, "", &first).await);
        proxy.stop();
        proxy.ended().await;
        drop(proxy);
        let proxy = start().await;
        ask(&proxy, "", &replay(&first, turn, |_| ())).await;
        assert_eq!(last_turn(&asked), repeated);
    }
}
