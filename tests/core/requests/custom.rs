//! Tests custom tools, whose input is plain text, with upstreams that only support functions. The client declares
//! such tools and gets calls to them as if the upstream supported them.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::{Answering, Reader, Stamp, Writer, chat},
    format::{self, KnownFormats},
    pipeline::Pipeline,
    rules::{Detect, Rules},
};

use crate::requests::{call, decoded, encoded, lumo, plain, taught};
use crate::support::client::Answer;

fn request() -> Value {
    json!({
        "model": "m", "stream": true,
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT \"a\"\n"}}, call("c2", "now"),
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
        ],
        "tools": [
            {"type": "custom", "custom": {"name": "sql", "description": "runs SQL", "format":
                {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x/"}}}},
            {"type": "function", "function": {"name": "now"}},
        ],
        "tool_choice": {"type": "custom", "custom": {"name": "sql"}},
    })
}

#[test]
fn custom_tool_becomes_a_function_with_one_argument_if_unsupported() {
    let body = encoded(&decoded(&request()), &plain());
    let function = &body["tools"][0]["function"];
    assert_eq!((&function["name"], &function["description"]), (&json!("sql"), &json!("runs SQL")));
    assert_eq!(function["parameters"]["required"], json!(["input"]));
    let input = &function["parameters"]["properties"]["input"];
    assert_eq!(input["type"], "string");
    assert!(input["description"].as_str().unwrap().contains("start: /x/"), "{input}");
    assert_eq!(body["tools"][1], request()["tools"][1]);
    assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "sql"}}));
    let arguments = json!({"input": "SELECT \"a\"\n"}).to_string();
    assert_eq!(
        body["messages"][1]["tool_calls"],
        json!([{"id": "c1", "type": "function", "function": {"name": "sql", "arguments": arguments}}, call("c2", "now")])
    );
    assert!(!body.to_string().contains("\"custom\""), "{body}");
}

#[test]
fn custom_tool_is_kept_if_supported() {
    let kept = encoded(&decoded(&request()), &chat::Options::default());
    for key in ["messages", "tools", "tool_choice"] {
        assert_eq!(kept[key], request()[key]);
    }
}

#[test]
fn custom_tool_is_taught_and_declared_to_lumo_as_a_function() {
    let body = taught(&request(), "hermes");
    let system = body["messages"][0]["content"].as_str().unwrap();
    assert!(
        system.contains("\nsql(input: string (The whole input") && system.contains("): runs SQL\n"),
        "{system}"
    );
    let shown = body["messages"][2]["content"].as_str().unwrap();
    assert!(shown.contains(r#"{"name": "sql", "arguments": {"input": "SELECT \"a\"\n"}}"#), "{shown}");
    let body = lumo(&request());
    let tools = body["tools"].as_array().unwrap();
    assert!(
        tools.iter().any(|tool| tool["function"]["parameters"]["required"] == json!(["input"])),
        "{body}"
    );
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let chunk = json!({
        "id": "i", "object": "chat.completion.chunk", "created": 1, "model": "up",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    });
    format!("data: {chunk}\n\n")
}

/// Returns what the client gets for an upstream's deltas, with the body split after `cut` bytes.
fn answer(deltas: &[Value], stream: bool, detect: &str, cut: usize) -> String {
    let mut body: String = deltas.iter().map(|delta| chunk(delta, None)).collect();
    body += &chunk(&json!({}), Some("tool_calls"));
    body += "data: [DONE]\n\n";
    answer_to(&body, stream, detect, cut)
}

/// Like [`answer`], but takes the upstream's complete body.
fn answer_to(body: &str, stream: bool, detect: &str, cut: usize) -> String {
    let mut request = request();
    request["stream"] = stream.into();
    request["tool_choice"] = "auto".into();
    let conversation = decoded(&request);
    let answering = Answering::new(&conversation, Stamp { seed: 1, created: 1 });
    let settings = match format::by_name(detect) {
        Some(format) => Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() },
        None => Rules::default(),
    };
    let reader = chat::ReaderSettings {
        max_frame: 1 << 20,
        verbatim: true,
        cumulative: false,
        tolerate_truncation: false,
    };
    let mut pipeline = Pipeline::new(
        &conversation,
        &settings,
        KnownFormats::built_in(),
        Reader::Chat(chat::Reader::new(reader)),
        Writer::Chat(chat::Writer::new(&answering)),
        &answering,
    );
    let mut out = BytesMut::new();
    let (head, tail) = body.as_bytes().split_at(cut.min(body.len()));
    pipeline.push(head, &mut out);
    pipeline.push(tail, &mut out);
    pipeline.finish(&mut out);
    assert!(pipeline.failure().is_none(), "{:?}", pipeline.failure());
    String::from_utf8(out.to_vec()).unwrap()
}

fn assembled(stream: &str) -> Answer {
    Answer::of_stream(stream.as_bytes())
}

fn native(delta: &Value) -> Value {
    json!({"tool_calls": [delta]})
}

/// Native calls to `sql` and `now`, in frames that could be forwarded unchanged.
fn native_calls() -> Vec<Value> {
    vec![
        json!({"role": "assistant", "content": null}),
        native(
            &json!({"index": 0, "id": "u1", "type": "function", "function": {"name": "sql", "arguments": ""}}),
        ),
        native(&json!({"index": 0, "function": {"arguments": "{\"input\": \"SELECT"}})),
        native(&json!({"index": 0, "function": {"arguments": " \\\"a\\\"\\n\"}"}})),
        native(
            &json!({"index": 1, "id": "u2", "type": "function", "function": {"name": "now", "arguments": ""}}),
        ),
        native(&json!({"index": 1, "function": {"arguments": "{}"}})),
    ]
}

#[test]
fn native_function_call_returns_as_a_custom_call() {
    let sent = answer(&native_calls(), true, "", 0);
    assert!(sent.contains(r#""type":"custom","custom":{"name":"sql","input":""}"#), "{sent}");
    assert!(sent.contains(r#"{"index":0,"custom":{"input":"SELECT"}}"#), "it streams: {sent}");
    assert!(sent.contains(r#""function":{"name":"now""#), "{sent}");
    let whole = assembled(&sent);
    assert_eq!((whole.calls[0].name.as_str(), whole.calls[0].arguments.as_str()), ("sql", "SELECT \"a\"\n"));
    assert_eq!((whole.calls[1].name.as_str(), whole.calls[1].arguments.as_str()), ("now", "{}"));
    assert_eq!(whole.finish.as_deref(), Some("tool_calls"));
    for cut in 0..sent.len() {
        assert_eq!(assembled(&answer(&native_calls(), true, "", cut)), whole, "cut at {cut}");
    }
}

#[test]
fn unstreamed_response_has_custom_calls() {
    let body = answer(&native_calls(), false, "", 0);
    let calls = serde_json::from_str::<Value>(&body).unwrap()["choices"][0]["message"]["tool_calls"].clone();
    assert_eq!(
        calls,
        json!([
            {"id": "u1", "type": "custom", "custom": {"name": "sql", "input": "SELECT \"a\"\n"}},
            {"id": "u2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
        ])
    );
}

#[test]
fn unstreamed_upstream_response_has_custom_calls() {
    let body = |call: Value| {
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        json!({"id": "i", "object": "chat.completion", "created": 1, "model": "up", "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls"},
        ]})
        .to_string()
    };
    let custom = json!({"id": "u1", "type": "custom", "custom": {"name": "sql", "input": "SELECT {"}});
    let arguments = json!({"input": "SELECT {"}).to_string();
    let function =
        json!({"id": "u1", "type": "function", "function": {"name": "sql", "arguments": arguments}});
    for call in [custom.clone(), function] {
        let whole: Value = serde_json::from_str(&answer_to(&body(call.clone()), false, "", 0)).unwrap();
        assert_eq!(whole["choices"][0]["message"]["tool_calls"], json!([custom]), "{call}");
        let streamed = answer_to(&body(call), true, "", 0);
        assert!(streamed.contains(r#""type":"custom""#), "{streamed}");
        assert_eq!(assembled(&streamed).calls[0].arguments, "SELECT {");
    }
}

#[test]
fn call_in_text_returns_as_a_custom_call() {
    for (format, text) in [
        (
            "hermes",
            "<tool_call>\n{\"name\": \"sql\", \"arguments\": {\"input\": \"SELECT 1\"}}\n</tool_call>",
        ),
        (
            "qwen3_coder",
            "<tool_call>\n<function=sql>\n<parameter=input>\nSELECT 1\n</parameter>\n</function>\n</tool_call>",
        ),
    ] {
        let body = answer(&[json!({"content": text})], true, format, 0);
        let call = &assembled(&body).calls[0];
        assert_eq!((call.name.as_str(), call.arguments.as_str()), ("sql", "SELECT 1"), "{format}: {body}");
        assert!(body.contains(r#""type":"custom""#), "{body}");
    }
}

#[test]
fn custom_call_of_the_upstream_passes_unchanged() {
    let custom = |delta: Value| json!({"tool_calls": [delta]});
    let deltas = [
        json!({"role": "assistant", "content": null}),
        custom(json!({"index": 0, "id": "u1", "type": "custom", "custom": {"name": "sql", "input": ""}})),
        custom(json!({"index": 0, "custom": {"input": "SELECT {"}})),
    ];
    let sent = answer(&deltas, true, "", 0);
    assert!(deltas.iter().all(|delta| sent.contains(&delta.to_string())), "{sent}");
    assert_eq!(assembled(&sent).calls[0].arguments, "SELECT {");
    let empty = answer(&deltas[..2], true, "", 0);
    assert_eq!(assembled(&empty).calls[0].arguments, "", "no `{{}}` is put into plain text");
    // Indices that do not start at 0 are corrected, and the call is still custom.
    let shifted =
        [custom(json!({"index": 3, "id": "u1", "type": "custom", "custom": {"name": "sql", "input": "x"}}))];
    let sent = answer(&shifted, true, "", 0);
    assert!(sent.contains(r#""custom":{"name":"sql""#), "{sent}");
    assert_eq!(assembled(&sent).calls[0].arguments, "x");
    let body = answer(&shifted, false, "", 0);
    assert!(body.contains(r#""custom":{"name":"sql","input":"x"}"#), "{body}");
}
