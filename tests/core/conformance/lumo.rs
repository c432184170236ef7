//! Runs the published Lumo cases. Each runs in one piece, in pieces of 1, 2, 3, 5, 7 and 13 bytes, and with every
//! two-way split of its bytes; [`cuts`] explains which splits are skipped to save time. A text case is also split
//! into two events at every position, and runs with every kind of upstream. All cases run both with streamed
//! arguments and repair, and with complete arguments and no repair.

use serde_json::{Value, json};
use toolwire::{
    format,
    pipeline::Tally,
    rules::{ArgumentDelivery, Detect, Misroute, Rules, ServerCalls, UnknownCalls},
};

use super::{Kind, id, run, run_own};
use crate::support::{
    client::Answer,
    exchange::{Cuts, Exchange, request, tools},
    upstream::Speech,
};

/// Documented differences that exist because arguments that have been streamed cannot be taken back.
const STREAMED: &[(&str, &str)] = &[
    ("T55", r#"{"text": "", "calls": [["a", "{\"x\":1}"]]}"#),
    ("T69", r#"{"text": "{\"k\":2}\n```", "calls": [["a", "{\"x\":1}"]]}"#),
    ("W17", r#"{"calls": [["a", "{\"x\":"]], "metric": null}"#),
];

fn put_over(case: &mut Value, over: &Value) {
    for (key, value) in over.as_object().into_iter().flatten() {
        case[key] = value.clone();
    }
}

/// Replaces the expectations that are different in this mode.
fn in_mode(case: &Value, arguments: ArgumentDelivery) -> Value {
    let mut case = case.clone();
    let (key, published) = match arguments {
        ArgumentDelivery::Stream => ("streamed", STREAMED),
        ArgumentDelivery::Whole => ("whole", [].as_slice()),
    };
    let published = published.iter().find(|(name, _)| *name == id(&case));
    let over = published.map_or(case[key].clone(), |(_, over)| serde_json::from_str(over).expect("JSON"));
    put_over(&mut case, &over);
    case
}

fn settings(case: &Value, arguments: ArgumentDelivery) -> Rules {
    let word = |key: &str| case[key].as_str();
    let detect = case["detect"].as_array().map(|names| {
        names.iter().map(|name| format::by_name(name.as_str().unwrap()).expect("a format").name).collect()
    });
    Rules {
        arguments,
        repair: arguments == ArgumentDelivery::Stream,
        detect: detect.map_or(Detect::Auto, Detect::Formats),
        tool_prefix: "user:".to_owned(),
        server_tools: ["proton_info", "web_search"].map(str::to_owned).to_vec(),
        server_calls: match word("native") {
            Some("hide") => ServerCalls::Hide,
            Some("annotate") => ServerCalls::Annotate,
            None | Some("forward") => ServerCalls::Forward,
            other => panic!("{other:?}"),
        },
        misroute: if word("misroute") == Some("bounce") { Misroute::Bounce } else { Misroute::Rescue },
        unknown_calls: match word("unknown_calls") {
            Some("text") => UnknownCalls::Text,
            _ => UnknownCalls::Forward,
        },
        tolerate_truncation: case["tolerate_truncation"] == true,
        ..Rules::default()
    }
}

pub(super) fn exchange(case: &Value, arguments: ArgumentDelivery, speech: Speech) -> Exchange {
    let mut fields = if case["req"].is_object() { case["req"].clone() } else { json!({}) };
    let names = fields["tools"].as_array().map_or_else(
        || ["a", "b", "get_weather", "write_file"].map(str::to_owned).to_vec(),
        |names| names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
    );
    // The call must lack a required argument, or it would not be sent back to the model.
    let schema = if case["misroute"] == "bounce" {
        json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]})
    } else {
        case["schema"].clone()
    };
    fields["tools"] = tools(names.iter().map(String::as_str), &schema);
    if names.is_empty() {
        fields.as_object_mut().unwrap().remove("tools");
    }
    let mut exchange = Exchange::new(request(&fields), settings(case, arguments), speech);
    exchange.later = case["second"].as_array().map(|events| speech.stream(events)).into_iter().collect();
    exchange
}

/// Compares an answer with the expectations of its case. If the case has no finish reason, the expected one follows
/// from `calls`.
pub(super) fn check(what: &str, case: &Value, (got, tally): &(Answer, Tally)) {
    let text = |key: &str, got: &str| {
        if let Some(expected) = case[key].as_str() {
            assert_eq!(got, expected, "{key} of {what}");
        }
    };
    text("text", &got.text);
    text("reasoning", &got.reasoning);
    let calls = json!(got.named_calls());
    if !case["calls"].is_null() {
        assert_eq!(calls, case["calls"], "calls of {what}");
    }
    if !case["ids"].is_null() {
        assert_eq!(got.calls.iter().map(|call| json!(call.id)).collect::<Value>(), case["ids"], "{what}");
    }
    if !case["annotations"].is_null() {
        let cited = got.annotations.iter().map(|it| &it["url_citation"]);
        let cited: Value = cited.map(|it| json!([it["url"], it["title"]])).collect();
        assert_eq!(cited, case["annotations"], "annotations of {what}");
    }
    if !case["results"].is_null() {
        let results: Value = got.results.iter().map(|result| json!([result.0, result.1])).collect();
        assert_eq!(results, case["results"], "results of {what}");
    }
    if let Some(order) = case["order"].as_array() {
        let seen: Vec<_> = got.order.iter().filter(|what| **what != "role").map(|what| json!(what)).collect();
        assert_eq!(&seen, order, "order of {what}");
    }
    if !case["usage"].is_null() {
        assert_eq!(got.usage.as_ref(), Some(&case["usage"]), "usage of {what}");
    }
    match case["metric"].as_str() {
        Some("malformed event >=1") => assert!(tally.malformed_frames >= 1, "{what}"),
        Some("invalid call +1") => assert_eq!(tally.dropped_calls, 1, "{what}"),
        // Orphans are counted by the reader, whose own tests check the count. toolwire forwards images instead of
        // dropping them.
        Some("orphan result +1" | "image dropped +1") | None => {}
        Some(other) => panic!("{what}: unknown metric {other}"),
    }
    ending(what, case, got);
}

fn ending(what: &str, case: &Value, got: &Answer) {
    if case["err"].is_null() {
        assert_eq!(got.error, None, "{what}");
        assert!(got.done, "{what} ends");
        let calls = case["calls"].as_array().is_some_and(|calls| !calls.is_empty());
        let finish = case["fin"].as_str().unwrap_or(if calls { "tool_calls" } else { "stop" });
        assert_eq!(got.finish.as_deref(), Some(finish), "finish of {what}");
        return;
    }
    let error = got.error.as_ref().unwrap_or_else(|| panic!("{what} fails"));
    assert_eq!(got.finish, None, "{what}: no finish in a failed answer");
    for (key, expected) in case["err"].as_object().unwrap() {
        assert_eq!(&error[key], expected, "{key} of {what}");
    }
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {error}");
    assert_eq!(got.done, got.status == 200, "{what}: a stream that has begun is ended");
    if let Some(status) = case["http"].as_u64() {
        assert_eq!(u64::from(got.status), status, "{what}");
    }
}

const MODES: [ArgumentDelivery; 2] = [ArgumentDelivery::Stream, ArgumentDelivery::Whole];

/// Runs a text case in both modes and in many splits: a published one with every kind of upstream, others with some.
fn run_text(case: &Value) {
    let input = case["in"].as_str().unwrap();
    let is_played = |speech: &Speech| is_published(case) || is_in_turn(case, *speech);
    let speeches = Speech::ALL.into_iter().filter(is_played).chain(Speech::COMPLETIONS);
    for arguments in MODES {
        let case = in_mode(case, arguments);
        for speech in speeches.clone() {
            let exchange = exchange(&case, arguments, speech);
            let what = format!("{} {arguments:?} {speech:?}", id(&case));
            let answer = exchange.text(&what, input, "stop", cuts(&case, arguments, speech));
            check(&what, &case, &answer);
            agrees_with_whole_answer(&what, &exchange, &speech.says(&[input], "stop"));
        }
    }
}

/// Whether a case is tried in more ways with this kind of upstream: with Lumo, Chat Completions, and one other in turn.
fn is_in_turn(case: &Value, speech: Speech) -> bool {
    let turn = Speech::ALL[id(case).bytes().map(usize::from).sum::<usize>() % Speech::ALL.len()];
    [Speech::LumoV2, Speech::Chat, turn].contains(&speech)
}

fn is_published(case: &Value) -> bool {
    id(case).starts_with(|letter: char| letter.is_ascii_uppercase())
}

/// Byte splits only affect the reader, which works the same in both modes, so they are tried in one. Unpublished
/// cases get fewer splits.
fn cuts(case: &Value, arguments: ArgumentDelivery, speech: Speech) -> Cuts {
    let published = is_published(case);
    match (arguments, speech) {
        (_, Speech::Completions | Speech::Ollama) => Cuts::Sizes,
        (ArgumentDelivery::Stream, _) if published && is_in_turn(case, speech) => Cuts::Bytes,
        _ if published => Cuts::Text,
        (_, Speech::LumoV2) | (ArgumentDelivery::Stream, Speech::Chat) => Cuts::Text,
        _ => Cuts::Sizes,
    }
}

fn speech_of(case: &Value) -> Speech {
    match case["speech"].as_str() {
        Some("chat") => Speech::Chat,
        Some("completions") => Speech::Completions,
        Some("ollama") => Speech::Ollama,
        Some("v1") => Speech::LumoV1,
        None if id(case).starts_with('V') => Speech::LumoV1,
        _ => Speech::LumoV2,
    }
}

fn run_events(case: &Value) {
    let speech = speech_of(case);
    let bytes = match case["raw"].as_str() {
        Some(raw) => raw.as_bytes().to_vec(),
        None => speech.stream(case["ev"].as_array().expect("events")),
    };
    for arguments in MODES {
        let case = in_mode(case, arguments);
        let what = format!("{} {arguments:?}", id(&case));
        let exchange = exchange(&case, arguments, speech);
        let answer = exchange.at_every_cut(&what, &bytes);
        if case["json"].is_object() {
            check_json(&what, &case["json"], &answer.0);
        } else {
            check(&what, &case, &answer);
            agrees_with_whole_answer(&what, &exchange, &bytes);
        }
    }
}

/// Checks that a non-streaming client gets the same response.
fn agrees_with_whole_answer(what: &str, exchange: &Exchange, bytes: &[u8]) {
    let (streamed, _) = exchange.run([bytes]);
    let mut exchange = exchange.clone();
    exchange.conversation.stream = false;
    let (whole, _) = exchange.run([bytes]);
    if let Some(error) = &whole.error {
        assert_eq!(Some(error), streamed.error.as_ref(), "{what}, not streamed");
        return;
    }
    // Without a stream, half a call written as text is not sent.
    let is_json = |arguments: &str| serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok();
    let half = |answer: &Answer| answer.named_calls().iter().any(|(_, arguments)| !is_json(arguments));
    if half(&streamed) || streamed.finish.as_deref() == Some("length") {
        return;
    }
    let rest = |answer: &Answer| (answer.calls.clone(), answer.results.clone(), answer.finish.clone());
    let texts = |answer: &Answer| (answer.text.clone(), answer.reasoning.clone());
    assert_eq!((texts(&whole), rest(&whole)), (texts(&streamed), rest(&streamed)), "{what}, not streamed");
}

fn check_json(what: &str, expected: &Value, got: &Answer) {
    assert_eq!(got.text, expected["content"].as_str().unwrap_or_default(), "{what}");
    assert_eq!(got.finish.as_deref(), expected["finish_reason"].as_str(), "{what}");
    if !expected["tool_calls"].is_null() {
        assert_eq!(json!(got.named_calls()), expected["tool_calls"], "{what}");
    }
}

#[test]
fn text_cases() {
    assert_eq!(run(Kind::Text, run_text), 47);
}

#[test]
fn own_text_cases() {
    assert!(run_own(Kind::Text, run_text) > 200);
}

#[test]
fn event_cases() {
    assert_eq!(run(Kind::Events, run_events), 48);
}

#[test]
fn own_event_cases() {
    assert!(run_own(Kind::Events, run_events) > 70);
}
