//! Tests how the reader interprets streams from Messages servers, in every split.

use toolwire::dialect::{Skip, messages::ReaderSettings};

use crate::read::{Read, read_in, read_splits};

#[track_caller]
fn means(stream: &str, expected: &str) -> Read {
    let settings = ReaderSettings::default();
    let read = read_splits(settings, stream.as_bytes());
    let verbatim = read_splits(ReaderSettings { verbatim: true, ..settings }, stream.as_bytes());
    assert_eq!(read.summary(), expected);
    // With verbatim frames, the usage of the first frame is reported too.
    let counted = verbatim.summary();
    let counted = counted.strip_prefix("usage").map_or(counted.as_str(), |_| expected);
    if !expected.contains("usage") && !expected.contains("cites") {
        assert_eq!(counted, expected, "with verbatim frames");
    }
    read
}

fn frame(data: &str) -> String {
    let kind = data.split('"').nth(3).unwrap();
    format!("event: {kind}\ndata: {data}\n\n")
}

fn start(index: u64, block: &str) -> String {
    frame(&format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#))
}

fn delta(index: u64, delta: &str) -> String {
    frame(&format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
}

fn text(index: u64, text: &str) -> String {
    delta(index, &format!(r#"{{"type":"text_delta","text":"{text}"}}"#))
}

fn input(index: u64, json: &str) -> String {
    delta(index, &format!(r#"{{"type":"input_json_delta","partial_json":{}}}"#, serde_json::json!(json)))
}

fn stop(index: u64) -> String {
    frame(&format!(r#"{{"type":"content_block_stop","index":{index}}}"#))
}

fn tool(index: u64, id: &str) -> String {
    start(index, &format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#))
}

fn end(word: &str) -> String {
    let delta = frame(&format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}","stop_sequence":null}}}}"#
    ));
    delta + &frame(r#"{"type":"message_stop"}"#)
}

const TEXT: &str = r#"{"type":"text","text":""}"#;

const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

#[test]
fn canonical_stream() {
    let stream = [
        frame(
            r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":1}}}"#,
        ),
        PING.to_owned(),
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"Let me"}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":" see."}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#),
        stop(0),
        start(1, TEXT),
        text(1, "Look"),
        PING.to_owned(),
        text(1, "ing."),
        stop(1),
        tool(2, "toolu_1"),
        input(2, ""),
        input(2, "{\"x\":"),
        input(2, "1}"),
        stop(2),
        tool(3, "toolu_2"),
        stop(3),
        frame(
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}"#,
        ),
        frame(r#"{"type":"message_stop"}"#),
    ]
    .concat();
    let read = means(
        &stream,
        r#"start msg_1 m 0 | (Let me see.) | signed c2ln | Looking. | toolu_1 f {"x":1} | toolu_2 f {} | calls | usage 115 7 122"#,
    );
    assert!(read.skipped.is_empty(), "{}", read.skipped);
    assert_eq!(read.pings, ["ping", "ping"]);
}

#[test]
fn streams_without_an_end_are_truncated() {
    let begun = [start(0, TEXT), text(0, "A")].concat();
    means(&begun, "A | error Truncated upstream_truncated");
    means(&[begun.clone(), stop(0)].concat(), "A | error Truncated upstream_truncated");
    let call = [tool(0, "t"), input(0, "{\"x\":")].concat();
    means(&call, r#"t f {"x": open | error Truncated upstream_truncated"#);
    means(&frame(r#"{"type":"message_start","message":{}}"#), "error Truncated upstream_truncated");
    let settings = ReaderSettings { tolerate_truncation: true, ..ReaderSettings::default() };
    assert_eq!(read_splits(settings, begun.as_bytes()).summary(), "A | stop");
    assert_eq!(read_splits(settings, call.as_bytes()).summary(), r#"t f {"x": cut | length"#);
}

#[test]
fn stop_reasons_are_mapped() {
    for (word, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "filter"),
        ("tool_use", "stop"),
        ("a_new_reason", "stop"),
    ] {
        means(&[start(0, TEXT), text(0, "A"), stop(0), end(word)].concat(), &format!("A | {finish}"));
    }
    let call = [tool(0, "t"), input(0, "{}"), stop(0)].concat();
    means(&[call.clone(), end("end_turn")].concat(), "t f {} | calls");
    means(&[call, end("max_tokens")].concat(), "t f {} | length");
}

#[test]
fn a_call_without_arguments_is_cut_only_if_the_response_is() {
    let call = [tool(0, "t"), input(0, ""), stop(0)].concat();
    means(&[call.clone(), end("tool_use")].concat(), "t f {} | calls");
    means(&[call.clone(), end("max_tokens")].concat(), "t f  cut | length");
    means(&[call.clone(), start(1, TEXT), text(1, "A"), end("max_tokens")].concat(), "A | t f {} | length");
    means(&call, "t f  open | error Truncated upstream_truncated");
}

#[test]
fn arguments_may_come_with_the_beginning_of_a_call() {
    let begin =
        |input: &str| start(0, &format!(r#"{{"type":"tool_use","id":"t","name":"f","input":{input}}}"#));
    means(&[begin(r#"{"x": 1.50}"#), stop(0), end("tool_use")].concat(), r#"t f {"x": 1.50} | calls"#);
    means(&[begin(r#""{\"x\":1}""#), stop(0), end("tool_use")].concat(), r#"t f {"x":1} | calls"#);
    let both = [begin(r#"{"x":1}"#), input(0, "{\"x\":"), input(0, "2}"), stop(0), end("tool_use")].concat();
    means(&both, r#"t f {"x":2} | calls"#);
}

#[test]
fn arguments_end_with_their_block() {
    let stream = [tool(0, "t"), input(0, "{}"), stop(0)].concat();
    let read = read_in(ReaderSettings::default(), [stream.as_bytes()], false);
    assert_eq!(read.summary(), "t f {}");
}

#[test]
fn calls_that_the_upstream_runs_have_results() {
    let stream = [
        start(0, r#"{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}"#),
        input(0, "{\"query\":\"q\"}"),
        stop(0),
        start(
            1,
            r#"{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"type":"web_search_result","url":"u","title":"t","encrypted_content":"e"}]}"#,
        ),
        stop(1),
        start(2, r#"{"type":"mcp_tool_use","id":"mcp_1","name":"echo","server_name":"s","input":{"a":1}}"#),
        stop(2),
        start(
            3,
            r#"{"type":"mcp_tool_result","tool_use_id":"mcp_1","is_error":true,"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}]}"#,
        ),
        stop(3),
        start(4, r#"{"type":"web_search_tool_result","tool_use_id":"other","content":[]}"#),
        stop(4),
        start(5, r#"{"type":"text","text":"","citations":[]}"#),
        text(5, "Yés"),
        delta(
            5,
            r#"{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"u","title":"t","cited_text":"c","encrypted_index":"i"}}"#,
        ),
        text(5, "!"),
        stop(5),
        end("end_turn"),
    ]
    .concat();
    let read = means(
        &stream,
        "gave 0 srv_1 [{\"type\":\"web_search_result\",\"url\":\"u\",\"title\":\"t\",\"encrypted_content\":\"e\"}] | \
         failed 1 mcp_1 no\nway | Yés! | cites u t 0-4 | srv_1 web_search {\"query\":\"q\"} | mcp_1 echo {\"a\":1} | stop",
    );
    assert_eq!(read.skipped.count(Skip::OrphanResult), 1);
}

#[test]
fn the_result_of_a_hosted_call_ends_it() {
    let begun = [
        start(0, r#"{"type":"server_tool_use","id":"n","name":"web_search","input":{"query":"q"}}"#),
        start(1, r#"{"type":"web_search_tool_result","tool_use_id":"n","content":[]}"#),
    ];
    // The result shows that the arguments are complete.
    let read = read_in(ReaderSettings::default(), [begun.concat().as_bytes()], false);
    assert_eq!(read.summary(), r#"gave 0 n [] | n web_search {"query":"q"}"#);
    means(
        &[begun.concat(), stop(0), stop(1), end("end_turn")].concat(),
        r#"gave 0 n [] | n web_search {"query":"q"} | stop"#,
    );
}

#[test]
fn hidden_thinking_is_only_its_state() {
    let stream = [
        start(0, r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#),
        stop(0),
        start(1, r#"{"type":"thinking","thinking":"","signature":"c2ln"}"#),
        stop(1),
        start(2, TEXT),
        text(2, "A"),
        stop(2),
        end("end_turn"),
    ]
    .concat();
    means(&stream, "signed ZGF0YQ== | signed c2ln | A | stop");
}

#[test]
fn errors_in_the_stream_keep_their_kind() {
    for (kind, expected) in [
        ("overloaded_error", "error Overloaded overloaded"),
        ("rate_limit_error", "error RateLimit rate_limit_exceeded"),
        ("invalid_request_error", "error Request -"),
        ("authentication_error", "error Unauthorized invalid_api_key"),
        ("permission_error", "error Forbidden -"),
        ("billing_error", "error Forbidden -"),
        ("timeout_error", "error Timeout timeout"),
        ("request_too_large", "error TooLarge request_too_large"),
        ("api_error", "error Upstream error"),
    ] {
        let data = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"no"}}}}"#);
        for stream in [frame(&data), format!("data: {data}\n\n"), data.clone()] {
            means(&stream, expected);
        }
        let begun = [start(0, TEXT), text(0, "A"), frame(&data)].concat();
        means(&begun, &format!("A | {expected}"));
    }
}

#[test]
fn unknown_events_blocks_and_deltas_are_left_out() {
    let stream = [
        frame(r#"{"type":"a_new_event","x":1}"#),
        start(0, r#"{"type":"a_new_block","x":1}"#),
        delta(0, r#"{"type":"a_new_delta","x":1}"#),
        stop(0),
        start(1, TEXT),
        text(1, "A"),
        stop(1),
        end("end_turn"),
    ]
    .concat();
    let read = means(&stream, "A | stop");
    assert_eq!(read.skipped.count(Skip::UnknownPart), 3);
}

#[test]
fn whole_message() {
    let message = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},
        {"type":"text","text":"A"},
        {"type":"tool_use","id":"t","name":"f","input":{"x":1}},
        {"type":"tool_use","id":"u","name":"f","input":{}}],
        "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4}}"#;
    means(
        message,
        r#"start msg_1 m 0 | (hm) | signed c2ln | A | t f {"x":1} | u f {} | calls | usage 3 4 7"#,
    );
    for at in 1..message.len() {
        let read = read_in(ReaderSettings::default(), [&message.as_bytes()[..at]], true);
        assert!(read.summary().starts_with("error Protocol"), "{at}: {}", read.summary());
    }
}

#[test]
fn blocks_out_of_order_keep_their_calls_apart() {
    let stream = [
        tool(7, "a"),
        tool(18_446_744_073_709_551_615, "b"),
        input(18_446_744_073_709_551_615, "{\"x\":"),
        input(7, "{}"),
        input(18_446_744_073_709_551_615, "2}"),
        stop(18_446_744_073_709_551_615),
        stop(7),
        // A new block with an unused index.
        tool(7, "c"),
        input(7, "{\"y\":3}"),
        // A new block whose index is still in use.
        tool(7, "d"),
        input(7, "{\"z\":4}"),
        stop(99),
        end("tool_use"),
    ]
    .concat();
    means(&stream, r#"a f {} | b f {"x":2} | c f {"y":3} | d f {"z":4} | calls"#);
}

#[test]
fn missing_and_wrong_members_are_tolerated() {
    let numbered = |index: &str, delta: &str| {
        format!("data: {{\"type\":\"content_block_delta\"{index},\"delta\":{delta}}}\n\n")
    };
    let said = |index: &str| numbered(index, r#"{"type":"text_delta","text":"A"}"#);
    for index in
        ["", ",\"index\":-1", ",\"index\":1.5", ",\"index\":\"0\"", ",\"index\":null", ",\"index\":{}"]
    {
        means(&[said(index), end("end_turn")].concat(), "A | stop");
    }
    let call = [
        "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\"}}\n\n",
        &numbered("", r#"{"type":"input_json_delta","partial_json":"{}"}"#),
        "data: {\"type\":\"content_block_stop\"}\n\n",
        &end("tool_use"),
    ];
    means(&call.concat(), "t f {} | calls");
    for wrong in ["null", "1", "[]", "\"x\"", "{\"type\":5}", "{\"type\":\"text_delta\",\"text\":5}", "{}"] {
        means(
            &[start(0, TEXT), text(0, "A"), delta(0, wrong), start(1, wrong), end("end_turn")].concat(),
            "A | stop",
        );
    }
    let read = means(
        &[input(3, "{}"), start(0, r#"{"type":"tool_use","id":"t"}"#), end("end_turn")].concat(),
        "stop",
    );
    assert_eq!(read.skipped.count(Skip::NamelessCall), 2);
}

#[test]
fn content_after_the_end_of_its_block_or_response_is_left_out() {
    let stream = [tool(0, "t"), input(0, "{}"), stop(0), input(0, "x"), end("tool_use")].concat();
    assert_eq!(means(&stream, "t f {} | calls").skipped.count(Skip::LateArguments), 1);
    let finish = frame(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#);
    let stream = [start(0, TEXT), text(0, "A"), finish, text(0, "B"), tool(1, "t"), stop(1)].concat();
    assert_eq!(means(&stream, "A | stop").skipped.count(Skip::LateContent), 3);
}

#[test]
fn too_many_open_blocks_are_an_error() {
    let stream: String = (0..65).map(|index| start(index, TEXT)).collect();
    let read = read_in(ReaderSettings::default(), [stream.as_bytes()], true);
    assert_eq!(read.summary(), "error Protocol upstream_protocol");
}

#[test]
fn line_ends_names_and_padding_make_no_difference() {
    let stream = [start(0, TEXT), text(0, "A"), text(0, "B"), stop(0), end("end_turn")].concat();
    for dressed in [
        stream.replace('\n', "\r\n"),
        stream.replace('\n', "\r"),
        format!("\u{feff}{stream}"),
        stream.replace("event: content_block_delta", "event: message_stop"),
        stream.replace("event: content_block_delta\n", ""),
        stream.replace("}}\n", "}   }  \n"),
        stream.replace("data: ", "data:"),
        stream.clone() + "data: [DONE]\n\n",
    ] {
        means(&dressed, "AB | stop");
    }
}

#[test]
fn halves_of_a_surrogate_pair_are_joined() {
    let stream = [
        start(0, TEXT),
        text(0, r"\ud83d"),
        text(0, r"\ude00"),
        text(0, r"\ud83d"),
        stop(0),
        end("end_turn"),
    ];
    means(&stream.concat(), "😀\u{fffd} | stop");
}

#[test]
fn text_behind_the_end_mark_of_a_gateway_is_not_read() {
    let stream = [start(0, TEXT), text(0, "a"), text(0, "b"), "data: [DONE]\n\n".to_owned(), text(0, "late")];
    means(&stream.concat(), "ab | stop");
}

#[test]
fn events_in_an_array_are_read() {
    let events = [start(0, TEXT), text(0, "a"), text(0, "b")];
    let data = events.iter().flat_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    let data: Vec<_> = data.collect();
    let null = "data: null\n\n";
    means(&format!("{null}data: [{}]\n\n{null}data: [DONE]\n\n", data.join(",")), "ab | stop");
}
