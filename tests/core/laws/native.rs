//! Tests law 3 for native calls near their limits: everything is forwarded unchanged, or the answer fails.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire::rules::{ArgumentDelivery, Limits, Rules};

use crate::laws::tries;
use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

const LIMITS: Limits = Limits { max_arguments: 40, max_name: 12, max_calls: 3, ..LARGE };

/// Limits that these tests never reach.
const LARGE: Limits = Limits {
    max_frame: 1 << 20,
    max_arguments: 1 << 20,
    max_calls: 128,
    max_hold: 1 << 20,
    max_depth: 128,
    max_name: 256,
    max_markup: 1024,
    max_answer: 1 << 20,
    max_hops: 2,
};

#[derive(Debug, Clone, Copy)]
enum Layout {
    OnePiece,
    HeadAndPieces,
    ArgumentsFirst,
    ArgumentsFirstInPieces,
    Object,
    NameInPieces,
}

const LAYOUTS: [Layout; 6] = [
    Layout::OnePiece,
    Layout::HeadAndPieces,
    Layout::ArgumentsFirst,
    Layout::ArgumentsFirstInPieces,
    Layout::Object,
    Layout::NameInPieces,
];

#[derive(Debug, Clone)]
struct Call {
    name: String,
    arguments: String,
    layout: Layout,
}

impl Call {
    fn fits(&self) -> bool {
        self.name.len() <= LIMITS.max_name && self.arguments.len() <= LIMITS.max_arguments
    }

    fn deltas(&self, index: usize) -> Vec<Value> {
        let (id, name, arguments) = (format!("c{index}"), &self.name, &self.arguments);
        let (left, right) = arguments.split_at(arguments.len() / 2);
        let (first, last) = name.split_at(name.len() / 2);
        let head = |name: &str, arguments: Value| {
            json!({"index": index, "id": id, "type": "function",
                   "function": {"name": name, "arguments": arguments}})
        };
        let piece = |arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
        match self.layout {
            Layout::OnePiece => vec![head(name, json!(arguments))],
            Layout::HeadAndPieces => vec![head(name, json!("")), piece(left), piece(right)],
            Layout::ArgumentsFirst => vec![piece(arguments), head(name, json!(""))],
            Layout::ArgumentsFirstInPieces => vec![piece(left), piece(right), head(name, json!(""))],
            Layout::Object => vec![head(name, serde_json::from_str(arguments).unwrap())],
            Layout::NameInPieces => {
                let rest = json!({"index": index, "function": {"name": last}});
                let pieces = [head(first, json!("")), rest, piece(arguments)];
                // A one-letter name cannot be split in two.
                pieces.into_iter().skip(usize::from(first.is_empty())).collect()
            }
        }
    }
}

fn call() -> impl Strategy<Value = Call> {
    let (arguments, name) = (LIMITS.max_arguments, LIMITS.max_name);
    let arguments = prop_oneof![
        6 => 8..=arguments,
        2 => Just(arguments),
        1 => Just(arguments + 1),
        1 => Just(40 * arguments),
    ];
    let name = prop_oneof![6 => 1..=name, 2 => Just(name), 1 => Just(name + 1), 1 => Just(500 * name)];
    (arguments, name, prop::sample::select(&LAYOUTS as &[_])).prop_map(|(arguments, name, layout)| Call {
        arguments: format!(r#"{{"x":"{}"}}"#, "y".repeat(arguments - 8)),
        // The halves of the name differ, since a repeated half would count as the same name sent twice.
        name: format!("a{}", "n".repeat(name - 1)),
        layout,
    })
}

fn upstream(speech: Option<Speech>, calls: &[Call]) -> Vec<u8> {
    let Some(speech) = speech else {
        let call = |(index, call): (usize, &Call)| {
            json!({"id": format!("c{index}"), "type": "function",
                   "function": {"name": call.name, "arguments": call.arguments}})
        };
        let calls: Vec<_> = calls.iter().enumerate().map(call).collect();
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let choices = json!([{"index": 0, "message": message, "finish_reason": "tool_calls"}]);
        let completion = json!({"id": "i", "object": "chat.completion", "created": 1, "model": "m",
                                "choices": choices});
        return completion.to_string().into_bytes();
    };
    let deltas = calls.iter().enumerate().flat_map(|(index, call)| call.deltas(index));
    let ends = [json!(["fin", "tool_calls"]), json!(["done"])];
    let events: Vec<_> = deltas.map(|delta| json!(["d", {"tool_calls": [delta]}])).chain(ends).collect();
    speech.stream(&events)
}

fn holds(calls: &[Call], answer: &Answer) -> Result<(), TestCaseError> {
    let sent: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    if calls.len() <= LIMITS.max_calls && calls.iter().all(Call::fits) {
        prop_assert_eq!(&answer.error, &None);
        prop_assert_eq!(answer.named_calls(), sent);
        prop_assert_eq!(answer.finish.as_deref(), Some("tool_calls"));
        return Ok(());
    }
    prop_assert_eq!(&answer.error.as_ref().unwrap()["code"], "limit_exceeded");
    prop_assert_eq!(&answer.finish, &None);
    // What was sent before the failure is correct and within the limits.
    for ((name, arguments), sent) in answer.named_calls().into_iter().zip(sent) {
        prop_assert_eq!(name, sent.0);
        prop_assert!(sent.1.starts_with(arguments) && arguments.len() <= LIMITS.max_arguments);
    }
    Ok(())
}

proptest! {
    #![proptest_config(tries(600))]

    #[test]
    fn native_calls_are_complete_or_the_response_fails(
        calls in prop::collection::vec(call(), 1..=LIMITS.max_calls + 1),
        speech in prop::sample::select(&[Some(Speech::Chat), Some(Speech::LumoV2), None] as &[Option<Speech>]),
        arguments in prop::sample::select(&[ArgumentDelivery::Stream, ArgumentDelivery::Whole] as &[_]),
        stream: bool,
        cut in 1..200_usize,
    ) {
        let fields = json!({"stream": stream, "tools": tools(["t"], &Value::Null)});
        let settings = Rules { limits: LIMITS, arguments, ..Rules::default() };
        let exchange = Exchange::new(request(&fields), settings, speech.unwrap_or(Speech::Chat));
        let bytes = upstream(speech, &calls);
        let (answer, tally) = exchange.run([bytes.as_slice()]);
        holds(&calls, &answer)?;
        prop_assert!(tally.skipped.is_empty(), "{}", tally.skipped);
        prop_assert_eq!(&exchange.run(bytes.chunks(cut)).0, &answer);
    }
}

/// The default limits allow three calls of 400 KB each. An answer with too many calls, or with a call whose
/// arguments are one byte too long, fails rather than losing anything.
#[test]
fn large_native_calls_are_not_lost() {
    let call = |length: usize, layout: Layout| Call {
        name: "a".to_owned(),
        arguments: format!(r#"{{"x":"{}"}}"#, "y".repeat(length - 8)),
        layout,
    };
    let limit = Limits::default().max_arguments;
    for (calls, fits) in [
        (vec![call(400_000, Layout::OnePiece); 3], true),
        (vec![call(400_000, Layout::ArgumentsFirst); 3], true),
        (vec![call(limit, Layout::ArgumentsFirst)], true),
        (vec![call(limit + 1, Layout::OnePiece)], false),
        (vec![call(10, Layout::OnePiece); 128], true),
        (vec![call(10, Layout::OnePiece); 129], false),
        (vec![call(10, Layout::ArgumentsFirst); 2000], false),
    ] {
        for (speech, stream) in [(Some(Speech::Chat), true), (None, false)] {
            let fields = json!({"stream": stream, "tools": tools(["t"], &Value::Null)});
            let exchange = Exchange::new(request(&fields), Rules::default(), speech.unwrap_or(Speech::Chat));
            let (answer, _) = exchange.run([upstream(speech, &calls).as_slice()]);
            if fits {
                let sent = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str()));
                assert!(answer.named_calls().into_iter().eq(sent), "{speech:?} {:?}", answer.error);
            } else {
                assert_eq!(answer.error.unwrap()["code"], "limit_exceeded");
                assert_eq!(answer.finish, None);
            }
        }
    }
}
