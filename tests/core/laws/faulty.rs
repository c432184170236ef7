//! A faulty upstream: each fault of a call, behind everything that may precede a call, in every client's API. Asked
//! again, the model makes the call correctly, and the client must get exactly this call. If it does not, the client
//! gets the faulty call with a warning.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    conversation::{KeptState, Part, WantsBack},
    dialect::ClientDialect,
    pipeline::{Reason, State, Tally},
    rules::{Detect, Enforce, InvalidArguments, Limits, Rules, UnknownCalls},
};

use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

const GOOD: &str = r#"{"a": 1}"#;
const THOUGHT: &str = "Let me think.";
const SENTENCE: &str = "Let me see.";

/// How the upstream writes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Native(Speech),
    Text,
}

const CHANNELS: [Channel; 4] = [
    Channel::Native(Speech::Chat),
    Channel::Native(Speech::Messages),
    Channel::Native(Speech::Responses),
    Channel::Text,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    BadJson,
    Cut,
    WrongType,
    Missing,
    Unknown,
}

const FAULTS: [Fault; 5] = [Fault::BadJson, Fault::Cut, Fault::WrongType, Fault::Missing, Fault::Unknown];

impl Fault {
    fn call(self) -> (&'static str, &'static str) {
        match self {
            Self::BadJson => ("f", r#"{"a": oops 1}"#),
            Self::Cut => ("f", r#"{"a": 1, "s": "San Fra"#),
            Self::WrongType => ("f", r#"{"a": "x"}"#),
            Self::Missing => ("f", "{}"),
            Self::Unknown => ("f_v2", GOOD),
        }
    }

    fn reason(self) -> Reason {
        if self == Self::Unknown { Reason::UnknownTool } else { Reason::InvalidArguments }
    }
}

/// What the model writes before its calls.
#[derive(Debug, Clone, Copy)]
struct Before {
    reasoning: bool,
    text: bool,
}

fn prefixes() -> impl Iterator<Item = Before> {
    let flags = [false, true];
    flags.into_iter().flat_map(move |reasoning| flags.map(|text| Before { reasoning, text }))
}

fn rules() -> Rules {
    Rules {
        enforce: Enforce::Retry,
        unknown_calls: UnknownCalls::Retry,
        invalid_arguments: InvalidArguments::Retry,
        ..Rules::default()
    }
}

impl Channel {
    fn speech(self) -> Speech {
        if let Self::Native(speech) = self { speech } else { Speech::Chat }
    }

    fn response(self, before: Before, calls: &[(&str, &str)], finish: &str) -> Vec<u8> {
        let mut events = Vec::new();
        if before.reasoning {
            events.push(json!(["r", THOUGHT]));
        }
        if before.text {
            events.push(json!(["m", SENTENCE]));
        }
        for (index, (name, arguments)) in calls.iter().enumerate() {
            events.push(match self {
                Self::Native(_) => json!(["d", {"tool_calls": [{"index": index, "id": format!("n{index}"),
                    "type": "function", "function": {"name": name, "arguments": arguments}}]}]),
                // A call that was cut has no closer.
                Self::Text if Fault::Cut.call() == (*name, *arguments) => {
                    json!(["m", format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}")])
                }
                Self::Text => json!(["m", written(name, arguments)]),
            });
        }
        let is_plain = calls.is_empty() || self == Self::Text;
        let finish = if is_plain && finish == "tool_calls" { "stop" } else { finish };
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        events.extend([json!(["fin", finish]), json!(["u", usage]), json!(["done"])]);
        self.speech().stream(&events)
    }

    fn exchange(self, client: ClientDialect, stream: bool, choice: &str, rules: Rules) -> Exchange {
        let integer = json!({"type": "integer"});
        let schema = json!({"type": "object", "properties": {"a": integer, "s": {"type": "string"}}, "required": ["a"]});
        let mut tools = tools(["f"], &schema);
        tools.as_array_mut().unwrap().push(json!({"type": "function", "function": {"name": "g"}}));
        let mut fields = json!({"tools": tools, "stream": stream});
        if choice != "auto" {
            fields["tool_choice"] = choice.into();
        }
        let mut exchange = Exchange::new(request(&fields), rules, self.speech());
        exchange.client = client;
        exchange
    }
}

fn written(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// Runs `act` for each channel, client, prefix and `tool_choice`, streamed and whole.
fn everywhere(rules: &Rules, act: impl Fn(&str, Channel, Before, Exchange)) {
    for channel in CHANNELS {
        for client in ClientDialect::all() {
            for before in prefixes() {
                for (stream, choice) in
                    [(true, "auto"), (false, "auto"), (true, "required"), (false, "required")]
                {
                    let exchange = channel.exchange(client, stream, choice, rules.clone());
                    let what = format!("{channel:?} {client:?} {before:?} stream {stream} {choice}");
                    act(&what, channel, before, exchange);
                }
            }
        }
    }
}

fn arguments(answer: &Answer) -> Vec<(&str, Value)> {
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    answer.calls.iter().map(|call| (call.name.as_str(), value(&call.arguments))).collect()
}

/// Asserts that the client got the good call, with what preceded it once.
fn assert_exact(what: &str, before: Before, (answer, tally): &(Answer, Tally)) {
    assert_eq!(arguments(answer), [("f", json!({"a": 1}))], "{what}");
    assert_eq!(
        (answer.finish.as_deref(), answer.warnings.as_slice()),
        (Some("tool_calls"), [].as_slice()),
        "{what}"
    );
    assert_eq!(answer.text, if before.text { SENTENCE } else { "" }, "{what}");
    assert_eq!(answer.reasoning, if before.reasoning { THOUGHT } else { "" }, "{what}");
    assert_eq!(tally.calls.len(), 1, "{what}");
}

#[test]
fn faulty_call_is_replaced_by_a_correct_one() {
    everywhere(&rules(), |what, channel, before, mut exchange| {
        exchange.later = vec![channel.response(before, &[("f", GOOD)], "tool_calls")];
        for fault in FAULTS {
            for beside in [false, true] {
                let what = format!("{what} {fault:?}, beside a good call: {beside}");
                let calls = [("g", "{}"), fault.call()];
                let calls = calls.get(usize::from(!beside)..).unwrap();
                let got = exchange.run([channel.response(before, calls, "tool_calls").as_slice()]);
                assert_exact(&what, before, &got);
                assert_eq!(got.1.follow_ups, [fault.reason()], "{what}");
                let usage = got.0.usage.unwrap();
                let names = [
                    "output_tokens",
                    "completion_tokens",
                    "candidatesTokenCount",
                    "eval_count",
                    "total_output_tokens",
                ];
                let output = names.iter().find_map(|name| usage.get(*name)).unwrap();
                assert!(output.as_u64().unwrap() >= 4, "{what}: {usage}");
            }
        }
    });
}

#[test]
fn faulty_call_is_replaced_however_it_is_split() {
    for channel in [Channel::Native(Speech::Chat), Channel::Text] {
        let before = Before { reasoning: true, text: true };
        let mut exchange = channel.exchange(ClientDialect::Chat, true, "auto", rules());
        exchange.later = vec![channel.response(before, &[("f", GOOD)], "tool_calls")];
        for fault in FAULTS {
            let response = channel.response(before, &[fault.call()], "tool_calls");
            let what = format!("{channel:?} {fault:?}");
            assert_exact(&what, before, &exchange.in_pieces(&what, &response));
        }
    }
}

#[test]
fn missing_call_is_made_when_asked_for_again() {
    everywhere(&rules(), |what, channel, before, mut exchange| {
        if exchange.conversation.tool_choice.requires_call() {
            exchange.later = vec![channel.response(before, &[("f", GOOD)], "tool_calls")];
            let got = exchange.run([channel.response(before, &[], "stop").as_slice()]);
            assert_exact(what, before, &got);
            assert_eq!(got.1.follow_ups, [Reason::MissingCall], "{what}");
        }
    });
}

/// Calls after two faulty hops replace those of both, and the text of the first hop stays the only one.
#[test]
fn several_hops_are_one_response() {
    let rules = Rules { limits: Limits { max_hops: 3, ..Limits::default() }, ..rules() };
    everywhere(&rules, |what, channel, before, mut exchange| {
        let [first, second, third] = [Fault::Missing.call(), Fault::Cut.call(), ("f", GOOD)];
        let mut responses =
            [first, second, third].map(|call| channel.response(before, &[call], "tool_calls"));
        exchange.later = responses[1..].iter_mut().map(std::mem::take).collect();
        let got = exchange.run([responses[0].as_slice()]);
        assert_exact(what, before, &got);
        assert_eq!(got.1.follow_ups.len(), 2, "{what}");
    });
}

/// A model that then does without a call gets its text through, behind what the client already has.
#[test]
fn answer_without_a_call_is_sent() {
    everywhere(&rules(), |what, channel, before, mut exchange| {
        let speech = channel.speech();
        exchange.later = vec![
            speech.stream(
                json!([["r", "Hm."], ["m", "It is "], ["m", "7."], ["fin", "stop"], ["done"]])
                    .as_array()
                    .unwrap(),
            ),
        ];
        let first = channel.response(before, &[Fault::Missing.call()], "tool_calls");
        let (got, _) = exchange.run([first.as_slice()]);
        let is_continued = exchange.conversation.stream && !exchange.conversation.tool_choice.requires_call();
        let text = if is_continued && before.text { "Let me see.\n\nIt is 7." } else { "It is 7." };
        assert_eq!(
            (got.text.as_str(), got.calls.len(), got.finish.as_deref()),
            (text, 0, Some("stop")),
            "{what}"
        );
    });
}

/// The last hop is as faulty as the first.
#[test]
fn faulty_call_never_vanishes() {
    everywhere(&rules(), |what, channel, before, mut exchange| {
        for fault in FAULTS {
            for (beside, end) in [(false, "tool_calls"), (true, "tool_calls"), (false, "length")] {
                if end == "length" && fault != Fault::Cut {
                    continue;
                }
                let what = format!("{what} {fault:?}, beside a good call: {beside}, {end}");
                let calls = [("g", "{}"), fault.call()];
                let response = channel.response(before, calls.get(usize::from(!beside)..).unwrap(), end);
                exchange.later = vec![response.clone()];
                let (got, tally) = exchange.run([response.as_slice()]);
                let names: Vec<_> = got.calls.iter().map(|call| call.name.as_str()).collect();
                let expected = [("g", ""), fault.call()].map(|(name, _)| name);
                assert_eq!(names, expected[usize::from(!beside)..], "{what}");
                let call = got.calls.last().unwrap();
                match fault {
                    Fault::Cut => assert!(call.arguments.contains("San Fra"), "{what}: {call:?}"),
                    Fault::BadJson => assert!(call.arguments.contains("oops"), "{what}: {call:?}"),
                    _ => {}
                }
                let finish = if fault == Fault::Cut { "length" } else { "tool_calls" };
                if exchange.client != ClientDialect::Responses {
                    assert_eq!(got.finish.as_deref(), Some(finish), "{what}");
                }
                let is_required = exchange.conversation.tool_choice.requires_call();
                let is_broken = matches!(fault, Fault::Cut | Fault::BadJson);
                assert_eq!(
                    got.warnings.contains(&"tool_choice_unfulfilled".to_owned()),
                    is_required && !beside && (is_broken || fault == Fault::Unknown),
                    "{what}: {:?}",
                    got.warnings
                );
                assert!(!got.warnings.is_empty() || end == "length", "{what}");
                assert_eq!(tally.follow_ups.len(), usize::from(end != "length"), "{what}");
                assert_eq!(got.text, if before.text { SENTENCE } else { "" }, "{what}");
            }
        }
    });
}

/// The next request contains what the model said, its call, and what was wrong with it.
#[test]
fn model_is_told_of_its_call() {
    for channel in CHANNELS {
        for fault in FAULTS {
            let exchange = channel.exchange(ClientDialect::Chat, true, "auto", rules());
            let mut pipeline = exchange.pipeline();
            let before = Before { reasoning: true, text: true };
            let response = channel.response(before, &[("g", "{}"), fault.call()], "tool_calls");
            pipeline.push(&response, &mut BytesMut::new());
            pipeline.finish(&mut BytesMut::new());
            let turns = format!("{:?}", pipeline.follow_up().unwrap().turns).replace('\\', "");
            let (name, arguments) = fault.call();
            let told = if fault == Fault::Unknown { name } else { arguments };
            for part in [SENTENCE, told, "`g`"] {
                assert!(turns.contains(part), "{channel:?} {fault:?}: {part} in {turns}");
            }
        }
    }
}

/// Without a marker, an undeclared name makes a call only while the model can be asked again, and only in formats
/// chosen by name.
#[test]
fn unknown_name_without_a_marker_is_asked_for_again() {
    let forms = [
        ("pre", r#"<pre>{"name": "f_v2", "arguments": {"a": 1}}</pre>"#),
        ("fenced", "```json\n{\"name\": \"f_v2\", \"arguments\": {\"a\": 1}}\n```"),
        ("bare", r#"{"name": "f_v2", "arguments": {"a": 1}}"#),
        ("llama3_json", r#"{"name": "f_v2", "parameters": {"a": 1}}"#),
        ("pythonic", "[f_v2(a=1)]"),
    ];
    for (format, wrong) in forms {
        for detect in [Detect::Formats(vec![format]), Detect::AutoAnd(vec![format]), Detect::Auto] {
            for (client, stream) in ClientDialect::all().flat_map(|client| [(client, true), (client, false)])
            {
                let rules = Rules { detect: detect.clone(), ..rules() };
                let mut exchange = Channel::Text.exchange(client, stream, "auto", rules);
                let said = |text: &str| Speech::Chat.says(&[text], "stop");
                exchange.later = vec![said(&wrong.replace("f_v2", "f"))];
                let what = format!("{format} {detect:?} {client:?} stream {stream}");
                let (got, tally) = exchange.in_pieces(&what, &said(wrong));
                if detect == Detect::Auto {
                    assert_eq!((got.text.as_str(), tally.follow_ups.len()), (wrong, 0), "{what}");
                    continue;
                }
                assert_exact(&what, Before { reasoning: false, text: false }, &(got, tally));
                exchange.later = vec![said(wrong)];
                let (got, tally) = exchange.in_pieces(&what, &said(wrong));
                assert_eq!((got.text.as_str(), tally.follow_ups.len()), (wrong, 1), "{what}");
                // Other JSON and Python is text.
                for text in
                    [r#"{"name": "Bob", "age": 3}"#, "```json\n{\"name\": \"Bob\"}\n```", "[1, 2]", "[x]"]
                {
                    let (got, tally) = exchange.in_pieces(&what, &said(text));
                    assert_eq!((got.text.as_str(), tally.follow_ups.len()), (text, 0), "{what}");
                }
            }
        }
    }
}

/// The signature of the first hop's reasoning reaches the client with that reasoning. The state for later requests
/// has the reasoning of both hops, but only the call that was sent.
#[test]
fn signatures_survive_a_retry() {
    let hop = |number: u32, arguments: &str| {
        let block = |index: u32, block: Value, deltas: &[Value]| {
            let delta =
                |delta: &Value| json!(["d", {"type": "content_block_delta", "index": index, "delta": delta}]);
            let mut events =
                vec![json!(["d", {"type": "content_block_start", "index": index, "content_block": block}])];
            events.extend(deltas.iter().map(delta));
            events.push(json!(["d", {"type": "content_block_stop", "index": index}]));
            events
        };
        let thinking = [
            json!({"type": "thinking_delta", "thinking": format!("Thought {number}.")}),
            json!({"type": "signature_delta", "signature": format!("S{number}")}),
        ];
        let call = json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "f", "input": {}});
        let input = [json!({"type": "input_json_delta", "partial_json": arguments})];
        let mut events = block(0, json!({"type": "thinking", "thinking": "", "signature": ""}), &thinking);
        events.extend(block(1, call, &input));
        events.extend([json!(["fin", "tool_calls"]), json!(["done"])]);
        Speech::Messages.stream(&events)
    };
    for verbatim in [true, false] {
        let channel = Channel::Native(Speech::Messages);
        let mut exchange = channel.exchange(ClientDialect::Messages, true, "auto", rules());
        exchange.verbatim = verbatim;
        let mut pipeline = exchange.pipeline();
        pipeline.keep_state(KeptState::WantedBack(WantsBack::Signatures));
        let mut out = BytesMut::new();
        pipeline.push(&hop(1, r#"{"s": "#), &mut out);
        pipeline.finish(&mut out);
        pipeline.resume(exchange.reader(), &mut out);
        pipeline.push(&hop(2, GOOD), &mut out);
        pipeline.finish(&mut out);
        assert_eq!(pipeline.state(), State::Done);
        let sent = String::from_utf8(out.to_vec()).unwrap();
        assert!(sent.contains("Thought 1.") && sent.contains("\"S1\""), "{sent}");
        assert!(!sent.contains("Thought 2.") && !sent.contains("S2") && !sent.contains("toolu_1"), "{sent}");
        let state = pipeline.take_state().unwrap();
        let signatures = state.reasoning.iter().map(|part| match part {
            Part::Reasoning { text, signature, .. } => {
                (text.as_str(), signature.as_ref().unwrap().text.as_ref())
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(signatures.collect::<Vec<_>>(), [("Thought 1.", "S1"), ("Thought 2.", "S2")]);
        assert_eq!(state.calls, [("toolu_2".to_owned(), None)]);
    }
}

/// Output beyond `max_hold` is sent. A call of that length can't be replaced, but a call behind long text can.
#[test]
fn output_that_is_too_long_to_be_held_is_sent() {
    let rules = Rules { limits: Limits { max_hold: 200, max_hops: 3, ..Limits::default() }, ..rules() };
    let channel = Channel::Native(Speech::Chat);
    let mut exchange = channel.exchange(ClientDialect::Chat, true, "auto", rules);
    let before = Before { reasoning: false, text: true };
    let long = format!(r#"{{"s": "{}"}}"#, "x".repeat(400));
    let (got, tally) = exchange.in_pieces("a call", &channel.response(before, &[("f", &long)], "tool_calls"));
    assert_eq!((got.named_calls(), tally.follow_ups.len()), (vec![("f", long.as_str())], 0));
    assert_eq!(got.warnings, ["invalid_arguments"]);
    let call =
        json!({"index": 0, "id": "n1", "type": "function", "function": {"name": "f", "arguments": "{"}});
    let text = "y".repeat(400);
    let second = json!([["m", &text], ["d", {"tool_calls": [call]}], ["fin", "tool_calls"], ["done"]]);
    exchange.later = vec![
        Speech::Chat.stream(second.as_array().unwrap()),
        channel.response(before, &[("f", GOOD)], "tool_calls"),
    ];
    let first = channel.response(before, &[Fault::Missing.call()], "tool_calls");
    let (got, tally) = exchange.in_pieces("text", &first);
    assert_eq!(got.text, format!("{SENTENCE}\n\n{text}"));
    assert_eq!((got.named_calls(), tally.follow_ups.len(), got.warnings.len()), (vec![("f", GOOD)], 2, 0));
}
