//! Tests upstreams that send malformed data in every dialect. A client must get either a complete response or an
//! error in the format of its API, and a response that breaks off must never look complete. The clients in
//! [`support`](crate::support) check the format.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::ClientDialect,
    pipeline::State,
    rules::{Limits, Rules},
};

use crate::support::{
    client::Answer,
    exchange::{Exchange, request, tools},
    hostile::{SPEECHES, changed, frames, frames_of, is_end, json_of, whole},
    upstream::Speech,
};

const CLIENTS: [ClientDialect; 4] =
    [ClientDialect::Chat, ClientDialect::Messages, ClientDialect::Responses, ClientDialect::Ollama];

fn all() -> impl Iterator<Item = Speech> {
    SPEECHES.into_iter().chain([Speech::Ollama])
}

/// The client dialect for the upstream's own API, if there is one.
fn own_client(speech: Speech) -> Option<ClientDialect> {
    match speech {
        Speech::Chat => Some(ClientDialect::Chat),
        Speech::Messages => Some(ClientDialect::Messages),
        Speech::Responses => Some(ClientDialect::Responses),
        _ => None,
    }
}

fn exchange(speech: Speech, client: ClientDialect, stream: bool, limits: Limits) -> Exchange {
    let fields = json!({"tools": tools(["a", "b", "get_weather"], &Value::Null), "stream": stream});
    let settings = Rules { limits, server_tools: vec!["web_search".to_owned()], ..Rules::default() };
    Exchange { client, ..Exchange::new(request(&fields), settings, speech) }
}

/// Returns an exchange for every client dialect, both streaming and non-streaming.
fn exchanges(speech: Speech, limits: Limits) -> Vec<Exchange> {
    let of = |client| [true, false].map(|stream| exchange(speech, client, stream, limits));
    CLIENTS.into_iter().flat_map(of).collect()
}

/// Runs an exchange. Asserts that the answer is either complete or has failed with a readable message.
fn play(exchange: &Exchange, what: &str, bytes: &[u8]) -> Answer {
    let shown = || format!("{:?} to {:?}: {what}", exchange.speech, exchange.client);
    let answer = exchange.run([bytes]).0;
    assert_ne!(answer.finish.is_some(), answer.error.is_some(), "{}: {answer:?}", shown());
    if let Some(error) = &answer.error {
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{}: {error}", shown());
        assert!(exchange.conversation.stream || answer.status >= 400, "{}: {answer:?}", shown());
    }
    answer
}

#[test]
fn response_that_breaks_off_is_an_error_for_every_client() {
    for speech in all() {
        let frames = frames(speech);
        let end = frames.iter().position(|frame| is_end(frame)).unwrap();
        for exchange in exchanges(speech, Limits::default()) {
            for at in 0..=end {
                let (before, next) = (frames[..at].concat(), &frames[at]);
                let half = next.char_indices().nth(next.chars().count() / 2).unwrap().0;
                for part in ["", &next[..half], next.trim_end_matches(['\n', '}'])] {
                    let answer =
                        play(&exchange, &format!("{at} and {part}"), format!("{before}{part}").as_bytes());
                    let is_whole = !part.is_empty() && at == end && next.contains("[DONE]");
                    assert!(
                        answer.error.is_some() || is_whole,
                        "{speech:?}: whole after {at} frames and {part:?}"
                    );
                }
            }
            let answer = play(&exchange, "all", frames.concat().as_bytes());
            assert_eq!(answer.error, None, "{speech:?}");
        }
        let Some(whole) = whole(speech).map(|whole| whole.to_string()) else { continue };
        for exchange in exchanges(speech, Limits::default()) {
            for at in (0..whole.len()).step_by(5) {
                let answer = play(&exchange, &format!("{at} bytes"), &whole.as_bytes()[..at]);
                assert!(answer.error.is_some(), "{speech:?}: whole after {}", &whole[..at]);
            }
            assert_eq!(play(&exchange, "whole", whole.as_bytes()).error, None);
        }
    }
}

#[test]
fn parts_of_another_type_end_no_response_out_of_its_form() {
    for speech in all() {
        let (frames, exchanges) = (frames(speech), exchanges(speech, Limits::default()));
        let (head, end) = (frames[0].clone(), frames.len() - 3);
        for (at, frame) in frames.iter().enumerate() {
            let Some((text, value)) = json_of(frame) else { continue };
            // The frames before and after this one belong to the same call.
            let (before, after) = (&frames[1.min(at)..at], &frames[at + 1..]);
            let before = &before[before.len().saturating_sub(1)..];
            let (after, last) = after.split_at(after.len().min(1));
            let last = &last[end.saturating_sub(at + 2).min(last.len())..];
            for (number, (what, changed)) in changed(&value).into_iter().enumerate() {
                let changed = frame.replace(text, &changed.to_string());
                let first = if at == 0 { "" } else { &head };
                let stream = [first, &before.concat(), &changed, &after.concat(), &last.concat()].concat();
                // A client with the upstream's API may get frames unchanged, so it is tested with every change. The
                // other clients take turns.
                let is_own = |it: &&Exchange| it.conversation.stream && Some(it.client) == own_client(speech);
                let other = &exchanges[(at + number) % exchanges.len()];
                for exchange in exchanges.iter().filter(is_own).chain([other]) {
                    let answer = play(exchange, &what, stream.as_bytes());
                    if number % 8 == 0 {
                        let in_pieces = exchange.run(stream.as_bytes().chunks(61)).0;
                        assert_eq!(in_pieces, answer, "{speech:?}: {what} of {frame}");
                    }
                }
            }
        }
        let Some(whole) = whole(speech) else { continue };
        for (what, changed) in changed(&whole) {
            for exchange in &exchanges {
                play(exchange, &what, changed.to_string().as_bytes());
            }
        }
    }
}

#[test]
fn what_follows_the_end_changes_nothing() {
    for speech in all() {
        let frames = frames(speech);
        let last = frames.iter().rposition(|frame| is_end(frame)).unwrap();
        let ends: Vec<_> = frames.iter().filter(|frame| is_end(frame)).cloned().collect();
        let good = frames.concat();
        let said = frames_of(speech, &[json!(["m", "LATE"])]).concat();
        let error = match speech {
            Speech::LumoV1 => json!(["error", "late"]),
            _ => json!(["err", {"message": "late", "type": "server_error", "code": "error"}]),
        };
        let failed = frames_of(speech, &[error]).concat();
        let twice = frames[..=last].iter().cloned().chain(ends.clone()).collect::<String>();
        let interleaved = ends.iter().map(|end| format!("{end}{said}")).collect::<String>();
        let before = frames.iter().filter(|frame| !is_end(frame)).cloned().collect::<String>();
        for exchange in exchanges(speech, Limits::default()) {
            let expected = play(&exchange, "good", good.as_bytes());
            for (what, late) in [
                ("ends", ends.concat().repeat(100)),
                ("text", said.clone()),
                ("error", failed.clone()),
                ("garbage", "\0{]data: }".repeat(9)),
            ] {
                let stream = format!("{good}{late}");
                let answer = play(&exchange, what, stream.as_bytes());
                assert!(answer == expected || answer.error.is_some(), "{speech:?}: {what}: {answer:?}");
            }
            let answer = play(&exchange, "twice", twice.as_bytes());
            assert_eq!((answer.error, answer.finish), (None, expected.finish.clone()), "{speech:?}");
            play(&exchange, "interleaved", format!("{before}{interleaved}").as_bytes());
        }
    }
}

/// Each prefix is followed by an endless series of 500-byte pieces.
#[test]
fn what_never_ends_fails_at_its_limit() {
    const MOST: usize = 4000;
    let limits =
        Limits { max_frame: MOST, max_answer: MOST, max_hold: 400, max_arguments: MOST, ..Limits::default() };
    let beginnings = [
        "data: ",
        "data: {\"choices\":\"",
        "data: {\"choices\":[",
        "event: ",
        ": ",
        "{\"a\":\"",
        "{",
        "[",
        "[{\"a\":[",
        "\"",
        "<html>",
        "5",
        "id",
        "\u{feff}",
    ];
    for speech in all() {
        let begun = frames(speech)[..2].concat();
        for exchange in exchanges(speech, limits) {
            for beginning in beginnings.iter().flat_map(|text| [(*text).to_owned(), format!("{begun}{text}")])
            {
                for filler in ["[", "{\"a\":", "\\u0000", "é"] {
                    let what = format!("{speech:?} to {:?}: {beginning:?} and {filler:?}", exchange.client);
                    let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
                    pipeline.push(beginning.as_bytes(), &mut out);
                    let piece = filler.repeat(500 / filler.len());
                    let came = (0..3 * MOST / 500)
                        .position(|_| pipeline.push(piece.as_bytes(), &mut out) != State::Open);
                    assert_eq!((came.is_some(), pipeline.state()), (true, State::Failed), "{what}");
                    assert!(exchange.ended(&mut pipeline, out).error.is_some(), "{what}");
                }
            }
        }
    }
}

#[test]
fn events_without_number_are_read_within_bounds() {
    const TIMES: usize = 300;
    for speech in all() {
        let all = frames(speech);
        for exchange in exchanges(speech, Limits::default()) {
            for frame in all.iter().filter(|frame| !is_end(frame)) {
                let (mut pipeline, mut out) = (exchange.pipeline(), BytesMut::new());
                let (mut came, mut left) = (0, 0);
                for piece in [all[0].clone(), frame.repeat(TIMES)] {
                    pipeline.push(piece.as_bytes(), &mut out);
                    came += piece.len();
                    left += out.len();
                }
                assert!(pipeline.held() <= 4096, "{speech:?}: {} held of {frame}", pipeline.held());
                assert!(
                    left <= 16 * came + 4096,
                    "{speech:?} to {:?}: {left} of {came} for {frame}",
                    exchange.client
                );
                let ends = all.iter().filter(|frame| is_end(frame)).cloned().collect::<String>();
                pipeline.push(ends.as_bytes(), &mut out);
                pipeline.finish(&mut out);
                pipeline.end(&mut out);
                let answer = exchange.ended(&mut pipeline, out);
                assert_ne!(answer.finish.is_some(), answer.error.is_some(), "{speech:?}: {frame}");
            }
        }
    }
}
