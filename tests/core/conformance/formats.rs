//! Runs the published cases of all text formats that toolwire implements. Each case is detected only in its own
//! format, and its text comes from a plain upstream.

use serde_json::{Value, json};
use toolwire::{
    format::{self, Format},
    rules::{ArgumentDelivery, Detect, Rules},
};

use super::{Kind, id, run_all, run_own};
use crate::support::{
    client::Answer,
    exchange::{Cuts, Exchange, request},
    upstream::Speech,
};

/// Cases in which `formats.jsonl` contradicts `lumo.jsonl`, with the text that toolwire produces.
///
/// mdjson-01 keeps both line endings around a fence, but T03, "canonical", keeps one. toolwire follows T03
/// (docs/protocols/text-formats.md#white-space).
///
/// hermes-31 keeps a stray closer as text. toolwire removes a closer directly after a call as framing, because small
/// models write it and it would be shown to users.
const DISAGREE: &[(&str, &str)] = &[("mdjson-01", "I'll call it:\nWaiting."), ("hermes-31", "x")];

fn lines() -> (Value, Vec<Value>) {
    let mut lines = include_str!("../../../fixtures/conformance/formats.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    (lines.next().expect("a header"), lines.collect())
}

fn declared() -> Value {
    let toolset = lines().0["toolset"].as_object().expect("tools").clone();
    let tool = |(name, spec): (String, Value)| json!({"type": "function", "function": {"name": name, "parameters": spec["parameters"]}});
    toolset.into_iter().map(tool).collect()
}

fn format_of(case: &Value) -> Option<&'static Format> {
    format::by_name(match case["format"].as_str().expect("a format") {
        "pre_json" => "pre",
        "md_json" => "fenced",
        "bare_json" => "bare",
        "reasoning" => "hermes",
        other => other,
    })
}

/// Normalizes numbers so that values compare equal regardless of how numbers are written.
fn as_values(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::String(format!("{:?}", number.as_f64())),
        Value::Array(items) => items.into_iter().map(as_values).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, as_values(value))).collect(),
        other => other,
    }
}

fn check(case: &Value) {
    let format = format_of(case).expect("a format that is built");
    let text = case["text"].as_str().unwrap();
    let upstream = case["upstream_finish"].as_str().unwrap_or("stop");
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        let cut =
            case["expect"]["calls"].as_array().unwrap().iter().any(|c| !c["arguments_prefix"].is_null());
        if cut && arguments == ArgumentDelivery::Whole {
            continue;
        }
        let detect = Detect::Formats(vec![format.name, format::THINK.name]);
        let starts_in_reasoning = case["opts"]["starts_in_reasoning"] == true;
        let settings = Rules { arguments, detect, starts_in_reasoning, ..Rules::default() };
        let exchange = Exchange::new(request(&json!({"tools": declared()})), settings, Speech::Chat);
        let what = format!("{} {arguments:?}", id(case));
        // Byte splits only affect the reader, and the Lumo cases already cover that.
        let cuts = if arguments == ArgumentDelivery::Stream { Cuts::Text } else { Cuts::Sizes };
        let (answer, _) = exchange.text(&what, text, upstream, cuts);
        compare(&what, case, &answer);
    }
}

fn compare(what: &str, case: &Value, answer: &Answer) {
    let expect = &case["expect"];
    let disagrees = DISAGREE.iter().find(|(name, _)| *name == id(case));
    let content = disagrees.map_or_else(|| expect["content"].as_str().unwrap(), |(_, content)| content);
    assert_eq!(answer.text, content, "{what}");
    assert_eq!(answer.reasoning, expect["reasoning"].as_str().unwrap_or_default(), "{what}");
    assert_eq!(answer.finish.as_deref(), expect["finish"].as_str(), "{what}");
    let wanted = expect["calls"].as_array().unwrap();
    assert_eq!(answer.calls.len(), wanted.len(), "{what}: {:?}", answer.calls);
    for (call, wanted) in answer.calls.iter().zip(wanted) {
        assert_eq!(call.name, wanted["name"].as_str().unwrap(), "{what}");
        // mistral-01 puts the ID after the arguments, when the first delta has already been sent.
        if let Some(id) = wanted["id"].as_str().filter(|_| !what.starts_with("mistral-01")) {
            assert_eq!(call.id, id, "{what}");
        }
        if let Some(prefix) = wanted["arguments_prefix"].as_str() {
            // The last token of a truncated value may be held back if it could still continue.
            let missing = prefix.strip_prefix(call.arguments.as_str());
            assert!(missing.is_some_and(|missing| missing.len() <= 12), "{what}: {}", call.arguments);
            continue;
        }
        let parsed = serde_json::from_str(&call.arguments);
        let parsed: Value = parsed.unwrap_or_else(|e| panic!("{what}: {}: {e}", call.arguments));
        assert_eq!(as_values(parsed), as_values(wanted["args"].clone()), "{what}");
        if let Some(exact) = wanted["arguments"].as_str() {
            assert_eq!(call.arguments, exact, "{what}");
        }
    }
}

#[test]
fn published_format_cases() {
    let (_, cases) = lines();
    // Cases of formats that toolwire does not implement are skipped.
    let built = cases.into_iter().filter(|case| format_of(case).is_some()).collect();
    assert_eq!(run_all(built, check), 131);
}

#[test]
fn own_format_cases() {
    assert!(run_own(Kind::Format, check) > 50);
}
