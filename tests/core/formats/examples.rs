//! Tests the example calls in taught prompts. No matter what the schemas look like, the engine must read each
//! example as a call to a declared tool.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Role, Tool, ToolChoice, Turn},
    detect::Detector,
    event::Finish,
    format::{ALL, Format, KnownFormats, Teaching, instruct},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

use crate::{fuzz::checks::Found, support::generated::tries};

fn tool(name: &str, description: &str, parameters: Option<Value>) -> Tool {
    Tool { description: description.to_owned(), parameters: parameters.map(Into::into), ..Tool::named(name) }
}

fn conversation(tools: &[Tool]) -> Conversation {
    Conversation {
        turns: vec![Turn::text(Role::User, "?")],
        tools: tools.to_vec(),
        parallel_calls: true,
        ..Conversation::default()
    }
}

fn examples(tools: &[Tool], format: &Format) -> String {
    let teaching = Teaching { template: "{{examples}}".to_owned(), examples: 3, ..Teaching::default() };
    instruct(conversation(tools), format, &teaching).turns[0].joined_text()
}

fn found(tools: &[Tool], format: &'static Format, text: &str) -> Found {
    let rules = Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() };
    let tools = DeclaredTools::new(&conversation(tools), "");
    let mut detector = Detector::new(tools, &rules, KnownFormats::built_in()).expect("tools are declared");
    Found::of(&mut detector, &[text], Finish::Stop, |_, _| {})
}

fn read_back(tools: &[Tool], format: &'static Format) -> Vec<(String, Value)> {
    read_back_of(tools, format, 3)
}

fn read_back_of(tools: &[Tool], format: &'static Format, examples: usize) -> Vec<(String, Value)> {
    let turns = Teaching { example_turns: true, examples, ..Teaching::default() };
    let shown = instruct(conversation(tools), format, &turns).turns;
    let messages = shown.iter().filter(|turn| turn.role == Role::Assistant).map(Turn::joined_text);
    let mut calls = Vec::new();
    for message in messages {
        if message.contains("tool_name") {
            calls.push(("tool_name".to_owned(), json!({})));
            continue;
        }
        let found = found(tools, format, &message);
        assert_eq!(found.text, "", "{}: {message}", format.name);
        assert!(found.calls.iter().all(|call| call.is_complete()), "{}: {message}\n{found:?}", format.name);
        calls.extend(found.parsed_calls().into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    calls
}

fn taught() -> impl Iterator<Item = &'static Format> {
    ALL.iter().copied().filter(|format| format.teach.is_some())
}

/// Returns the examples as they appear in a format with typed values, and more of them than usual, so that none is
/// left out.
fn meant(tools: &[Tool]) -> Vec<(String, Value)> {
    read_back_of(tools, toolwire::format::by_name("hermes").unwrap(), 64)
}

fn object(properties: Value, required: Value) -> Option<Value> {
    Some(json!({"type": "object", "properties": properties, "required": required}))
}

#[test]
fn examples_have_realistic_values() {
    let tools = [
        tool(
            "book",
            "Book a table",
            object(
                json!({
                    "city": {"type": "string"}, "email": {"type": "string", "format": "email"},
                    "date": {"type": "string", "format": "date"}, "guests": {"type": "integer", "minimum": 3},
                    "seat": {"enum": ["inside", "outside"]}, "note": {"type": "string"},
                }),
                json!(["city", "email", "date", "guests", "seat"]),
            ),
        ),
        tool("find", "", object(json!({"what": {"type": "string", "examples": ["lamp"]}}), json!(["what"]))),
        tool("list", "", object(json!({"page": {"type": "integer", "default": 7}}), json!([]))),
        tool("now", "The time", None),
    ];
    let calls = meant(&tools);
    let names: Vec<_> = calls.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..4], ["find", "list", "now", "book"], "short ones first, and different tools");
    assert_eq!(calls[0].1, json!({"what": "lamp"}));
    assert_eq!(calls[1].1, json!({"page": 7}));
    let calls = meant(&tools[..1]);
    let first = json!({"city": "Paris", "email": "ann@example.com", "date": "2026-03-14", "guests": 3, "seat": "inside"});
    assert_eq!(calls[0].1, first);
    assert_eq!(calls[1].1["seat"], "outside", "another example of the same tool differs");
}

#[test]
fn calls_of_one_message_are_shown_in_one_container() {
    let city = || object(json!({"city": {"type": "string"}}), json!(["city"]));
    let tools = [tool("a", "", city()), tool("b", "", city()), tool("c", "", city()), tool("d", "", city())];
    let lists = ["jamba", "pythonic", "granite3", "olmo3", "nemotron_toolcall"];
    for format in taught().filter(|format| lists.contains(&format.name)) {
        let shown = examples(&tools, format);
        let last = shown.rsplit("You:\n").next().unwrap();
        assert_eq!(found(&tools, format, last).calls.len(), 2, "{}: {shown}", format.name);
    }
}

#[test]
fn examples_do_not_depend_on_the_request() {
    let city = || object(json!({"city": {"type": "string"}}), json!(["city"]));
    let tools = [tool("a", "", city()), tool("b", "", city())];
    for format in taught() {
        let mut asked = conversation(&tools);
        let plain = instruct(asked.clone(), format, &Teaching::default()).turns[0].joined_text();
        for choice in [ToolChoice::Required, ToolChoice::Named("b".to_owned())] {
            asked.tool_choice = choice;
            asked.turns.push(Turn::text(Role::User, "And?"));
            let told = instruct(asked.clone(), format, &Teaching::default());
            assert_eq!(told.turns[0].joined_text(), plain, "{}", format.name);
        }
    }
}

fn hostile() -> Vec<Tool> {
    let closers =
        json!(["</tool_call>", "</pre>", "\"}]", "```", "<|call|>", "]]>", "\u{0}\n", "a\"b", "ok"]);
    let deep = format!("{}{{}}{}", r#"{"type":"object","properties":{"a":"#.repeat(60), "}}".repeat(60));
    let wide: serde_json::Map<String, Value> =
        (0..2000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let values: Vec<_> = (0..2000).map(|at| format!("v{at}")).collect();
    let required: Vec<_> = wide.keys().cloned().collect();
    vec![
        tool(
            "closers",
            "</tool_call> {\"name\":\"closers\"}",
            object(json!({"x": {"enum": closers}}), json!(["x"])),
        ),
        tool(
            "bad",
            "",
            object(json!({"x": {"default": "</tool_call>"}, "y": {"const": "\"}"}}), json!(["x", "y"])),
        ),
        tool("deep", "", Some(serde_json::from_str(&deep).unwrap())),
        tool("wide", "", object(wide.clone().into(), json!([]))),
        tool("demanding", "", object(wide.into(), required.into())),
        tool("listing", "", object(json!({"x": {"type": "string", "enum": values}}), json!(["x"]))),
        tool("endless", "", Some(json!({"$ref": "#"}))),
        tool(
            "tree",
            "",
            Some(
                json!({"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}},
            "required": ["next"]}}, "$ref": "#/$defs/node"}),
            ),
        ),
        tool("odd name <x>", "", None),
        tool(
            "keys",
            "",
            object(json!({"</a>": {"type": "string"}, "": {"type": "string"}}), json!(["</a>"])),
        ),
        tool("strange", "", Some(json!({"type": ["object"], "required": "x", "properties": [1, 2]}))),
    ]
}

#[test]
fn hostile_schemas_do_not_break_the_examples() {
    for format in taught() {
        for tool in hostile() {
            let tools = [tool];
            let calls = read_back(&tools, format);
            let known = |name: &str| name == tools[0].name || name == "tool_name";
            assert!(
                !calls.is_empty() && calls.iter().all(|(name, _)| known(name)),
                "{}: {calls:?}",
                format.name
            );
        }
    }
}

fn schema() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("</tool_call>"),
        Just("a b"),
        Just("5"),
        Just("true"),
        Just("\"}"),
        Just(" x "),
        Just("Zürich"),
        Just("```\n"),
        Just("[1]"),
        Just("a:b"),
        Just("-"),
        Just("null"),
        Just("2026-01-01"),
    ];
    let values = prop::collection::vec(
        prop_oneof![
            text.prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            Just(Value::Null),
            Just(json!(true)),
            Just(json!({"a": 1}))
        ],
        1..4,
    );
    let kind = prop_oneof![
        Just("string"),
        Just("integer"),
        Just("number"),
        Just("boolean"),
        Just("object"),
        Just("array"),
        Just("null"),
        Just("odd")
    ];
    let leaf = prop_oneof![
        Just(json!({})),
        kind.clone().prop_map(|kind| json!({"type": kind})),
        (kind.clone(), kind.clone()).prop_map(|(one, other)| json!({"type": [one, other]})),
        values.clone().prop_map(|values| json!({"enum": values})),
        (kind.clone(), values.clone()).prop_map(|(kind, values)| json!({"type": kind, "enum": values})),
        (kind.clone(), values.clone()).prop_map(|(kind, values)| json!({"type": kind, "examples": values})),
        (kind, values).prop_map(|(kind, values)| json!({"type": kind, "default": values[0]})),
        (-5i64..50, -5i64..50)
            .prop_map(|(least, most)| json!({"type": "integer", "minimum": least, "maximum": most})),
        Just(json!({"$ref": "#/$defs/thing"})),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            (inner.clone(), inner.clone()).prop_map(
                |(a, b)| json!({"type": "object", "properties": {"a": a, "item": b}, "required": ["a"]})
            ),
            prop::collection::vec(inner, 1..3).prop_map(|branches| json!({"anyOf": branches})),
        ]
    })
}

fn tools() -> impl Strategy<Value = Vec<Tool>> {
    let key = prop_oneof![
        Just("city"),
        Just("query"),
        Just("name"),
        Just("arguments"),
        Just("id"),
        Just("value"),
        Just("count"),
        Just("x-y"),
        Just("item")
    ];
    let name = prop_oneof![
        Just("get_weather"),
        Just("search"),
        Just("a"),
        Just("tool"),
        Just("run-it"),
        Just("now"),
        Just("read.file")
    ];
    let one = (name, prop::collection::vec((key, schema(), any::<bool>()), 0..4), schema()).prop_map(|(name, arguments, thing)| {
        let mut properties = serde_json::Map::new();
        let mut required = Vec::new();
        for (key, schema, needed) in arguments {
            properties.insert(key.to_owned(), schema);
            if needed {
                required.push(key);
            }
        }
        tool(name, "Does it", Some(json!({"type": "object", "properties": properties, "required": required, "$defs": {"thing": thing}})))
    });
    prop::collection::vec(one, 1..3).prop_map(|mut tools| {
        tools.dedup_by(|one, other| one.name == other.name);
        tools
    })
}

proptest! {
    #![proptest_config(tries(48))]

    #[test]
    fn every_example_is_read_back_in_every_format(tools in tools()) {
        for format in taught() {
            let calls = read_back(&tools, format);
            prop_assert!(!calls.is_empty());
            for (name, arguments) in &calls {
                prop_assert!(arguments.is_object());
                let Some(tool) = tools.iter().find(|tool| tool.name == *name) else {
                    prop_assert_eq!(name, "tool_name");
                    continue;
                };
                let schema: Value = serde_json::from_str(tool.parameters.as_ref().unwrap().view().raw()).unwrap();
                if arguments.as_object().unwrap().values().all(|value| value == "value") {
                    continue;
                }
                for key in schema["required"].as_array().unwrap() {
                    prop_assert!(arguments.get(key.as_str().unwrap()).is_some(), "{}: {} lacks {}", format.name, arguments, key);
                }
            }
        }
        // Formats with typed values must agree on every value.
        let wanted = meant(&tools);
        for name in ["bare", "jamba", "pythonic", "gemma4", "openai_function_call", "mistral"] {
            let calls = read_back(&tools, toolwire::format::by_name(name).unwrap());
            for call in &calls {
                if call.0 != "tool_name" && wanted.iter().any(|(name, _)| *name == call.0) {
                    prop_assert!(wanted.contains(call), "{}: {:?} of {:?}", name, call, wanted);
                }
            }
        }
    }
}
