//! Tests a model that repeats its prompt instead of following it: toolwire renders the prompt, the test derives an
//! answer from it, and the complete pipeline reads that answer.

use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Role, Turn},
    format::{ALL, Format, Teaching, instruct},
    pipeline::{Reason, Tally},
    rules::{Detect, Enforce, InvalidArguments, Rules, UnknownCalls},
};

use crate::support::{
    client::Answer,
    exchange::{Exchange, request},
    upstream::Speech,
};

fn taught() -> impl Iterator<Item = &'static Format> {
    ALL.iter().copied().filter(|format| format.teach.is_some())
}

/// Detection of only this format, and of this format together with the automatically detected ones.
fn detects(format: &Format) -> [Detect; 2] {
    [Detect::Formats(vec![format.name]), Detect::AutoAnd(vec![format.name])]
}

fn tool(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    let parameters = json!({"type": "object", "properties": properties, "required": required});
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

fn tools() -> Value {
    let weather =
        json!({"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}});
    let search = json!({"query": {"type": "string", "description": "What to search for"}});
    json!([
        tool("get_weather", "Get the current weather for a city", &weather, &["city"]),
        tool("web_search", "Search the web", &search, &["query"]),
        tool("list_notes", "List all notes", &json!({}), &[]),
    ])
}

/// A conversation that already contains a call and its result, with `more` added to the request.
fn asked(more: &Value) -> Conversation {
    let call = json!({"id": "c1", "type": "function", "function": {
        "name": "get_weather", "arguments": "{\"city\":\"Oslo\"}",
    }});
    let mut fields = json!({"tools": tools(), "messages": [
        {"role": "user", "content": "How is the weather in Oslo?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "{\"temperature\": 3, \"sky\": \"clear\"}"},
        {"role": "assistant", "content": "3 degrees, and clear."},
        {"role": "user", "content": "And in Rome?"},
    ]});
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
    request(&fields)
}

/// Returns the turns that the model gets for the request in [`asked`].
fn shown(format: &Format, teaching: &Teaching) -> Vec<Turn> {
    instruct(asked(&json!({})), format, teaching).turns
}

/// Returns the client's answer if the model answers each request with the next of `texts`.
fn said(more: &Value, rules: &Rules, texts: &[&str]) -> (Answer, Tally) {
    let (first, later) = texts.split_first().unwrap();
    let mut exchange = Exchange::new(asked(more), rules.clone(), Speech::Chat);
    exchange.later = later.iter().map(|text| Speech::Chat.says(&[text], "stop")).collect();
    exchange.in_pieces(first, &Speech::Chat.says(&[first], "stop"))
}

fn assert_no_call(format: &Format, text: &str) {
    for detect in detects(format) {
        let rules = Rules { detect, ..Rules::default() };
        let (answer, _) = said(&json!({}), &rules, &[text]);
        assert_eq!(answer.calls, [], "{} by {:?}: {text}", format.name, rules.detect);
        assert_eq!(answer.finish.as_deref(), Some("stop"), "{}: {text}", format.name);
    }
}

fn example(format: &Format) -> String {
    let turns = Teaching { example_turns: true, ..Teaching::default() };
    let shown = instruct(asked(&json!({})), format, &turns).turns;
    shown.iter().find(|turn| turn.role == Role::Assistant).unwrap().joined_text()
}

#[test]
fn repeated_result_is_not_a_call() {
    for format in taught() {
        let turns = shown(format, &Teaching::default());
        let result = turns.iter().rfind(|turn| turn.joined_text().contains("temperature")).unwrap();
        let result = result.joined_text();
        for text in [
            result.clone(),
            format!("Rome:\n{result}"),
            format!("{result}\nIt is warm."),
            result.replace('3', "21"),
        ] {
            assert_no_call(format, &text);
        }
    }
}

#[test]
fn repeated_instructions_are_not_calls() {
    for format in taught() {
        for signatures in [true, false] {
            // The examples themselves are left out: a repeated example is read as a call wherever it appears.
            let teaching = Teaching { signatures, examples: 0, ..Teaching::default() };
            let instructions = shown(format, &teaching)[0].joined_text();
            for text in [
                instructions.clone(),
                format!("```\n{instructions}\n```"),
                format!("I was told: {instructions}"),
            ] {
                assert_no_call(format, &text);
            }
        }
    }
}

#[test]
fn repeated_tool_list_is_not_a_call() {
    for format in taught() {
        for template in ["{{tools}}", "{{signatures}}"] {
            let teaching = Teaching { template: template.to_owned(), ..Teaching::default() };
            let list = shown(format, &teaching)[0].joined_text();
            assert!(list.contains("get_weather"), "{list}");
            for text in [
                list.clone(),
                format!("I can use:\n\n{list}"),
                format!("```json\n{list}\n```"),
                format!("<tools>\n{list}\n</tools>"),
            ] {
                assert_no_call(format, &text);
            }
            if template == "{{tools}}" {
                let array = format!("[{}]", list.lines().collect::<Vec<_>>().join(",\n"));
                assert_no_call(format, &format!("```json\n{array}\n```"));
                assert_no_call(format, &array);
            }
        }
    }
}

/// A repeated example looks the same as an intended call.
#[test]
fn repeated_example_is_a_call() {
    for format in taught() {
        let text = example(format);
        for detect in detects(format) {
            let (answer, _) = said(&json!({}), &Rules { detect, ..Rules::default() }, &[&text]);
            assert_eq!(answer.named_calls()[0].0, "get_weather", "{}: {text}", format.name);
            assert_eq!(answer.finish.as_deref(), Some("tool_calls"), "{}", format.name);
        }
    }
}

#[test]
fn call_where_none_is_allowed_is_text() {
    for format in taught() {
        let text = example(format);
        let rules = Rules { detect: Detect::AutoAnd(vec![format.name]), ..Rules::default() };
        for more in [json!({"tool_choice": "none"}), json!({"tools": []})] {
            let (answer, _) = said(&more, &rules, &[&text]);
            assert_eq!(answer.calls, [], "{}: {more}", format.name);
            // In formats with channels, message markers are not part of the text.
            assert!(answer.text.contains("Paris"), "{}: {more}", format.name);
        }
    }
}

const PLACEHOLDER: &str =
    "<tool_call>\n{\"name\": \"tool_name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>";
const INVENTED: &str =
    "<tool_call>\n{\"name\": \"get_weather_of_rome\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";
const PROPER: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";
/// A schema in place of the arguments, an argument of a different tool, and no arguments.
const WRONG_ARGUMENTS: [&str; 3] = [
    r#"{"type": "object", "properties": {"city": {"type": "string"}}}"#,
    r#"{"query": "solar eclipse"}"#,
    "{}",
];

fn outcome(answer: &Answer) -> (&str, Vec<&str>) {
    (answer.text.trim(), answer.named_calls().into_iter().map(|(name, _)| name).collect())
}

#[test]
fn placeholder_and_invented_name_are_treated_as_configured() {
    for (text, name) in [(PLACEHOLDER, "tool_name"), (INVENTED, "get_weather_of_rome")] {
        let rules = |unknown_calls| Rules { unknown_calls, ..Rules::default() };
        let (answer, _) = said(&json!({}), &rules(UnknownCalls::Forward), &[text]);
        assert_eq!(outcome(&answer), ("", vec![name]));
        let (answer, _) = said(&json!({}), &rules(UnknownCalls::Text), &[text]);
        assert_eq!(outcome(&answer), (text, vec![]));
        assert_eq!(answer.finish.as_deref(), Some("stop"));
        let (answer, tally) = said(&json!({}), &rules(UnknownCalls::Retry), &[text, PROPER]);
        assert_eq!(outcome(&answer), ("", vec!["get_weather"]));
        assert_eq!(tally.follow_ups, [Reason::UnknownTool]);
    }
}

#[test]
fn wrong_arguments_are_treated_as_configured() {
    for arguments in WRONG_ARGUMENTS {
        let text =
            format!("<tool_call>\n{{\"name\": \"get_weather\", \"arguments\": {arguments}}}\n</tool_call>");
        let (answer, tally) = said(&json!({}), &Rules::default(), &[&text]);
        assert_eq!(outcome(&answer), ("", vec!["get_weather"]));
        assert_eq!(tally.follow_ups, []);
        let rules = Rules { invalid_arguments: InvalidArguments::Retry, ..Rules::default() };
        let (answer, tally) = said(&json!({}), &rules, &[&text, PROPER]);
        assert_eq!(answer.named_calls(), [("get_weather", r#"{"city": "Rome"}"#)], "{arguments}");
        assert_eq!(tally.follow_ups, [Reason::InvalidArguments]);
    }
}

#[test]
fn required_call_that_is_only_imitated_is_reported() {
    let required = json!({"tool_choice": "required"});
    for format in taught() {
        let turns = shown(format, &Teaching::default());
        let result =
            turns.iter().rfind(|turn| turn.joined_text().contains("temperature")).unwrap().joined_text();
        let fenced = "You can use this:\n```python\ndef get_weather(city: str) -> str:\n    return city\n```";
        for text in [result.as_str(), fenced, "It is warm in Rome."] {
            let rules = Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() };
            let (answer, _) = said(&required, &rules, &[text]);
            assert_eq!(
                (answer.calls.len(), answer.finish.as_deref()),
                (0, Some("stop")),
                "{}: {text}",
                format.name
            );
            assert_eq!(answer.warnings, ["tool_choice_unfulfilled"], "{}: {text}", format.name);
            let rules = Rules { enforce: Enforce::Retry, ..rules };
            let (answer, tally) = said(&required, &rules, &[text, &example(format)]);
            assert_eq!(
                (outcome(&answer).1, answer.warnings.len()),
                (vec!["get_weather"], 0),
                "{}",
                format.name
            );
            assert_eq!(tally.follow_ups, [Reason::MissingCall], "{}: {text}", format.name);
        }
    }
}

#[test]
fn retry_gives_the_reason() {
    let unknown = Rules { unknown_calls: UnknownCalls::Retry, ..Rules::default() };
    let invalid = Rules { invalid_arguments: InvalidArguments::Retry, ..Rules::default() };
    let missing = Rules { enforce: Enforce::Retry, ..Rules::default() };
    let empty = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>";
    for (rules, text, reason) in [
        (unknown, PLACEHOLDER, ["tool_name", "get_weather"]),
        (invalid, empty, ["get_weather", "city"]),
        (missing, "It is warm.", ["call", "required"]),
    ] {
        let exchange = Exchange::new(asked(&json!({"tool_choice": "required"})), rules, Speech::Chat);
        let (mut pipeline, mut out) = (exchange.pipeline(), bytes::BytesMut::new());
        pipeline.push(&Speech::Chat.says(&[text], "stop"), &mut out);
        pipeline.finish(&mut out);
        let follow_up = pipeline.follow_up().expect("the model is asked again");
        let said = follow_up.turns.last().unwrap().joined_text();
        assert!(reason.iter().all(|word| said.contains(word)), "{text}: {said}");
    }
}
