//! Runs the request cases: a client's request, and the request that toolwire sends to Lumo for it.

use serde_json::{Map, Value, json};
use toolwire::{
    dialect::lumo::{Options, Version, encode},
    format::{self, Teaching, instruct},
};

use super::{Kind, id, published, run};
use crate::support::exchange::{request, tools};

/// Fills in the members that a case inherits from another case.
fn completed(case: &Value) -> Value {
    let mut case = case.clone();
    if let Some(other) = case["same_as"].as_str() {
        let other = published().into_iter().find(|it| id(it) == other).expect("the other case");
        case["messages"] = other["messages"].clone();
    }
    case
}

fn check(case: &Value) {
    let case = completed(case);
    let what = id(&case);
    let mut fields = case["req"].as_object().cloned().unwrap_or_else(Map::new);
    let in_text = case["mode"].as_str().is_some_and(|mode| mode.starts_with("text-tools"));
    let names = fields.get("tools").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![json!("a")]);
    fields.insert("tools".to_owned(), tools(names.iter().filter_map(Value::as_str), &Value::Null));
    fields.insert("messages".to_owned(), case["messages"].clone());
    let mut conversation = request(&fields.into());
    if in_text {
        let prefix = case["mode"].as_str().unwrap().strip_prefix("text-tools prefix ").unwrap_or_default();
        let teaching = Teaching {
            prefix: prefix.to_owned(),
            in_user_turn: true,
            example_turns: false,
            ..Teaching::default()
        };
        conversation = instruct(conversation, &format::FENCED, &teaching);
    }
    let options =
        Options { version: Version::V2, native_tools: vec!["proton_info".to_owned()], ..Options::default() };
    let sent = encode(&conversation, &conversation.model, &options);
    let body: Value = serde_json::from_slice(&sent.body).expect("a JSON body");
    let turns: Vec<Value> = body["messages"].as_array().into_iter().flatten().cloned().collect();
    if let Some(expected) = case["upstream_turns"].as_array() {
        assert_eq!(turns.len(), expected.len(), "{what}: {turns:?}");
        for (turn, expected) in turns.iter().zip(expected) {
            assert_eq!(turn["role"], expected[0], "{what}");
            is_content(what, turn["content"].as_str().unwrap(), expected[1].as_str().unwrap());
        }
    }
    for (key, expected) in case["upstream_has"].as_object().into_iter().flatten() {
        assert_eq!(&body[key], expected, "{key} of {what}");
    }
    if what == "C08" {
        for field in ["temperature", "max_tokens", "seed"] {
            assert!(sent.dropped.iter().any(|dropped| dropped == field), "{field} is dropped and said to be");
        }
    }
    if what == "C09" {
        let said = case["messages"][0]["content"].as_str().unwrap();
        let content = turns[0]["content"].as_str().unwrap();
        assert!(content.ends_with(&format!("\n\n{said}")), "{what}: {content}");
    }
}

/// Compares `content` with `expected`, where a leading `[instructions]` matches any bracketed text.
fn is_content(what: &str, content: &str, expected: &str) {
    match expected.strip_prefix("[instructions]") {
        None => assert_eq!(content, expected, "{what}"),
        Some(rest) => {
            let instructions = content.strip_suffix(rest).unwrap_or_else(|| panic!("{what}: {content}"));
            assert!(instructions.starts_with('[') && instructions.ends_with(']'), "{what}: {instructions}");
            assert!(instructions.contains("user:a"), "{what}: the tools are told of");
        }
    }
}

#[test]
fn lumo_requests_match_the_cases() {
    assert_eq!(run(Kind::Request, check), 7);
}
