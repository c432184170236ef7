//! Tests how the reader interprets streams from real Chat Completions servers, in every split.

use toolwire::dialect::{Skip, chat::ReaderSettings};

use crate::{
    chat::frames::{chunk, end, loose},
    read::{Read, read_in, read_splits},
};

const DONE: &str = "data: [DONE]\n\n";

#[track_caller]
fn means(stream: &str, expected: &str) -> Read {
    means_with(ReaderSettings::default(), stream, expected)
}

#[track_caller]
fn means_with(settings: ReaderSettings, stream: &str, expected: &str) -> Read {
    let verbatim = read_splits(ReaderSettings { verbatim: true, ..settings }, stream.as_bytes());
    let read = read_splits(settings, stream.as_bytes());
    assert_eq!(read.summary(), expected);
    assert_eq!(verbatim.summary(), expected, "with verbatim frames");
    read
}

#[test]
fn canonical_stream() {
    let stream = [
        chunk(r#"{"role":"assistant","content":""}"#, "null"),
        chunk(r#"{"content":"Looking."}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}"#, "null"),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#, "null"),
        chunk("{}", "\"tool_calls\""),
        "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\",\"choices\":[],\
         \"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,\"total_tokens\":14}}\n\n"
            .to_owned(),
        DONE.to_owned(),
    ]
    .concat();
    let read =
        means(&stream, r#"start c1 m 17 | Looking. | call_1 f {"x":1} | call_2 g {} | calls | usage 9 5 14"#);
    assert!(read.skipped.is_empty(), "{}", read.skipped);
}

#[test]
fn an_object_that_reports_a_failure_fails_the_response() {
    means("data: {\"code\":1113,\"msg\":\"No balance\"}\n\n", "error Upstream error");
    let text = loose(r#"{"content":"A"}"#);
    means(&[&text, "data: {\"detail\":\"gone\"}\n\n"].concat(), "A | error Upstream error");
    let other = "data: {\"status\":\"processing\",\"message\":\"m\"}\n\n";
    means(&[other, &text, other, &end("stop"), DONE].concat(), "A | stop");
}

#[test]
fn missing_done_after_a_finish_is_a_clean_end() {
    means(&[loose(r#"{"content":"A"}"#), end("stop")].concat(), "A | stop");
}

#[test]
fn neither_done_nor_finish_is_a_truncated_response() {
    let stream = loose(r#"{"content":"A"}"#);
    means(&stream, "A | error Truncated upstream_truncated");
    let settings = ReaderSettings { tolerate_truncation: true, ..ReaderSettings::default() };
    means_with(settings, &stream, "A | stop");
    means_with(settings, "", "error Truncated upstream_truncated");
    let cut = loose(r#"{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{\"x\":"}}]}"#);
    means(&cut, r#"p a {"x": open | error Truncated upstream_truncated"#);
}

#[test]
fn done_without_a_finish_is_judged_by_the_content() {
    means(&[&loose(r#"{"content":"A"}"#), DONE].concat(), "A | stop");
    let late = loose(r#"{"content":"B"}"#);
    means(&[&loose(r#"{"content":"A"}"#), DONE, &late].concat(), "A | stop");
    means("data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\r\n\r\ndata:[DONE]", "A | stop");
    let call = |arguments: &str| {
        loose(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"p","function":{{"name":"a","arguments":"{arguments}"}}}}]}}"#
        ))
    };
    means(&[&call("{}"), DONE].concat(), "p a {} | calls");
    means(&[&call(r#"{\"x\":"#), DONE].concat(), r#"p a {"x": cut | length"#);
}

#[test]
fn done_without_content_is_an_error() {
    means(DONE, "error Truncated upstream_truncated");
    means(": hi\n\n", "error Truncated upstream_truncated");
}

#[test]
fn incomplete_frame_at_the_end_is_ignored() {
    let stream = [loose(r#"{"content":"A"}"#), loose(r#"{"content":"é"}"#)].concat();
    let stream = stream.trim_end().as_bytes();
    for at in loose(r#"{"content":"A"}"#).len()..stream.len() {
        let read = read_in(ReaderSettings::default(), [stream.get(..at).unwrap()], true);
        assert_eq!(read.summary(), "A | error Truncated upstream_truncated", "{at}");
    }
    let read = read_in(ReaderSettings::default(), [stream], true);
    assert_eq!(read.summary(), "Aé | error Truncated upstream_truncated");
    let half = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xc3";
    assert_eq!(read_splits(ReaderSettings::default(), half).summary(), "error Truncated upstream_truncated");
}

#[test]
fn stop_after_calls_becomes_the_calls_finish() {
    let call = loose(r#"{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}"#);
    means(&[call.clone(), end("stop")].concat(), "p a {} | calls");
    means(&[call.clone(), end("length")].concat(), "p a {} | length");
    means(&[call, end("content_filter")].concat(), "p a {} | filter");
    means(&[loose(r#"{"content":"A"}"#), end("tool_calls")].concat(), "A | stop");
}

#[test]
fn finish_reasons_of_other_servers_are_mapped() {
    for (word, finish) in [
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("max_tokens", "length"),
        ("SAFETY", "filter"),
        ("wonderful", "stop"),
    ] {
        let read = means(&[loose(r#"{"content":"A"}"#), end(word)].concat(), &format!("A | {finish}"));
        assert_eq!(read.skipped.count(Skip::UnknownFinish), u64::from(word == "wonderful"), "{word}");
    }
    let call = loose(r#"{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}"#);
    means(&[call, end("tool_use")].concat(), "p a {} | calls");
}

#[test]
fn empty_finish_reason_counts_only_at_the_end() {
    let piece = |text: &str, word: &str| {
        let choice = format!("{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":{word}}}");
        format!("data: {{\"choices\":[{choice}]}}\n\n")
    };
    means(&[piece("A", "\"\""), piece("B", "\"\"")].concat(), "AB | stop");
    means(&[piece("A", "\"\""), piece("B", "null")].concat(), "AB | error Truncated upstream_truncated");
    means(&[piece("A", "\"\""), piece("B", "\"length\"")].concat(), "AB | length");
}

#[test]
fn usage_is_read_wherever_it_occurs() {
    let text = loose(r#"{"content":"A"}"#);
    let counts = r#""usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}"#;
    let with_finish =
        format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}],{counts}}}\n\n");
    means(&[&*text, &*with_finish].concat(), "A | stop | usage 9 5 14");
    let null = format!("data: {{\"choices\":null,{counts}}}\n\n");
    means(&[&*text, &end("stop"), &null].concat(), "A | stop | usage 9 5 14");
    let missing = format!("data: {{{counts}}}\n\n");
    means(&[&text, &end("stop"), &missing, DONE].concat(), "A | stop | usage 9 5 14");
    let groq = format!("data: {{\"choices\":[],\"x_groq\":{{\"id\":\"r\",{counts}}}}}\n\n");
    means(&[&*text, &end("stop"), &groq].concat(), "A | stop | usage 9 5 14");
    let before = format!("data: {{\"choices\":[],{counts}}}\n\n");
    means(&[&text, &before, DONE].concat(), "A | stop | usage 9 5 14");
    means(&[&*text, &*before].concat(), "A | usage 9 5 14 | error Truncated upstream_truncated");
    let growing = |text: &str, count: u32| {
        let usage = format!("{{\"prompt_tokens\":9,\"completion_tokens\":{count}}}");
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"usage\":{usage}}}\n\n")
    };
    let cumulative = [growing("A", 1), growing("B", 2), growing("C", 3), end("stop")].concat();
    means(&cumulative, "ABC | stop | usage 9 3 12");
    means(&[&text, &end("stop"), "data: {\"choices\":[],\"usage\":null}\n\n"].concat(), "A | stop");
    // llama.cpp sends its own counts even to those who do not ask for any.
    let timed = |usage: &str| {
        let timings = r#""timings":{"cache_n":4,"prompt_n":5,"predicted_n":5,"prompt_ms":1.5}"#;
        format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}],{timings}{usage}}}\n\n")
    };
    means(&[&*text, &timed("")].concat(), "A | stop | usage 9 5 14");
    means(
        &[&*text, &timed(r#","usage":{"prompt_tokens":1,"completion_tokens":2}"#)].concat(),
        "A | stop | usage 1 2 3",
    );
    means(&[&*text, &timed(""), &before, DONE].concat(), "A | stop | usage 9 5 14");
    means(&[&*text, &before, &timed(""), DONE].concat(), "A | stop | usage 9 5 14");
    let choice = format!("{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\",{counts}}}");
    means(&format!("{text}data: {{\"choices\":[{choice}]}}\n\n"), "A | stop | usage 9 5 14");
}

#[test]
fn native_calls_are_read_in_every_shape() {
    let all_in_one = loose(
        r#"{"tool_calls":[{"id":"p","function":{"name":"a","arguments":"{}"}},{"id":"q","function":{"name":"b","arguments":{"x": 2.50}}}]}"#,
    );
    means(&[all_in_one, end("tool_calls")].concat(), r#"p a {} | q b {"x": 2.50} | calls"#);
    let all_zero = [
        loose(r#"{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}"#),
        loose(r#"{"tool_calls":[{"index":0,"id":"q","function":{"name":"b","arguments":null}}]}"#),
        end("stop"),
    ];
    means(&all_zero.concat(), "p a {} | q b {} | calls");
    let call = r#"{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}"#;
    let in_finish = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{call},\"finish_reason\":\"tool_calls\"}}]}}\n\n"
    );
    means(&in_finish, "p a {} | calls");
    let kimi = call.replace("\"p\"", "\"functions.a:0\"");
    means(&[loose(&kimi), end("stop")].concat(), "functions.a:0 a {} | calls");
    let legacy = [
        loose(r#"{"function_call":{"name":"a","arguments":""}}"#),
        loose(r#"{"function_call":{"arguments":"{}"}}"#),
        end("function_call"),
    ];
    means(&legacy.concat(), " a {} | calls");
    let repeated = ["{\\\"x\\\":", "1}"].map(|piece| loose(&call.replace("{}", piece))).concat();
    means(&[repeated, end("stop")].concat(), r#"p a {"x":1} | calls"#);
}

#[test]
fn padding_is_ignored() {
    let stream = [
        loose(r#"{"role":"assistant","content":"A","tool_calls":[]}"#),
        loose(r#"{"role":"assistant","content":null,"tool_calls":null}"#),
        loose(r#"{"role":"","content":""}"#),
        "data: {\"choices\":[{\"index\":0,\"delta\":null}]}\n\n".to_owned(),
        "data: {\"choices\":[{\"index\":0}]}\n\n".to_owned(),
        "data: {\"choices\":null}\n\n".to_owned(),
        "data: {\"choices\":[null]}\n\n".to_owned(),
        "data: {\"choices\":[]}\n\n".to_owned(),
        "data: null\n\n".to_owned(),
        "data:\n\n".to_owned(),
        loose(r#"{"role":"assistant","content":"B"}"#),
        "data: {\"choices\":[{\"index\":0,\"delta\":null,\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
        DONE.to_owned(),
    ];
    let read = means(&stream.concat(), "AB | stop");
    assert!(read.skipped.is_empty(), "{}", read.skipped);
}

#[test]
fn malformed_chunks_are_skipped_and_counted() {
    let stream = ["data: {bad\n\ndata: 5\n\n", &loose(r#"{"content":"A"}"#), DONE].concat();
    assert_eq!(means(&stream, "A | stop").skipped.to_string(), "not_json=1 not_a_chunk=1");
    means("data: {bad\n\n", "error Protocol upstream_protocol");
}

#[test]
fn message_in_place_of_delta_is_read() {
    let choice = r#"{"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}"#;
    means(&format!("data: {{\"choices\":[{choice}]}}\n\n"), "A | stop");
}

#[test]
fn empty_first_chunk_of_azure_is_ignored() {
    let stream = [
        "data: {\"choices\":[],\"created\":0,\"id\":\"\",\"model\":\"\",\"object\":\"\",\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n".to_owned(),
        chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null"),
        chunk(r#"{"content":"A"}"#, "null"),
        chunk("{}", "\"stop\""),
        DONE.to_owned(),
    ];
    means(&stream.concat(), "start c1 m 17 | A | stop");
}

#[test]
fn reasoning_is_read_from_every_field_name() {
    for delta in [
        r#"{"content":null,"reasoning_content":"hm"}"#,
        r#"{"content":"","reasoning":"hm"}"#,
        r#"{"reasoning":"hm","reasoning_content":"hm"}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
        r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#,
    ] {
        means(&[loose(delta), loose(r#"{"content":"A"}"#), end("stop")].concat(), "(hm) | A | stop");
    }
    let signed =
        r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s9"}]}"#;
    let state = r#"signed {"type":"reasoning.text","signature":"s9"}"#;
    means(&[loose(signed), end("stop")].concat(), &format!("(hm) | {state} | stop"));
}

#[test]
fn refusals_annotations_and_images_are_read() {
    means(&[loose(r#"{"refusal":"No."}"#), end("stop")].concat(), "refused No. | stop");
    means(&[loose(r#"{"content":[{"type":"text","text":"A"}]}"#), end("stop")].concat(), "A | stop");
    let cited = r#"{"annotations":[{"type":"url_citation","url_citation":{"url":"u","title":"t","start_index":1,"end_index":2}}]}"#;
    means(&[loose(cited), end("stop")].concat(), "cites u t 1-2 | stop");
    let image = r#"{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#;
    means(&[loose(image), end("stop")].concat(), "media image/png AAAA | stop");
}

#[test]
fn errors_in_the_stream_fail_the_response() {
    let text = loose(r#"{"content":"A"}"#);
    for (frame, expected) in [
        (r#"data: {"error":{"message":"boom","type":"server_error"}}"#, "Upstream error"),
        (r#"data: {"error":{"message":"boom","code":429}}"#, "RateLimit rate_limit_exceeded"),
        (
            r#"data: {"error":{"message":"boom","code":502},"choices":[{"delta":{},"finish_reason":"error"}]}"#,
            "Upstream error",
        ),
        (
            r#"data: {"choices":[{"delta":{"content":""},"error":{"message":"boom","code":"x9"},"finish_reason":"error"}]}"#,
            "Upstream x9",
        ),
        (
            r#"data: {"choices":[{"delta":{},"finish_reason":"error","native_finish_reason":"boom"}]}"#,
            "Upstream error",
        ),
        (r#"data: {"error":"boom"}"#, "Upstream error"),
        ("event: error\ndata: {\"error\":{\"message\":\"boom\"}}", "Upstream error"),
        ("event: error\ndata: {\"message\":\"boom\",\"code\":401}", "Unauthorized invalid_api_key"),
        ("event: error\ndata: boom", "Upstream error"),
        (r#"data: {"object":"error","message":"boom","code":400}"#, "Request -"),
        (
            r#"data: {"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            "ContextLength context_length_exceeded",
        ),
    ] {
        let read = means(&format!("{text}{frame}\n\ndata: [DONE]\n\n"), &format!("A | error {expected}"));
        let says_why =
            ["boom", "without a message", "`error`"].iter().any(|words| read.message.contains(words));
        assert!(says_why, "{}", read.message);
    }
    let null = r#"{"error":null,"choices":[{"delta":{"content":"B"},"finish_reason":"stop"}]}"#;
    means(&format!("{text}data: {null}\n\n"), "AB | stop");
}

#[test]
fn json_in_place_of_a_stream_is_read() {
    let whole = r#"
      {"id":"c1","object":"chat.completion","created":17,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A",
       "tool_calls":[{"id":"p","type":"function","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"tool_calls"}],
       "usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}"#;
    means(whole, "start c1 m 17 | A | p a {} | calls | usage 9 5 14");
    means(&format!("\u{feff}{whole}"), "start c1 m 17 | A | p a {} | calls | usage 9 5 14");
    means(r#"{"error":{"message":"boom","code":"model_not_found"}}"#, "error NotFound model_not_found");
    means(r#"[{"error":{"message":"boom","code":429}}]"#, "error RateLimit rate_limit_exceeded");
    let read = means(r#"{"ok":true}"#, "error Protocol upstream_protocol");
    assert!(read.message.contains(r#"{"ok":true}"#), "{}", read.message);
    means(r#"{"id":"c1","choices":[{"mess"#, "error Protocol upstream_protocol");
    let lines = "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    means(lines, "A | stop");
}

#[test]
fn html_in_place_of_a_stream_is_an_error() {
    let page = "<!doctype html><html><head><title>502 Bad\nGateway</title></head><body>nginx</body></html>";
    let read = means(page, "error Protocol upstream_protocol");
    assert!(read.message.contains("502 Bad Gateway"), "{}", read.message);
    let read = means("upstream connect error or disconnect", "error Protocol upstream_protocol");
    assert!(read.message.contains("upstream connect error"), "{}", read.message);
}

#[test]
fn all_features_of_sse_are_accepted() {
    let stream = "\u{feff}: OPENROUTER PROCESSING\r\n\r\nid: 7\r\nretry: 10\r\nevent: message\r\n\
                  data:{\"choices\":[{\"delta\":{\"content\":\"é\"}}]}\r\n\r\n: ping\r\r\
                  data: {\"choices\":[{\"delta\":{},\rdata: \"finish_reason\":\"stop\"}]}\r\rdata: [DONE]\r\r";
    let read = means(stream, "é | stop");
    assert_eq!(read.pings, ["OPENROUTER PROCESSING", "ping"]);
}

#[test]
fn events_separated_by_single_line_ends_are_read() {
    let one = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n");
    means(&[&one("A"), &one("B"), "data: [DONE]\n"].concat(), "AB | stop");
}

#[test]
fn character_split_across_two_events_is_joined() {
    let stream = [
        loose(r#"{"content":"a\ud83d"}"#),
        loose(r#"{"content":"\ude00b"}"#),
        loose(r#"{"reasoning_content":"\ud83d"}"#),
        loose(r#"{"reasoning_content":"\ude00"}"#),
        loose(r#"{"content":"\ud83d"}"#),
        end("stop"),
    ];
    means(&stream.concat(), "a😀b | (😀) | \u{fffd} | stop");
}

#[test]
fn cumulative_text_is_read_as_deltas_if_configured() {
    let stream = [
        loose(r#"{"content":"A"}"#),
        loose(r#"{"content":"Aé"}"#),
        loose(r#"{"content":"Aé"}"#),
        loose(r#"{"content":"AéB"}"#),
        end("stop"),
    ];
    let settings = ReaderSettings { cumulative: true, ..ReaderSettings::default() };
    means_with(settings, &stream.concat(), "AéB | stop");
}

#[test]
fn content_after_the_finish_is_dropped() {
    let stream =
        [loose(r#"{"content":"A"}"#), end("stop"), loose(r#"{"content":"B"}"#), end("length"), DONE.into()];
    means(&stream.concat(), "A | stop");
}

#[test]
fn protocol_violations_fail_the_response() {
    let broken = b"data: {\"choices\":[{\"delta\":{\"content\":\"A\"}}]}\n\ndata: {\"x\":\"\xff\"}\n\n";
    let read = read_splits(ReaderSettings::default(), broken);
    assert_eq!(read.summary(), "A | error Protocol upstream_protocol");
    let settings = ReaderSettings { max_frame: 100, ..ReaderSettings::default() };
    let long = format!("{}data: {{\"x\":\"{}\"}}\n\n", loose(r#"{"content":"A"}"#), "x".repeat(100));
    means_with(settings, &long, "A | error Protocol upstream_protocol");
    means_with(settings, &format!("{{\"x\":\"{}\"}}", "x".repeat(100)), "error Protocol upstream_protocol");
}

#[test]
fn only_choice_0_is_read() {
    let piece = |index: u32, text: &str| {
        format!("data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let stream = [piece(1, "x"), piece(0, "A"), piece(1, "y"), piece(0, "B"), end("stop"), DONE.into()];
    means(&stream.concat(), "AB | stop");
}

#[test]
fn finish_is_sent_as_soon_as_it_is_read() {
    let stream = [loose(r#"{"content":"A"}"#), end("stop")].concat();
    let read = read_in(ReaderSettings::default(), [stream.as_bytes()], false);
    assert_eq!(read.summary(), "A | stop");
}

#[test]
fn count_that_no_response_can_have_is_left_out() {
    let counts =
        r#"data: {"choices":[],"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":1}}"#;
    let stream = [loose(r#"{"content":"A"}"#), end("stop"), format!("{counts}\n\n"), DONE.into()];
    means(&stream.concat(), "A | stop | usage - 1 -");
}

/// The content of an unreadable frame is lost, so the response must fail.
#[test]
fn invalid_json_fails_a_response_that_has_begun() {
    let text = loose(r#"{"content":"A"}"#);
    for frame in ["{bad", "{\"choices\":[{\"delta\":{\"content\":\"B", "some words", "{\"a\":\"\0\"}"] {
        let stream = format!("{text}data: {frame}\n\n{}{DONE}", end("stop"));
        let read = means(&stream, "A | error Protocol upstream_protocol");
        assert!(read.message.contains("not JSON"), "{}", read.message);
        let stream = format!("{text}{}data: {frame}\n\n{DONE}", end("stop"));
        assert_eq!(means(&stream, "A | stop").skipped.to_string(), "not_json=1", "behind the end");
    }
    for frame in ["ping", ": keep-alive", "[]", "null", "{}", "{\"type\":\"ping\"}", ""] {
        means(&format!("{text}data: {frame}\n\n{}{DONE}", end("stop")), "A | stop");
    }
}

#[test]
fn text_in_unusual_places_is_read_as_text() {
    for choice in [
        r#"{"delta":{"content":["A"]}}"#,
        r#"{"delta":{"content":{"type":"text","text":"A"}}}"#,
        r#"{"delta":"A"}"#,
        r#"{"text":"A"}"#,
        r#"{"index":0,"text":"A","logprobs":null}"#,
    ] {
        means(&format!("data: {{\"choices\":[{choice}]}}\n\n{}", end("stop")), "A | stop");
    }
    means(&[loose(r#"{"content":5}"#), loose(r#"{"content":true}"#), end("stop")].concat(), "5true | stop");
    means(
        &format!("data: \u{feff}{}{}", loose(r#"{"content":"A"}"#).trim_start_matches("data: "), end("stop")),
        "A | stop",
    );
    let unknown = loose(r#"{"content":[{"type":"video"},{"type":"text","text":"A"}]}"#);
    assert_eq!(means(&[unknown, end("stop")].concat(), "A | stop").skipped.to_string(), "unknown_part=1");
}

#[test]
fn finish_reason_of_a_failure_fails_the_response() {
    for (word, kind) in [
        ("error", "Upstream error"),
        ("network_error", "Upstream error"),
        ("timeout", "Timeout timeout"),
        ("abort", "Upstream error"),
    ] {
        let read = means(&[loose(r#"{"content":"A"}"#), end(word)].concat(), &format!("A | error {kind}"));
        assert!(read.message.contains(word), "{}", read.message);
    }
}

/// llama-cpp-python streams each call in both forms.
#[test]
fn calls_in_both_legacy_and_current_form_are_sent_once() {
    let both = |arguments: &str| {
        let function = format!(r#"{{"name":"a","arguments":"{arguments}"}}"#);
        loose(&format!(
            r#"{{"function_call":{function},"tool_calls":[{{"index":0,"id":"p","type":"function","function":{function}}}]}}"#
        ))
    };
    let stream = [both(r#"{ "#), both(r#"\"query\":"#), both("1}"), end("tool_calls")].concat();
    means(&stream, r#"p a { "query":1} | calls"#);
    let whole = r#"{"choices":[{"message":{"function_call":{"name":"a","arguments":"{}"},"tool_calls":[{"id":"p","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"stop"}]}"#;
    means(whole, "p a {} | calls");
}

#[test]
fn response_without_content_call_or_finish_is_an_error() {
    let role = loose(r#"{"role":"assistant","content":""}"#);
    means(&[&role, DONE].concat(), "error Truncated upstream_truncated");
    means(
        &[&role, &loose(r#"{"reasoning":"hm"}"#), DONE].concat(),
        "(hm) | error Truncated upstream_truncated",
    );
    for choices in [
        r#"[{"message":{"role":"assistant","content":""}}]"#,
        r#"[{"message":{"role":"assistant","content":null},"finish_reason":null}]"#,
        r#"[{"index":0}]"#,
    ] {
        means(&format!(r#"{{"choices":{choices}}}"#), "error Truncated upstream_truncated");
    }
    means(r#"{"choices":[]}"#, "error Protocol upstream_protocol");
    means(r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#, "stop");
    means(r#"{"choices":[{"message":{"content":"A"}}]}"#, "A | stop");
}

/// JSON chunks on separate lines are read like a stream, so the response must have an end.
#[test]
fn json_lines_without_an_end_are_a_truncated_response() {
    let chunk = r#"{"choices":[{"delta":{"content":"A"}}]}"#;
    means(&format!("{chunk}\n{chunk}\n"), "AA | error Truncated upstream_truncated");
}

#[test]
fn done_without_a_finish_waits_for_the_end_of_the_body() {
    let stream = [&loose(r#"{"content":"A"}"#), DONE, &loose(r#"{"content":"B"}"#)].concat();
    let open = read_in(ReaderSettings::default(), [stream.as_bytes()], false);
    assert_eq!(open.summary(), "A");
    means(&stream, "A | stop");
}
