//! Tests the constraints sent to upstreams: any text that a constraint allows must be read as the intended call.

mod gbnf;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwire::{
    conversation::{Constraint, Conversation, Tool, ToolChoice},
    detect::Detector,
    enforce::{Enforced, Means, Subset, constrain},
    event::{Event, Finish},
    format::{self, Form, Format, KnownFormats},
    rules::{Detect, Enforce, Rules},
    tools::DeclaredTools,
};

use crate::support::generated::tries;
use gbnf::Grammar;

const ALL: Means = Means { schema: Some(Subset::LLAMA_CPP), tags: true, grammar: true, prefill: true };
const NAMES: [&str; 4] = ["get_weather", "now", "mcp__x-y", "get"];

fn asking(tools: &[(&str, Value)]) -> Conversation {
    let tool = |(name, schema): &(&str, Value)| {
        let parameters = Some(schema.clone().into());
        Tool { parameters, ..Tool::named(*name) }
    };
    let tools = tools.iter().map(tool).collect();
    Conversation { tools, tool_choice: ToolChoice::Required, parallel_calls: true, ..Conversation::default() }
}

/// Returns the text outside calls, and the calls in `text`.
fn found(text: &str, conversation: &Conversation, format: &Format) -> (String, Vec<(String, String)>) {
    let declared = DeclaredTools::new(conversation, "");
    let rules = Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() };
    let mut detector =
        Detector::new(declared, &rules, KnownFormats::built_in()).expect("formats to look for");
    let mut events: Vec<Event<'static>> = Vec::new();
    detector.event(Event::Text(text.into()), &mut events);
    detector.finish(Some(Finish::Stop), &mut events);
    let (mut said, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for event in events {
        match event {
            Event::Text(piece) => said.push_str(&piece),
            Event::CallStart(call) => calls.push((call.name.into_owned(), String::new())),
            Event::CallArguments { piece, .. } => calls.last_mut().expect("a call").1.push_str(&piece),
            _ => {}
        }
    }
    (said, calls)
}

/// A schema and a value that conforms to it.
type Pair = (Value, Value);

fn pair() -> impl Strategy<Value = Pair> {
    let plain = |kind: &'static str| move |value: Value| (json!({"type": kind}), value);
    let word = prop_oneof!["[a-z ]{0,6}", "[\\PC\n\t\"\\\\]{0,6}"];
    let leaf = prop_oneof![
        word.clone().prop_map(Value::from).prop_map(plain("string")),
        (-1000..1000_i64).prop_map(Value::from).prop_map(plain("integer")),
        prop::sample::select(vec![json!(0), json!(1.5), json!(-20.25), json!(7)]).prop_map(plain("number")),
        any::<bool>().prop_map(Value::from).prop_map(plain("boolean")),
        Just((json!({"type": "null"}), Value::Null)),
        word.clone().prop_map(|word| (json!({"enum": ["first", word, 3]}), word.into())),
        word.clone().prop_map(|word| (json!({"const": word}), word.into())),
        "[a-z]{2,4}"
            .prop_map(|word| (json!({"type": "string", "minLength": 2, "maxLength": 4}), word.into())),
        word.prop_map(|word| (json!({}), json!([word, {"a": [null, true]}]))),
        (0..9_i64).prop_map(|number| (json!({"type": ["string", "integer"]}), number.into())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            // All items are equal, so they share one schema.
            (inner.clone(), 0..3_usize).prop_map(|((schema, value), times)| {
                let least = times.min(1);
                let schema = json!({"type": "array", "items": schema, "minItems": least, "maxItems": 2});
                (schema, Value::Array(vec![value; times]))
            }),
            object(inner),
        ]
    })
}

/// Generates an object with required and optional properties. Some of the optional ones are missing.
fn object(inner: impl Strategy<Value = Pair> + 'static) -> impl Strategy<Value = Pair> {
    let property = ("[a-z_]{1,5}|ключ|a\"b", inner, any::<bool>(), any::<bool>());
    prop::collection::vec(property, 0..4).prop_map(|properties| {
        let (mut schemas, mut first, mut then) = (Map::new(), Map::new(), Map::new());
        let mut required = Vec::new();
        for (key, (schema, value), is_required, is_given) in properties {
            if schemas.contains_key(&key) {
                continue;
            }
            schemas.insert(key.clone(), schema);
            if is_required {
                required.push(key.clone());
                first.insert(key, value);
            } else if is_given {
                then.insert(key, value);
            }
        }
        first.extend(then);
        let schema = json!({
            "type": "object", "properties": schemas, "required": required, "additionalProperties": false,
        });
        (schema, Value::Object(first))
    })
}

fn enforced(conversation: &Conversation, format: &'static Format, enforce: Enforce) -> Option<Enforced> {
    constrain(conversation, format, "", enforce, &ALL)
}

fn tagged(constraint: &Constraint, name: &str, arguments: &str) -> String {
    let Constraint::Tags(tags) = constraint else { panic!("no tags") };
    let begins = |begin: &str| {
        begin
            .split(|letter: char| !(letter.is_alphanumeric() || "_-".contains(letter)))
            .any(|word| word == name)
    };
    let tag = tags.tags.iter().find(|tag| begins(&tag.begin)).expect("a tag for the tool");
    let triggers = tags.triggers.iter().filter(|trigger| tag.begin.starts_with(*trigger)).count();
    assert_eq!(triggers, 1, "{:?} begins {:?}", tags.triggers, tag.begin);
    format!("{}{arguments}{}", tag.begin, tag.end)
}

proptest! {
    #![proptest_config(tries(300))]

    #[test]
    fn what_a_constraint_allows_is_the_call_that_was_meant(
        (schema, value) in object(pair()),
        format in prop::sample::select(format::ALL),
        name in prop::sample::select(&NAMES as &[_]),
    ) {
        let tools: Vec<_> = NAMES.iter().map(|name| (*name, schema.clone())).collect();
        let conversation = asking(&tools);
        // With blanks as in a prompt.
        let call = toolwire::conversation::Call::new("", name, value.to_string());
        let arguments = Form::json("{{arguments}}").calls(&[call]);
        let meant = (String::new(), vec![(str::to_owned(name), arguments.clone())]);
        if let Some(Enforced { constraint: Constraint::Grammar(grammar), format }) =
            enforced(&conversation, format, Enforce::Grammar)
        {
            let form = format.teach.expect("a taught format").form;
            let call = toolwire::conversation::Call::new("", name, arguments.clone());
            let text = form.calls(std::slice::from_ref(&call));
            let read = Grammar::read(&grammar.rules);
            prop_assert!(read.has(&text), "{text}\n{}", grammar.rules);
            let twice = form.calls(&[call.clone(), call]);
            prop_assert!(read.has(&twice), "{twice}\n{}", grammar.rules);
            let other = text.replace(&arguments, r#"{"undeclared":1}"#);
            prop_assert!(other == text || !read.has(&other), "{other}\n{}", grammar.rules);
            let prose = format!("Sure! {text}");
            prop_assert!(!read.has(&prose));
            prop_assert!(!read.has(&text.replace(name, "other_tool")) || arguments.contains(name));
            prop_assert_eq!(found(&text, &conversation, format), meant.clone());
        }
        if let Some(Enforced { constraint, format }) = enforced(&conversation, format, Enforce::StructuralTag) {
            let text = tagged(&constraint, name, &arguments);
            prop_assert_eq!(found(&text, &conversation, format), meant.clone());
        }
        if let Some(Enforced { constraint: Constraint::Prefill(prefill), format }) =
            enforced(&conversation, format, Enforce::Prefill)
        {
            let form = format.teach.expect("a taught format").form;
            let call = toolwire::conversation::Call::new("", name, arguments.clone());
            prop_assert!(form.calls(&[call]).starts_with(&prefill));
        }
        let Some(Enforced { format, .. }) = enforced(&conversation, format, Enforce::Schema) else {
            return Err(TestCaseError::fail("no schema"));
        };
        let text = format!(r#"{{"name": "{name}", "arguments": {arguments}}}"#);
        prop_assert_eq!(found(&text, &conversation, format), meant);
    }
}

proptest! {
    #![proptest_config(tries(200))]

    /// Where no call is required, a grammar leaves text free, also text about calls, and a call must be one that was
    /// declared.
    #[test]
    fn a_grammar_that_allows_text_constrains_only_calls(
        (schema, value) in object(pair()),
        format in prop::sample::select(format::ALL),
        name in prop::sample::select(&NAMES as &[_]),
        part in 0..80_usize,
        noise in "[a<\\[{\"|_ \n]{0,12}",
        parallel_calls in any::<bool>(),
    ) {
        let tools: Vec<_> = NAMES.iter().map(|name| (*name, schema.clone())).collect();
        let conversation = Conversation { tool_choice: ToolChoice::Auto, parallel_calls, ..asking(&tools) };
        let Some(Enforced { constraint, format }) = enforced(&conversation, format, Enforce::Grammar) else {
            return Ok(());
        };
        let Constraint::Grammar(grammar) = constraint else { panic!("{constraint:?}") };
        prop_assert!(grammar.allows_text);
        let read = Grammar::read(&grammar.rules);
        let call = toolwire::conversation::Call::new("", name, value.to_string());
        let arguments = Form::json("{{arguments}}").calls(std::slice::from_ref(&call));
        let form = format.teach.expect("a taught format").form;
        let text = form.calls(std::slice::from_ref(&call));
        let opening = text.split_once(name).expect("the name").0;

        for plain in ["", "A plain answer. 1 < 2, [3] {4}\n\n"] {
            prop_assert!(read.has(plain));
        }
        // A part of the opening is text, whatever follows, unless that completes it.
        let about: String = opening.chars().take(part).chain(noise.chars()).collect();
        let about = if about.contains(opening) { String::new() } else { about };
        prop_assert!(read.has(&about), "{about:?}\n{}", grammar.rules);
        let said = format!("Sure!\n{about} {text}");
        prop_assert!(about.ends_with(&opening[..1]) || read.has(&said), "{said}\n{}", grammar.rules);
        prop_assert_eq!(read.has(&format!("{text}\nAnd {text}")), parallel_calls);
        let twice = form.calls(&[call.clone(), call.clone()]);
        prop_assert_eq!(read.has(&twice), parallel_calls);

        let other = text.replacen(name, "other_tool", 1);
        prop_assert!(!read.has(&other), "{other}\n{}", grammar.rules);
        let other = text.replace(&arguments, r#"{"undeclared":1}"#);
        prop_assert!(other == text || !read.has(&other), "{other}\n{}", grammar.rules);
        let (_, calls) = found(&format!("Sure!\n{text}"), &conversation, format);
        prop_assert_eq!(calls, vec![(str::to_owned(name), arguments)]);
    }
}

#[test]
fn formats_with_json_arguments_and_a_marker_have_structural_tags() {
    let conversation = asking(&[("now", json!({"type": "object"}))]);
    let has_tags =
        |format: &&&'static Format| enforced(&conversation, format, Enforce::StructuralTag).is_some();
    let names: Vec<_> = format::ALL.iter().filter(has_tags).map(|format| format.name).collect();
    for name in ["hermes", "mistral", "granite3", "jamba", "deepseek_v31", "pre"] {
        assert!(names.contains(&name), "{name}");
    }
    // These formats have no marker, do not use JSON, or have a marker that is already in the prompt.
    for name in ["bare", "fenced", "qwen3_coder", "pythonic", "harmony"] {
        assert!(!names.contains(&name), "{name}");
    }
}
