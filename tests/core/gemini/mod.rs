//! Tests the Gemini API: of upstreams, requests and responses split at arbitrary points; of clients, the same the other way.

mod clients;
mod requests;

use toolwire::{dialect::gemini::ReaderSettings, failure::Kind};

use crate::read::{Read, read_in, read_splits};

const SETTINGS: ReaderSettings =
    ReaderSettings { max_frame: 1 << 16, tolerate_truncation: false, verbatim: false, cites: false };

/// A frame with these parts, and with `more` members in the candidate.
fn frame(parts: &str, more: &str) -> String {
    let head = r#""modelVersion":"gemini-3-pro","responseId":"r1""#;
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}}{more},"index":0}}],{head}}}"#)
}

fn text(text: &str) -> String {
    frame(&format!("{{\"text\":\"{text}\"}}"), "")
}

fn stop() -> String {
    frame("", r#","finishReason":"STOP""#)
}

fn sse(frames: &[String]) -> String {
    frames.iter().map(|frame| format!("data: {frame}\r\n\r\n")).collect()
}

/// Frames as a JSON array, formatted like the server's.
fn array(frames: &[String]) -> String {
    format!("[{}\n]\n", frames.join("\n,\r\n"))
}

/// Summarizes the frames. Asserts that the result does not depend on how they are sent or split.
#[track_caller]
fn read(frames: &[String]) -> String {
    let read = |body: &str| read_splits(SETTINGS, body.as_bytes());
    let streamed = read(&sse(frames));
    let outcome = |read: &Read| (read.summary(), read.skipped.clone());
    assert_eq!(outcome(&read(&array(frames))), outcome(&streamed));
    streamed.summary().replace("start r1 gemini-3-pro 0 | ", "")
}

#[test]
fn text_behind_the_end_mark_of_a_gateway_is_not_read() {
    let body = sse(&[text("a"), "[DONE]".to_owned(), text("late")]);
    let read = read_splits(SETTINGS, body.as_bytes()).summary();
    assert_eq!(read, "start r1 gemini-3-pro 0 | a | stop");
}

#[test]
fn text_and_thoughts_are_read_however_the_body_is_cut() {
    let thought = |text: &str| frame(&format!("{{\"text\":\"{text}\",\"thought\":true}}"), "");
    for (frames, expected) in [
        (vec![text("a"), text("é\\n"), text("b"), stop()], "aé\nb | stop"),
        (vec![text("a"), frame("{\"text\":\"b\"}", ",\"finishReason\":\"MAX_TOKENS\"")], "ab | length"),
        (vec![thought("Hm"), thought("."), text("a"), stop()], "(Hm.) | a | stop"),
        (vec![text("\\ud83d"), text("\\ude00"), stop()], "😀 | stop"),
        (vec![text("a\\ud83d"), stop()], "a\u{fffd} | stop"),
        (
            vec![frame("{\"text\":\"a\"},{\"text\":\"t\",\"thought\":true},{\"text\":\"b\"}", ""), stop()],
            "a | (t) | b | stop",
        ),
        (vec![stop()], "stop"),
    ] {
        assert_eq!(read(&frames), expected, "{frames:?}");
    }
}

/// Older models send a finish reason with every frame, so only the last one counts.
#[test]
fn finish_reason_before_more_content_is_not_the_end() {
    let each = |text: &str| frame(&format!("{{\"text\":\"{text}\"}}"), ",\"finishReason\":\"STOP\"");
    assert_eq!(read(&[each("a"), each("b"), each("c")]), "abc | stop");
    assert!(read(&[each("a"), text("b"), text("c"), text("d")]).contains("error Truncated"));
    assert!(read(&[text("a"), text("b"), stop(), text("c")]).contains("error Truncated"));
    let usage = r#"{"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}"#.to_owned();
    assert_eq!(read(&[each("a"), usage]), "a | stop | usage 3 - 3");
}

#[test]
fn calls_come_whole_with_their_arguments_as_written() {
    let call = |call: &str| frame(&format!("{{\"functionCall\":{{{call}}}}}"), "");
    for (frames, expected) in [
        (vec![call(r#""name":"f","args":{"b": 1.0,"a":"x"}"#), stop()], r#" f {"b": 1.0,"a":"x"} | calls"#),
        (
            vec![call(r#""name":"f","args":{},"id":"c1""#), call(r#""name":"f""#), stop()],
            "c1 f {} |  f {} | calls",
        ),
        (
            vec![
                text("x"),
                frame(
                    r#"{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":null}}"#,
                    "",
                ),
                stop(),
            ],
            "x |  f {} |  g {} | calls",
        ),
        (vec![call(r#""name":"f","args":[1]"#), stop()], " f [1] cut | calls"),
        (
            vec![call(r#""name":"f","args":{}"#), frame("", ",\"finishReason\":\"MAX_TOKENS\"")],
            " f {} | length",
        ),
        (vec![call(r#""args":{}"#), text("a"), stop()], "a | stop"),
    ] {
        assert_eq!(read(&frames), expected, "{frames:?}");
    }
}

#[test]
fn arguments_in_pieces_become_one_call() {
    let call = |call: &str| frame(&format!("{{\"functionCall\":{{{call}}}}}"), "");
    let begun = vec![
        call(r#""name":"f","willContinue":true"#),
        call(
            r#""partialArgs":[{"jsonPath":"$.city","stringValue":"São ","willContinue":true}],"willContinue":true"#,
        ),
        call(
            r#""partialArgs":[{"jsonPath":"$.city","stringValue":"Paulo"},{"jsonPath":"$.n[0]","numberValue":2}],"willContinue":true"#,
        ),
    ];
    let whole = r#" f {"city":"São Paulo","n":[2]}"#;
    let with = |more: &[String]| read(&[begun.as_slice(), more].concat());
    assert_eq!(with(&[call(""), text("x"), stop()]), format!("x | {whole} | calls"));
    assert_eq!(with(&[stop()]), format!("{whole} cut | calls"));
    assert_eq!(with(&[text("x"), stop()]), format!("x | {whole} cut | calls"));
    assert!(with(&[]).contains("error Truncated"));
}

#[test]
fn signatures_are_kept_at_their_parts() {
    let signed = |part: &str| frame(&format!("{{{part},\"thoughtSignature\":\"c2ln\"}}"), "");
    let call = r#""functionCall":{"name":"f","args":{}}"#;
    assert_eq!(read(&[signed(call), stop()]), " f {} signed c2ln | calls");
    assert_eq!(read(&[text("a"), signed("\"text\":\"\""), stop()]), "a | signed c2ln | stop");
    assert_eq!(read(&[signed("\"text\":\"a\""), stop()]), "signed c2ln | a | stop");
    assert_eq!(
        read(&[signed("\"text\":\"t\",\"thought\":true"), text("a"), stop()]),
        "(t) | signed c2ln | a | stop"
    );
    let last = frame("{\"text\":\"\",\"thoughtSignature\":\"c2ln\"}", ",\"finishReason\":\"STOP\"");
    assert_eq!(read(&[text("a"), last]), "a | signed c2ln | stop");
}

#[test]
fn media_and_the_upstreams_own_calls_are_read() {
    for (part, expected) in [
        (r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#, "media image/png AAAA | stop"),
        (r#"{"fileData":{"mimeType":"image/png","fileUri":"gs://x"}}"#, "media image/png  | stop"),
        (
            r#"{"executableCode":{"id":"1","language":"PYTHON","code":"print(1)"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}"#,
            "ran 1 code_execution {\"language\":\"PYTHON\",\"code\":\"print(1)\"}  | ran server_call_1 code_execution  1\n | stop",
        ),
        (
            r#"{"toolCall":{"id":"t","toolType":"GOOGLE_SEARCH_WEB","args":{"q":1}}},{"toolResponse":{"id":"t","toolType":"GOOGLE_SEARCH_WEB","response":{"r":2}}}"#,
            "ran t google_search_web {\"q\":1}  | ran t google_search_web  {\"r\":2} | stop",
        ),
    ] {
        assert_eq!(read(&[frame(part, ""), stop()]), expected, "{part}");
    }
}

#[test]
fn token_counts_are_those_of_the_last_frame() {
    let counted = |text: &str, count: u32| {
        let usage = format!(
            r#","usageMetadata":{{"promptTokenCount":9,"candidatesTokenCount":{count},"thoughtsTokenCount":4,"totalTokenCount":{},"cachedContentTokenCount":2,"promptTokensDetails":[{{"modality":"TEXT","tokenCount":9}}]}}}}"#,
            13 + count
        );
        let frame = frame(&format!("{{\"text\":\"{text}\"}}"), "");
        frame.strip_suffix('}').unwrap().to_owned() + &usage
    };
    let frames = [counted("a", 1), counted("b", 2), counted("c\\\"", 30), counted("d", 400)];
    let usage = "usage 9 404 413";
    assert_eq!(read(&[frames.as_slice(), &[stop()]].concat()), format!("abc\"d | stop | {usage}"));
    let body = sse(&frames) + &sse(&[stop()]);
    assert_eq!(
        read_in(SETTINGS, [body.as_bytes()], true).summary(),
        format!("start r1 gemini-3-pro 0 | abc\"d | stop | {usage}")
    );
}

#[test]
fn every_finish_reason_means_something() {
    let ends = |word: &str| {
        read(&[text("a"), frame("", &format!(",\"finishReason\":\"{word}\",\"finishMessage\":\"Why.\""))])
    };
    for word in [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
        "ESCALATION",
    ] {
        assert_eq!(ends(word), "a | filter", "{word}");
    }
    assert_eq!(
        (ends("STOP").as_str(), ends("MAX_TOKENS").as_str(), ends("CONTINUATION").as_str()),
        ("a | stop", "a | length", "a | length")
    );
    for word in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
        "NO_IMAGE",
        "IMAGE_OTHER",
        "OTHER",
        "PUP_LIMITED_DISABLED",
    ] {
        assert_eq!(ends(word), format!("a | error Upstream {}", word.to_lowercase()), "{word}");
    }
    assert_eq!(ends("SOMETHING_NEW"), "a | stop");
    assert!(ends("FINISH_REASON_UNSPECIFIED").contains("error Truncated"));
    let body =
        sse(&[frame("", ",\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"print(f(\"")]);
    let read = read_splits(SETTINGS, body.as_bytes());
    assert!(read.message.ends_with("`MALFORMED_FUNCTION_CALL`: print(f("), "{}", read.message);
}

#[test]
fn blocked_prompt_is_the_requests_failure() {
    let blocked =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}"#.to_owned();
    assert_eq!(
        read(std::slice::from_ref(&blocked)),
        "start   0 | error Request content_filter".replace("start   0 | ", "")
    );
    assert_eq!(read(&[text("a"), blocked.clone()]), "a | filter | usage 4 - -");
    assert!(read_in(SETTINGS, [blocked.as_bytes()], true).message.ends_with("SAFETY"));
    let unspecified = blocked.replace("SAFETY", "BLOCKED_REASON_UNSPECIFIED");
    assert!(read(&[text("a"), unspecified, stop()]).starts_with("a | stop"));
}

#[test]
fn whole_response_is_one_object() {
    let whole = frame(
        "{\"text\":\"a\"},{\"functionCall\":{\"name\":\"f\",\"args\":{}}}",
        ",\"finishReason\":\"STOP\"",
    );
    for body in [whole.clone(), whole.replace(',', ",\n ")] {
        assert_eq!(
            read_splits(SETTINGS, body.as_bytes()).summary(),
            "start r1 gemini-3-pro 0 | a |  f {} | calls"
        );
    }
    assert_eq!(read_splits(SETTINGS, text("a").as_bytes()).summary(), "start r1 gemini-3-pro 0 | a | stop");
}

#[test]
fn failures_are_reported_and_truncated_responses_never_look_complete() {
    let error = r#"{"error":{"code":429,"message":"Slow down","status":"RESOURCE_EXHAUSTED"}}"#.to_owned();
    assert_eq!(read(&[text("a"), error.clone()]), "a | error RateLimit rate_limit_exceeded");
    let wordy = error.replace("\"code\":429,", "").replace("RESOURCE_EXHAUSTED", "UNAVAILABLE");
    assert_eq!(read(&[wordy]), "error Overloaded overloaded");
    assert!(read(&[text("a")]).contains("error Truncated"));
    assert!(read(&[frame(r#"{"functionCall":{"name":"f","args":{}}}"#, "")]).contains("error Truncated"));
    let begun = text("a");
    for (body, kind) in [
        (String::new(), Kind::Truncated),
        ("[".to_owned(), Kind::Truncated),
        (format!("[{begun}"), Kind::Truncated),
        (format!("[{begun}\n,\n{}", &begun[..20]), Kind::Truncated),
        (format!("[{begun}]"), Kind::Truncated),
        (format!("data: {begun}\n\ndata: {}", &begun[..30]), Kind::Truncated),
        (format!("data: {begun}\n\ndata: garbage\n\n"), Kind::Protocol),
        (format!("[{begun},garbage]"), Kind::Protocol),
        (format!("[{begun},{}]", "[".repeat(200)), Kind::Protocol),
        ("[]".to_owned(), Kind::Protocol),
        ("[1,\"a\",null,{}]".to_owned(), Kind::Protocol),
        ("{}".to_owned(), Kind::Protocol),
        ("{\"models\":[]}".to_owned(), Kind::Protocol),
        ("<html>no</html>".to_owned(), Kind::Protocol),
        (begun[..40].to_owned(), Kind::Protocol),
    ] {
        let read = read_splits(SETTINGS, body.as_bytes()).summary();
        assert!(read.contains(&format!("error {kind:?} ")) && !read.contains("stop"), "{body}: {read}");
    }
    let tolerant = ReaderSettings { tolerate_truncation: true, ..SETTINGS };
    assert!(read_splits(tolerant, sse(&[begun]).as_bytes()).summary().ends_with("a | stop"));
}

#[test]
fn complete_response_whose_array_is_not_closed_is_complete() {
    let body = format!("[{},{}", text("a"), stop());
    assert!(read_splits(SETTINGS, body.as_bytes()).summary().ends_with("a | stop"));
}

#[test]
fn other_candidates_and_unknown_parts_are_left_out_and_counted() {
    let other = |number: u32| format!(r#"{{"content":{{"parts":[{{"text":"x"}}]}},"index":{number}}}"#);
    let two =
        format!(r#"{{"candidates":[{},{},{}]}}"#, other(1), other(0).replace("\"x\"", "\"a\""), other(0));
    let odd = frame(
        r#"{"somethingNew":{}},{"text":5},"part",{"functionResponse":{"name":"f"}},{"text":"b","videoMetadata":{}}"#,
        "",
    );
    let body = sse(&["{\"candidates\":[]}".to_owned(), "{\"x\":1}".to_owned(), two, odd, stop()]);
    let read = read_splits(SETTINGS, body.as_bytes());
    assert_eq!(read.summary(), "ab | stop");
    assert_eq!(read.skipped.to_string(), "not_a_chunk=1 other_choice=2 unknown_part=4");
}

#[test]
fn citations_are_at_their_places_in_characters() {
    let cites = ReaderSettings { cites: true, ..SETTINGS };
    let support = |start: usize, end: usize, pages: &str| {
        format!(r#"{{"segment":{{"startIndex":{start},"endIndex":{end}}},"groundingChunkIndices":{pages}}}"#)
    };
    let pages = r#"[{"web":{"uri":"https://a","title":"A"}},{"web":{"uri":"https://b"}},{"other":{}}]"#;
    let with = |supports: &str| {
        let grounding = format!(
            r#","finishReason":"STOP","groundingMetadata":{{"groundingChunks":{pages},"groundingSupports":[{supports}]}}"#
        );
        let body = sse(&[text("é漢"), text("abc"), frame("{\"text\":\".\"}", &grounding)]);
        read_splits(cites, body.as_bytes()).summary().replace("start r1 gemini-3-pro 0 | ", "")
    };
    assert_eq!(
        with(&[support(0, 5, "[0]"), support(5, 8, "[1,2,7,0]")].join(",")),
        "é漢abc. | cites https://a A 0-2 | cites https://b  2-5 | cites https://a A 2-5 | stop"
    );
    assert_eq!(with(""), "é漢abc. | cites https://a A 6-6 | cites https://b  6-6 | stop");
}

/// The fast path must not misread frames that resemble the previous ones.
#[test]
fn frames_that_look_alike_mean_what_they_say() {
    let plain = |text: &str, count: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}}}],"usageMetadata":{{"promptTokenCount":1,"candidatesTokenCount":{count}}}}}"#
        )
    };
    let thought = plain("t", "4").replace("\"text\":\"t\"", "\"text\":\"t\",\"thought\":true");
    let frames = [
        plain("a", "1"),
        plain("b\\u0041", "22"),
        plain("c", "3").replace("promptTokenCount", "promptTokenCounts"),
        thought,
        plain("d", "5"),
    ];
    assert_eq!(
        read(&[&frames[..], &[stop()]].concat()),
        "abAc".to_owned() + " | (t) | d | stop | usage 1 5 6"
    );
    assert!(read(&[plain("a", "1"), plain("b", "01")]).contains("error Protocol"));
}

#[test]
fn large_arrays_and_many_tiny_frames_are_read_as_they_arrive() {
    let many: Vec<String> = std::iter::repeat_n(text("x"), 20_000).chain([stop()]).collect();
    for body in [sse(&many), array(&many)] {
        let summary = read_in(SETTINGS, body.as_bytes().chunks(977), true).summary();
        assert_eq!(summary.len(), "start r1 gemini-3-pro 0 | ".len() + 20_000 + " | stop".len());
    }
    let parts = format!("{}{{\"text\":\"y\"}}", "{\"text\":\"x\"},".repeat(2_000));
    let summary = read_in(SETTINGS, sse(&[frame(&parts, ""), stop()]).as_bytes().chunks(100), true).summary();
    assert!(summary.ends_with("xy | stop"));
    let long = text(&"x".repeat(SETTINGS.max_frame));
    for body in [sse(std::slice::from_ref(&long)), array(&[long])] {
        assert_eq!(
            read_in(SETTINGS, body.as_bytes().chunks(100), true).summary(),
            "error Protocol upstream_protocol"
        );
    }
}
