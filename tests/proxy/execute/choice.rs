//! Tests tool choices that name hosted tools, the client's own tools, or server tools.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::dialect::{Dialect, UpstreamDialect};

use super::script::{Asked, setup, speaking};
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    upstream::Upstream,
};

/// A hosted tool that the client does not declare.
const HOSTED: &str = "search";

/// A hosted tool that clients also declare as a server tool.
const WEB_SEARCH: &str = r#"
[[providers]]
name = "web_search"
kind = "command"
command = ["sh", "-c", "printf 'found '; cat"]
description = "Searches."
parameters = { type = "object", properties = { query = { type = "string" } } }
"#;

/// A stream in this dialect that calls `tool`, or says `Done.` if there is none.
fn response(dialect: &str, tool: Option<&str>) -> Vec<u8> {
    let data = |events: &[Value]| {
        events
            .iter()
            .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
            .collect()
    };
    let stream: String = match (dialect, tool) {
        ("chat", Some(tool)) => {
            super::script::call(0, "call_0", tool, "{}") + &super::script::end("tool_calls")
        }
        ("chat", None) => super::script::text("Done.") + &super::script::end("stop"),
        ("messages", tool) => {
            let (block, stop) = match tool {
                Some(tool) => {
                    (json!({"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}), "tool_use")
                }
                None => (json!({"type": "text", "text": "Done."}), "end_turn"),
            };
            data(&[
                json!({"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "model": "up",
                    "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": block}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 1}}),
                json!({"type": "message_stop"}),
            ])
        }
        (_, tool) => {
            let item = match tool {
                Some(tool) => {
                    json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1",
                    "name": tool, "arguments": "{}"})
                }
                None => json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}),
            };
            let whole = |output: &[&Value], status: &str| {
                json!({"id": "r1", "object": "response", "created_at": 1, "status": status,
                "model": "up", "output": output, "usage": null})
            };
            data(&[
                json!({"type": "response.created", "response": whole(&[], "in_progress")}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": whole(&[&item], "completed")}),
            ])
        }
    };
    stream.into_bytes()
}

/// An upstream whose model first calls `tool`, and a proxy in front of it. `settings` are lines of `[execution]`.
async fn start(dialect: &str, tool: Option<&str>, settings: &str) -> (Proxy, Asked, Upstream) {
    let responses = tool.iter().map(|tool| response(dialect, Some(tool))).chain([response(dialect, None)]);
    let (upstream, asked) = speaking(responses.collect(), 64 << 10).await;
    let mut setup = setup(&upstream, settings);
    setup.execution += WEB_SEARCH;
    (in_dialect(setup, dialect).start().await, asked, upstream)
}

fn in_dialect(mut setup: Setup, dialect: &str) -> Setup {
    let of = |dialect| UpstreamDialect::try_from(dialect).unwrap();
    match dialect {
        "messages" => setup.upstream.options = of(Dialect::Messages),
        "responses" => setup.upstream.options = of(Dialect::Responses),
        _ => {}
    }
    setup
}

/// Sends a request with these tools and this choice. Returns the status and the body of the response.
async fn ask(proxy: &Proxy, client: &str, tools: &Value, choice: &Value) -> (u16, Value) {
    let messages = json!([{"role": "user", "content": "q"}]);
    let (path, mut request) = match client {
        "responses" => ("/v1/responses", json!({"model": "m", "input": "q"})),
        "messages" => ("/v1/messages", json!({"model": "m", "max_tokens": 99, "messages": messages})),
        _ => ("/v1/chat/completions", json!({"model": "m", "messages": messages})),
    };
    request["tool_choice"] = choice.clone();
    if !tools.is_null() {
        request["tools"] = tools.clone();
    }
    let request = Request::post(proxy.url(path))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(request.to_string())));
    let response = Client::new().send(request.unwrap()).await.unwrap();
    (response.status().as_u16(), response.json().await)
}

/// Returns the names or types of the tools in an upstream's request.
fn tools(request: &Value) -> Vec<String> {
    let name = |tool: &Value| {
        let name = tool["function"]["name"].as_str().or(tool["name"].as_str()).or(tool["type"].as_str());
        name.unwrap().to_owned()
    };
    request["tools"].as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
}

/// Returns a tool choice for the tool `name`, and the list of the client's own tools, in the client's dialect.
fn named(client: &str, name: &str) -> (Value, Value) {
    let schema = json!({"type": "object"});
    match client {
        "responses" => (
            json!({"type": "function", "name": name}),
            json!([{"type": "function", "name": "own", "parameters": schema}]),
        ),
        "messages" => {
            (json!({"type": "tool", "name": name}), json!([{"name": "own", "input_schema": schema}]))
        }
        _ => (
            json!({"type": "function", "function": {"name": name}}),
            json!([{"type": "function", "function": {"name": "own", "parameters": schema}}]),
        ),
    }
}

const DIALECTS: [&str; 3] = ["chat", "messages", "responses"];

#[tokio::test]
async fn hosted_tool_can_be_chosen_by_its_name() {
    for client in DIALECTS {
        for dialect in DIALECTS {
            let (choice, own) = named(client, HOSTED);
            for declared in [Value::Null, own] {
                let (proxy, asked, _upstream) = start(dialect, Some(HOSTED), "").await;
                let (status, body) = ask(&proxy, client, &declared, &choice).await;
                assert_eq!(status, 200, "{client} to {dialect}: {body}");
                assert!(body.to_string().contains("Done."), "{body}");
                let asked = asked.lock().unwrap();
                assert_eq!(asked.len(), 2);
                assert!(asked[0]["tool_choice"].to_string().contains(HOSTED), "{}", asked[0]);
                assert!(
                    !asked[1]["tool_choice"].to_string().contains(HOSTED),
                    "only the first hop: {}",
                    asked[1]
                );
            }
        }
    }
}

#[tokio::test]
async fn hosted_tools_can_be_required_or_the_only_ones_allowed() {
    let reference = |client: &str| named(client, HOSTED).0;
    for (client, choice) in [
        ("chat", json!("required")),
        ("messages", json!({"type": "any"})),
        ("responses", json!("required")),
        (
            "chat",
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [reference("chat")]}}),
        ),
        (
            "responses",
            json!({"type": "allowed_tools", "mode": "required", "tools": [reference("responses")]}),
        ),
    ] {
        for dialect in DIALECTS {
            let (proxy, asked, _upstream) = start(dialect, Some(HOSTED), "").await;
            let (status, body) = ask(&proxy, client, &Value::Null, &choice).await;
            assert_eq!(status, 200, "{client} to {dialect}: {body}");
            let asked = asked.lock().unwrap();
            let requires = |request: &Value| {
                let choice = request["tool_choice"].to_string();
                choice.contains("required") || choice.contains("any")
            };
            assert!(requires(&asked[0]) && !requires(&asked[1]), "{client} to {dialect}: {asked:?}");
        }
    }
}

#[tokio::test]
async fn tool_that_nobody_declares_cannot_be_chosen() {
    for client in DIALECTS {
        for is_on in [true, false] {
            let (upstream, asked) = speaking(Vec::new(), 9).await;
            let mut setup = setup(&upstream, "");
            if !is_on {
                setup.execution.clear();
            }
            let proxy = setup.start().await;
            let (choice, own) = named(client, "missing");
            let (status, body) = ask(&proxy, client, &own, &choice).await;
            let message = body["error"]["message"].as_str().unwrap();
            assert_eq!(status, 400);
            assert_eq!(message, "`tool_choice` names `missing`, which is not among the declared tools");
            assert!(asked.lock().unwrap().is_empty());
        }
    }
}

/// Returns the declaration of the server tool `web_search`, and a tool choice that names it, in the client's dialect.
fn servers(client: &str) -> (Value, Value) {
    match client {
        "messages" => (
            json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]),
            json!({"type": "tool", "name": "web_search"}),
        ),
        _ => (json!([{"type": "web_search"}]), json!({"type": "web_search"})),
    }
}

#[tokio::test]
async fn choice_of_a_servers_tool_is_passed_on_only_where_the_upstream_has_it() {
    for client in ["messages", "responses"] {
        let (declared, choice) = servers(client);
        for dialect in DIALECTS {
            let (proxy, asked, _upstream) = {
                let (upstream, asked) = speaking(vec![response(dialect, None)], 64 << 10).await;
                let mut setup = setup(&upstream, "");
                setup.execution.clear();
                (in_dialect(setup, dialect).start().await, asked, upstream)
            };
            let (status, body) = ask(&proxy, client, &declared, &choice).await;
            assert_eq!(status, 200, "{client} to {dialect}: {body}");
            let asked = asked.lock().unwrap();
            let (sent, chosen) = (tools(&asked[0]), asked[0].get("tool_choice"));
            if client == dialect {
                assert_eq!((sent, chosen), (vec!["web_search".to_owned()], Some(&choice)));
            } else {
                assert_eq!((sent.len(), chosen), (0, None), "{client} to {dialect}");
            }
        }
    }
}

#[tokio::test]
async fn hosted_tool_takes_the_place_of_a_servers_tool_that_the_upstream_does_not_have() {
    for client in ["messages", "responses"] {
        let (declared, choice) = servers(client);
        for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != client) {
            let (proxy, asked, _upstream) = start(dialect, Some("web_search"), "").await;
            let (status, body) = ask(&proxy, client, &declared, &choice).await;
            assert_eq!(status, 200, "{client} to {dialect}: {body}");
            assert!(!body.to_string().contains("toolwire_ignored_tools"), "{body}");
            let asked = asked.lock().unwrap();
            assert_eq!(tools(&asked[0]), ["web_search"], "the chosen tool alone");
            assert!(asked[0]["tool_choice"].to_string().contains("web_search"), "{}", asked[0]);
            assert!(!asked[1]["tool_choice"].to_string().contains("web_search"), "{}", asked[1]);
            assert!(asked[1].to_string().contains("found "), "{}", asked[1]);
        }
    }
}

#[tokio::test]
async fn servers_tool_that_the_upstream_has_is_declared_once() {
    for client in ["messages", "responses"] {
        let (declared, choice) = servers(client);
        for (settings, is_own) in [("", true), ("clash = \"server_wins\"", false)] {
            let tool = if is_own { HOSTED } else { "web_search" };
            let (proxy, asked, _upstream) = start(client, Some(tool), settings).await;
            let auto = if client == "messages" { json!({"type": "auto"}) } else { json!("auto") };
            let (status, body) = ask(&proxy, client, &declared, &auto).await;
            assert_eq!(status, 200, "{body}");
            let sent = asked.lock().unwrap()[0].clone();
            assert_eq!(tools(&sent).iter().filter(|name| *name == "web_search").count(), 1, "{sent}");
            assert!(sent.to_string().contains("Searches."), "{sent}");
            let own = sent["tools"].as_array().unwrap().iter().any(|tool| *tool == declared[0]);
            assert_eq!(own, is_own, "{sent}");
            drop(proxy);
            // The choice only applies to the first hop.
            let (proxy, asked, _upstream) = start(client, Some(tool), settings).await;
            let (status, body) = ask(&proxy, client, &declared, &choice).await;
            assert_eq!(status, 200, "{body}");
            let asked = asked.lock().unwrap();
            assert!(asked[0]["tool_choice"].to_string().contains("web_search"), "{}", asked[0]);
            assert!(asked.iter().skip(1).all(|request| request.get("tool_choice").is_none()), "{asked:?}");
        }
    }
}

#[tokio::test]
async fn allowed_servers_tools_are_hosted_ones_where_these_take_their_place() {
    let own = json!({"type": "function", "name": "own", "parameters": {"type": "object"}});
    let declared = json!([{"type": "web_search"}, own]);
    let choice = json!({"type": "allowed_tools", "mode": "required",
        "tools": [{"type": "function", "name": "own"}, {"type": "web_search"}]});
    let (proxy, asked, _upstream) = start("chat", Some("web_search"), "").await;
    let (status, body) = ask(&proxy, "responses", &declared, &choice).await;
    assert_eq!(status, 200, "{body}");
    let asked = asked.lock().unwrap();
    assert_eq!(tools(&asked[0]), ["own", "web_search"]);
    let allowed = |request: &Value| request["tool_choice"]["allowed_tools"].clone();
    let names = |request: &Value| {
        let tools = allowed(request)["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (allowed(&asked[0])["mode"].clone(), names(&asked[0])),
        (json!("required"), vec!["own".to_owned(), "web_search".to_owned()])
    );
    assert_eq!((allowed(&asked[1])["mode"].clone(), names(&asked[1]).len()), (json!("auto"), 2));
}
