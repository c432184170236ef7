//! Tests searches for tools that a model makes beside calls for the client.

use serde_json::{Value, json};
use toolwire::{config::ToolStyle, format::HERMES};

use super::{
    script::{call, end, setup as hosted_setup, text, upstream},
    tool_search::{ask, kinds, messages, names, parts, responses, told},
};
use crate::support::proxy::Setup;

const SEARCH: &str = "tool_search_tool_bm25";

fn search(index: usize) -> String {
    call(index, "call_s", SEARCH, r#"{"query":"weather"}"#)
}

fn now(index: usize) -> String {
    call(index, "call_n", "now", "{}")
}

/// The content and the stop reason of a response of Messages, streamed or not.
fn content(body: &str) -> (Vec<Value>, String) {
    if !body.starts_with("event: ") {
        let response: Value = serde_json::from_str(body).unwrap();
        return (parts(body), response["stop_reason"].as_str().unwrap().to_owned());
    }
    let (mut blocks, mut reason) = (Vec::<Value>::new(), String::new());
    for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(data).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" if event["delta"]["type"] == "input_json_delta" => {
                let block = &mut blocks[usize::try_from(event["index"].as_u64().unwrap()).unwrap()];
                let before = block["pieces"].as_str().unwrap_or_default();
                block["pieces"] =
                    format!("{before}{}", event["delta"]["partial_json"].as_str().unwrap()).into();
            }
            "message_delta" => reason = event["delta"]["stop_reason"].as_str().unwrap().to_owned(),
            _ => {}
        }
    }
    for block in &mut blocks {
        if let Some(pieces) = block.as_object_mut().unwrap().remove("pieces") {
            block["input"] = serde_json::from_str(pieces.as_str().unwrap()).unwrap();
        }
    }
    (blocks, reason)
}

#[tokio::test]
async fn search_beside_a_call_is_run_and_the_response_ends() {
    for (stream, first) in
        [(false, now(0) + &search(1)), (true, now(0) + &search(1)), (true, search(0) + &now(1))]
    {
        let script = [first + &end("tool_calls"), text("Done.") + &end("stop")];
        let (upstream, asked) = upstream(script).await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut request = messages(SEARCH, json!({ "stream": stream }));
        let (_, body) = ask(&proxy, "/v1/messages", &request).await;
        let (blocks, reason) = content(&body);
        assert_eq!(kinds(&blocks), ["tool_use", "server_tool_use", "tool_search_tool_result"], "{body}");
        assert_eq!(reason, "tool_use");
        assert_eq!((&blocks[1]["name"], &blocks[1]["input"]), (&json!(SEARCH), &json!({"query": "weather"})));
        assert_eq!(blocks[1]["id"], blocks[2]["tool_use_id"]);
        assert_eq!(blocks[2]["content"]["tool_references"][0]["tool_name"], "get_weather");
        assert_eq!(asked.lock().unwrap().len(), 1);

        // The next request has both calls with their results, and the tool is loaded.
        let id = blocks[0]["id"].clone();
        let history = request["messages"].as_array_mut().unwrap();
        history.push(json!({"role": "assistant", "content": blocks}));
        history.push(
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "12"}]}),
        );
        let (_, body) = ask(&proxy, "/v1/messages", &request).await;
        assert!(body.contains("Done."), "{body}");
        let last = told(&asked, 1);
        assert_eq!(names(&last), [SEARCH, "now", "get_weather"]);
        let turns = last["messages"].as_array().unwrap();
        let calls = turns.iter().flat_map(|turn| turn["tool_calls"].as_array().into_iter().flatten());
        let mut called: Vec<_> =
            calls.map(|call| (call["id"].clone(), call["function"]["name"].clone())).collect();
        let results = turns.iter().filter(|turn| turn["role"] == "tool");
        let mut told: Vec<_> =
            results.map(|turn| (turn["tool_call_id"].clone(), turn["content"].clone())).collect();
        let by_id = |left: &(Value, Value), right: &(Value, Value)| left.0.as_str().cmp(&right.0.as_str());
        called.sort_by(by_id);
        told.sort_by(by_id);
        assert_eq!(called.len(), 2, "{last}");
        assert!(called.iter().zip(&told).all(|(call, result)| call.0 == result.0), "{last}");
        let results: Vec<_> = told.iter().map(|(_, result)| result).collect();
        assert!(
            results.contains(&&json!("Loaded: get_weather")) && results.contains(&&json!("12")),
            "{last}"
        );
    }
}

#[tokio::test]
async fn search_of_responses_beside_a_call_is_run() {
    let moon = call(0, "call_m", "send_mail", r#"{"city":"Paris"}"#);
    let find = call(1, "call_s", "tool_search", r#"{"query":"forecast"}"#);
    let (upstream, asked) = upstream([moon + &find + &end("tool_calls"), text("Done.") + &end("stop")]).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut request = responses(json!({}));
    let (_, body) = ask(&proxy, "/v1/responses", &request).await;
    let output = parts(&body);
    assert_eq!(kinds(&output), ["function_call", "tool_search_call", "tool_search_output"], "{body}");
    let id = output[0]["call_id"].clone();
    let input = request["input"].as_array_mut().unwrap();
    input.extend(output);
    input.push(json!({"type": "function_call_output", "call_id": id, "output": "sent"}));
    ask(&proxy, "/v1/responses", &request).await;
    assert!(names(&told(&asked, 1)).contains(&"sky__get_weather"));
}

#[tokio::test]
async fn taught_models_search_beside_a_call() {
    let called = |name: &str, arguments: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>\n")
    };
    let both = called("now", "{}") + &called(SEARCH, r#"{"query": "weather"}"#);
    let (upstream, _) = upstream([text(&both) + &end("stop")]).await;
    let mut setup = Setup::new(upstream.address);
    setup.tools = ToolStyle::Format(&HERMES);
    let proxy = setup.start().await;
    let (_, body) = ask(&proxy, "/v1/messages", &messages(SEARCH, json!({}))).await;
    let (blocks, reason) = content(&body);
    assert_eq!(kinds(&blocks), ["tool_use", "server_tool_use", "tool_search_tool_result"], "{body}");
    assert_eq!(reason, "tool_use");
}

/// The turn is completed for the model later, with the results of the hosted calls alone.
#[tokio::test]
async fn search_beside_hosted_calls_and_a_call_of_the_client_is_left_out() {
    let hosted = call(2, "call_h", "search", r#"{"query":"rain"}"#);
    let (upstream, asked) =
        upstream([now(0) + &search(1) + &hosted + &end("tool_calls"), text("Done.") + &end("stop")]).await;
    let proxy = hosted_setup(&upstream, "").start().await;
    let mut request = messages(SEARCH, json!({}));
    let (_, body) = ask(&proxy, "/v1/messages", &request).await;
    let (blocks, reason) = content(&body);
    assert_eq!((kinds(&blocks), reason.as_str()), (vec!["tool_use"], "tool_use"), "{body}");
    let id = blocks[0]["id"].clone();
    let history = request["messages"].as_array_mut().unwrap();
    history.push(json!({"role": "assistant", "content": blocks}));
    history.push(
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "12"}]}),
    );
    ask(&proxy, "/v1/messages", &request).await;
    let last = told(&asked, 1).to_string();
    assert!(last.contains("found ") && last.contains("\"12\"") && !last.contains("Loaded"), "{last}");
}

/// What toolwire cannot run is not shown as if it had run.
#[tokio::test]
async fn search_in_a_response_that_was_cut_off_is_not_run() {
    let (upstream, _) = upstream([now(0) + &search(1) + &end("length")]).await;
    let proxy = Setup::new(upstream.address).start().await;
    let (_, body) = ask(&proxy, "/v1/messages", &messages(SEARCH, json!({}))).await;
    let (blocks, reason) = content(&body);
    assert_eq!((kinds(&blocks), reason.as_str()), (vec!["tool_use"], "max_tokens"), "{body}");
}
