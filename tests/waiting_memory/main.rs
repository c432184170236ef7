//! Measures heap usage while the pipeline holds back the arguments of a long call until it is complete. The source
//! of a call written as text is held back too, since it becomes text again if the call fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failing test panics, wherever its helpers live"
)]
#![allow(dead_code, unreachable_pub, reason = "other tests share what this one does not need")]

#[path = "../support/mod.rs"]
mod support;

use allocation_counter::measure;
use bytes::BytesMut;
use serde_json::{Value, json};
use support::{
    exchange::{Exchange, request, tools},
    hostile::{SPEECHES, frames, is_end, json_of},
    upstream::Speech,
};
use toolwire::{
    dialect::ClientDialect,
    format,
    pipeline::{Pipeline, State},
    rules::{ArgumentDelivery, Detect, Limits, Rules},
};

/// The size of the call's longest argument, in bytes.
const SIZE: usize = 200_000;
/// How many bytes a pipeline needs beyond what it holds back: the reader's frame, joined pieces and frame
/// templates.
const FIXED: i64 = 32 << 10;
/// The spare capacity of each buffer relative to its length. Source and arguments together take up 2.25 times the
/// size of the arguments.
const GROWTH: f64 = 1.0 / 8.0;

/// Measures the heap: the number of bytes while the call is held back, and the peak until it is sent.
fn heap(exchange: &Exchange, beginning: &[u8], rest: &[u8]) -> (i64, u64) {
    let mut pipeline = exchange.pipeline();
    let mut out = BytesMut::with_capacity(4 * SIZE);
    let mut waiting = 0;
    let all = measure(|| {
        let begun = measure(|| {
            for read in beginning.chunks(16 << 10) {
                pipeline.push(read, &mut out);
            }
        });
        waiting = begun.bytes_current;
        assert!(out.len() < 1_000, "the call waits");
        pipeline.push(rest, &mut out);
        pipeline.finish(&mut out);
    });
    assert_eq!(pipeline.state(), State::Done);
    assert_eq!(pipeline.tally().calls.len(), 1, "the call is found");
    assert!(out.len() > SIZE, "the call is whole");
    (waiting, all.bytes_max)
}

fn exchange(detect: Detect, arguments: ArgumentDelivery) -> Exchange {
    let tools = tools(["write_file"], &serde_json::Value::Null);
    let settings = Rules { detect, arguments, ..Rules::default() };
    Exchange::new(request(&json!({"tools": tools})), settings, Speech::Chat)
}

/// Checks that the heap is at most `texts` times the call's size while the call is held back, and that the peak
/// until it is sent is at most `peak` times the size.
fn holds(what: &str, (waiting, most): (i64, u64), texts: f64, peak: f64) {
    let size = SIZE as f64;
    assert!(waiting < (texts * (1.0 + GROWTH) * size) as i64 + FIXED, "{what}: {waiting} bytes wait");
    assert!(most < (peak * size) as u64 + FIXED as u64, "{what}: {most} bytes at most");
}

/// Returns the frames of `pieces`, without the end of the response.
fn begun(pieces: &[&str]) -> Vec<u8> {
    let events: Vec<_> = pieces.iter().map(|piece| json!(["m", piece])).collect();
    Speech::Chat.stream(&events)
}

fn pieces(text: &str, size: usize) -> Vec<&str> {
    text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect()
}

#[test]
fn waiting_call_written_as_text_holds_source_and_arguments() {
    let value = "line of text\\n".repeat(SIZE / 14 + 1);
    let cases = [
        (
            "hermes",
            ArgumentDelivery::Whole,
            r#"<tool_call>{"name":"write_file","arguments":{"text":""#,
            "\"}}</tool_call>",
        ),
        (
            "hermes",
            ArgumentDelivery::Stream,
            r#"`<tool_call>{"name":"write_file","arguments":{"text":""#,
            "\"}}</tool_call> ",
        ),
        (
            "fenced",
            ArgumentDelivery::Whole,
            "```json\n{\"name\":\"write_file\",\"arguments\":{\"text\":\"",
            "\"}}\n```\n",
        ),
        (
            "harmony",
            ArgumentDelivery::Whole,
            r#"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{"text":""#,
            "\"}<|call|>",
        ),
        (
            "kimi_k2",
            ArgumentDelivery::Whole,
            r#"<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>{"text":""#,
            "\"}<|tool_call_end|><|tool_calls_section_end|>",
        ),
        (
            "qwen3_coder",
            ArgumentDelivery::Whole,
            "<tool_call>\n<function=write_file>\n<parameter=text>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
    ];
    for (name, arguments, open, close) in cases {
        let exchange =
            exchange(Detect::Formats(vec![format::by_name(name).expect("a format").name]), arguments);
        for size in [1, 4 << 10] {
            let beginning = begun(&[&[open], &pieces(&value, size)[..]].concat());
            let rest = Speech::Chat.says(&[close], "stop");
            let heap = heap(&exchange, &beginning, &rest);
            holds(&format!("{name}, {arguments:?}, pieces of {size}"), heap, 2.0, 3.5);
        }
    }
}

#[test]
fn waiting_native_call_holds_its_arguments() {
    let exchange = exchange(Detect::Auto, ArgumentDelivery::Whole);
    let value = "line of text. ".repeat(SIZE / 14 + 1);
    let frame = |delta: serde_json::Value, finish: Option<&str>| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let piece = |arguments: &str| {
        frame(json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}), None)
    };
    for size in [1, 4 << 10] {
        let head = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
            "function": {"name": "write_file", "arguments": "{\"text\":\""}}]});
        let mut beginning = frame(head, None);
        pieces(&value, size).into_iter().for_each(|text| beginning += &piece(text));
        let rest = piece("\"}") + &frame(json!({}), Some("tool_calls")) + "data: [DONE]\n\n";
        let heap = heap(&exchange, beginning.as_bytes(), rest.as_bytes());
        holds(&format!("native, pieces of {size}"), heap, 1.0, 2.2);
    }
}

/// Drains the pipeline's output like a client that reads, and compares it with `expected`.
fn read(pipeline: &mut Pipeline, out: &mut BytesMut, expected: &mut &[u8]) {
    loop {
        pipeline.pour(out, 32 << 10);
        if out.is_empty() {
            return;
        }
        let (written, rest) = expected.split_at(out.len());
        assert!(*out == *written, "the events are those that are written at once");
        *expected = rest;
        out.clear();
    }
}

/// The closing events of a Responses stream contain the complete content four times.
#[test]
fn last_events_of_responses_are_written_from_one_copy() {
    const WHOLE: usize = 10 * SIZE;
    let exchange = exchange(Detect::Auto, ArgumentDelivery::Stream);
    let exchange = Exchange { client: ClientDialect::Responses, ..exchange };
    let text = "line \"of\" text. ".repeat(WHOLE / 18 + 1);
    let stream = Speech::Chat.says(&pieces(&text, 4 << 10), "stop");
    let mut expected = BytesMut::new();
    let mut at_once = exchange.pipeline();
    at_once.push(&stream, &mut expected);
    at_once.finish(&mut expected);
    assert!(expected.len() > 5 * WHOLE);
    let mut pipeline = exchange.pipeline();
    pipeline.write_in_pieces();
    let mut expected = &expected[..];
    let measured = measure(|| {
        let mut out = BytesMut::new();
        for piece in stream.chunks(16 << 10) {
            pipeline.push(piece, &mut out);
            read(&mut pipeline, &mut out, &mut expected);
        }
        pipeline.finish(&mut out);
        read(&mut pipeline, &mut out, &mut expected);
    });
    assert_eq!((pipeline.state(), expected.len()), (State::Done, 0));
    let (most, size) = (measured.bytes_max, WHOLE as f64);
    assert!(most < (1.5 * size) as u64 + (512 << 10), "{most} bytes at most for {WHOLE}");
}

/// The largest response that `max_answer` allows is complete. A byte more is an error. Neither takes more than the limit and
/// half of it.
#[test]
fn largest_responses_take_the_bytes_of_max_answer() {
    const LIMIT: usize = 2 << 20;
    let exchange = exchange(Detect::Auto, ArgumentDelivery::Stream);
    let limits = Limits { max_answer: LIMIT, ..Limits::default() };
    let settings = Rules { limits, ..exchange.settings.clone() };
    let exchange = Exchange { client: ClientDialect::Responses, settings, ..exchange };
    let run = |len: usize| {
        let text = "x".repeat(len);
        let stream = Speech::Chat.says(&pieces(&text, 4 << 10), "stop");
        let mut pipeline = exchange.pipeline();
        pipeline.write_in_pieces();
        let measured = measure(|| {
            let mut out = BytesMut::new();
            let read = |pipeline: &mut Pipeline, out: &mut BytesMut| {
                while {
                    pipeline.pour(out, 32 << 10);
                    !out.is_empty()
                } {
                    out.clear();
                }
            };
            for piece in stream.chunks(16 << 10) {
                pipeline.push(piece, &mut out);
                read(&mut pipeline, &mut out);
            }
            pipeline.finish(&mut out);
            read(&mut pipeline, &mut out);
        });
        let most = measured.bytes_max;
        assert!(most < (LIMIT + LIMIT / 2 + (512 << 10)) as u64, "{most} bytes at most for {len}");
        pipeline.state() == State::Done
    };
    let (mut fits, mut beyond) = (LIMIT / 2, 2 * LIMIT);
    assert!(run(fits) && !run(beyond) && !run(8 * LIMIT));
    while beyond - fits > 1 {
        let middle = fits.midpoint(beyond);
        if run(middle) { fits = middle } else { beyond = middle }
    }
    assert!((LIMIT - 1024..=LIMIT).contains(&fits), "{fits} bytes are the most");
}

/// Returns a copy of a frame's JSON with `id` as its ID, and `number` as its indices and sequence numbers.
fn renamed(value: &Value, id: Option<&str>, number: Option<usize>) -> Value {
    match value {
        Value::Object(members) => {
            let other = |key: &str, part: &Value| match (key, id, number) {
                (
                    "id" | "item_id" | "phase" | "call_id" | "tool_use_id" | "responseId" | "signature"
                    | "thoughtSignature",
                    Some(id),
                    _,
                ) => {
                    json!(id)
                }
                ("index" | "output_index" | "content_index" | "summary_index" | "count", _, Some(number)) => {
                    json!(number)
                }
                _ => renamed(part, id, number),
            };
            members.iter().map(|(key, part)| (key.clone(), other(key, part))).collect()
        }
        Value::Array(list) => list.iter().map(|part| renamed(part, id, number)).collect(),
        value => value.clone(),
    }
}

/// Each frame begins another part of the response and has a new, long ID.
#[test]
fn upstream_that_never_ends_is_kept_within_the_limits() {
    const MOST: u64 = 600 << 10;
    const ID: usize = 8 << 10;
    let limits = Limits {
        max_frame: 16 << 10,
        max_answer: 128 << 10,
        max_hold: 8 << 10,
        max_arguments: 16 << 10,
        max_calls: 4,
        ..Limits::default()
    };
    let clients = [ClientDialect::Chat, ClientDialect::Messages, ClientDialect::Responses];
    for (speech, client) in SPEECHES.iter().flat_map(|speech| clients.map(|client| (*speech, client))) {
        let frames = frames(speech);
        for frame in frames.iter().filter(|frame| !is_end(frame)) {
            let Some((text, value)) = json_of(frame) else { continue };
            for (has_ids, has_numbers) in [(true, true), (true, false), (false, true)] {
                let exchange = exchange(Detect::Auto, ArgumentDelivery::Stream);
                let settings = Rules { limits, ..exchange.settings.clone() };
                let exchange = Exchange { speech, client, settings, ..exchange };
                let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
                pipeline.push(frames[0].as_bytes(), &mut out);
                let measured = measure(|| {
                    for number in 0..100 {
                        let id = has_ids.then(|| format!("{number:0ID$}"));
                        let value = renamed(&value, id.as_deref(), has_numbers.then_some(number + 9));
                        pipeline.push(frame.replace(text, &value.to_string()).as_bytes(), &mut out);
                        out.clear();
                    }
                });
                let most = measured.bytes_max;
                assert!(most < MOST, "{speech:?} to {client:?}: {most} bytes for {frame}");
            }
        }
    }
}
