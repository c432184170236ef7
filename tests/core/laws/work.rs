//! Tests law 4 for the client's output: its size is at most a constant multiple of the input's size, and a large input is
//! processed in slices.
//!
//! `.ci/linear` counts the instructions that detection needs for such texts.

use bytes::BytesMut;
use serde_json::json;
use toolwire::{
    event::Finish,
    format,
    pipeline::State,
    rules::{ArgumentDelivery, Detect, Limits, Rules},
};

use crate::laws::detector::find;
use crate::support::{
    client::Answer,
    cuts::by_characters,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

/// The maximum number of output bytes per input byte. `<think>a</think>b` comes closest, since each letter needs
/// its own chunk.
const MOST: usize = 32;

/// How many bytes the first chunk and the last chunks add.
const ENDS: usize = 2000;

const HOSTILE: &[(&str, &str)] = &[
    ("think", "<think>"),
    ("think", "<think></think>"),
    ("think", "<think> </think>\n"),
    ("think", "<think>a</think>b"),
    ("think", "</think>"),
    ("react", "Action: a\nAction Input: x y z"),
    ("react", "Action: "),
    ("bare", "{"),
    ("bare", "["),
    ("bare", "{\"name\":\"a\","),
    ("bare", "{\"name\":\"a\",\"arguments\":{\"x\":\"\n"),
    ("pre", "<pre>{"),
    ("pre", "<pre "),
    ("fenced", "\n```json\n{"),
    ("hermes", "<tool_call>"),
    ("hermes", "<tool_call>{"),
    ("hermes", "</tool_call>"),
    ("kimi_k2", "<|tool_call_begin|>"),
    ("harmony", "<|channel|>"),
    ("harmony", "<|channel|>analysis<|message|>a<|end|>"),
    ("deepseek_v3", "<｜tool▁call▁begin｜>"),
    ("mistral", "[TOOL_CALLS]"),
    ("pythonic", "[a("),
    ("qwen3_coder", "<tool_call>\n<function=a>\n"),
    ("command_r7b", "<|START_RESPONSE|><|END_RESPONSE|>"),
];

fn exchange(name: &str, arguments: ArgumentDelivery) -> Exchange {
    let tools = tools(["a", "b"], &json!(null));
    let detect = Detect::Formats(vec![format::by_name(name).expect(name).name]);
    let settings = Rules { detect, arguments, ..Rules::default() };
    Exchange::new(request(&json!({"tools": tools})), settings, Speech::Chat)
}

fn each_hostile_stream(size: usize, step: usize, check: impl Fn(&str, &Exchange, &[u8])) {
    for (name, unit) in HOSTILE {
        let text = unit.repeat(size / unit.len());
        let pieces = if step == 0 { vec![text.as_str()] } else { by_characters(&text, step) };
        for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
            let stream = Speech::Chat.says(&pieces, "stop");
            check(&format!("{name}, {arguments:?}: {unit:?}"), &exchange(name, arguments), &stream);
        }
    }
}

#[test]
fn output_of_one_frame_is_proportional_to_it() {
    each_hostile_stream(20_000, 0, |what, exchange, stream| {
        let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
        pipeline.push(stream, &mut out);
        pipeline.finish(&mut out);
        assert_ne!(pipeline.state(), State::Open, "{what}");
        assert!(out.len() <= MOST * stream.len() + ENDS, "{what}: {} of {}", out.len(), stream.len());
    });
}

#[test]
fn output_of_each_frame_is_proportional_to_it() {
    each_hostile_stream(600, 1, |what, exchange, stream| {
        let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
        // Held text is released together with the text that decides its meaning.
        let (mut came, mut left) = (0, 0);
        for frame in stream.split_inclusive(|byte| *byte == b'\n') {
            pipeline.push(frame, &mut out);
            came += frame.len();
            left += out.split().len();
            assert!(left <= MOST * came + ENDS, "{what}: {left} of {came}");
        }
    });
}

#[test]
fn adjacent_markers_give_no_deltas() {
    for (name, unit) in [
        ("think", "<think></think>"),
        ("think", "<think>\n</think>"),
        ("command_r7b", "<|START_TEXT|><|END_TEXT|>"),
    ] {
        let exchange = exchange(name, ArgumentDelivery::Stream);
        let said = |text: &str| {
            let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
            pipeline.push(&Speech::Chat.says(&[text], "stop"), &mut out);
            out
        };
        assert_eq!(said(&unit.repeat(1000)), said(unit), "{unit}");
    }
}

#[test]
fn pieces_of_one_text_are_joined_into_one_delta() {
    for (name, text, deltas) in [
        ("think", "<think>a < b <c </thin d</think>e < f", 2),
        ("bare", "{ {a} [b] {\"c\":1}", 1),
        ("react", "Action: a\nAction Input: x y\nz", 3),
        ("hermes", "<tool_call>{'name':'a','arguments':{'x':'y',z:True,}}</tool_call>", 2),
    ] {
        let (mut pipeline, mut out) = (exchange(name, ArgumentDelivery::Stream).pipeline(), BytesMut::new());
        pipeline.push(&Speech::Chat.says(&[text], "stop"), &mut out);
        let stream = String::from_utf8(out.to_vec()).unwrap();
        // The three additional events are the role, the finish reason and the end marker.
        assert_eq!(stream.matches("data: ").count(), deltas + 3, "{name}: {stream}");
    }
}

#[test]
fn large_text_is_processed_in_slices() {
    each_hostile_stream(50_000, 0, |what, exchange, stream| {
        let (mut whole, mut sliced) = (exchange.pipeline(), exchange.pipeline());
        let (mut expected, mut out, mut most, mut slices) = (BytesMut::new(), BytesMut::new(), 0, 0);
        whole.push(stream, &mut expected);
        whole.finish(&mut expected);
        let mut came = BytesMut::new();
        sliced.begin_push(stream, &mut out);
        loop {
            most = most.max(out.len());
            came.extend_from_slice(&out.split());
            if !sliced.is_behind() {
                break;
            }
            sliced.work(&mut out);
            slices += 1;
        }
        sliced.begin_finish(&mut out);
        came.extend_from_slice(&out);
        assert_eq!(sliced.state(), whole.state(), "{what}");
        assert!(came == expected, "{what}");
        // Frames that are forwarded unchanged need no slices, and an answer that reaches a limit ends early.
        assert!(slices == 0 || slices > 10 || whole.failure().is_some(), "{what}: {slices}");
        // A slice may also release text from earlier slices, but only a limited amount.
        assert!(most <= 400_000, "{what}: {most} at once");
    });
}

#[test]
fn events_after_a_large_text_stay_in_order() {
    let exchange = exchange("hermes", ArgumentDelivery::Stream);
    let call = r#"<tool_call>{"name":"a","arguments":{"x":1}}</tool_call>"#;
    let large = format!("{}{call}", "<a.".repeat(10_000));
    let stream = Speech::Chat.says(&[&large, "b", &large], "stop");
    let (answer, _) = exchange.in_pieces("large", &stream);
    assert_eq!(answer.text, "<a.".repeat(10_000) + "b" + &"<a.".repeat(10_000));
    assert_eq!(answer.calls.len(), 2);
    let mut cut = exchange.pipeline();
    let mut out = BytesMut::new();
    cut.begin_push(&stream, &mut out);
    assert!(cut.is_behind());
    cut.begin_finish(&mut out);
    while cut.is_behind() {
        cut.work(&mut out);
    }
    assert_eq!(cut.state(), State::Done);
    assert_eq!(Answer::of_stream(&out).text, answer.text);
}

/// White space that may belong to a closer is held, but only up to a limit.
#[test]
fn held_white_space_is_bounded() {
    let limits = Limits { max_hold: 100, ..Limits::default() };
    for (name, begins, ends) in [
        ("think", "<think>a", "b</think>c"),
        ("harmony", "<|channel|>analysis<|message|>a", "b<|end|>"),
        ("react", "Action: a\nAction Input: x", "y\nObservation: z"),
        ("react", "Action: a\nAction Input: ", "y"),
    ] {
        let detect = Detect::Formats(vec![format::by_name(name).expect(name).name]);
        let settings = Rules { detect, limits, ..Rules::default() };
        for blank in [" ", "\n", "\n ", "\u{a0}"] {
            let text = format!("{begins}{}{ends}", blank.repeat(5000 / blank.len()));
            let whole = find(&settings, &[&text], Finish::Stop);
            let cut = find(&settings, &by_characters(&text, 1), Finish::Stop);
            assert_eq!(cut.sum(), whole.sum(), "{name}, {blank:?}");
            let most = cut.trace.iter().map(|(_, _, held)| *held).max();
            assert!(most <= Some(1500), "{name}, {blank:?}: {most:?}");
        }
    }
}
