//! Tests that canonical streams violate no rule, and that violations are reported, however the stream is split.

use proptest::prelude::*;

use super::{sample::TokenKind, *};
use crate::fixture::{Cutting, Fixture, postmark::Postmark};

const CHAT: &str = include_str!("tests/chat.sse");

const RESPONSES: &str = include_str!("tests/responses.sse");

const MESSAGES: &str = include_str!("tests/messages.sse");

/// Returns the sample of a stream that arrives in these pieces, one per nanosecond.
fn follow(dialect: ClientDialect, pieces: &[&[u8]]) -> Sample {
    let (mut follower, mut sample) = (Follower::new(dialect), Sample::default());
    for (piece, at) in pieces.iter().zip(1..) {
        follower.push(piece, at, &mut sample);
    }
    follower.finish(pieces.len() as u64 + 1, &mut sample);
    sample
}

fn whole(dialect: ClientDialect, stream: &str) -> Sample {
    follow(dialect, &[stream.as_bytes()])
}

/// Returns the part of a sample that must not depend on splits: everything except the times.
fn told(mut sample: Sample) -> Sample {
    sample.tokens.iter_mut().for_each(|token| token.at = 0);
    for time in [&mut sample.first_byte, &mut sample.first_call, &mut sample.last_call] {
        *time = time.map(|_| 0);
    }
    Sample { end: 0, ..sample }
}

#[test]
fn canonical_streams_have_no_violations() {
    use TokenKind::{Arguments, Reasoning, Text};
    for (dialect, stream, kinds, usage) in [
        (ClientDialect::Chat, CHAT, vec![Reasoning, Text, Arguments, Arguments, Arguments], 5),
        (ClientDialect::Responses, RESPONSES, vec![Text, Text, Arguments, Arguments], 5),
        (ClientDialect::Messages, MESSAGES, vec![Reasoning, Text, Arguments, Arguments], 7),
    ] {
        let sample = whole(dialect, stream);
        assert_eq!(sample.violations, Vec::<String>::new(), "{dialect:?}");
        assert_eq!(sample.outcome, Outcome::Done);
        assert_eq!(sample.tokens.iter().map(|token| token.kind).collect::<Vec<_>>(), kinds, "{dialect:?}");
        assert_eq!(sample.usage, Some(usage));
        assert_eq!(sample.bytes, stream.len() as u64);
        assert_eq!(
            whole(dialect, &format!("{}data: [DONE]\n\n", stream.trim_end_matches("data: [DONE]\n\n")))
                .outcome,
            Outcome::Done
        );
    }
}

#[test]
fn times_are_those_of_the_bytes_read() {
    for (dialect, stream, piece) in [
        (ClientDialect::Chat, CHAT, r#""arguments":"{}""#),
        (ClientDialect::Responses, RESPONSES, "arguments.delta"),
        (ClientDialect::Messages, MESSAGES, "input_json_delta"),
    ] {
        let events: Vec<_> = stream.split_inclusive("\n\n").collect();
        let sample = follow(dialect, &events.iter().map(|event| event.as_bytes()).collect::<Vec<_>>());
        let at = |needle: &str| 1 + events.iter().position(|event| event.contains(needle)).unwrap() as u64;
        let last = |needle: &str| 1 + events.iter().rposition(|event| event.contains(needle)).unwrap() as u64;
        assert_eq!(sample.first_byte, Some(1));
        assert_eq!(sample.first_call, Some(at(r#""name":"f""#)), "{dialect:?}");
        assert_eq!(sample.last_call, Some(last(piece)), "{dialect:?}");
        assert_eq!(sample.end, events.len() as u64, "{dialect:?}");
    }
}

/// Checks the table `variants`. Each entry is a change to the canonical stream, with the rules that it violates. `⏎`
/// stands for LF and `␍` for CR.
fn check(dialect: ClientDialect, canonical: &str, variants: &str) {
    for variant in variants.split("\n\n").filter(|variant| !variant.trim().is_empty()) {
        let (mut stream, mut from, mut rules) = (canonical.to_owned(), String::new(), Vec::new());
        for line in variant.lines() {
            let (sign, text) = line.split_once(' ').unwrap();
            let text = text.replace('⏎', "\n").replace('␍', "\r");
            match sign {
                "-" => from = text,
                "+" => {
                    assert!(stream.contains(&from), "{from} is not in the stream");
                    stream = stream.replacen(&from, &text, 1);
                }
                _ => rules.push(text),
            }
        }
        let sample = whole(dialect, &stream);
        let broken: Vec<_> = sample.violations.iter().map(|told| rule(told)).collect();
        assert_eq!(broken, rules, "{variant}: {:?}", sample.violations);
        let bytes: Vec<_> = stream.as_bytes().chunks(1).collect();
        assert_eq!(told(follow(dialect, &bytes)), told(sample), "{variant}");
    }
}

#[test]
fn each_chat_violation_is_reported() {
    check(ClientDialect::Chat, CHAT, include_str!("tests/chat.variants"));
}

#[test]
fn each_responses_violation_is_reported() {
    check(ClientDialect::Responses, RESPONSES, include_str!("tests/responses.variants"));
    let without = |kind: &str| {
        let line = format!("event: {kind}\n");
        let kept = RESPONSES.split_inclusive("\n\n").filter(|event| !event.starts_with(&line));
        let sample = whole(ClientDialect::Responses, &kept.collect::<String>());
        let told = sample.violations.iter().map(|told| rule(told).to_owned());
        told.filter(|rule| rule != "sequence_number does not count from 0").collect::<Vec<_>>()
    };
    assert_eq!(without("response.created"), ["the first event is not response.created"]);
    assert_eq!(without("response.content_part.done"), ["an item is done before its parts"]);
    assert_eq!(
        without("response.output_text.done"),
        ["a part is done before its text", "an item is done before its parts"]
    );
    assert_eq!(without("response.function_call_arguments.done"), ["a call is done before its arguments"]);
    assert_eq!(without("response.output_item.done"), ["an item is not ended by output_item.done"]);
    assert_eq!(
        without("response.function_call_arguments.delta"),
        ["a call's deltas differ from its complete arguments"]
    );
}

#[test]
fn each_messages_violation_is_reported() {
    check(ClientDialect::Messages, MESSAGES, include_str!("tests/messages.variants"));
}

#[test]
fn stream_without_end_mark_is_broken() {
    for (dialect, stream, end) in [
        (ClientDialect::Chat, CHAT, "[DONE]"),
        (ClientDialect::Responses, RESPONSES, "response.completed"),
        (ClientDialect::Messages, MESSAGES, "message_stop"),
    ] {
        let last = stream.trim_end().rfind("\n\n").unwrap() + 2;
        let sample = whole(dialect, stream.split_at(last).0);
        assert_eq!(sample.outcome, Outcome::Broken(format!("the stream ends without {end}")));
        assert_eq!(sample.violations, Vec::<String>::new());
        assert_eq!(sample.end, 2);
        assert_eq!(whole(dialect, "").outcome, sample.outcome);
    }
}

#[test]
fn error_event_in_the_stream_is_a_failure() {
    let role = CHAT.split_inclusive("\n\n").next().unwrap();
    let chat = |error: &str| whole(ClientDialect::Chat, &format!("{role}data: {error}\n\n"));
    let sample =
        chat(r#"{"error":{"message":"no \"more\"","type":"server_error","param":null,"code":null}}"#);
    assert_eq!((sample.outcome, sample.violations), (Outcome::Failed("no \"more\"".into()), vec![]));
    let sample = chat(r#"{"error":"gone"}"#);
    assert_eq!(sample.outcome, Outcome::Failed("gone".into()));
    assert_eq!(sample.violations, ["an error is not an object with message and type (frame 2)"]);
    let sample = chat(r#"{"choices":[],"error":{"message":"m","type":"t"}}"#);
    assert_eq!(sample.violations, ["an error stands beside choices (frame 2)"]);
    let error = r#"{"error":{"message":"m","type":"t"}}"#;
    assert_eq!(chat(&format!("{error}\n\ndata: [DONE]")).violations, Vec::<String>::new());
    assert_eq!(chat(&format!("{error}\n\n{role}")).violations[..1], ["data follows an error (frame 3)"]);

    let sample = whole(ClientDialect::Responses, &format!("data: {error}\n\n"));
    assert_eq!(sample.outcome, Outcome::Failed("m".into()));
    assert_eq!(sample.violations, ["an error has the form of Chat Completions (frame 1)"]);
    let event = r#"{"type":"error","sequence_number":0,"code":"server_error","message":"m","param":null}"#;
    let sample = whole(ClientDialect::Responses, &format!("event: error\ndata: {event}\n\n"));
    assert_eq!((sample.outcome, sample.violations), (Outcome::Failed("m".into()), vec![]));
    let failed = RESPONSES.replace("response.completed", "response.failed").replace(
        r#""status":"completed","model""#,
        r#""error":{"code":"server_error","message":"m"},"status":"failed","model""#,
    );
    let sample = whole(ClientDialect::Responses, &failed);
    assert_eq!((sample.outcome, sample.violations), (Outcome::Failed("m".into()), vec![]));

    let event = r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#;
    let sample = whole(ClientDialect::Messages, &format!("event: error\ndata: {event}\n\n"));
    assert_eq!((sample.outcome, sample.violations), (Outcome::Failed("m".into()), vec![]));
}

#[test]
fn delta_has_one_token_per_postmark() {
    let [first, second] = [1, 2].map(|left| Postmark { left, slip: 3 });
    let [one, two] = [first, second].map(|mark| String::from_utf8(mark.to_bytes().to_vec()).unwrap());
    let chunk =
        |content: &str| CHAT.split_inclusive("\n\n").nth(2).unwrap().replace("Look\\u00e9ng.", content);
    let (head, tail) = two.split_at(9);
    let stream = [
        chunk(&format!("a{one}b{two}")),
        chunk(&format!("\\n{head}")),
        chunk(tail),
        chunk(&one.replace('+', "\\u002b")),
    ];
    let sample = whole(ClientDialect::Chat, &stream.concat());
    let marks: Vec<_> = sample.tokens.iter().map(|token| token.postmark).collect();
    assert_eq!(marks, [Some(first), Some(second), None, Some(second), Some(first)]);
}

#[test]
fn later_tokens_do_not_allocate() {
    for (dialect, stream, before) in [
        (ClientDialect::Chat, CHAT, 5),
        (ClientDialect::Responses, RESPONSES, 11),
        (ClientDialect::Messages, MESSAGES, 11),
    ] {
        let events: Vec<_> = stream.split_inclusive("\n\n").collect();
        let (start, rest) = events.split_at(before);
        let (mut follower, mut sample) = (Follower::new(dialect), Sample::default());
        sample.tokens.reserve(1000);
        start.iter().for_each(|event| follower.push(event.as_bytes(), 1, &mut sample));
        let count = sample.tokens.len();
        let deltas = || (0..100).for_each(|_| follower.push(rest[0].as_bytes(), 2, &mut sample));
        let info = allocation_counter::measure(deltas);
        assert_eq!(sample.tokens.len(), count + 100, "{dialect:?}: {}", rest[0]);
        // Only the first delta allocates, and a rule that several deltas violate is reported once.
        assert!(info.count_total < 10, "{dialect:?}: {} allocations", info.count_total);
    }
}

#[test]
fn pipeline_output_has_no_violations() {
    // Server calls without a result cannot be distinguished from the client's calls.
    let unanswered = ["v1-older-keys", "v2-announce-only"];
    let root = crate::repository::root().join("fixtures");
    let mut seen = 0;
    for dir in Fixture::find(&root).unwrap() {
        let fixture = Fixture::load(&dir).unwrap();
        if !fixture.conversation.stream || unanswered.contains(&fixture.name.as_str()) {
            continue;
        }
        let played = fixture.play(Cutting::Whole).unwrap();
        if played.status != 200 {
            continue;
        }
        let sample = follow(ClientDialect::Chat, &[&played.bytes]);
        assert_eq!(sample.violations, Vec::<String>::new(), "{}", fixture.name);
        assert!(matches!(sample.outcome, Outcome::Done | Outcome::Failed(_)), "{}", fixture.name);
        seen += 1;
    }
    assert!(seen > 50, "{seen} fixtures");
}

proptest! {
    #[test]
    fn sample_does_not_depend_on_cuts(
        which in 0..3_usize,
        size in 1..40_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (dialect, stream) =
            [(ClientDialect::Chat, CHAT), (ClientDialect::Responses, RESPONSES), (ClientDialect::Messages, MESSAGES)][which];
        let mut bytes = stream.as_bytes().to_vec();
        for (at, byte) in changes {
            *at.get_mut(&mut bytes) = byte;
        }
        let whole = told(follow(dialect, &[&bytes]));
        prop_assert_eq!(&told(follow(dialect, &bytes.chunks(size).collect::<Vec<_>>())), &whole);
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&told(follow(dialect, &pieces)), &whole);
    }
}
