//! Tests calls that Lumo runs itself. Each call is forwarded as soon as it has been dispatched, exactly as Lumo wrote
//! it. It does not delay other content.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::event::{CallEnd, Finish};

use crate::lumo::{
    assembled::{Assembled, read, read_text},
    cases::frames,
};

fn v2(events: Value) -> Assembled {
    read_text(&frames(events.as_array().unwrap(), false))
}

fn v1(events: Value) -> Assembled {
    read_text(&frames(events.as_array().unwrap(), true))
}

/// Returns each call as `name arguments`, with the suffix ` cut` if it is incomplete.
fn calls(got: &Assembled) -> Vec<String> {
    let end = |end| if end == Some(CallEnd::Complete) { "" } else { " cut" };
    got.calls.iter().map(|call| format!("{} {}{}", call.2, call.3, end(call.4))).collect()
}

#[test]
fn announced_call_waits_for_its_dispatch_while_text_flows() {
    let got = v2(json!([
        ["stc", {"id": "n1", "name": "a"}],
        ["m", "One moment."],
        ["r", "hm"],
        ["stc", {"id": "n1", "name": "a", "arguments": "{\"x\":1}"}],
        ["m", " Done."],
        ["fin", "stop"],
        ["done"]
    ]));
    assert_eq!(calls(&got), [r#"a {"x":1}"#]);
    assert_eq!(got.text, "One moment. Done.");
    assert_eq!(got.order, ["text", "reasoning", "call", "text"]);
    let typed = v1(json!([
        ["tc", "{\"name\":\"a\"}"],
        ["m", "One moment."],
        ["tc", "{\"name\":\"a\",\"arguments\":{\"x\":1}}"],
        ["done"]
    ]));
    assert_eq!((calls(&typed), typed.text.as_str()), (vec![r#"a {"x":1}"#.to_owned()], "One moment."));
}

#[test]
fn call_without_arguments_is_sent_at_a_clean_end_or_with_its_result() {
    for (events, order) in [
        (
            json!([["stc", {"id": "n", "name": "a"}], ["m", "F"], ["fin", "stop"], ["done"]]),
            ["text", "call"].as_slice(),
        ),
        (json!([["stc", {"id": "n", "name": "a"}], ["m", "F"], ["done"]]), &["text", "call"]),
        (
            json!([["stc", {"id": "n", "name": "a"}], ["m", "E"], ["str", {"call_id": "n", "content": "r"}], ["m", "F"], ["done"]]),
            &["text", "call", "result", "text"],
        ),
    ] {
        let got = v2(events);
        assert_eq!((calls(&got), got.order.as_slice()), (vec!["a {}".to_owned()], order));
    }
}

#[test]
fn undispatched_call_is_not_sent_in_a_failed_response() {
    let told = json!([["stc", {"id": "n", "name": "a"}], ["stc", {"id": "o", "name": "b", "arguments": "{\"x\":"}], ["m", "F"]]);
    for end in [
        json!([]),
        json!([["err", {"code": "error"}]]),
        json!([["fin", "rejected"]]),
        json!([["fin", "length"], ["done"]]),
        json!([["fin", "content_filter"], ["done"]]),
        json!([["d", {"content": "AAEC", "encrypted": true}]]),
    ] {
        let events: Vec<Value> =
            told.as_array().unwrap().iter().chain(end.as_array().unwrap()).cloned().collect();
        let got = v2(events.into());
        assert_eq!((calls(&got), got.text.as_str()), (vec![], "F"), "{end}");
        assert_eq!(got.skipped, "undispatched_call=2", "{end}");
    }
    for end in ["timeout", "error", "rejected", "harmful"] {
        let got = v1(json!([["tc", "{\"name\":\"a\"}"], ["m", "F"], [end]]));
        assert_eq!((calls(&got), got.text.as_str()), (vec![], "F"), "{end}");
    }
    let got = v1(json!([["tc", "{\"name\":\"a\",\"arguments\":{\"x\":1}}"], ["tr", "half a res"]]));
    assert_eq!((calls(&got).len(), got.results), (1, vec![]));
}

#[test]
fn arguments_may_arrive_in_several_dispatches() {
    let got = v2(json!([
        ["stc", {"id": "n", "name": "a"}],
        ["stc", {"id": "n", "name": "a", "arguments": "{\"x\":"}],
        ["m", "F"],
        ["stc", {"id": "n", "arguments": "[1,2"}],
        ["stc", {"id": "o", "name": "b", "arguments": "{\"y\":"}],
        ["stc", {"id": "n", "arguments": "]}"}],
        ["stc", {"id": "o", "name": "b", "arguments": "{\"y\":2}"}],
        ["fin", "stop"],
        ["done"]
    ]));
    assert_eq!(calls(&got), [r#"a {"x":[1,2]}"#, r#"b {"y":2}"#]);
    let broken =
        v2(json!([["stc", {"id": "n", "name": "a", "arguments": "{\"x\":"}], ["fin", "stop"], ["done"]]));
    assert_eq!(calls(&broken), [r#"a {"x": cut"#]);
}

#[test]
fn reused_id_may_belong_to_another_call() {
    let got = v2(json!([
        ["stc", {"id": "n", "name": "a", "arguments": "{\"x\":1}"}],
        ["stc", {"id": "n", "name": "a", "arguments": "{\"x\":1}"}],
        ["stc", {"id": "n", "name": "a", "arguments": "{\"x\":2}"}],
        ["stc", {"id": "n", "name": "b"}],
        ["stc", {"id": "n", "name": "c", "arguments": "{}"}],
        ["str", {"call_id": "n", "content": "1"}],
        ["str", {"call_id": "n", "content": "2"}],
        ["stc", {"id": "n", "name": "a", "arguments": "{\"x\":1}"}],
        ["fin", "stop"],
        ["done"]
    ]));
    assert_eq!(calls(&got), [r#"a {"x":1}"#, r#"a {"x":2}"#, "b {}", "c {}", r#"a {"x":1}"#]);
    assert_eq!(got.results, [(0, "1".to_owned(), false), (1, "2".to_owned(), false)]);
}

#[test]
fn object_in_a_broken_call_is_not_a_call() {
    let got = v1(json!([
        [
            "tc",
            "{\"name\":\"a\",\"arguments\":{x, \"y\":{\"name\":\"b\",\"arguments\":{}}}} {\"name\":\"c\",\"arguments\":{\"z\":1}}"
        ],
        ["done"]
    ]));
    assert_eq!((calls(&got), got.skipped.as_str()), (vec![r#"c {"z":1}"#.to_owned()], "not_json=1"));
}

/// A step of a generated stream. The numbers identify the call.
#[derive(Debug, Clone)]
enum StreamStep {
    Text(String),
    Announce(usize),
    /// Sends the given piece of a call's arguments. The last piece completes them.
    Dispatch(usize, usize),
    Result(usize),
}

/// Generates a stream with up to four calls, each with the number of pieces of its arguments, and an ending.
fn story() -> impl Strategy<Value = (Vec<usize>, Vec<StreamStep>, usize)> {
    prop::collection::vec(1..4_usize, 1..5).prop_flat_map(|pieces| {
        let count = pieces.len();
        let said = prop_oneof![
            3 => "[a-z é]{1,5}".prop_map(StreamStep::Text),
            2 => (0..count).prop_map(StreamStep::Announce),
            4 => (0..count).prop_map(|call| StreamStep::Dispatch(call, 0)),
            1 => (0..count).prop_map(StreamStep::Result),
        ];
        (Just(pieces), prop::collection::vec(said, 0..24), 0..5_usize)
    })
}

const ENDS: [&str; 5] = ["stop", "length", "content_filter", "error", ""];

/// Splits a call's arguments into pieces that are not JSON objects by themselves.
fn arguments(call: usize, pieces: usize) -> Vec<String> {
    let whole = format!("{{\"call\":{call},\"list\":[1,2,3]}}");
    let at = |piece: usize| piece * whole.len() / pieces;
    (0..pieces).map(|piece| whole.get(at(piece)..at(piece + 1)).unwrap().to_owned()).collect()
}

/// Puts each call's pieces in order, and removes steps that come after a call has ended.
fn in_order(pieces: &[usize], story: &[StreamStep]) -> Vec<StreamStep> {
    let (mut next, mut over) = (vec![0; pieces.len()], vec![false; pieces.len()]);
    let mut kept = Vec::new();
    for said in story {
        match said {
            StreamStep::Text(_) => kept.push(said.clone()),
            StreamStep::Announce(call) if !over[*call] => kept.push(said.clone()),
            StreamStep::Dispatch(call, _) if !over[*call] && next[*call] < pieces[*call] => {
                kept.push(StreamStep::Dispatch(*call, next[*call]));
                next[*call] += 1;
            }
            // A result is only sent after all the arguments.
            StreamStep::Result(call) if !over[*call] && (next[*call] == pieces[*call]) => {
                over[*call] = true;
                kept.push(said.clone());
            }
            _ => {}
        }
    }
    kept
}

fn stream(pieces: &[usize], story: &[StreamStep], end: &str) -> Vec<u8> {
    let call = |call: usize| json!({"id": format!("n{call}"), "name": format!("tool{call}")});
    let mut events: Vec<Value> = story
        .iter()
        .map(|said| match said {
            StreamStep::Text(text) => json!(["m", text]),
            StreamStep::Announce(number) => json!(["stc", call(*number)]),
            StreamStep::Dispatch(number, piece) => {
                let mut dispatch = call(*number);
                dispatch["arguments"] = arguments(*number, pieces[*number])[*piece].clone().into();
                json!(["stc", dispatch])
            }
            StreamStep::Result(number) => json!(["str", {"call_id": format!("n{number}"), "content": "r"}]),
        })
        .collect();
    if !end.is_empty() {
        events.push(json!(["fin", end]));
    }
    frames(&events, false).into_bytes()
}

proptest! {
    #[test]
    fn calls_are_complete_as_they_were_dispatched_and_text_keeps_its_order(
        (pieces, story, end) in story(),
        size in 1..30_usize,
    ) {
        let events = in_order(&pieces, &story);
        let end = ENDS[end];
        let bytes = stream(&pieces, &events, end);
        let got = read([bytes.as_slice()], &Default::default());
        prop_assert_eq!(&read(bytes.chunks(size), &Default::default()), &got);

        let text: String = events.iter().filter_map(|said| if let StreamStep::Text(text) = said { Some(text.as_str()) } else { None }).collect();
        prop_assert_eq!(&got.text, &text);
        let good = got.finish == Some(Finish::Stop);
        for (number, count) in pieces.iter().copied().enumerate() {
            let name = format!("tool{number}");
            let dispatched: String = events
                .iter()
                .filter_map(|said| match said {
                    StreamStep::Dispatch(call, piece) if *call == number => Some(arguments(number, count)[*piece].clone()),
                    _ => None,
                })
                .collect();
            let is_reported = events.iter().any(|said| matches!(said, StreamStep::Announce(call) | StreamStep::Dispatch(call, _) if *call == number));
            let is_whole = dispatched == arguments(number, count).concat();
            let seen: Vec<_> = got.calls.iter().filter(|call| call.2 == name).map(|call| (call.3.as_str(), call.4)).collect();
            let expected = match (is_whole, is_reported && good, dispatched.is_empty()) {
                (true, _, _) => vec![(dispatched.as_str(), Some(CallEnd::Complete))],
                (false, true, true) => vec![("{}", Some(CallEnd::Complete))],
                (false, true, false) => vec![(dispatched.as_str(), Some(CallEnd::Cut))],
                (false, false, _) => vec![],
            };
            prop_assert_eq!(seen, expected, "{} of {:?}", name, events);
        }
    }
}
