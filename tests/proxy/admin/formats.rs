//! Tests the API for formats: the list, detection in a text, and instructions.

use serde_json::{Value, json};

use super::{Ask, KEY, WITH_KEY, proxy};
use crate::support::proxy::Proxy;

async fn post(proxy: &Proxy, path: &str, body: Value) -> (u16, Value) {
    Ask::new(proxy, "POST", path).key(KEY).json(&body).answer().await
}

const CALL: &str =
    "Well. <tool_call>{\"name\": \"web_search\", \"arguments\": {\"query\": \"x\"}}</tool_call>";

#[tokio::test]
async fn text_is_analysed_for_every_dialect() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let body = json!({"text": CALL, "format": "auto", "tools": ["web_search"]});
    let (status, analysis) = post(&proxy, "/admin/formats/analyze", body).await;
    assert_eq!(status, 200, "{analysis}");
    let call = &analysis["calls"][0];
    assert_eq!(
        (&call["name"], &call["format"], &call["declared"]),
        (&json!("web_search"), &json!("hermes"), &json!(true))
    );
    assert_eq!(call["ranges"]["opener"], json!([6, 17]));
    let events = analysis["events"].as_array().unwrap();
    let start = events.iter().find(|event| event["kind"] == "call_start").unwrap();
    assert_eq!((&start["name"], &start["call"]), (&json!("web_search"), &json!(1)));
    assert!(start["at"].as_u64().unwrap() > 37, "a name is certain when it is complete: {start}");
    let opener = analysis["spans"].as_array().unwrap().iter().find(|span| span["kind"] == "opener").unwrap();
    assert_eq!((&opener["rule"], &opener["why"]), (&json!("hermes.opener"), &json!("opener of hermes")));
    for dialect in ["chat", "responses", "messages"] {
        let got = analysis["clients"][dialect].as_str().unwrap();
        assert!(got.contains("web_search") && !got.contains("tool_call>"), "{dialect}: {got}");
    }
    let rejected = analysis["rejected"].as_array().unwrap();
    assert!(
        rejected.iter().any(|it| it["format"] == "fenced" && it["why"] == "there is no code fence"),
        "{rejected:?}"
    );

    let body = json!({"text": CALL, "format": "fenced", "tools": [{"name": "web_search", "input_schema": {"type": "object"}}]});
    let (_, analysis) = post(&proxy, "/admin/formats/analyze", body).await;
    assert_eq!(analysis["calls"], json!([]));
}

#[tokio::test]
async fn formats_are_listed_and_taught() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let (status, list) = Ask::new(&proxy, "GET", "/admin/formats").key(KEY).answer().await;
    assert_eq!(status, 200);
    let hermes =
        list["formats"].as_array().unwrap().iter().find(|format| format["name"] == "hermes").unwrap();
    assert!(hermes["example"].as_str().unwrap().contains("<tool_call>") && hermes["models"].is_array());
    let tool =
        json!({"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}});
    let (status, taught) =
        post(&proxy, "/admin/formats/teach", json!({"format": "hermes", "tools": [tool]})).await;
    assert_eq!(status, 200, "{taught}");
    assert!(
        taught["prompt"].as_str().unwrap().contains("get_weather") && taught["tokens"].as_u64() > Some(20),
        "{taught}"
    );
    let (status, taught) = post(&proxy, "/admin/formats/teach", json!({"format": "hermes"})).await;
    assert_eq!(
        (status, &taught["prompt"], &taught["tokens"]),
        (200, &json!(""), &json!(0)),
        "nothing is taught without tools"
    );
}

#[tokio::test]
async fn hostile_texts_and_tools_are_answered() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    let analyze = "/admin/formats/analyze";
    let deep = "[".repeat(200 << 10);
    let many: Vec<_> = (0..129).map(|number| json!(format!("tool_{number}"))).collect();
    for (body, status, path) in [
        (json!({}), 400, "text"),
        (json!({"text": 5}), 400, "text"),
        (json!({"text": "x".repeat((256 << 10) + 1)}), 413, "text"),
        (json!({"text": "x", "format": "hermse"}), 400, "format"),
        (json!({"text": "x", "format": 5}), 400, "format"),
        (json!({"text": "x", "tools": "web_search"}), 400, "tools"),
        (json!({"text": "x", "tools": [5]}), 400, "tools"),
        (json!({"text": "x", "tools": [{}]}), 400, "tools"),
        (json!({"text": "x", "tools": many}), 400, "tools"),
    ] {
        let (got, error) = post(&proxy, analyze, body).await;
        assert_eq!((got, &error["error"]["path"]), (status, &json!(path)), "{error}");
    }
    let openers = [
        "<tool_call>",
        "<think>",
        "</think>",
        "```json\n",
        "{\"name\":\"x\",\"arguments\":{\"a\":",
        "[TOOL_CALLS]",
        "<pre>{",
        "`",
    ];
    let bombs = openers.map(|opener| opener.repeat((8 << 10) / opener.len()));
    let texts = ["", "\0\r\n\u{1b}[31m", "<tool_call>", &deep];
    for text in texts.into_iter().chain(bombs.iter().map(String::as_str)).chain([&*"x".repeat(256 << 10)]) {
        let (status, analysis) = post(&proxy, analyze, json!({"text": text, "tools": ["x"]})).await;
        assert_eq!((status, &analysis["bytes"]), (200, &json!(text.len())));
    }
    let looping =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    let doubling: serde_json::Map<_, _> = (0..40)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            (format!("d{level}"), json!({"properties": {"a": next, "b": next}, "required": ["a", "b"]}))
        })
        .collect();
    let doubling = json!({"$ref": "#/$defs/d0", "$defs": doubling});
    for schema in [looping, doubling] {
        let tools = json!([{"name": "x", "input_schema": schema}]);
        for format in ["hermes", "kimi_k2", "auto"] {
            let body = json!({"text": CALL, "format": format, "tools": tools});
            assert_eq!(post(&proxy, analyze, body).await.0, 200);
            let body = json!({"format": format, "tools": tools});
            assert!([200, 400].contains(&post(&proxy, "/admin/formats/teach", body).await.0));
        }
    }
    for (body, status) in [
        (json!({}), 400),
        (json!({"format": "auto"}), 400),
        (json!({"format": "think"}), 409),
        (json!({"format": "hermes", "tools": {}}), 400),
    ] {
        assert_eq!(post(&proxy, "/admin/formats/teach", body.clone()).await.0, status, "{body}");
    }
}
