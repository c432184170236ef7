//! Tests tools described in the prompt: the client's strings stay strings, and a required response format is
//! described.

use serde_json::{Map, Value, json};
use toolwire::format::{ALL, Teaching};

use crate::requests::{decoded, encoded, plain, taught, taught_as, text, tools};

fn content(body: &Value, at: usize) -> &Value {
    &body["messages"][at]["content"]
}

#[test]
fn string_content_stays_a_string_in_every_role() {
    let request = json!({
        "model": "m", "tools": tools(), "messages": [
            {"role": "system", "content": "SYS"},
            {"role": "developer", "content": "DEV"},
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "A", "reasoning_content": "hm", "tool_calls": [crate::requests::call("c1", "shot")]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "assistant", "content": null, "tool_calls": [crate::requests::call("c2", "shot"), crate::requests::call("c3", "shot")]},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {"role": "tool", "tool_call_id": "c3", "content": [text("3"), text("4")]},
            {"role": "user", "content": "and?"},
        ],
    });
    for format in ALL.iter().filter(|format| format.teach.is_some()) {
        for in_user_turn in [false, true] {
            let teaching = Teaching { in_user_turn, ..Teaching::default() };
            let body = taught_as(&request, format.name, &teaching);
            for message in body["messages"].as_array().unwrap() {
                assert!(message["content"].is_string(), "{}: {message}", format.name);
            }
        }
        let body = taught(&request, format.name);
        assert!(content(&body, 0).as_str().unwrap().starts_with("SYS\n\nYou can call"), "{body}");
    }
}

#[test]
fn extended_list_of_text_parts_becomes_a_string() {
    let request = json!({"tools": tools(), "messages": [
        {"role": "system", "content": [text("a"), text("b")]}, {"role": "user", "content": [text("c"), text("d")]},
    ]});
    let body = taught(&request, "hermes");
    assert!(content(&body, 0).as_str().unwrap().starts_with("a\nb\n\nYou can call"), "{body}");
    assert_eq!(content(&body, 1), &json!([text("c"), text("d")]), "nothing was added to it");
    let teaching = Teaching { in_user_turn: true, example_turns: false, ..Teaching::default() };
    let body = taught_as(&request, "hermes", &teaching);
    assert!(content(&body, 0).as_str().unwrap().ends_with("]\n\nc\nd"), "{body}");
}

#[test]
fn list_with_other_parts_stays_a_list_and_keeps_its_fields() {
    let cached = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    let request = json!({"tools": tools(), "messages": [
        {"role": "system", "content": [cached]}, {"role": "user", "content": "?"},
    ]});
    let body = taught(&request, "hermes");
    assert_eq!(content(&body, 0)[0], cached);
    assert!(content(&body, 0)[1]["text"].as_str().unwrap().starts_with("You can call"), "{body}");
    let teaching = Teaching { in_user_turn: true, example_turns: false, ..Teaching::default() };
    let request = json!({"tools": tools(), "messages": [{"role": "user", "content": [cached]}]});
    assert_eq!(content(&taught_as(&request, "hermes", &teaching), 0)[1], cached);
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"answer": {"type": "number"}}})
}

#[test]
fn response_format_is_put_into_the_prompt_while_tools_may_be_called() {
    let named = json!({"type": "json_schema", "json_schema": {"name": "n", "description": "WHY", "schema": schema()}});
    let ask = |key: &str, value: &Value, choice: &str| {
        let mut request = json!({
            "tools": tools(), "tool_choice": choice,
            "messages": [{"role": "system", "content": "SYS"}, {"role": "user", "content": "?"}],
        });
        request[key] = value.clone();
        request
    };
    for (key, value, words) in [
        ("response_format", &named, vec![schema().to_string(), "WHY".to_owned()]),
        ("response_format", &json!({"type": "json_object"}), vec!["one JSON object".to_owned()]),
        ("response_format", &json!({"type": "json_object", "schema": schema()}), vec![schema().to_string()]),
        ("guided_json", &schema(), vec![schema().to_string()]),
        ("guided_regex", &json!("[a-z]+"), vec!["[a-z]+".to_owned()]),
        ("structured_outputs", &json!({"choice": ["yes", "no"]}), vec![r#"["yes","no"]"#.to_owned()]),
        ("json_schema", &schema(), vec![schema().to_string()]),
        ("grammar", &json!("root ::= x"), vec!["root ::= x".to_owned()]),
    ] {
        for choice in ["auto", "required"] {
            let body = taught(&ask(key, value, choice), "hermes");
            assert!(body.get(key).is_none(), "{key} would forbid a call: {body}");
            let user = content(&body, 1).as_str().unwrap();
            assert!(words.iter().all(|words| user.contains(words)), "{key}: {user}");
            assert!(user.starts_with("?\n\n["), "it stands behind the text of the user: {user}");
        }
        let request = ask(key, value, "none");
        let body = taught(&request, "hermes");
        assert_eq!((&body[key], content(&body, 0)), (value, &json!("SYS")), "nothing may be called");
        assert_eq!(&encoded(&decoded(&request), &plain())[key], value, "a native tool needs no text");
    }
    let text = json!({"type": "text"});
    assert_eq!(taught(&ask("response_format", &text, "auto"), "hermes")["response_format"], text);
}

#[test]
fn response_format_without_tools_is_kept() {
    let request = json!({
        "response_format": {"type": "json_object"}, "messages": [{"role": "user", "content": "?"}],
    });
    assert_eq!(taught(&request, "hermes")["response_format"], request["response_format"]);
}

/// A reference takes only a few bytes, however large the schema it points to.
#[test]
fn references_to_large_schemas_are_described_up_to_a_limit() {
    let request = |large: usize| {
        let place = json!({"$ref": "#/$defs/place"});
        let properties: Map<_, _> = (0..400).map(|number| (format!("p{number}"), place.clone())).collect();
        let schema = json!({"type": "object", "properties": properties, "$defs": {"place": {"const": "c".repeat(large)}}});
        json!({"messages": [{"role": "user", "content": "?"}], "tools": [
            {"type": "function", "function": {"name": "f", "parameters": schema}},
        ]})
    };
    for (signatures, max_instructions) in [(true, None), (true, Some(9_000_000)), (false, Some(1))] {
        let teaching = Teaching { signatures, max_instructions, examples: 0, ..Teaching::default() };
        let instructions =
            |large| content(&taught_as(&request(large), "hermes", &teaching), 0).as_str().unwrap().len();
        assert!(instructions(200) > 60 * 200, "all are described");
        assert!(instructions(100_000) < 5 << 20, "{signatures}");
    }
}

/// As many tools as fit are described, starting with the first, no matter which tools the client allows.
#[test]
fn number_of_tools_that_fit_is_found_for_many_tools() {
    let names: Vec<String> = (0..3000).map(|number| format!("t{number}")).collect();
    let tool = |name: &String| json!({"type": "function", "function": {"name": name, "parameters": {}}});
    let tools: Vec<_> = names.iter().map(tool).collect();
    let allowed: Vec<_> =
        names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
    let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed}});
    let request =
        json!({"messages": [{"role": "user", "content": "?"}], "tools": tools, "tool_choice": choice});
    let teaching = Teaching { max_instructions: Some(2000), ..Teaching::default() };
    let body = taught_as(&request, "hermes", &teaching);
    let shown = content(&body, 0).as_str().unwrap().matches("()").count();
    assert!((400..700).contains(&shown), "{shown}");
}
