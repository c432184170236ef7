//! Tests the different shapes of a call's JSON.

use serde_json::json;
use toolwire::{
    format,
    rules::{ArgumentDelivery, Detect, Rules},
};

use crate::regressions::{Speech, found, is, read};
use crate::support::exchange::{Cuts, Exchange, request};

/// vllm#9693, lmdeploy PR 4802: if the arguments preceded the name, they or the complete call were lost.
#[test]
fn arguments_may_precede_the_name() {
    let call = [("get_weather", json!({"city": "Paris"}))];
    let objects = [
        r#"{"arguments":{"city":"Paris"},"name":"get_weather"}"#,
        r#"{"parameters":{"city":"Paris"},"tool_name":"get_weather"}"#,
        r#"{"arguments":"{\"city\":\"Paris\"}","id":"x","name":"get_weather"}"#,
        r#"{"function":{"arguments":{"city":"Paris"},"name":"get_weather"},"type":"function"}"#,
    ];
    for object in objects {
        is("hermes", &format!("<tool_call>{object}</tool_call>"), "", &call);
        is(
            "hermes",
            &format!("<tool_call>[{object},{object}]</tool_call>"),
            "",
            &[call[0].clone(), call[0].clone()],
        );
        is("pre", &format!("<pre>{object}</pre>"), "", &call);
        is("fenced", &format!("```json\n{object}\n```"), "", &call);
        is("bare", object, "", &call);
    }
}

/// vllm PR 54964, langchain-oracle PR 70: arguments in a string stayed a string, or a string that only begins like
/// an object was parsed.
#[test]
fn arguments_in_a_string_are_unwrapped_if_they_are_an_object() {
    let strings = [
        (r#""{\"city\": \"K\\u00f6ln \\\"x\\\"\"}""#, json!({"city": "Köln \"x\""})),
        (r#"" { } ""#, json!({})),
        (r#""{}""#, json!({})),
        (r#""{hello}""#, json!("{hello}")),
        (r#""{ 1""#, json!("{ 1")),
        (r#""[1]""#, json!("[1]")),
        (r#""Paris""#, json!("Paris")),
    ];
    for (string, meant) in strings {
        is(
            "hermes",
            &format!(r#"<tool_call>{{"name":"get_weather","arguments":{string}}}</tool_call> ok"#),
            "ok",
            &[("get_weather", meant)],
        );
    }
}

/// sglang#34677: a call to an unknown tool caused the calls beside it to be lost.
#[test]
fn undeclared_name_does_not_affect_other_calls() {
    let [now, no] = ["now", "no_such"].map(|name| format!(r#"{{"name":"{name}","arguments":{{}}}}"#));
    let calls = [("now", json!({})), ("no_such", json!({})), ("now", json!({}))];
    for text in [
        format!("<tool_call>{now}</tool_call>\n<tool_call>{no}</tool_call>\n<tool_call>{now}</tool_call>"),
        format!("<tool_call>[{now}, {no}, {now}]</tool_call>"),
        format!("<tool_call>{now}\n{no}\n{now}</tool_call>"),
    ] {
        is("hermes", &text, "", &calls);
    }
    let text = format!("[TOOL_CALLS][{now},{no},{now}]");
    is("mistral", &text, "", &calls);
    // Without a marker, an undeclared name makes the object text, but the calls beside it are still calls.
    let text = format!("<pre>{now}</pre>\n<pre>{no}</pre>\n<pre>{now}</pre>");
    let answer = found("pre", &text);
    assert_eq!(answer.named_calls(), [("now", "{}"), ("now", "{}")]);
    assert_eq!(answer.text, format!("<pre>{no}</pre>"));
    let answer = found("fenced", &format!("```json\n{no}\n```\n```json\n{now}\n```"));
    assert_eq!(answer.named_calls(), [("now", "{}")]);
    assert_eq!(answer.text, format!("```json\n{no}\n```"));
}

/// cline#10843, hermes-agent#107125: Qwen2.5-Coder on Ollama writes calls without a marker, and they were not
/// found.
#[test]
fn object_without_a_marker_is_a_call() {
    let call = [("get_weather", json!({"city": "Paris"}))];
    let object = r#"{"name": "get_weather", "arguments": {"city": "Paris"}}"#;
    is("bare", object, "", &call);
    is("bare", &format!("I will look.\n{object}"), "I will look.", &call);
    is("bare", &format!("{object}\n"), "", &call);
    is("bare", &format!("{object}\nDone."), "Done.", &call);
    is(
        "bare",
        "{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Paris\"\n  }\n}",
        "",
        &call,
    );
}

/// vllm-parser (docs/protocols/text-formats.md#call-objects): after one call of a different shape, all later calls
/// became text.
#[test]
fn call_of_another_shape_and_those_after_it_are_calls() {
    let shapes = [
        r#"{"name":"now","parameters":{}}"#,
        r#"{"name":"now","arguments":"{}"}"#,
        r#"{"id":"c","name":"now","arguments":{},"reason":"r"}"#,
        r#"{"type":"function","function":{"name":"now","arguments":"{}"}}"#,
        r#"{"tool_calls":[{"id":"c","type":"function","function":{"name":"now","arguments":"{}"}}]}"#,
        r#"{"function_call":{"name":"now","arguments":"{}"}}"#,
        r#"[{"name":"now"}]"#,
        r#"{"tool":"now","args":{}}"#,
        r#"{"action":"now","action_input":{}}"#,
        r#"{"function":"now","arguments":{}}"#,
    ];
    for shape in shapes {
        let last = r#"<tool_call>{"name":"add","arguments":{"x":1}}</tool_call>"#;
        let text = format!("<tool_call>{shape}</tool_call>\n{last}");
        is("hermes", &text, "", &[("now", json!({})), ("add", json!({"x": 1}))]);
    }
    // Later calls are also found after an object that is not a call.
    for shape in ["{\"city\": 1}", "nothing", "[]", "{\"name\": 5}", "{\"name\":\"\"}", "{{"] {
        let text = format!("<tool_call>{shape}</tool_call>\n<tool_call>{{\"name\":\"now\"}}</tool_call>");
        // An empty list in a container of its own is dropped.
        let visible = if shape == "[]" { String::new() } else { format!("<tool_call>{shape}</tool_call>") };
        is("hermes", &text, &visible, &[("now", json!({}))]);
    }
}

/// Functionary sends code to `python` instead of JSON. It becomes the tool's argument
/// (docs/protocols/text-formats.md#header-then-json).
#[test]
fn python_source_for_a_tool_is_its_argument() {
    let code =
        json!({"type": "object", "properties": {"timeout": {"type": "integer"}, "src": {"type": "string"}}});
    let tools = json!([
        {"type": "function", "function": {"name": "python", "parameters": code}},
        {"type": "function", "function": {"name": "now"}},
    ]);
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        let detect = Detect::Formats(vec![format::FUNCTIONARY_V32.name]);
        let settings = Rules { detect, arguments, ..Rules::default() };
        let exchange = Exchange::new(request(&json!({"tools": tools})), settings, Speech::Chat);
        let answer = |text: &str, finish: &str| exchange.text(text, text, finish, Cuts::Text).0;

        let found = answer("all\nOk.>>>python\nx = {\"a\": '>>> 1'}\nprint(x)>>>now\n{}", "stop");
        let src = json!({"src": "x = {\"a\": '>>> 1'}\nprint(x)"});
        assert_eq!((found.text.as_str(), read(&found)), ("Ok.", vec![("python", src), ("now", json!({}))]));

        let found = answer("python\nprint(\"a\\n\") >> 1", "stop");
        assert_eq!(read(&found), [("python", json!({"src": "print(\"a\\n\") >> 1"}))]);
        assert_eq!((found.text.as_str(), found.finish.as_deref()), ("", Some("tool_calls")));

        let found = answer("python\nrm -r build", "length");
        assert_eq!(found.finish.as_deref(), Some("length"));
        match arguments {
            ArgumentDelivery::Stream => assert_eq!(found.calls[0].arguments, "{\"src\": \"rm -r build"),
            ArgumentDelivery::Whole => {
                assert_eq!((found.text.as_str(), found.calls.len()), ("python\nrm -r build", 0))
            }
        }
    }
}
