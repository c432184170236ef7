//! Runs the Lumo conformance cases that concern decoding.

use serde_json::{Value, json};
use toolwire::event::CallEnd;

use crate::{
    lumo::assembled::{Assembled, read_text},
    support::upstream::Speech,
};

/// Cases that depend on a later stage of the pipeline.
const OTHER_STAGES: [&str; 1] = ["W34"];

pub(crate) fn cases() -> impl Iterator<Item = Value> {
    let file = include_str!("../../../fixtures/conformance/lumo.jsonl");
    file.lines().map(|line| serde_json::from_str(line).expect("a case is JSON"))
}

pub(crate) fn frames(events: &[Value], v1: bool) -> String {
    let speech = if v1 { Speech::LumoV1 } else { Speech::LumoV2 };
    String::from_utf8(speech.stream(events)).expect("JSON")
}

fn stream_of(case: &Value) -> String {
    match case["raw"].as_str() {
        Some(raw) => raw.to_owned(),
        None => frames(case["ev"].as_array().expect("events"), case["id"].as_str().unwrap().starts_with('V')),
    }
}

#[test]
fn streams_match_the_cases() {
    let mut run = 0;
    for case in cases() {
        let id = case["id"].as_str().expect("an id").to_owned();
        let mine = id.starts_with(['V', 'W']) || id == "U08";
        if !mine || OTHER_STAGES.contains(&id.as_str()) {
            continue;
        }
        let stream = stream_of(&case);
        println!("{id}");
        check(&case, &read_text(&stream));
        run += 1;
    }
    assert!(run >= 30, "only {run} cases");
}

fn check(case: &Value, got: &Assembled) {
    let id = &case["id"];
    let text = |key: &str, got: &str| {
        if let Some(expected) = case[key].as_str() {
            assert_eq!(got, expected, "{key} of {id}");
        }
    };
    text("text", &got.text);
    text("reasoning", &got.reasoning);
    text("fin", got.finish_word().unwrap_or_default());
    // W17 assumes complete arguments, but a reader streams them and reports that they are incomplete.
    let complete = got.calls.iter().filter(|call| call.4 == Some(CallEnd::Complete));
    let calls: Value = complete.clone().map(|call| json!([call.2, call.3])).collect();
    if !case["calls"].is_null() {
        assert_eq!(calls, case["calls"], "calls of {id}");
    }
    if !case["ids"].is_null() {
        assert_eq!(complete.map(|call| json!(call.1)).collect::<Value>(), case["ids"], "ids of {id}");
    }
    if !case["results"].is_null() {
        let results: Value = got.results.iter().map(|result| json!([result.0, result.1])).collect();
        assert_eq!(results, case["results"], "results of {id}");
    }
    if !case["order"].is_null() {
        assert_eq!(json!(got.order), case["order"], "order of {id}");
    }
    if !case["usage"].is_null() {
        assert_eq!(got.usage.as_ref(), Some(&case["usage"]), "usage of {id}");
    }
    match (&got.failure, case["err"]["code"].as_str()) {
        (Some((code, _)), Some(expected)) => assert_eq!(code, expected, "code of {id}"),
        (failure, expected) => {
            assert_eq!(failure.is_some(), expected.is_some(), "failure of {id}: {failure:?}")
        }
    }
    if let (Some((_, status)), Some(expected)) = (&got.failure, case["http"].as_u64()) {
        assert!(expected == 200 || u64::from(*status) == expected, "status of {id}");
    }
    match case["metric"].as_str() {
        Some("malformed event >=1") => assert!(got.malformed >= 1),
        Some("orphan result +1") => assert_eq!(got.orphans, 1),
        _ => {}
    }
}
