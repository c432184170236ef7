//! Tests upstreams with Bedrock's Converse API: requests, and frames split at arbitrary points.

mod requests;

use serde_json::{Value, json};
use toolwire::{
    dialect::{
        UpstreamSide,
        bedrock::{Options, ReaderSettings},
    },
    failure::Kind,
};

use crate::read::{read_in, read_splits};

const SETTINGS: ReaderSettings = ReaderSettings { max_frame: 1 << 12, tolerate_truncation: false };

/// Summarizes a body. Asserts that no split changes the result.
#[track_caller]
fn read(body: &[u8]) -> String {
    read_splits(SETTINGS, body).summary()
}

/// A frame with these headers, encoded without toolwire's code.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).unwrap());
        encoded.extend(name.as_bytes());
        encoded.push(7);
        encoded.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        encoded.extend(value.as_bytes());
    }
    let total = u32::try_from(16 + encoded.len() + payload.len()).unwrap();
    let mut frame = total.to_be_bytes().to_vec();
    frame.extend(u32::try_from(encoded.len()).unwrap().to_be_bytes());
    frame.extend(crc32(&frame).to_be_bytes());
    frame.extend([&encoded, payload].concat());
    frame.extend(crc32(&frame).to_be_bytes());
    frame
}

/// The checksum by its definition, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

fn event(kind: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}

fn delta(delta: &Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": delta, "p": "abc"}))
}

fn text(text: &str) -> Vec<u8> {
    delta(&json!({"text": text}))
}

fn start(index: u64, start: &Value) -> Vec<u8> {
    event("contentBlockStart", &json!({"contentBlockIndex": index, "start": start}))
}

fn stop(index: u64) -> Vec<u8> {
    event("contentBlockStop", &json!({"contentBlockIndex": index}))
}

fn ended(reason: &str) -> Vec<u8> {
    event("messageStop", &json!({"stopReason": reason}))
}

#[test]
fn streams_that_amazons_sdk_reads_are_read() {
    for (stream, expected) in [
        (&include_bytes!("streams/text.bin")[..], "Hello, wörld 😀!\n | stop | usage 11 7 18"),
        (
            include_bytes!("streams/calls.bin"),
            "I look. | tooluse_A1 get_weather {\"city\": \"Paris\"} | tooluse_B2 get_weather {\"city\": \"Rome\"} \
             | tooluse_C3 now {} | calls | usage 11 7 18",
        ),
        (
            include_bytes!("streams/reasoning.bin"),
            "(Let me see.) | signed c2lnbmVk | signed aGlkZGVu | 42 | stop | usage 131 7 138",
        ),
        (include_bytes!("streams/exception.bin"), "Hel | error RateLimit throttlingException"),
    ] {
        assert_eq!(read(stream), expected);
    }
}

#[test]
fn stream_is_read_however_it_is_framed() {
    let unpadded = event("contentBlockDelta", &json!({"delta": {"text": "a"}, "contentBlockIndex": 0}));
    let reasoning = |member: &str, value: &str| delta(&json!({"reasoningContent": {member: value}}));
    for (frames, expected) in [
        (vec![text("a"), text("b"), text("c"), ended("end_turn")], "abc | stop"),
        (vec![unpadded.clone(), unpadded, text("b"), ended("stop_sequence")], "aab | stop"),
        (vec![text("a"), ended("max_tokens")], "a | length"),
        (vec![text("a"), ended("model_context_window_exceeded")], "a | length"),
        (vec![text("a"), ended("guardrail_intervened")], "a | filter"),
        (vec![text("a"), ended("content_filtered")], "a | filter"),
        (vec![text("a"), ended("something_new")], "a | stop"),
        (vec![ended("end_turn")], "stop"),
        // The padding may be anywhere, and as long as it likes.
        (
            vec![
                text("a"),
                event(
                    "contentBlockDelta",
                    &json!({"p": "x".repeat(99), "contentBlockIndex": 0, "delta": {"text": "\"é\n"}}),
                ),
                ended("end_turn"),
            ],
            "a\"é\n | stop",
        ),
        (
            vec![
                reasoning("text", "t"),
                reasoning("signature", "s1"),
                reasoning("text", "u"),
                reasoning("signature", "s2"),
                text("a"),
                ended("end_turn"),
            ],
            "(t) | signed s1 | (u) | signed s2 | a | stop",
        ),
        // The bytes of withheld reasoning are `a` and `b`.
        (
            vec![
                reasoning("redactedContent", "YQ=="),
                reasoning("redactedContent", "Yg=="),
                stop(0),
                ended("end_turn"),
            ],
            "signed YWI= | stop",
        ),
        (vec![text("a"), event("somethingNew", &json!({})), text("b"), ended("end_turn")], "ab | stop"),
        (vec![text("a"), ended("end_turn"), text("late"), stop(0)], "a | stop"),
        (
            vec![
                start(0, &json!({"image": {"format": "png"}})),
                delta(&json!({"image": {"source": {"bytes": "iVBORw0KGgoA"}}})),
                delta(&json!({"image": {"source": {"bytes": "AAAA"}}})),
                stop(0),
                ended("end_turn"),
            ],
            "media image/png iVBORw0KGgoAAAAA | stop",
        ),
        (
            vec![
                text("Sun."),
                delta(
                    &json!({"citation": {"title": "T", "location": {"web": {"url": "https://x.example/"}}}}),
                ),
                stop(0),
                ended("end_turn"),
            ],
            "Sun. | cites https://x.example/ T 0-4 | stop",
        ),
        (
            vec![
                start(0, &json!({"toolUse": {"toolUseId": "t1", "name": "web", "type": "server_tool_use"}})),
                delta(&json!({"toolUse": {"input": "{\"q\":1}"}})),
                stop(0),
                start(1, &json!({"toolResult": {"toolUseId": "t1", "status": "error"}})),
                event(
                    "contentBlockDelta",
                    &json!({"contentBlockIndex": 1, "delta": {"toolResult": [{"text": "no"}, {"json": [1]}]}}),
                ),
                stop(1),
                text("a"),
                ended("end_turn"),
            ],
            "failed 0 t1 no[1] | a | t1 web {\"q\":1} | stop",
        ),
    ] {
        assert_eq!(read(&frames.concat()), expected);
    }
}

#[test]
fn complete_response_is_read_like_a_stream() {
    let response = json!({
        "output": {"message": {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": "aGlk"}},
            {"text": "I look."},
            {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"b": 1.0, "a": "x"}}},
            {"toolUse": {"toolUseId": "t2", "name": "g", "input": {}}},
        ]}},
        "stopReason": "tool_use",
        "metrics": {"latencyMs": 5},
        "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    });
    let summary = "(Hm.) | signed c2ln | signed aGlk | I look. | t1 f {\"b\":1.0,\"a\":\"x\"} | t2 g {} | calls | \
                   usage 1 2 3";
    assert_eq!(read(response.to_string().as_bytes()), summary);
}

#[test]
fn failures_are_reported_and_truncated_responses_never_look_complete() {
    let exception = |kind: &str, payload: &Value| {
        frame(&[(":exception-type", kind), (":message-type", "exception")], payload.to_string().as_bytes())
    };
    let error =
        [(":message-type", "error"), (":error-code", "InternalFailure"), (":error-message", "broken")];
    let mut damaged = [text("a"), text("b"), ended("end_turn")].concat();
    let inside = text("a").len() + 70;
    damaged[inside] ^= 1;
    let called = [
        start(0, &json!({"toolUse": {"toolUseId": "t", "name": "f"}})),
        delta(&json!({"toolUse": {"input": "{\"a\":"}})),
    ];
    for (body, kind) in [
        (Vec::new(), Kind::Truncated),
        (vec![0], Kind::Truncated),
        (text("a"), Kind::Truncated),
        ([text("a"), ended("end_turn")[..50].to_vec()].concat(), Kind::Truncated),
        (called.concat(), Kind::Truncated),
        (damaged, Kind::Protocol),
        (text(&"x".repeat(1 << 12)), Kind::Protocol),
        (exception("throttlingException", &json!({"message": "m"})), Kind::RateLimit),
        (exception("serviceUnavailableException", &json!({"message": "m"})), Kind::Overloaded),
        (exception("validationException", &json!({"message": "m"})), Kind::Request),
        (
            exception("validationException", &json!({"message": "Input is too long for requested model."})),
            Kind::ContextLength,
        ),
        (exception("internalServerException", &json!({"message": "m"})), Kind::Upstream),
        (
            exception("modelStreamErrorException", &json!({"message": "m", "originalStatusCode": 429})),
            Kind::RateLimit,
        ),
        (exception("modelStreamErrorException", &json!({"message": "m"})), Kind::Upstream),
        (exception("somethingNew", &json!([])), Kind::Upstream),
        (frame(&error, b""), Kind::Upstream),
        ([text("a"), frame(&error, b"")].concat(), Kind::Upstream),
        ([text("a"), ended("malformed_tool_use")].concat(), Kind::Upstream),
        ([text("a"), frame(&[(":event-type", "contentBlockDelta")], b"garbage")].concat(), Kind::Protocol),
        ([text("a"), frame(&[(":event-type", "contentBlockDelta")], b"\"\xff\"")].concat(), Kind::Protocol),
        (b"data: {}\n\n".to_vec(), Kind::Protocol),
        (b"<html>Bad gateway</html>".to_vec(), Kind::Protocol),
    ] {
        let whole = read_splits(SETTINGS, &body);
        let summary = whole.summary();
        assert!(summary.contains(&format!("error {kind:?}")), "{kind:?}: {summary}");
        assert!(!summary.contains("stop"), "{summary}");
    }
}

#[test]
fn message_of_an_exception_is_passed_on() {
    let frame = frame(
        &[(":exception-type", "validationException"), (":message-type", "exception")],
        br#"{"message":"The model is not here."}"#,
    );
    assert_eq!(read_in(SETTINGS, [&frame[..]], true).message, "The model is not here.");
}

#[test]
fn stop_reason_completes_a_response_without_counts() {
    let body = [text("a"), ended("end_turn")].concat();
    assert_eq!(read_in(SETTINGS, [&body[..]], true).summary(), "a | stop");
    let settings = ReaderSettings { tolerate_truncation: true, ..SETTINGS };
    assert_eq!(read_in(settings, [&text("a")[..]], true).summary(), "a | stop");
}

#[test]
fn refusals_keep_what_the_service_said() {
    let side = Options::default();
    for (status, body, kind) in [
        (400, r#"{"message":"The provided model identifier is invalid."}"#, Kind::Request),
        (400, r#"{"message":"Input is too long for requested model."}"#, Kind::ContextLength),
        (403, r#"{"Message":"User is not authorized to perform: bedrock:InvokeModel"}"#, Kind::Forbidden),
        (404, r#"{"message":"This model version has reached the end of its life."}"#, Kind::NotFound),
        (408, r#"{"message":"Model has timed out"}"#, Kind::Timeout),
        (424, r#"{"message":"The model failed"}"#, Kind::Upstream),
        (429, r#"{"message":"Too many requests"}"#, Kind::RateLimit),
        (503, r#"{"message":"Unavailable"}"#, Kind::Overloaded),
        (404, "<UnknownOperationException/>", Kind::Upstream),
    ] {
        let failure = side.refusal(status, None, body.as_bytes());
        assert_eq!(failure.kind(), kind, "{status} {body}");
        let said = body.split('"').nth(3).unwrap_or("no such path");
        assert!(failure.message().contains(said), "{}", failure.message());
    }
}
