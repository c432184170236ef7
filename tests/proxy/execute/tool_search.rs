//! Tests searches for tools: those that clients declare and servers run, and those for requests with many tools.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::{
    config::{ToolSearch, ToolStyle},
    dialect::{UpstreamDialect, chat::Server, messages},
    format::HERMES,
};

use super::script::{Asked, call, end, setup as hosted_setup, text, upstream};
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
};

pub(super) async fn ask(proxy: &Proxy, path: &str, body: &Value) -> (StatusCode, String) {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let reply = Client::new().send(request).await.unwrap();
    (reply.status(), reply.rest().await)
}

pub(super) fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

pub(super) fn told(asked: &Asked, number: usize) -> Value {
    asked.lock().unwrap()[number].clone()
}

/// The content of a whole response of Messages, or the items of one of Responses.
pub(super) fn parts(body: &str) -> Vec<Value> {
    let response: Value = serde_json::from_str(body).unwrap();
    ["content", "output"].iter().find_map(|key| response[key].as_array().cloned()).expect(body)
}

pub(super) fn kinds(parts: &[Value]) -> Vec<&str> {
    parts.iter().map(|part| part["type"].as_str().unwrap()).collect()
}

/// A request of Messages with a search and two deferred tools.
pub(super) fn messages(kind: &str, fields: Value) -> Value {
    let tool = |name: &str, about: &str| {
        json!({"name": name, "description": about, "defer_loading": true,
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}})
    };
    let name = kind.strip_suffix("_20251119").unwrap_or(kind);
    let mut request = json!({
        "model": "m", "max_tokens": 99,
        "tools": [
            {"type": kind, "name": name},
            {"name": "now", "input_schema": {"type": "object"}},
            tool("get_weather", "The forecast for a city."),
            tool("send_mail", "Sends a message."),
        ],
        "messages": [{"role": "user", "content": "How is the weather in Paris?"}],
    });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request
}

fn search(name: &str, arguments: &Value) -> String {
    call(0, "call_s", name, &arguments.to_string()) + &end("tool_calls")
}

fn weather_call() -> String {
    call(0, "call_w", "get_weather", r#"{"city":"Paris"}"#) + &end("tool_calls")
}

#[tokio::test]
async fn searches_of_messages_are_run_and_shown_as_their_blocks() {
    let searches = [
        ("tool_search_tool_bm25_20251119", json!({"query": "weather forecast"})),
        ("tool_search_tool_bm25", json!({"query": "weather"})),
        ("tool_search_tool_regex_20251119", json!({"pattern": "(?i)WEATHER"})),
        ("tool_search_tool_regex", json!({"pattern": "fore.ast"})),
    ];
    for (kind, arguments) in searches {
        let name = kind.strip_suffix("_20251119").unwrap_or(kind);
        let script = [search(name, &arguments), weather_call(), text("It rains.") + &end("stop")];
        let (upstream, asked) = upstream(script).await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut request = messages(kind, json!({}));
        let (status, body) = ask(&proxy, "/v1/messages", &request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let content = parts(&body);
        assert_eq!(kinds(&content), ["server_tool_use", "tool_search_tool_result", "tool_use"], "{body}");
        assert_eq!((&content[0]["name"], &content[0]["input"]), (&json!(name), &arguments));
        assert_eq!(content[0]["id"], content[1]["tool_use_id"]);
        let found = json!({"type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "get_weather"}]});
        assert_eq!(content[1]["content"], found);
        assert_eq!(content[2]["name"], "get_weather");
        assert_eq!(names(&told(&asked, 0)), [name, "now"]);
        assert_eq!(names(&told(&asked, 1)), [name, "now", "get_weather"]);
        // The result is the same now and when the client sends it back, so caches keep it.
        let result = json!({"role": "tool", "tool_call_id": "call_s", "content": "Loaded: get_weather"});
        assert_eq!(told(&asked, 1)["messages"].as_array().unwrap().last(), Some(&result));

        // The loaded tool stays loaded when the client sends the blocks back.
        let used = content[2]["id"].clone();
        let history = request["messages"].as_array_mut().unwrap();
        history.push(json!({"role": "assistant", "content": content}));
        history.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": used, "content": "rain"}]}));
        let (_, body) = ask(&proxy, "/v1/messages", &request).await;
        assert!(body.contains("It rains."), "{body}");
        let last = told(&asked, 2);
        assert_eq!(names(&last), [name, "now", "get_weather"]);
        assert_eq!(last["messages"][2], result, "{last}");
    }
}

#[tokio::test]
async fn streams_show_the_same_blocks() {
    let (upstream, _) = upstream([
        text("Let me look.") + &search("tool_search_tool_bm25", &json!({"query": "weather"})),
        text("Here.") + &weather_call(),
    ])
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let request = messages("tool_search_tool_bm25", json!({"stream": true}));
    let (_, body) = ask(&proxy, "/v1/messages", &request).await;
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|data| serde_json::from_str(data).unwrap()).collect();
    let begun: Vec<&str> =
        events.iter().filter_map(|event| event["content_block"]["type"].as_str()).collect();
    assert_eq!(begun, ["text", "server_tool_use", "tool_search_tool_result", "text", "tool_use"], "{body}");
    assert!(body.contains("\"stop_reason\":\"tool_use\""), "{body}");
}

/// A request of Responses with a search, a deferred function and a namespace.
pub(super) fn responses(fields: Value) -> Value {
    let function = |name: &str, about: &str| {
        json!({"type": "function", "name": name, "description": about, "defer_loading": true,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}, "strict": false})
    };
    let mut request = json!({
        "model": "m", "store": false, "input": [{"role": "user", "content": "weather?"}],
        "tools": [
            {"type": "tool_search"},
            function("send_mail", "Sends a message."),
            {"type": "namespace", "name": "sky", "description": "Weather.", "tools": [
                function("get_weather", "The weather forecast for a city."),
                function("moon", "Phases of the moon.")]},
        ],
    });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request
}

#[tokio::test]
async fn searches_of_responses_are_run_and_shown_as_their_items() {
    let weather = call(0, "call_w", "sky__get_weather", r#"{"city":"Paris"}"#) + &end("tool_calls");
    let script =
        [search("tool_search", &json!({"query": "forecast"})), weather, text("It rains.") + &end("stop")];
    for stream in [false, true] {
        let (upstream, asked) = upstream(script.clone()).await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut request = responses(json!({"stream": stream}));
        let (_, body) = ask(&proxy, "/v1/responses", &request).await;
        let output = match stream {
            false => parts(&body),
            true => {
                let last = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
                let last: Value = serde_json::from_str(last).unwrap();
                assert!(body.contains("response.output_item.added"), "{body}");
                last["response"]["output"].as_array().cloned().expect(&body)
            }
        };
        assert_eq!(kinds(&output), ["tool_search_call", "tool_search_output", "function_call"], "{body}");
        let expected = json!({"execution": "server", "call_id": null, "status": "completed",
            "arguments": {"query": "forecast"}});
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&output[0][key], value, "{key}");
        }
        let found = &output[1]["tools"];
        assert_eq!((&found[0]["type"], &found[0]["name"]), (&json!("namespace"), &json!("sky")), "{found}");
        assert_eq!(found[0]["tools"].as_array().unwrap().len(), 1);
        assert_eq!(found[0]["tools"][0]["name"], "get_weather");
        assert_eq!((&output[2]["namespace"], &output[2]["name"]), (&json!("sky"), &json!("get_weather")));
        assert_eq!(names(&told(&asked, 0)), ["tool_search"]);
        assert_eq!(names(&told(&asked, 1)), ["tool_search", "sky__get_weather"]);

        let id = output[2]["call_id"].clone();
        let input = request["input"].as_array_mut().unwrap();
        input.extend(output);
        input.push(json!({"type": "function_call_output", "call_id": id, "output": "rain"}));
        ask(&proxy, "/v1/responses", &request).await;
        let last = told(&asked, 2);
        assert_eq!(names(&last), ["tool_search", "sky__get_weather"]);
        assert_eq!(last["messages"][2]["content"], "Loaded: sky__get_weather", "{last}");
    }
}

#[tokio::test]
async fn upstream_of_the_same_dialect_gets_everything_as_written() {
    let (upstream, asked) = upstream([String::new()]).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.options =
        UpstreamDialect::Messages(messages::Options { server: Server::Other, ..Default::default() });
    let proxy = setup.start().await;
    let request = messages("tool_search_tool_regex_20251119", json!({}));
    ask(&proxy, "/v1/messages", &request).await;
    let sent = told(&asked, 0)["tools"].as_array().cloned().unwrap();
    let declared = request["tools"].as_array().unwrap();
    assert_eq!(sent.len(), declared.len());
    assert!(declared.iter().all(|tool| sent.contains(tool)), "{sent:?}");
}

#[tokio::test]
async fn wrong_searches_tell_the_model_and_the_client_why() {
    let long = "a".repeat(201);
    for (pattern, why) in [
        (json!({"pattern": "("}), "unclosed group"),
        (json!({"pattern": "(?=x)"}), "look-around"),
        (json!({"pattern": "(a{1000}){1000}"}), "size limit"),
        (json!({ "pattern": long }), "longer than 200"),
        (json!({"pattern": ""}), "must be an object"),
        (json!([]), "must be an object"),
    ] {
        let (upstream, asked) =
            upstream([search("tool_search_tool_regex", &pattern), text("No.") + &end("stop")]).await;
        let proxy = Setup::new(upstream.address).start().await;
        let (_, body) = ask(&proxy, "/v1/messages", &messages("tool_search_tool_regex", json!({}))).await;
        let content = parts(&body);
        assert_eq!(kinds(&content), ["server_tool_use", "tool_search_tool_result", "text"], "{body}");
        let error = &content[1]["content"];
        assert_eq!(error["type"], "tool_search_tool_result_error");
        assert_eq!(error["error_code"], "invalid_tool_input");
        assert!(error["error_message"].as_str().unwrap().contains(why), "{error}");
        let last = told(&asked, 1)["messages"].as_array().unwrap().last().cloned().unwrap();
        assert!(last["content"].as_str().unwrap().contains(why), "{last}");
    }
}

#[tokio::test]
async fn search_without_a_result_says_so() {
    let script = [search("tool_search_tool_bm25", &json!({"query": "xyzzy"})), text("No.") + &end("stop")];
    let (upstream, _) = upstream(script).await;
    let proxy = Setup::new(upstream.address).start().await;
    let (_, body) = ask(&proxy, "/v1/messages", &messages("tool_search_tool_bm25", json!({}))).await;
    let found = json!({"type": "tool_search_tool_search_result", "tool_references": []});
    assert_eq!(parts(&body)[1]["content"], found, "{body}");
}

/// The search is offered only so many times, and a model that goes on gets no further requests.
#[tokio::test]
async fn model_that_searches_forever_is_stopped() {
    let script = (0..100).map(|number| {
        let arguments = json!({ "query": format!("weather {number}") });
        call(0, &format!("call_{number}"), "tool_search_tool_bm25", &arguments.to_string())
            + &end("tool_calls")
    });
    let (upstream, asked) = upstream(script).await;
    let proxy = Setup::new(upstream.address).start().await;
    let (status, body) = ask(&proxy, "/v1/messages", &messages("tool_search_tool_bm25", json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.contains("hosted_calls_exhausted"), "{body}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 9);
    assert_eq!(names(&asked[8]), ["now", "get_weather"]);
}

#[tokio::test]
async fn required_and_named_tools_are_shown() {
    // A deferred tool that is chosen is shown at once.
    let (upstream_, asked) = upstream([weather_call()]).await;
    let proxy = Setup::new(upstream_.address).start().await;
    let choice = json!({"tool_choice": {"type": "tool", "name": "get_weather"}});
    let (_, body) = ask(&proxy, "/v1/messages", &messages("tool_search_tool_bm25", choice)).await;
    assert_eq!(kinds(&parts(&body)), ["tool_use"]);
    let first = told(&asked, 0);
    assert!(names(&first).contains(&"get_weather"), "{first}");
    assert_eq!(first["tool_choice"]["function"]["name"], "get_weather");

    // A search is not the call that the client requires.
    let script = [search("tool_search_tool_bm25", &json!({"query": "weather"})), weather_call()];
    let (upstream_, asked) = upstream(script.clone()).await;
    let proxy = Setup::new(upstream_.address).start().await;
    let choice = json!({"tool_choice": {"type": "any"}});
    ask(&proxy, "/v1/messages", &messages("tool_search_tool_bm25", choice)).await;
    assert_eq!(told(&asked, 1)["tool_choice"], "required");

    // The search itself can be chosen, and then the model may go on as it likes.
    let (upstream_, asked) = upstream(script).await;
    let proxy = Setup::new(upstream_.address).start().await;
    let choice = json!({"tool_choice": {"type": "tool", "name": "tool_search_tool_bm25"}});
    ask(&proxy, "/v1/messages", &messages("tool_search_tool_bm25", choice)).await;
    assert_eq!(told(&asked, 0)["tool_choice"]["function"]["name"], "tool_search_tool_bm25");
    assert!(told(&asked, 1).get("tool_choice").is_none_or(|choice| choice == "auto"));
}

#[tokio::test]
async fn odd_declarations_are_served() {
    let tool = |name: &str| json!({"name": name, "defer_loading": true, "input_schema": {"type": "object"}});
    let search = json!({"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"});
    // All tools are deferred; no tool is; a reference to a tool that does not exist; the search twice,
    // and once by another name.
    let all = json!([search, tool("a"), tool("b")]);
    let none = json!([search, {"name": "a", "input_schema": {"type": "object"}}]);
    let other = json!({"type": "tool_search_tool_bm25_20251119", "name": "other"});
    let twice = json!([search, search, other, tool("a")]);
    let long = json!([search, tool(&"n".repeat(256)), tool("größe ändern")]);
    let reference = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "gone"},
                {"type": "tool_reference", "tool_name": "b"}]}}]},
        {"role": "user", "content": "go on"}]);
    let hi = json!([{"role": "user", "content": "hi"}]);
    let cases = [
        (&all, &hi, vec!["tool_search_tool_bm25"]),
        (&none, &hi, vec!["a"]),
        (&twice, &hi, vec!["tool_search_tool_bm25"]),
        (&long, &hi, vec!["tool_search_tool_bm25"]),
        (&all, &reference, vec!["tool_search_tool_bm25", "b"]),
    ];
    for (tools, turns, shown) in cases {
        let (upstream, asked) = upstream([text("Hi.") + &end("stop")]).await;
        let proxy = Setup::new(upstream.address).start().await;
        let request = messages("tool_search_tool_bm25", json!({"tools": tools, "messages": turns}));
        let (status, body) = ask(&proxy, "/v1/messages", &request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!(names(&told(&asked, 0)), shown, "{tools}");
    }
}

/// A request of Chat Completions with many tools, of which number 7 tells the weather.
fn many(count: usize, fields: Value) -> Value {
    let tool = |number: usize| {
        let about = if number == 7 { "The weather forecast" } else { "Another thing" };
        json!({"type": "function", "function": {"name": format!("tool_{number}"), "description": about,
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}})
    };
    let mut request = json!({
        "model": "m", "tools": (0..count).map(tool).collect::<Vec<_>>(),
        "messages": [{"role": "user", "content": "How is the weather?"}],
    });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    request
}

#[tokio::test]
async fn many_tools_are_searched_without_the_client_s_knowledge() {
    for stream in [false, true] {
        let other = call(0, "call_o", "tool_42", "{}") + &end("tool_calls");
        let (upstream, asked) = upstream([search("tool_search", &json!({"query": "42"})), other]).await;
        let proxy = Setup::new(upstream.address).start().await;
        let (_, body) = ask(&proxy, "/v1/chat/completions", &many(129, json!({"stream": stream}))).await;
        assert!(body.contains("tool_42") && body.contains("\"tool_calls\""), "{body}");
        assert!(!body.contains("tool_search") && !body.contains("Loaded"), "{body}");
        let first = told(&asked, 0);
        assert_eq!(names(&first), ["tool_search", "tool_7"]);
        assert!(first["tools"][0]["function"]["description"].as_str().unwrap().contains("tool_128"));
        let second = told(&asked, 1);
        assert_eq!(names(&second), ["tool_search", "tool_7", "tool_42"]);
    }
}

#[tokio::test]
async fn few_tools_are_all_shown() {
    let size = |count, setting| async move {
        let (upstream, asked) = upstream([text("Hi.") + &end("stop")]).await;
        let mut setup = Setup::new(upstream.address);
        setup.tool_search = setting;
        let proxy = setup.start().await;
        ask(&proxy, "/v1/chat/completions", &many(count, json!({}))).await;
        names(&told(&asked, 0)).len()
    };
    for (count, setting, shown) in [
        (128, ToolSearch::Auto, 128),
        (129, ToolSearch::Auto, 2),
        (129, ToolSearch::Off, 129),
        (9, ToolSearch::From(10), 9),
        (10, ToolSearch::From(10), 2),
        (0, ToolSearch::From(1), 0),
    ] {
        assert_eq!(size(count, setting).await, shown, "{count} {setting:?}");
    }
}

/// A tool that was not shown can be called as well.
#[tokio::test]
async fn tools_that_were_not_shown_can_be_called() {
    for (style, script) in [
        (ToolStyle::Native, call(0, "call_1", "tool_99", r#"{"x":"1"}"#) + &end("tool_calls")),
        (
            ToolStyle::Format(&HERMES),
            text("<tool_call>\n{\"name\": \"tool_99\", \"arguments\": {\"x\": \"1\"}}\n</tool_call>")
                + &end("stop"),
        ),
    ] {
        let (upstream, asked) = upstream([script]).await;
        let mut setup = Setup::new(upstream.address);
        setup.tools = style;
        let proxy = setup.start().await;
        let (_, body) = ask(&proxy, "/v1/chat/completions", &many(200, json!({}))).await;
        let response: Value = serde_json::from_str(&body).unwrap();
        let call = &response["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "tool_99", "{body}");
        let first = told(&asked, 0).to_string();
        assert!(first.contains("tool_7") && !first.contains("tool_99("), "{first}");
    }
}

/// The list of shown tools only grows at its end while the conversation grows.
#[tokio::test]
async fn shown_tools_of_earlier_requests_come_first() {
    let mut turns = vec![json!({"role": "user", "content": "How is the weather?"})];
    let more = [
        json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function",
            "function": {"name": "tool_150", "arguments": "{}"}}]}),
        json!({"role": "tool", "tool_call_id": "a", "content": "x"}),
        json!({"role": "assistant", "content": "Done."}),
        json!({"role": "user", "content": "And now number 33, please."}),
        json!({"role": "assistant", "content": "Done."}),
        json!({"role": "user", "content": "Yes, do it."}),
    ];
    let mut before: Vec<String> = Vec::new();
    for turn in [Vec::new(), more[..2].to_vec(), more[2..4].to_vec(), more[4..].to_vec()] {
        turns.extend(turn);
        let (upstream, asked) = upstream([text("Hi.") + &end("stop")]).await;
        let proxy = Setup::new(upstream.address).start().await;
        ask(&proxy, "/v1/chat/completions", &many(200, json!({ "messages": turns }))).await;
        let request = told(&asked, 0);
        let shown: Vec<String> = names(&request).into_iter().map(str::to_owned).collect();
        assert!(shown.starts_with(&before), "{before:?} {shown:?}");
        before = shown;
    }
    assert_eq!(before, ["tool_search", "tool_7", "tool_150", "tool_33"]);
}

#[tokio::test]
async fn search_stands_beside_hosted_tools() {
    let both = call(0, "call_h", "search", r#"{"query":"rain"}"#)
        + &call(1, "call_s", "tool_search", r#"{"query":"42"}"#)
        + &end("tool_calls");
    let (upstream, asked) = upstream([both, text("Done.") + &end("stop")]).await;
    let proxy = hosted_setup(&upstream, "visibility = \"items\"").start().await;
    let (_, body) = ask(&proxy, "/v1/chat/completions", &many(200, json!({}))).await;
    assert!(body.contains("Done.") && body.contains("found ") && !body.contains("Loaded"), "{body}");
    let second = told(&asked, 1);
    let results: Vec<&str> = second["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|turn| turn["role"] == "tool")
        .map(|turn| turn["content"].as_str().unwrap())
        .collect();
    assert_eq!(results.len(), 2);
    assert!(results[0].starts_with("found ") && results[1] == "Loaded: tool_42", "{results:?}");
    assert!(names(&second).contains(&"tool_42"));
}

/// The client's next request cannot contain the result, so the search is not run; the model can search again.
#[tokio::test]
async fn search_beside_a_call_of_the_client_is_left_out() {
    for hosted in [false, true] {
        let both = call(0, "call_w", "tool_7", "{}")
            + &call(1, "call_s", "tool_search", r#"{"query":"42"}"#)
            + &end("tool_calls");
        let (upstream, asked) = upstream([both]).await;
        let setup = if hosted { hosted_setup(&upstream, "") } else { Setup::new(upstream.address) };
        let proxy = setup.start().await;
        let (_, body) = ask(&proxy, "/v1/chat/completions", &many(200, json!({}))).await;
        let response: Value = serde_json::from_str(&body).unwrap();
        let calls = response["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{body}");
        assert_eq!(response["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn ten_thousand_tools_are_served() {
    let (upstream, asked) =
        upstream([search("tool_search", &json!({"query": "9999"})), text("Hi.") + &end("stop")]).await;
    let proxy = Setup::new(upstream.address).start().await;
    let (status, _) = ask(&proxy, "/v1/chat/completions", &many(10_000, json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(names(&told(&asked, 1)), ["tool_search", "tool_7", "tool_9999"]);
    assert!(told(&asked, 0).to_string().contains("It finds 10000 tools."));
}
