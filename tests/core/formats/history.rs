//! Tests that the calls which toolwire writes into a history are those that it reads, for random schemas and values.

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use serde_json::{Map, Value, json};
use toolwire::{
    conversation::{Call, Conversation, Part, Role, Tool, Turn},
    detect::Detector,
    event::Finish,
    format::{ALL, ArgumentForm, Format, KnownFormats, Teaching, Values, instruct},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

use crate::fuzz::checks::Found;

const KEYS: &[&str] = &[
    "a",
    "b",
    "city",
    "args",
    "arguments",
    "input",
    "item",
    "name",
    "type",
    "value",
    "año",
    "名",
    "A/b.app",
    "a b",
    "x-y",
    "1",
    "q\"<&>",
    "",
    "f",
];

const WORDS: &[&str] = &[
    "x",
    "",
    "null",
    "None",
    "5",
    "-0.5",
    "true",
    "0",
    "[1]",
    "{\"a\": 1}",
    "<b>1</b>",
    "a\nb",
    "\nx\n",
    " x ",
    "</a>",
    "日本",
    "</parameter>\n<parameter=b>\n",
    "</arg_value>",
    "</f>",
    "<item>1</item>",
    "it's \"so\"",
    "a,b=1)]",
    "\\n",
    "{{name}}",
    "]<]minimax[>[</a>",
    "\u{2028}",
];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 1..3).prop_map(|words| words.concat())
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(&[0, 1, 5, -12][..]).prop_map(Value::from),
        Just(json!(0.1)),
    ]
}

fn value() -> BoxedStrategy<Value> {
    let list = |inner: BoxedStrategy<Value>| prop::collection::vec(inner, 0..3).prop_map(Value::from);
    let object = |inner: BoxedStrategy<Value>| {
        let members = prop::collection::vec((prop::sample::select(KEYS), inner), 0..3);
        members.prop_map(|members| {
            members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
        })
    };
    let leaf = scalar().boxed();
    let inner = prop_oneof![3 => leaf.clone(), 1 => list(leaf.clone()), 1 => object(leaf)].boxed();
    prop_oneof![3 => inner.clone(), 1 => list(inner.clone()), 2 => object(inner)].boxed()
}

/// A schema of this value or of another one, in one of the forms that generators write.
fn schema_of(value: &Value, form: usize) -> Value {
    let inner = |value: &Value| schema_of(value, form / 3);
    let plain = match value {
        Value::Null => json!({"type": "null"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(number) if number.is_f64() => json!({"type": "number"}),
        Value::Number(_) => json!({"type": "integer"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(items) => match items.first() {
            Some(first) => json!({"type": "array", "items": inner(first)}),
            None => json!({"type": "array"}),
        },
        Value::Object(members) if form.is_multiple_of(2) => {
            let properties: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), inner(value))).collect();
            json!({"type": "object", "properties": properties})
        }
        Value::Object(_) => json!({"type": "object"}),
    };
    match form % 13 {
        0 => json!({}),
        1 => json!({"anyOf": [plain, {"type": "null"}]}),
        2 => json!({"allOf": [plain], "description": "D"}),
        3 => json!({"oneOf": [{"type": "integer"}, plain]}),
        4 => json!({"type": "string", "default": null}),
        5 => json!({"type": ["string", "null"]}),
        6 => json!({"type": "integer", "default": null}),
        7 => json!({"$ref": "#/$defs/Node"}),
        8 => json!({"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}),
        9 => json!({"type": "array", "items": {"$ref": "#/$defs/Node"}}),
        _ => plain,
    }
}

/// The arguments of a call, with the schema of its tool.
fn call() -> impl Strategy<Value = (Value, Map<String, Value>)> {
    let member = (prop::sample::select(KEYS), value(), 0..500usize, prop::bool::weighted(0.9));
    prop::collection::vec(member, 0..4).prop_map(|members| {
        let (mut properties, mut arguments) = (Map::new(), Map::new());
        for (key, value, form, is_declared) in members {
            if is_declared {
                properties.insert(key.to_owned(), schema_of(&value, form));
            }
            arguments.insert(key.to_owned(), value);
        }
        let node = json!({"type": "object", "properties": {
            "a": {"type": "integer"}, "b": {"$ref": "#/$defs/Node"}, "name": {"type": "string"}}});
        (json!({"type": "object", "properties": properties, "$defs": {"Node": node}}), arguments)
    })
}

fn is_word(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'))
}

/// Whether all keys in the value are words.
fn has_words(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(has_words),
        Value::Object(members) => members.iter().all(|(key, value)| is_word(key) && has_words(value)),
        _ => true,
    }
}

/// Whether the format can write this argument. Keys that are no words have no form in some notations.
fn writes(format: &Format, key: &str, value: &Value) -> bool {
    let is_word = is_word(key);
    match format.teach.map(|teach| teach.form.arguments) {
        Some(ArgumentForm::Each { values: Values::Python(_), .. }) => is_word && !key.contains('-'),
        Some(ArgumentForm::Each { values: Values::Delimited(_), .. }) => is_word && has_words(value),
        _ => true,
    }
}

fn read_back(format: &'static Format, calls: &[(Value, Map<String, Value>)]) -> Result<(), TestCaseError> {
    let names = ["f", "get_2nd", "look-up"];
    let tool = |(name, (schema, _)): (&&str, &(Value, _))| Tool {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: Some(schema.clone().into()),
        strict: None,
        declared: None,
    };
    let wanted: Vec<(&str, Value)> = names
        .into_iter()
        .zip(calls)
        .map(|(name, (_, arguments))| {
            let members = arguments.iter().filter(|(key, value)| writes(format, key, value));
            (name, members.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into())
        })
        .collect();
    let parts =
        wanted.iter().map(|(name, arguments)| Part::Call(Call::new("c", *name, arguments.to_string())));
    let conversation = Conversation {
        turns: vec![Turn::text(Role::User, "q"), Turn::of(Role::Assistant, parts.collect())],
        tools: names.iter().zip(calls).map(tool).collect(),
        parallel_calls: true,
        ..Conversation::default()
    };
    let tools = DeclaredTools::new(&conversation, "");
    let teaching = Teaching { examples: 0, ..Teaching::default() };
    let told = instruct(conversation, format, &teaching);
    let written = told.turns.last().map(Turn::joined_text).unwrap_or_default();
    let settings = Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() };
    for size in [1, 7, usize::MAX] {
        let mut detector = Detector::new(tools.clone(), &settings, KnownFormats::built_in()).unwrap();
        let chars: Vec<char> = written.chars().collect();
        let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let found = Found::of(&mut detector, &pieces, Finish::Stop, |_, _| {});
        prop_assert_eq!(&found.parsed_calls(), &wanted, "{} {}", &written, json!(calls[0].0));
        prop_assert_eq!(found.text.trim(), "", "{}", &written);
    }
    Ok(())
}

#[test]
fn calls_in_the_history_are_read_as_they_are() {
    let cases = Config::default().cases;
    let mut failed = Vec::new();
    for format in ALL.iter().filter(|format| format.teach.is_some()) {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        let calls = prop::collection::vec(call(), 1..4);
        let result = runner.run(&calls, |calls| read_back(format, &calls));
        failed.extend(result.err().map(|error| format!("{}: {error}", format.name)));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Strings that the schema rules out, and undeclared arguments whose name may stand for all arguments.
#[test]
fn what_the_schema_rules_out_is_read_as_it_is() {
    for (properties, arguments) in [
        (json!({"a": {"type": "integer", "default": null}}), json!({"a": "null"})),
        (json!({"a": {"type": "integer"}}), json!({"a": "5"})),
        (json!({"a": {"type": "array"}}), json!({"a": "[1]"})),
        (json!({"a": {}}), json!({"args": {}, "a": "x"})),
        (json!({"a": {}}), json!({"arguments": {"a": "x"}})),
    ] {
        let Value::Object(arguments) = arguments else { continue };
        let call = (json!({"type": "object", "properties": properties}), arguments);
        for format in ALL.iter().filter(|format| format.teach.is_some()) {
            read_back(format, std::slice::from_ref(&call))
                .unwrap_or_else(|error| panic!("{}: {error}", format.name));
        }
    }
}
