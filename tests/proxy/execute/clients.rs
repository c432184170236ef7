//! Tests what clients of each dialect see of hosted calls, both native and taught ones.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::{
    config::ToolStyle,
    dialect::{Dialect, UpstreamDialect, lumo},
    format::HERMES,
};

use super::script::{call, end, setup, speaking, text, upstream};
use crate::{
    independent::upstream::Speech,
    support::{
        client::{Client, STREAM},
        proxy::{Proxy, Setup},
    },
};

async fn stream(proxy: &Proxy, path: &str) -> String {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let body = match path {
        "/v1/responses" => json!({"model": "m", "stream": true, "input": "hi"}),
        _ => json!({"model": "m", "stream": true, "max_tokens": 99, "messages": messages}),
    };
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().rest().await
}

fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

fn script() -> [String; 2] {
    let search = call(0, "call_0", "search", r#"{"query":"rain"}"#);
    [text("Let me look.") + &search + &end("tool_calls"), text("It rains.") + &end("stop")]
}

const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];

#[tokio::test]
async fn hidden_calls_leave_no_trace() {
    for path in PATHS {
        let (upstream, _) = upstream(script()).await;
        let proxy = setup(&upstream, "").start().await;
        let body = stream(&proxy, path).await;
        assert!(body.contains("Let me look.") && body.contains("It rains."), "{body}");
        assert!(!body.contains("search") && !body.contains("found"), "{body}");
    }
}

#[tokio::test]
async fn calls_can_be_lines_of_reasoning() {
    for path in PATHS {
        let (upstream, _) = upstream(script()).await;
        let mut setup = setup(&upstream, "visibility = \"reasoning\"");
        setup.execution.push_str("[[tools]]\nname = \"search\"\nprogress = \"Looking for: {query}\"\n");
        let proxy = setup.start().await;
        let body = stream(&proxy, path).await;
        let reasoning = events(&body).into_iter().filter_map(|event| {
            let places = ["/choices/0/delta/reasoning_content", "/delta/thinking"];
            let text = places.iter().find_map(|place| event.pointer(place)?.as_str().map(str::to_owned));
            let is_delta = event["type"]
                .as_str()
                .is_some_and(|kind| kind.contains("reasoning") && kind.ends_with("delta"));
            text.or_else(|| event["delta"].as_str().filter(|_| is_delta).map(str::to_owned))
        });
        let reasoning: String = reasoning.collect();
        assert!(
            reasoning.starts_with("Looking for: ")
                && reasoning.contains("\nsearch: ")
                && reasoning.ends_with('\n'),
            "{path} {reasoning:?} {body}"
        );
        assert!(body.contains("It rains."), "{body}");
    }
}

/// Pages that a hosted search found are cited by the text that follows, whether or not the search is shown.
#[tokio::test]
async fn pages_of_hosted_searches_are_cited() {
    let found = json!({"results": [{"title": "A", "url": "https://a.example/"}, {"title": "B", "url": "https://b.example/"}]});
    for path in PATHS {
        for visibility in ["off", "reasoning", "items"] {
            let script = script().map(|response| response.replace("\"search\"", "\"web_search\""));
            let (upstream, _) = upstream(script).await;
            let mut setup = setup(&upstream, &format!("visibility = \"{visibility}\""));
            setup.execution.push_str(&format!(
                "[[providers]]\nname = \"web_search\"\nkind = \"command\"\ncommand = [\"echo\", '{found}']\n"
            ));
            let proxy = setup.start().await;
            let body = stream(&proxy, path).await;
            let what = format!("{path} {visibility}: {body}");
            let events = events(&body);
            let cited: Vec<_> = match path {
                "/v1/chat/completions" => {
                    let lists = events
                        .iter()
                        .filter_map(|event| event.pointer("/choices/0/delta/annotations")?.as_array());
                    lists.flatten().map(|cited| cited["url_citation"].clone()).collect()
                }
                "/v1/messages" => {
                    events.iter().filter_map(|event| event.pointer("/delta/citation").cloned()).collect()
                }
                _ => {
                    let last = events.last().unwrap()["response"]["output"].as_array().unwrap();
                    let parts = last.iter().filter_map(|item| item["content"][0]["annotations"].as_array());
                    parts.flatten().cloned().collect()
                }
            };
            let urls: Vec<_> = cited.iter().map(|cited| cited["url"].as_str().unwrap()).collect();
            assert_eq!(urls, ["https://a.example/", "https://b.example/"], "{what}");
            match path {
                "/v1/chat/completions" => assert_eq!(cited[0]["start_index"], 12, "{what}"),
                "/v1/messages" => {
                    let usage = &events[events.len() - 2]["usage"]["server_tool_use"]["web_search_requests"];
                    assert_eq!(usage.as_u64(), (visibility == "items").then_some(1), "{what}");
                }
                _ => {}
            }
            assert!(!body.contains("\"text\":\"\",\"citations"), "{what}");
        }
    }
}

#[tokio::test]
async fn calls_can_be_items_of_the_client_s_dialect() {
    for path in PATHS {
        let (upstream, _) = upstream(script()).await;
        let proxy = setup(&upstream, "visibility = \"items\"").start().await;
        let body = stream(&proxy, path).await;
        let kinds: Vec<String> =
            events(&body).iter().filter_map(|event| Some(event["type"].as_str()?.to_owned())).collect();
        match path {
            "/v1/responses" => {
                let own: Vec<_> = kinds.iter().filter(|kind| kind.contains("mcp_call")).collect();
                assert!(own.iter().any(|kind| kind.ends_with("in_progress")), "{own:?}");
                assert!(own.iter().any(|kind| kind.ends_with("completed")), "{own:?}");
                assert!(body.contains(r#""output":"found "#), "{body}");
            }
            "/v1/messages" => {
                assert!(body.contains("server_tool_use") || body.contains("mcp_tool_use"), "{body}");
                assert!(
                    body.contains("mcp_tool_result") || body.contains("web_search_tool_result"),
                    "{body}"
                );
            }
            _ => assert!(body.contains("found "), "{body}"),
        }
        assert!(!body.contains("\"tool_use\"") && !body.contains("\"tool_calls\":["), "{body}");
    }
}

#[tokio::test]
async fn hosted_tools_are_counted_as_they_would_be_sent() {
    let counted = async |execution: bool, fields: Value| {
        let (upstream, asked) = upstream([]).await;
        let setup = if execution { setup(&upstream, "") } else { Setup::new(upstream.address) };
        let proxy = setup.start().await;
        let mut body =
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        let request = Request::post(proxy.url("/v1/messages/count_tokens"));
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        let reply = Client::new().send(request).await.unwrap().json().await;
        assert!(asked.lock().unwrap().is_empty());
        reply["input_tokens"].as_u64().unwrap()
    };
    let search = json!({"name": "search", "description": "Searches.",
        "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}}});
    let alone = counted(false, json!({})).await;
    assert!(counted(true, json!({})).await > counted(false, json!({"tools": [search]})).await);
    assert_eq!(counted(true, json!({"tool_choice": {"type": "none"}})).await, alone);
}

/// A Messages upstream rejects blocks for calls that its own servers did not run, so they are sent as ordinary
/// calls with results.
#[tokio::test]
async fn shown_calls_that_a_client_sends_back_do_not_reach_an_upstream_of_messages() {
    for name in ["web_search", "search"] {
        let call = json!({"tool_calls": [{"index": 0, "id": "toolu_1", "type": "function",
            "function": {"name": name, "arguments": "{\"query\":\"rain\"}"}}]});
        let hops = [
            Speech::Messages.stream(&[
                json!(["m", "Hm."]),
                json!(["d", call]),
                json!(["fin", "tool_calls"]),
                json!(["done"]),
            ]),
            Speech::Messages.says(&["It rains."], "stop"),
            Speech::Messages.says(&["Yes."], "stop"),
        ];
        let (upstream, asked) = speaking(hops.to_vec(), 1 << 20).await;
        let mut setup = setup(&upstream, "visibility = \"items\"");
        setup.execution = setup.execution.replace("name = \"search\"", &format!("name = \"{name}\""));
        setup.upstream.options = UpstreamDialect::try_from(Dialect::Messages).unwrap();
        let proxy = setup.start().await;
        let mut messages = vec![json!({"role": "user", "content": "hi"})];
        for expected in ["It rains.", "Yes."] {
            let body = json!({"model": "m", "max_tokens": 99, "messages": messages});
            let request = Request::post(proxy.url("/v1/messages")).header("content-type", "application/json");
            let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
            let message = Client::new().send(request).await.unwrap().json().await;
            assert!(message.to_string().contains(expected), "{message}");
            messages.push(json!({"role": "assistant", "content": message["content"]}));
            messages.push(json!({"role": "user", "content": "Sure?"}));
        }
        let shown = messages[1].to_string();
        assert!(shown.contains("_tool_use\"") && shown.contains("_tool_result\""), "{shown}");
        let asked = asked.lock().unwrap();
        let history = asked[2]["messages"].to_string();
        for foreign in
            ["server_tool_use", "mcp_tool_use", "web_search_tool_result", "mcp_tool_result", "toolwire"]
        {
            assert!(!history.contains(foreign), "{history}");
        }
        // The block of a search cannot carry this result.
        assert_eq!(history.contains("found "), name == "search", "{history}");
        assert!(history.contains("Hm.") && history.contains("It rains."), "{history}");
    }
}

/// The model is taught the tools in a text format.
#[tokio::test]
async fn calls_written_as_text_are_run() {
    let written = "Hm. <tool_call>\\n{\\\"name\\\": \\\"search\\\", \\\"arguments\\\": {\\\"query\\\": \\\"x\\\"}}\\n</tool_call>";
    for cut in [1, 7, 1000] {
        let written: String = serde_json::from_str(&format!("\"{written}\"")).unwrap();
        let letters: Vec<char> = written.chars().collect();
        let pieces = letters.chunks(cut).map(|piece| text(&piece.iter().collect::<String>()));
        let first = pieces.collect::<String>() + &end("stop");
        let (upstream, asked) = upstream([first, text("Done.") + &end("stop")]).await;
        let mut setup = setup(&upstream, "");
        setup.tools = ToolStyle::Format(&HERMES);
        let proxy = setup.start().await;
        let body = Client::new().chat(&proxy, STREAM).await.rest().await;
        assert!(!body.contains("tool_call") && !body.contains("search"), "{body}");
        assert!(body.contains("Done."), "{body}");
        let asked = asked.lock().unwrap();
        // The call and its result are repeated in the format that the model was taught.
        let messages = asked[1]["messages"].as_array().unwrap();
        let last = messages.iter().map(|message| message["content"].as_str().unwrap()).collect::<Vec<_>>();
        assert!(
            messages.iter().all(|message| message["role"] != "tool" && message.get("tool_calls").is_none())
        );
        assert!(last[last.len() - 2].contains("<tool_call>\n{\"name\": \"search\""), "{last:?}");
        assert!(last[last.len() - 1].contains("found {"), "{last:?}");
    }
}

/// Lumo sends the call on the channel for its own tools.
#[tokio::test]
async fn calls_on_lumo_s_channel_are_run() {
    let call = "data: {\"object\":\"chat.tool_call\",\"tool_call\":{\"id\":\"n1\",\"name\":\"search\",\
        \"arguments\":\"{\\\"query\\\":\\\"x\\\"}\"}}\n\n";
    let refused = "data: {\"object\":\"chat.tool_result\",\"tool_result\":{\"call_id\":\"n1\",\"content\":\"{\\\"error\\\":true}\"}}\n\n";
    let sorry = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Sorry.\"}}]}\n\n";
    let done = "data: [DONE]\n\n";
    let first = format!("{call}{refused}{call}{refused}{sorry}{done}");
    let second = sorry.replace("Sorry.", "It rains.") + done;
    let (upstream, asked) = upstream([first, second]).await;
    let mut setup = setup(&upstream, "");
    setup.upstream.options = UpstreamDialect::Lumo(lumo::Options::default());
    let proxy = setup.start().await;
    let body = Client::new().chat(&proxy, STREAM).await.rest().await;
    assert!(body.contains("It rains.") && !body.contains("Sorry") && !body.contains("search"), "{body}");
    let asked = asked.lock().unwrap();
    let again = asked[1].to_string();
    assert_eq!(again.matches("found ").count(), 1, "{again}");
}
