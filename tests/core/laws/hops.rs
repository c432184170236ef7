//! Tests responses with several hops: the client sees a single response, no matter how each hop is split.

use std::collections::BTreeSet;

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{
    dialect::{Reader, chat},
    pipeline::{Pipeline, Reason, State},
    rules::{Limits, Misroute, Rules},
};

use super::tries;
use crate::support::{
    client::Answer,
    cuts::places,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

/// An exchange with a Lumo upstream that may be called up to `max_hops` times.
fn exchange(max_hops: usize, fields: &Value) -> Exchange {
    let schema = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]});
    let mut fields = fields.clone();
    fields["tools"] = tools(["a", "b"], &schema);
    let limits = Limits { max_hops, ..Limits::default() };
    let settings = Rules { misroute: Misroute::Bounce, limits, ..Rules::default() };
    Exchange::new(request(&fields), settings, Speech::LumoV2)
}

/// A hop with `text` and a call. The call lacks its required argument except in the last hop.
fn hop(number: usize, text: &str, is_last: bool) -> Vec<u8> {
    let arguments = if is_last { json!({ "x": number }) } else { json!({ "y": number }) };
    let call = json!({"id": format!("n{number}"), "name": "a", "arguments": arguments.to_string()});
    let usage = json!({"prompt_tokens": 10 + number, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": number}});
    let events =
        json!([["m", text], ["stc", call], ["m", "Sorry."], ["fin", "stop"], ["u", usage], ["done"]]);
    Speech::LumoV2.stream(events.as_array().unwrap())
}

fn hops(texts: &[&str]) -> Vec<Vec<u8>> {
    (0..).zip(texts).map(|(number, text)| hop(number, text, number + 1 == texts.len())).collect()
}

/// Runs the hops, each split by `cut`. Returns the pipeline and the client's bytes.
fn play(
    exchange: &Exchange,
    hops: &[Vec<u8>],
    cut: impl Fn(usize, &[u8]) -> Vec<Vec<u8>>,
) -> (Pipeline, BytesMut) {
    let mut pipeline = exchange.pipeline();
    let mut out = BytesMut::new();
    for (number, body) in hops.iter().enumerate() {
        if number > 0 {
            assert_eq!(pipeline.state(), State::HopEnded, "after hop {number}");
            pipeline.resume(exchange.reader(), &mut out);
        }
        for piece in cut(number, body) {
            pipeline.push(&piece, &mut out);
        }
        pipeline.finish(&mut out);
    }
    (pipeline, out)
}

fn whole(_hop: usize, body: &[u8]) -> Vec<Vec<u8>> {
    vec![body.to_vec()]
}

#[test]
fn hops_are_one_response() {
    let exchange = exchange(3, &json!({}));
    let (pipeline, out) = play(&exchange, &hops(&["One. ", "Two. ", "Three."]), whole);
    assert_eq!(pipeline.state(), State::Done);
    let got = Answer::of_stream(&out);
    assert_eq!(got.text, "One. Two. Three.");
    assert_eq!(got.named_calls(), [("a", "{\"x\":2}")]);
    assert_eq!((got.finish.as_deref(), got.done), (Some("tool_calls"), true));
    let usage = json!({"prompt_tokens": 33, "completion_tokens": 3, "total_tokens": 36,
                       "completion_tokens_details": {"reasoning_tokens": 3}});
    assert_eq!(got.usage, Some(usage));
    let heads: BTreeSet<_> = heads(&out).into_iter().collect();
    assert_eq!(heads.len(), 1, "{heads:?}");
    let tally = pipeline.tally();
    assert_eq!(tally.follow_ups, [Reason::Misrouted; 2]);
    assert_eq!((tally.input_tokens, tally.output_tokens, tally.calls.len()), (Some(33), Some(3), 1));
}

fn heads(stream: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(stream).unwrap();
    let chunks = text
        .split("\n\n")
        .filter_map(|frame| serde_json::from_str::<Value>(frame.strip_prefix("data: ")?).ok());
    chunks.map(|chunk| format!("{} {} {}", chunk["id"], chunk["model"], chunk["created"])).collect()
}

#[test]
fn splits_of_hops_make_no_difference() {
    let texts = ["Let me see: é. ", "Again <tool.", "Done."];
    for fields in [json!({}), json!({"stream": false})] {
        let exchange = exchange(3, &fields);
        let bodies = hops(&texts);
        let read = |out: &BytesMut| match exchange.conversation.stream {
            true => Answer::of_stream(out),
            false => Answer::of_body(out, 200),
        };
        let expected = read(&play(&exchange, &bodies, whole).1);
        assert_eq!(expected.text, texts.concat());
        for size in [1, 2, 3, 7, 64] {
            let cut = |_: usize, body: &[u8]| body.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(read(&play(&exchange, &bodies, cut).1), expected, "pieces of {size}");
        }
        for (cut_hop, body) in bodies.iter().enumerate() {
            for at in places(body.len()) {
                let cut = |hop: usize, body: &[u8]| match body.split_at_checked(at) {
                    Some((left, right)) if hop == cut_hop => vec![left.to_vec(), right.to_vec()],
                    _ => vec![body.to_vec()],
                };
                assert_eq!(read(&play(&exchange, &bodies, cut).1), expected, "hop {cut_hop} at {at}");
            }
        }
    }
}

#[test]
fn truncated_hop_never_looks_complete() {
    let exchange = exchange(3, &json!({}));
    let bodies = hops(&["One. ", "Two. ", "Three."]);
    let finish = bodies[2].windows(13).position(|bytes| bytes == b"finish_reason").unwrap();
    for (hop, body) in bodies.iter().enumerate() {
        for end in 0..finish.min(body.len()) {
            let mut cut: Vec<_> = bodies.iter().take(hop).cloned().collect();
            cut.push(body[..end].to_vec());
            let (mut pipeline, mut out) = play(&exchange, &cut, whole);
            let what = format!("hop {hop} cut at {end}");
            assert_eq!(pipeline.state(), State::Failed, "{what}");
            assert_eq!(pipeline.failure().unwrap().code(), Some("upstream_truncated"), "{what}");
            pipeline.write_failure(&mut out);
            let got = Answer::of_stream(&out);
            assert_eq!((got.finish, got.error.is_some()), (None, true), "{what}");
        }
    }
}

/// The model needs three hops, so the limits are below, at and above that number.
#[test]
fn hops_are_limited() {
    for (max_hops, expected) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        let exchange = exchange(max_hops, &json!({}));
        let bodies = hops(&["1", "2", "3"]);
        let (pipeline, out) = play(&exchange, &bodies[..expected], whole);
        assert_eq!(pipeline.state(), State::Done, "{max_hops}");
        let got = Answer::of_stream(&out);
        assert_eq!(got.calls.len(), 1, "{max_hops}: the last call goes out as it is");
        assert_eq!(pipeline.tally().follow_ups.len(), expected - 1);
    }
}

#[test]
fn response_can_end_after_any_hop() {
    let exchange = exchange(3, &json!({}));
    let (mut pipeline, mut out) = play(&exchange, &hops(&["One. ", "Two. ", ""])[..2], whole);
    pipeline.end(&mut out);
    assert_eq!(pipeline.state(), State::Done);
    let got = Answer::of_stream(&out);
    assert_eq!((got.text.as_str(), got.named_calls()), ("One. Two. ", vec![("a", "{\"y\":1}")]));
    assert_eq!((got.finish.as_deref(), got.done), (Some("tool_calls"), true));
    assert_eq!(got.usage.unwrap()["prompt_tokens"], 21);
    // Once the response has ended, these methods do nothing.
    let length = out.len();
    pipeline.end(&mut out);
    pipeline.resume(exchange.reader(), &mut out);
    assert_eq!((pipeline.state(), out.len()), (State::Done, length));
}

#[test]
fn usage_is_kept_over_a_hop_without_it() {
    let exchange = exchange(2, &json!({}));
    let last = Speech::LumoV2.says(&["Hello."], "stop");
    let (_, out) = play(&exchange, &[hop(0, "", false), last], whole);
    assert_eq!(Answer::of_stream(&out).usage.unwrap()["prompt_tokens"], 10);
}

/// The frames of a later hop have a different ID, so they cannot be forwarded unchanged.
#[test]
fn frames_of_later_hops_are_rewritten() {
    let exchange = exchange(2, &json!({}));
    let verbatim = chat::ReaderSettings { verbatim: true, ..chat::ReaderSettings::default() };
    let (mut pipeline, mut out) = play(&exchange, &[hop(0, "One. ", false)], whole);
    pipeline.resume(Reader::Chat(chat::Reader::new(verbatim)), &mut out);
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 1});
    let events = json!([["m", "Two."], ["d", {"odd": 1}], ["fin", "stop"], ["u", usage], ["done"]]);
    pipeline.push(&Speech::Chat.stream(events.as_array().unwrap()), &mut out);
    assert_eq!(pipeline.state(), State::Done);
    let heads: BTreeSet<_> = heads(&out).into_iter().collect();
    assert_eq!(heads.len(), 1, "{heads:?}");
    let got = Answer::of_stream(&out);
    assert_eq!((got.text.as_str(), got.usage.unwrap()["prompt_tokens"].as_u64()), ("One. Two.", Some(15)));
}

#[test]
fn max_calls_spans_hops() {
    for (max_calls, fails) in [(2, true), (3, false)] {
        let mut exchange = exchange(3, &json!({}));
        exchange.settings.limits.max_calls = max_calls;
        let (pipeline, _) = play(&exchange, &hops(&["", "", ""]), whole);
        assert_eq!(pipeline.failure().is_some(), fails, "{max_calls}");
    }
}

proptest! {
    #![proptest_config(tries(64))]

    #[test]
    fn n_hops_in_any_split(
        texts in prop::collection::vec("[a-z<>{}` é\n]{0,30}\\.", 1..6),
        sizes in prop::collection::vec(1_usize..80, 6),
    ) {
        let exchange = exchange(texts.len(), &json!({}));
        let bodies = hops(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let cut = |hop: usize, body: &[u8]| body.chunks(sizes[hop]).map(<[u8]>::to_vec).collect();
        let (pipeline, out) = play(&exchange, &bodies, cut);
        prop_assert_eq!(pipeline.state(), State::Done);
        let got = Answer::of_stream(&out);
        let last = texts.len() - 1;
        prop_assert_eq!(got.text, texts.concat());
        let arguments = json!({ "x": last }).to_string();
        prop_assert_eq!(got.calls.iter().map(|call| call.arguments.as_str()).collect::<Vec<_>>(), [arguments.as_str()]);
        let count = u64::try_from(texts.len()).unwrap();
        prop_assert_eq!(got.usage.unwrap()["completion_tokens"].as_u64(), Some(count));
    }
}

/// Only a limited amount of text is repeated to the model. Which part is left out must not depend on splits.
#[test]
fn repeated_text_is_limited() {
    let text = "aé€".repeat(40);
    for limit in [98, 99, 100, 101, 240] {
        let mut exchange = exchange(2, &json!({}));
        exchange.settings.limits.max_hold = limit;
        let mut seen = BTreeSet::new();
        for size in [1, 2, 5, 17, 120] {
            let characters: Vec<char> = text.chars().collect();
            let pieces = characters.chunks(size).map(|piece| json!(["m", piece.iter().collect::<String>()]));
            let call = json!(["stc", {"id": "n1", "name": "a", "arguments": "{}"}]);
            let events: Vec<_> = pieces.chain([call, json!(["fin", "stop"]), json!(["done"])]).collect();
            let mut pipeline = exchange.pipeline();
            pipeline.push(&Speech::LumoV2.stream(&events), &mut BytesMut::new());
            seen.insert(pipeline.follow_up().unwrap().turns[0].joined_text());
        }
        assert_eq!(seen.len(), 1, "{limit}: {seen:?}");
        let said = seen.first().unwrap();
        assert!(
            text.starts_with(said) && said.len() <= limit && said.len() + 3 > limit.min(text.len()),
            "{said}"
        );
    }
}
