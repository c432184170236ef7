//! Tests small requests that cause a lot of work: each must be answered or refused, and the next request served.

use serde_json::{Value, json};
use toolwire::{config::ToolStyle, format::HERMES};

use crate::support::{
    client::{Client, WHOLE},
    proxy::Setup,
    upstream::{Upstream, at_once},
};

/// A request with a tool whose `parameters` are given as JSON.
fn with_schema(parameters: &str) -> String {
    let tool = format!(r#"{{"type":"function","function":{{"name":"f","parameters":{parameters}}}}}"#);
    with_tools(&tool)
}

fn with_tools(tools: &str) -> String {
    format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"tools":[{tools}],"tool_choice":"required"}}"#
    )
}

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    open.repeat(times) + inner + &close.repeat(times)
}

/// Returns the requests, each with whether it must be refused. `None` means that either outcome is fine.
fn bombs() -> Vec<(&'static str, String, Option<bool>)> {
    let doubling: serde_json::Map<_, _> = (0..40)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            (
                format!("d{level}"),
                json!({"type": "object", "properties": {"a": next, "b": next}, "required": ["a", "b"]}),
            )
        })
        .collect();
    let doubling = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": doubling});
    let looping = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    let values: Vec<_> = (0..100_000).map(|number| Value::from(format!("v{number}"))).collect();
    let choice = json!({"type": "object", "properties": {"x": {"enum": values}}});
    let least = json!({"type": "object", "properties": {"x": {"type": "array", "minItems": 1_000_000_000, "items": {"type": "string", "minLength": 1_000_000_000}}}, "required": ["x"]});
    let text = "d".repeat(1 << 20);
    let described =
        json!({"type": "object", "description": text, "properties": {"x": {"description": text}}});
    let patterns = json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "(a*)*(a*)*(a*)*b{1,1000}{1,1000}"}}});
    let function =
        |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}}).to_string();
    let same = [function("f"), function("f"), function("F")].join(",");
    let anys = nested(r#"{"anyOf":["#, "{}", "]}", 60);
    let message =
        |content: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#);
    vec![
        ("doubling references", with_schema(&doubling.to_string()), None),
        ("looping references", with_schema(&looping.to_string()), None),
        ("reference to itself", with_schema(r##"{"$ref":"#"}"##), None),
        ("deep schema", with_schema(&nested(r#"{"type":"array","items":"#, "{}", "}", 5000)), Some(true)),
        ("choices of choices", with_schema(&anys), None),
        ("many values", with_schema(&choice.to_string()), None),
        ("huge minimum", with_schema(&least.to_string()), None),
        ("long descriptions", with_schema(&described.to_string()), None),
        ("costly pattern", with_schema(&patterns.to_string()), None),
        ("equal names", with_tools(&same), None),
        ("long name", with_tools(&function(&"n".repeat(100_000))), None),
        ("deep array", message(&"[".repeat(100_000)), Some(true)),
        ("deep content", message(&nested("[", "1", "]", 50_000)), Some(true)),
        (
            "long number",
            format!(r#"{{"model":"m","temperature":{},"messages":[]}}"#, "9".repeat(100_000)),
            Some(true),
        ),
        (
            "many members",
            format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{}}}"#,
                (0..50_000).map(|number| format!(r#","x{number}":1"#)).collect::<String>()
            ),
            None,
        ),
        (
            "many parts",
            message(&format!("[{}]", vec![r#"{"type":"text","text":"a"}"#; 20_000].join(","))),
            Some(false),
        ),
    ]
}

#[tokio::test]
async fn every_bomb_is_answered_or_refused_and_the_next_request_is_served() {
    let upstream = Upstream::start(at_once).await;
    for tools in [ToolStyle::Native, ToolStyle::Format(&HERMES)] {
        let proxy = Setup { tools, ..Setup::new(upstream.address) }.start().await;
        let client = Client::new();
        for (name, body, is_refused) in bombs() {
            let status = client.chat(&proxy, body).await.status().as_u16();
            let expected = match is_refused {
                None => [200, 400].contains(&status),
                Some(true) => status == 400,
                Some(false) => status == 200,
            };
            assert!(expected, "{name} with {tools:?}: {status}");
            assert_eq!(client.chat(&proxy, WHOLE).await.status(), 200, "after {name}");
        }
    }
}
