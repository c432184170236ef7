//! Tests how tagged arguments become JSON: types from all forms of schemas, repeated and wrapped parameters.

use serde_json::{Value, json};

use super::Detector;
use crate::{
    conversation::{Conversation, Tool},
    event::{Event, Finish, Sink},
    format::{self, Format, KnownFormats},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

/// The arguments of all calls, and the text in brackets.
#[derive(Default)]
struct Arguments(String, String);

impl Sink for Arguments {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.1.push_str(&text),
            Event::CallArguments { piece, .. } => self.0.push_str(&piece),
            Event::CallEnd { .. } => self.0.push(';'),
            _ => {}
        }
    }
}

fn read(format: &'static Format, schema: &Value, text: &str) -> String {
    let tool = Tool {
        name: "f".to_owned(),
        parameters: Some(schema.clone().into()),
        description: String::new(),
        strict: None,
        declared: None,
    };
    let conversation = Conversation { tools: vec![tool], ..Conversation::default() };
    let settings = Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() };
    let run = |pieces: &[&str]| {
        let tools = DeclaredTools::new(&conversation, "");
        let mut detector = Detector::new(tools, &settings, KnownFormats::built_in()).unwrap();
        let mut found = Arguments::default();
        for piece in pieces {
            detector.event(Event::Text((*piece).into()), &mut found);
        }
        detector.finish(Some(Finish::Stop), &mut found);
        let text = found.1.trim();
        format!("{}{}", found.0, if text.is_empty() { String::new() } else { format!("[{text}]") })
    };
    let whole = run(&[text]);
    for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
        let (one, other) = text.split_at(at);
        assert_eq!(run(&[one, other]), whole, "{} at {at}: {text}", format.name);
    }
    whole
}

fn qwen(parameters: &[(&str, &str)]) -> String {
    let one = |(key, value): &(&str, &str)| format!("<parameter={key}>\n{value}\n</parameter>\n");
    let parameters: String = parameters.iter().map(one).collect();
    format!("<tool_call>\n<function=f>\n{parameters}</function>\n</tool_call>")
}

#[test]
fn types_come_from_references_and_unions() {
    let schema = json!({
        "$defs": {"Loc": {"type": "object", "properties": {"city": {"type": "string"}}}, "N": {"type": "integer"}},
        "properties": {
            "loc": {"$ref": "#/$defs/Loc"}, "or": {"anyOf": [{"$ref": "#/$defs/Loc"}, {"type": "null"}]},
            "n": {"allOf": [{"$ref": "#/$defs/N"}]}, "z": {"type": "integer", "default": null},
            "s": {"type": "string", "default": null}, "t": {"type": "string"},
        },
    });
    for (key, value, expected) in [
        ("loc", r#"{"city": "Oslo"}"#, r#"{"city": "Oslo"}"#),
        ("or", r#"{"city": "Oslo"}"#, r#"{"city": "Oslo"}"#),
        ("or", "null", "null"),
        ("n", "5", "5"),
        ("n", "null", "null"),
        ("z", "null", "null"),
        ("s", "null", "null"),
        ("t", "null", r#""null""#),
    ] {
        let found = read(&format::QWEN3_CODER, &schema, &qwen(&[(key, value)]));
        assert_eq!(found, format!("{{\"{key}\": {expected}}};"));
    }
}

#[test]
fn types_inside_unions_count_in_element_trees() {
    let schema = json!({"properties": {
        "limit": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"max": {"type": "integer"}}}]},
        "list": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "free": {"type": "object"},
    }});
    let m3 = |text: &str| {
        let text = format!("¦<tool_call>\n¦<invoke name=\"f\">{text}¦</invoke>\n¦</tool_call>");
        read(&format::MINIMAX_M3, &schema, &text.replace('¦', "]<]minimax[>["))
    };
    assert_eq!(m3("¦<limit>¦<max>10¦</max>¦</limit>"), r#"{"limit": {"max": 10}};"#);
    assert_eq!(m3("¦<list>¦<item>1¦</item>¦<item>2¦</item>¦</list>"), r#"{"list": [1, 2]};"#);
    assert_eq!(m3("¦<free>¦<t>x¦</t>¦<t>y¦</t>¦</free>"), r#"{"free": {"t": ["x", "y"]}};"#);
    assert_eq!(m3("¦<free>{\"a\": [1]}¦</free>"), r#"{"free": {"a": [1]}};"#);
    assert_eq!(m3("{\"free\": {\"a b\": 1}}"), r#"{"free": {"a b": 1}};"#);
}

#[test]
fn repeated_parameters_are_lists() {
    let schema = json!({"properties": {
        "list": {"type": "array", "items": {"type": "integer"}}, "text": {"type": "string"}, "any": {}, "n": {"type": "integer"}}});
    for (parameters, expected) in [
        (&[("list", "1"), ("list", "2"), ("text", "a")] as &[_], r#"{"list": [1, 2], "text": "a"};"#),
        (&[("list", "[1]")], r#"{"list": [1]};"#),
        (&[("any", "1"), ("any", "b"), ("any", "c")], r#"{"any": ["1", "b", "c"]};"#),
        (&[("none", "a"), ("none", "b")], r#"{"none": ["a", "b"]};"#),
        (&[("any", "1")], r#"{"any": "1"};"#),
        (&[("text", "a"), ("text", "b"), ("n", "1")], r#"{"text": "a", "text": "b", "n": 1};"#),
        (&[("n", "1"), ("n", "2"), ("n", "3")], r#"{"n": 3};"#),
    ] {
        assert_eq!(read(&format::QWEN3_CODER, &schema, &qwen(parameters)), expected);
    }
    let long = "x".repeat(300);
    let found = read(&format::QWEN3_CODER, &schema, &qwen(&[("any", &long), ("any", "b")]));
    assert_eq!(found, format!("{{\"any\": \"{long}\", \"any\": \"b\"}};"));
    let elements = "<f>\n<none>a</none>\n<none>b</none>\n<n>1</n>\n</f>";
    let nothing = json!({});
    assert_eq!(read(&format::CLINE, &nothing, elements), r#"{"none": ["a", "b"], "n": "1"};"#);
}

#[test]
fn arguments_may_be_wrapped_once_more() {
    let schema = json!({"properties": {"city": {"type": "string"}, "n": {"type": "integer"}}});
    for (parameters, expected) in [
        (&[("arguments", "{'city': 'Oslo'}")] as &[_], r#"{"city": "Oslo"};"#),
        (&[("input", r#"{"city": "Oslo", "n": 1}"#)], r#"{"city": "Oslo", "n": 1};"#),
        (&[("input", r#"{"town": "Oslo"}"#)], r#"{"input": "{\"town\": \"Oslo\"}"};"#),
        (&[("input", "Oslo"), ("n", "1")], r#"{"input": "Oslo", "n": 1};"#),
        (&[("n", "1"), ("input", r#"{"city": "Oslo"}"#)], r#"{"n": 1, "input": "{\"city\": \"Oslo\"}"};"#),
        (&[("input", r#"{"city": "Oslo"}"#), ("n", "1")], r#"{"input": "{\"city\": \"Oslo\"}", "n": 1};"#),
        (&[("args", "{}"), ("city", "Oslo")], r#"{"args": "{}", "city": "Oslo"};"#),
        (&[("args", "{}"), ("args", "{}")], r#"{"args": ["{}", "{}"]};"#),
        (&[("args", "{}")], "{};"),
    ] {
        assert_eq!(read(&format::QWEN3_CODER, &schema, &qwen(parameters)), expected);
    }
    let declared = json!({"properties": {"input": {"type": "string"}, "city": {"type": "string"}}});
    let found = read(&format::QWEN3_CODER, &declared, &qwen(&[("input", r#"{"city": "a"}"#)]));
    assert_eq!(found, r#"{"input": "{\"city\": \"a\"}"};"#);
}

#[test]
fn elements_may_have_any_name() {
    let text = json!({"type": "string"});
    let list = json!({"type": "array", "items": text});
    for (properties, body, expected) in [
        (json!({"args": text, "out": text}), "<args>a</args>\n<out>b</out>", r#"{"args": "a", "out": "b"};"#),
        (
            json!({"args": list, "out": text}),
            "<args><item>-v</item>\n<item>-p</item>\n</args>\n<out>b</out>",
            r#"{"args": ["-v", "-p"], "out": "b"};"#,
        ),
        (json!({"a": text}), "<args>\n<a>1</a>\n</args>", r#"{"a": "1"};"#),
        (json!({"a": text}), "<a>1</a>\n<b>2</b>", r#"{"a": "1", "b": "2"};"#),
        (json!({"a": text, "año": text}), "<a>1</a>\n<año>2024</año>", r#"{"a": "1", "año": "2024"};"#),
        (json!({"año": text}), "<año>2024</año>", r#"{"año": "2024"};"#),
        (
            json!({"c": {"type": "object"}}),
            "<c><John><item>2</item>\n<item>3</item>\n</John>\n</c>",
            r#"{"c": {"John": ["2", "3"]}};"#,
        ),
        (json!({"a": text, "n": {"type": "integer"}}), "{\"n\": 1}", r#"{"n": 1};"#),
        (json!({"a": text}), "{\"a\": 1}", r#"{"a": 1};"#),
        (json!({"a": text}), "{\"b\": 1}", r#"{"b": 1};"#),
        (json!({"a": text}), "{b}", r#"{"a": "{b}"};"#),
    ] {
        let schema = json!({"type": "object", "properties": properties});
        assert_eq!(read(&format::CLINE, &schema, &format!("<f>\n{body}\n</f>")), expected);
        let section = format!("<toolbridge_calls>\n<f>\n{body}\n</f>\n</toolbridge_calls>");
        assert_eq!(read(&format::TOOLBRIDGE, &schema, &section), expected);
    }
}

#[test]
fn gigachat_calls_may_follow_each_other() {
    let call = |n: u8| {
        format!(
            "<|message_sep|>\n\nfunction call<|role_sep|>\n{{\"name\": \"f\", \"arguments\": {{\"x\": {n}}}}}"
        )
    };
    let schema = json!({"properties": {"x": {"type": "integer"}}});
    let format = &format::GIGACHAT3;
    assert_eq!(read(format, &schema, &format!("{}{}", call(1), call(2))), r#"{"x": 1};{"x": 2};"#);
    assert_eq!(read(format, &schema, &format!("{}\n{}", call(1), call(2))), r#"{"x": 1};{"x": 2};"#);
    assert_eq!(read(format, &schema, &format!("{}<|message_sep|>", call(1))), r#"{"x": 1};"#);
    assert_eq!(read(format, &schema, &format!("{}<|message_sep|>\n\nHello", call(1))), r#"{"x": 1};[Hello]"#);
}
