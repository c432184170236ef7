//! Failures that users of other servers and parsers have reported
//! (docs/protocols/text-formats.md#reported-failures), each tested through the rule that would have prevented it.
//! Every text runs through the complete pipeline in many splits: as one frame split at each byte and byte by byte,
//! as two frames split at each character, with one character per frame, and as a non-streaming response. All
//! results must be the same.

mod begins;
mod calls;
mod deltas;
mod ends;
mod forms;
mod frames;
mod markers;
mod plain_text;
mod reasoning;
mod shapes;
mod starts;
mod values;

use std::sync::LazyLock;

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    format::{self, Format},
    rules::{Detect, Rules},
};

use crate::support::{
    client::Answer,
    cuts::{by_characters, character_ends},
    exchange::{Exchange, request},
    upstream::Speech,
};

/// The tools that all tests declare, taken from the published cases.
fn declared() -> Value {
    let header = include_str!("../../../fixtures/conformance/formats.jsonl").lines().next().unwrap();
    let header: Value = serde_json::from_str(header).unwrap();
    let tool = |(name, spec): (&String, &Value)| json!({"type": "function", "function": {"name": name, "parameters": spec["parameters"]}});
    header["toolset"].as_object().unwrap().iter().map(tool).collect()
}

fn exchange(formats: &[&'static Format], stream: bool) -> Exchange {
    let settings = Rules { detect: Detect::Formats(format::names(formats)), ..Rules::default() };
    let conversation = if stream { &STREAMED } else { &UNSTREAMED };
    Exchange::new(Conversation::clone(conversation), settings, Speech::Chat)
}

// Most tests run many exchanges, so the request is read once.
static STREAMED: LazyLock<Conversation> = LazyLock::new(|| asked(true));
static UNSTREAMED: LazyLock<Conversation> = LazyLock::new(|| asked(false));

fn asked(stream: bool) -> Conversation {
    request(&json!({"tools": declared(), "stream": stream}))
}

/// Returns the client's answer to a text in one of these formats. Asserts that no split changes it. `finish` is the
/// upstream's finish reason.
fn found_in(formats: &[&'static Format], text: &str, finish: &str) -> Answer {
    let exchange = exchange(formats, true);
    let stream = Speech::Chat.says(&[text], finish);
    let (whole, _) = exchange.run([stream.as_slice()]);
    for at in 0..=stream.len() {
        let (left, right) = stream.split_at(at);
        assert_eq!(exchange.run([left, right]).0, whole, "{text}: cut at byte {at}");
    }
    assert_eq!(exchange.run(stream.chunks(1)).0, whole, "{text}: byte by byte");
    let halves = character_ends(text).into_iter().map(|at| vec![&text[..at], &text[at..]]);
    for pieces in halves.chain([by_characters(text, 1)]) {
        let stream = Speech::Chat.says(&pieces, finish);
        assert_eq!(exchange.run([stream.as_slice()]).0, whole, "{pieces:?}");
    }
    unstreamed(formats, &stream, &whole);
    whole
}

fn unstreamed(formats: &[&'static Format], stream: &[u8], streamed: &Answer) {
    let (answer, _) = exchange(formats, false).run([stream]);
    if is_cut_or_broken(streamed) {
        assert!(!is_cut_or_broken(&Answer { finish: None, ..answer.clone() }), "half a call: {answer:?}");
        return;
    }
    let sum = |answer: &Answer| (answer.text.clone(), answer.reasoning.clone(), answer.finish.clone());
    assert_eq!(sum(&answer), sum(streamed), "not streamed");
    assert_eq!(answer.named_calls(), streamed.named_calls(), "not streamed");
}

/// Whether the response was cut off, or has a call whose arguments are not JSON. Without a stream, such a call is not sent.
fn is_cut_or_broken(answer: &Answer) -> bool {
    let is_cut = answer.finish.as_deref().is_some_and(|finish| finish != "stop" && finish != "tool_calls");
    let is_json = |arguments: &str| serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok();
    is_cut || !answer.named_calls().iter().all(|(_, arguments)| is_json(arguments))
}

/// Like [`found_in`], but with fewer splits, for large numbers of texts: in one piece, with one character per
/// frame, and as a non-streaming response.
fn tried_in(formats: &[&'static Format], text: &str, finish: &str) -> Answer {
    let exchange = exchange(formats, true);
    let stream = Speech::Chat.says(&[text], finish);
    let (whole, _) = exchange.run([stream.as_slice()]);
    let pieces = Speech::Chat.says(&by_characters(text, 1), finish);
    assert_eq!(exchange.run([pieces.as_slice()]).0, whole, "{text}: a character a frame");
    unstreamed(formats, &stream, &whole);
    whole
}

/// Like [`found_in`], but takes the name of one format, and also detects reasoning.
fn found(format: &str, text: &str) -> Answer {
    ended(format, text, "stop")
}

fn ended(format: &str, text: &str, finish: &str) -> Answer {
    let format = format::by_name(format).unwrap_or_else(|| panic!("no format {format}"));
    found_in(&[format, &format::THINK], text, finish)
}

fn tried(format: &str, text: &str, finish: &str) -> Answer {
    tried_in(&[format::by_name(format).unwrap_or_else(|| panic!("no format {format}"))], text, finish)
}

/// Checks that the answer has exactly these calls and this text.
fn is(format: &str, text: &str, visible: &str, calls: &[(&str, Value)]) {
    let answer = found(format, text);
    assert_eq!(read(&answer), calls, "{text}");
    assert_eq!(answer.text, visible, "{text}");
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    assert_eq!(answer.finish.as_deref(), Some(finish), "{text}");
}

fn read(answer: &Answer) -> Vec<(&str, Value)> {
    let read =
        |arguments: &str| serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{arguments}: {e}"));
    answer.named_calls().into_iter().map(|(name, arguments)| (name, read(arguments))).collect()
}

/// Returns the formats whose example contains a call.
fn with_calls() -> impl Iterator<Item = &'static Format> {
    format::ALL.iter().copied().filter(|format| format.example.contains("get_weather"))
}
