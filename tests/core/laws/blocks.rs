//! Tests that clients of Messages and Responses get one block at a time even if the upstream interleaves its calls.
//! The clients in `tests/support` assert that blocks do not overlap.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::{dialect::ClientDialect, rules::Rules};

use crate::laws::{
    soup::{cut_bytes, cuts},
    tries,
};
use crate::support::{
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

fn calls() -> impl Strategy<Value = Vec<Vec<String>>> {
    let pieces = prop::collection::vec("[a-zé ]{0,6}", 1..4).prop_map(|texts| {
        let body = texts.concat();
        let arguments = json!({"x": body}).to_string();
        let middle = arguments.char_indices().map(|(at, _)| at).nth(arguments.chars().count() / 2).unwrap();
        let (left, right) = arguments.split_at(middle);
        vec![String::new(), left.to_owned(), right.to_owned()]
    });
    prop::collection::vec(pieces, 1..5)
}

proptest! {
    #![proptest_config(tries(200))]

    #[test]
    fn calls_that_arrive_in_turns_are_written_one_after_the_other(
        calls in calls(),
        turns in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
        cuts in cuts(),
    ) {
        let mut events = Vec::new();
        let mut sent = vec![0; calls.len()];
        let mut texts = String::new();
        let mut put = |call: usize, events: &mut Vec<Value>| {
            let Some(piece) = calls[call].get(sent[call]) else { return };
            let mut element = json!({"index": call, "function": {"arguments": piece}});
            if sent[call] == 0 {
                element["id"] = format!("c{call}").into();
                element["function"]["name"] = "f".into();
            }
            sent[call] += 1;
            events.push(json!(["d", {"tool_calls": [element]}]));
        };
        for turn in &turns {
            match turn.index(calls.len() + 1) {
                call if call < calls.len() => put(call, &mut events),
                _ => {
                    texts.push('t');
                    events.push(json!(["m", "t"]));
                }
            }
        }
        for call in 0..calls.len() {
            (0..3).for_each(|_| put(call, &mut events));
        }
        events.extend([json!(["fin", "tool_calls"]), json!(["done"])]);
        let bytes = Speech::Chat.stream(&events);
        let mut wanted: Vec<String> = calls.iter().map(|pieces| pieces.concat()).collect();
        wanted.sort();
        for client in ClientDialect::all() {
            let fields = json!({"tools": tools(["f"], &Value::Null)});
            let mut exchange = Exchange::new(request(&fields), Rules::default(), Speech::Chat);
            exchange.client = client;
            let (answer, _) = exchange.run([bytes.as_slice()]);
            let mut given: Vec<_> = answer.calls.iter().map(|call| call.arguments.clone()).collect();
            given.sort();
            prop_assert_eq!(&given, &wanted);
            prop_assert_eq!(&answer.text, &texts);
            prop_assert_eq!(exchange.run(cut_bytes(&bytes, &cuts)).0, answer);
        }
    }
}
