//! Tests who runs the searches for tools that a client declares, if its upstream has the same API.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use serde_json::{Value, json};
use toolwire::{
    config::{ToolSearch, ToolStyle},
    dialect::{UpstreamDialect, chat::Server, messages, responses},
    format::HERMES,
    rules::Enforce,
};

use super::tool_search::{ask, kinds, messages as asked_of_messages, parts, responses as asked_of_responses};
use crate::support::{proxy::Setup, upstream::Upstream};

/// What an upstream has received.
#[derive(Debug, Default)]
struct Seen {
    requests: Vec<Value>,
    /// The paths of `GET` requests.
    probes: Vec<String>,
}

/// An upstream whose list of models has this owner, and that answers each other request with the next of these bodies.
/// Without an owner, it closes the connections of `GET` requests.
async fn server(owner: Option<&'static str>, script: Vec<String>) -> (Upstream, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let shared = (Arc::clone(&seen), Arc::new(script));
    let upstream = Upstream::start_sharing(shared, move |mut exchange, (seen, script)| async move {
        const JSON: &str = "content-type: application/json\r\n";
        if exchange.head.starts_with("get ") {
            let path = exchange.head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().unwrap().probes.push(path);
            let Some(owner) = owner else { return exchange };
            let list = json!({"data": [{"id": "m", "owned_by": owner}]}).to_string();
            exchange.whole("200 OK", JSON, &list).await;
            return exchange;
        }
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.requests.push(serde_json::from_slice(&exchange.body).unwrap());
            seen.requests.len() - 1
        };
        let body = script[number].clone();
        if body.starts_with("event: ") {
            return exchange.stream(body).await;
        }
        exchange.whole("200 OK", JSON, &body).await;
        exchange
    });
    (upstream.await, seen)
}

fn of_messages(upstream: &Upstream, server: Server) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Messages(messages::Options { server, ..Default::default() });
    setup
}

fn of_responses(upstream: &Upstream, server: Server) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options = UpstreamDialect::Responses(responses::Options { server, ..Default::default() });
    setup
}

/// A response of Messages with one block.
fn message(block: &Value, reason: &str) -> String {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block],
        "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
    .to_string()
}

fn tool_use(name: &str, input: &Value) -> String {
    message(
        &json!({"type": "tool_use", "id": format!("toolu_{name}"), "name": name, "input": input}),
        "tool_use",
    )
}

fn said(text: &str) -> String {
    message(&json!({"type": "text", "text": text}), "end_turn")
}

/// A stream of Responses with one item.
fn item_stream(item: &Value) -> String {
    let response = |status: &str, output: &Value| json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output});
    let events = [
        json!({"type": "response.created", "response": response("in_progress", &json!([]))}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response("completed", &json!([item]))}),
    ];
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn searches_are_run_for_servers_of_messages_that_have_none() {
    const SEARCH: &str = "tool_search_tool_bm25";
    for (configured, owner) in
        [(Server::Vllm, None), (Server::LlamaCpp, None), (Server::Unknown, Some("vllm"))]
    {
        let script = vec![
            tool_use(SEARCH, &json!({"query": "weather"})),
            tool_use("get_weather", &json!({"city": "Paris"})),
            said("It rains."),
        ];
        let (upstream, seen) = server(owner, script).await;
        let proxy = of_messages(&upstream, configured).start().await;
        let mut request = asked_of_messages("tool_search_tool_bm25_20251119", json!({}));
        let (status, body) = ask(&proxy, "/v1/messages", &request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let content = parts(&body);
        assert_eq!(kinds(&content), ["server_tool_use", "tool_search_tool_result", "tool_use"], "{body}");
        let history = request["messages"].as_array_mut().unwrap();
        let used = content[2]["id"].clone();
        history.push(json!({"role": "assistant", "content": content}));
        history.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": used, "content": "rain"}]}));
        let (_, body) = ask(&proxy, "/v1/messages", &request).await;
        assert!(body.contains("It rains."), "{body}");

        let seen = seen.lock().unwrap();
        assert_eq!(seen.probes.len(), usize::from(owner.is_some()), "{seen:?}");
        let shown =
            [vec![SEARCH, "now"], vec![SEARCH, "now", "get_weather"], vec![SEARCH, "now", "get_weather"]];
        for (request, shown) in seen.requests.iter().zip(shown) {
            assert_eq!(names(request), shown);
            // Nothing that such a server does not know.
            let written = request.to_string();
            for unknown in ["defer_loading", "server_tool_use", "tool_search_tool_result", "tool_reference"] {
                assert!(!written.contains(unknown), "{unknown}: {written}");
            }
        }
        let result = &seen.requests[2]["messages"][2]["content"][0];
        assert_eq!(
            (&result["type"], &result["content"]),
            (&json!("tool_result"), &json!("Loaded: get_weather"))
        );
    }
}

#[tokio::test]
async fn searches_are_run_for_servers_of_responses_that_have_none() {
    let called = |name: &str, arguments: &str| {
        item_stream(
            &json!({"type": "function_call", "id": format!("fc_{name}"), "call_id": format!("call_{name}"),
            "name": name, "arguments": arguments, "status": "completed"}),
        )
    };
    for (configured, owner) in [(Server::Vllm, None), (Server::Unknown, Some("vllm"))] {
        let script = vec![
            called("tool_search", r#"{"query":"forecast"}"#),
            called("sky__get_weather", r#"{"city":"Paris"}"#),
        ];
        let (upstream, seen) = server(owner, script).await;
        let proxy = of_responses(&upstream, configured).start().await;
        let (status, body) = ask(&proxy, "/v1/responses", &asked_of_responses(json!({"stream": true}))).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let last = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        let output = last["response"]["output"].as_array().cloned().expect(&body);
        assert_eq!(kinds(&output), ["tool_search_call", "tool_search_output", "function_call"], "{body}");
        assert_eq!((&output[2]["namespace"], &output[2]["name"]), (&json!("sky"), &json!("get_weather")));
        let seen = seen.lock().unwrap();
        assert_eq!(names(&seen.requests[0]), ["tool_search"]);
        assert_eq!(names(&seen.requests[1]), ["tool_search", "sky__get_weather"]);
        for request in &seen.requests {
            let kinds = request["tools"].as_array().unwrap().iter().map(|tool| &tool["type"]);
            assert!(kinds.into_iter().all(|kind| kind == "function"), "{request}");
            assert!(!request.to_string().contains("defer_loading"), "{request}");
        }
    }
}

#[tokio::test]
async fn servers_that_search_get_the_search_as_written() {
    for (configured, owner, probes) in
        [(Server::Other, None, 0), (Server::OpenAi, None, 0), (Server::Unknown, Some("anthropic"), 6)]
    {
        let (upstream, seen) = server(owner, vec![said("Hi."), said("Hi.")]).await;
        let proxy = of_messages(&upstream, configured).start().await;
        let request = asked_of_messages("tool_search_tool_regex", json!({}));
        for _ in 0..2 {
            let (_, body) = ask(&proxy, "/v1/messages", &request).await;
            assert!(body.contains("Hi."), "{body}");
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.probes.len(), probes, "{seen:?}");
        for sent in &seen.requests {
            assert_eq!(sent["tools"].as_array().unwrap().len(), 4);
            assert!(sent.to_string().contains("tool_search_tool_regex"), "{sent}");
        }
    }
}

/// Only a request that declares a search can depend on the server, whatever is enforced.
#[tokio::test]
async fn servers_are_not_probed_without_a_search() {
    let (upstream, seen) = server(Some("vllm"), vec![said("Hi."), said("Hi.")]).await;
    let mut setup = of_messages(&upstream, Server::Unknown);
    setup.settings.enforce = Enforce::Auto;
    let proxy = setup.start().await;
    let tools = json!([{"name": "now", "input_schema": {"type": "object"}}]);
    let deferred = json!([{"name": "now", "defer_loading": true, "input_schema": {"type": "object"}}]);
    for tools in [tools, deferred] {
        let mut request = asked_of_messages("", json!({}));
        request["tools"] = tools;
        ask(&proxy, "/v1/messages", &request).await;
    }
    assert_eq!(seen.lock().unwrap().probes, [""; 0]);
}

#[tokio::test]
async fn server_that_does_not_answer_probes_is_asked_once() {
    let (upstream, seen) = server(None, vec![said("Hi."), said("Hi.")]).await;
    let proxy = of_messages(&upstream, Server::Unknown).start().await;
    for _ in 0..2 {
        let (_, body) =
            ask(&proxy, "/v1/messages", &asked_of_messages("tool_search_tool_bm25", json!({}))).await;
        assert!(body.contains("Hi."), "{body}");
    }
    assert_eq!(seen.lock().unwrap().probes.len(), 1);
}

/// Anthropic's API takes any number of tools, so its clients get what they ask for.
#[tokio::test]
async fn many_tools_go_to_anthropic_unless_configured_otherwise() {
    let tools: Vec<Value> = (0..200)
        .map(|number| json!({"name": format!("tool_{number}"), "input_schema": {"type": "object"}}))
        .collect();
    let mut request = asked_of_messages("", json!({}));
    request["tools"] = tools.into();
    let taught = ToolStyle::Format(&HERMES);
    for (server_, style, setting, is_reduced) in [
        (Server::Unknown, ToolStyle::Native, ToolSearch::Auto, false),
        (Server::Other, ToolStyle::Native, ToolSearch::Auto, false),
        (Server::Vllm, ToolStyle::Native, ToolSearch::Auto, true),
        (Server::Unknown, ToolStyle::Native, ToolSearch::From(100), true),
        (Server::Unknown, taught, ToolSearch::Auto, true),
    ] {
        let (upstream, seen) = server(Some("none"), vec![said("Hi.")]).await;
        let mut setup = of_messages(&upstream, server_);
        (setup.tools, setup.tool_search) = (style, setting);
        let proxy = setup.start().await;
        ask(&proxy, "/v1/messages", &request).await;
        let seen = seen.lock().unwrap();
        let is_shown = seen.requests[0].to_string().contains("tool_150\"")
            || seen.requests[0].to_string().contains("tool_150(");
        assert_eq!(is_shown, !is_reduced, "{server_:?} {style:?} {setting:?}");
    }

    // OpenAI's API refuses more than 128 tools.
    let tools: Vec<Value> = (0..200)
        .map(|number| json!({"type": "function", "name": format!("tool_{number}"), "parameters": {"type": "object"}}))
        .collect();
    let (upstream, seen) = server(None, vec![item_stream(&json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}))]).await;
    let proxy = of_responses(&upstream, Server::Unknown).start().await;
    let request = json!({"model": "m", "stream": true, "input": "hi", "tools": tools});
    ask(&proxy, "/v1/responses", &request).await;
    assert!(names(&seen.lock().unwrap().requests[0]).len() <= 128);
}

#[tokio::test]
async fn namespaces_go_to_openai_and_come_back() {
    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather",
        "namespace": "sky", "arguments": "{\"city\":\"Paris\"}", "status": "completed"});
    let called = item_stream(&item);
    let (upstream, seen) = server(None, vec![called.clone(), called]).await;
    let proxy = of_responses(&upstream, Server::OpenAi).start().await;
    let mut request = asked_of_responses(json!({"stream": true}));
    let (_, body) = ask(&proxy, "/v1/responses", &request).await;
    let last = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    let call = last["response"]["output"][0].clone();
    assert_eq!((&call["namespace"], &call["name"]), (&json!("sky"), &json!("get_weather")), "{body}");
    let input = request["input"].as_array_mut().unwrap();
    input.push(call.clone());
    input.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}));
    ask(&proxy, "/v1/responses", &request).await;
    let seen = seen.lock().unwrap();
    for sent in &seen.requests {
        let declared = sent["tools"].as_array().unwrap();
        let asked = request["tools"].as_array().unwrap();
        assert!(asked.iter().all(|tool| declared.contains(tool)) && declared.len() == asked.len(), "{sent}");
    }
    let sent = &seen.requests[1]["input"][1];
    assert_eq!((&sent["namespace"], &sent["name"]), (&json!("sky"), &json!("get_weather")), "{sent}");
}
