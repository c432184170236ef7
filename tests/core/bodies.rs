//! Tests the kinds of bodies that upstreams send. The readers of all dialects tell them apart in the same way.

use toolwire::{
    dialect::{Answering, Stamp, Writer, chat, completions},
    format::KnownFormats,
    pipeline::Pipeline,
    rules::{Limits, Rules},
};

use crate::{
    read::{MakesReader, Read, read_in, read_splits},
    support::exchange::request,
};

const MAX_FRAME: usize = 4096;

fn chat() -> chat::ReaderSettings {
    chat::ReaderSettings { max_frame: MAX_FRAME, ..chat::ReaderSettings::default() }
}

fn completions() -> completions::ReaderSettings {
    completions::ReaderSettings { max_frame: MAX_FRAME, ..completions::ReaderSettings::default() }
}

/// Reads a body with two readers, in every split. Asserts that the results are the same, and returns them.
#[track_caller]
fn read(body: impl AsRef<[u8]>) -> Read {
    let outcome = |read: &Read| (read.summary(), read.message.clone(), read.pings.clone());
    let read = read_splits(chat(), body.as_ref());
    assert_eq!(outcome(&read_splits(completions(), body.as_ref())), outcome(&read));
    read
}

#[test]
fn byte_order_mark_and_white_space_may_precede_any_kind_of_body() {
    for before in ["", "\u{feff}", "\r\n \t", "\u{feff}\n\n"] {
        for (body, end) in [
            ("data: {\"error\":\"no\"}\n\n", "error Upstream error"),
            ("{\"error\":\"no\"}", "error Upstream error"),
            ("[{\"error\":\"no\"}]\n", "error Upstream error"),
            ("<title>Bad Gateway</title>", "error Protocol upstream_protocol"),
            ("Bad Gateway", "error Protocol upstream_protocol"),
            ("", "error Truncated upstream_truncated"),
        ] {
            assert_eq!(read(format!("{before}{body}")).summary(), end, "{before:?} {body}");
        }
    }
}

#[test]
fn unexpected_bodies_are_quoted() {
    let long = "word ".repeat(400);
    for (body, words) in [
        ("<html><title>502 Bad Gateway</title>", "not an event stream: \"502 Bad Gateway\""),
        ("Bad\nGateway", "not an event stream: \"Bad Gateway\""),
        ("\0\x01", "not an event stream"),
        ("{\"status\":\n\"down\"}", "not a completion: {\"status\": \"down\"}"),
        ("{\"status\":\"down\"}\n", "not a completion: {\"status\":\"down\"}"),
        ("[]", "not a completion: []"),
        (&long, "not an event stream: \"word word"),
        (&format!("<p>{long}"), "not an event stream: \"<p>word word"),
    ] {
        let message = read(body).message;
        assert!(message.contains(words) && message.len() < 300, "{body}: {message}");
    }
}

#[test]
fn event_of_the_type_error_fails_the_response() {
    for data in ["{\"error\":{\"message\":\"x y\"}}", "{\"message\":\"x y\"}", "x y", "\"x y\""] {
        let read = read(format!(": hi\n\nevent: error\ndata: {data}\n\n"));
        assert_eq!((read.message.as_str(), read.pings.len()), ("x y", 1), "{data}");
    }
}

#[test]
fn bytes_that_are_not_utf8_fail_and_half_a_character_at_the_end_does_not() {
    for kind in ["data: {\"error\":\"", "{\"error\":\""] {
        let body = [kind.as_bytes(), b"\xff\"}\n\n"].concat();
        assert_eq!(read(&body).summary(), "error Protocol upstream_protocol", "{kind}");
        assert!(read(&body).message.contains("not UTF-8"), "{kind}");
        let cut = [kind.as_bytes(), b"\xc3"].concat();
        assert!(!read(&cut).message.contains("not UTF-8"), "{kind}");
    }
}

#[test]
fn frames_lines_and_values_are_limited() {
    let text = |kind: &str, length: usize| {
        let (start, end) = match kind {
            "frame" => ("data: {\"choices\":[{\"text\":\"", "\",\"finish_reason\":\"stop\"}]}"),
            _ => ("{\"choices\":[{\"text\":\"", "\",\"finish_reason\":\"stop\"}]}"),
        };
        let text = "x".repeat(length - start.len() - end.len());
        format!("{start}{text}{end}{}", if kind == "frame" { "\n\n" } else { "" })
    };
    let reads = |settings: &dyn Fn(&[u8], usize) -> Read, body: &str, fits: bool| {
        for size in [1, 100, 1 << 20] {
            let summary = settings(body.as_bytes(), size).summary();
            assert_eq!(summary.ends_with("xx | stop"), fits, "{summary}");
            assert_eq!(summary == "error Protocol upstream_protocol", !fits, "{summary}");
        }
    };
    for kind in ["frame", "value"] {
        for (length, fits) in [(MAX_FRAME - 1, true), (MAX_FRAME, true), (MAX_FRAME + 1, false)] {
            let body = text(kind, length);
            reads(&|body, size| in_pieces(chat(), body, size), &body, fits);
            reads(&|body, size| in_pieces(completions(), body, size), &body, fits);
        }
    }
    // The line ending counts toward the length of a line.
    for (length, fits) in [(MAX_FRAME - 1, true), (MAX_FRAME, false)] {
        let body = text("value", length) + "\n";
        reads(&|body, size| in_pieces(completions(), body, size), &body, fits);
    }
}

fn in_pieces(settings: impl MakesReader, body: &[u8], size: usize) -> Read {
    read_in(settings, body.chunks(size), true)
}

#[test]
fn many_small_lines_are_not_kept() {
    let body = "{\"response\":\"x\"}\n".repeat(20_000) + "{\"done\":true}\n";
    let summary = in_pieces(completions(), body.as_bytes(), 7).summary();
    assert_eq!(summary.len(), 20_000 + " | stop".len());
}

/// A non-streaming response that exceeds `max_answer` fails with an error that names this limit.
#[test]
fn whole_response_is_limited_by_the_clients_limit() {
    let conversation = request(&serde_json::json!({"stream": false}));
    let limits = Limits { max_answer: 8 * MAX_FRAME, ..Limits::default() };
    let settings = Rules { limits, ..Rules::default() };
    for reader in [chat().reader(), completions().reader()] {
        let answering = Answering::new(&conversation, Stamp { seed: 1, created: 1 });
        let writer = Writer::Chat(chat::Writer::new(&answering));
        let known = KnownFormats::built_in();
        let mut pipeline = Pipeline::new(&conversation, &settings, known, reader, writer, &answering);
        let mut out = bytes::BytesMut::new();
        pipeline.push(format!("{{\"x\":\"{}", "x".repeat(limits.max_answer)).as_bytes(), &mut out);
        let failure = pipeline.failure().expect("a failure");
        assert!(failure.message().contains("limits.max_answer"), "{failure:?}");
    }
}
