//! Tests how the reader interprets streams from Responses servers, in every split.

use serde_json::{Value, json};
use toolwire::dialect::{Skip, responses::ReaderSettings};

use crate::read::{Read, read_in, read_splits};

#[track_caller]
fn means(stream: &str, expected: &str) -> Read {
    let read = read_splits(ReaderSettings::default(), stream.as_bytes());
    assert_eq!(read.summary(), expected);
    read
}

fn stream(events: &[Value]) -> String {
    let frame = |(number, event): (usize, &Value)| {
        let mut event = event.clone();
        event["sequence_number"] = number.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"))
    };
    events.iter().enumerate().map(frame).collect()
}

fn created() -> Value {
    json!({"type": "response.created", "response": {
        "id": "resp_1", "object": "response", "created_at": 17, "model": "m", "status": "in_progress", "output": []}})
}

fn added(output: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": output, "item": item})
}

fn done(output: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": output, "item": item})
}

fn text(output: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": output, "content_index": 0,
           "delta": delta, "logprobs": [], "obfuscation": "x"})
}

fn piece(output: u64, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": output, "delta": delta})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "f", "arguments": arguments})
}

fn end(status: &str, more: Value) -> Value {
    let mut response = json!({"id": "resp_1", "object": "response", "status": status, "output": []});
    for (key, value) in more.as_object().unwrap() {
        response[key] = value.clone();
    }
    json!({"type": format!("response.{status}"), "response": response})
}

fn completed() -> Value {
    end("completed", json!({}))
}

#[test]
fn canonical_stream() {
    let usage = json!({"input_tokens": 9, "output_tokens": 5, "total_tokens": 14,
                       "input_tokens_details": {"cached_tokens": 2}, "output_tokens_details": {"reasoning_tokens": 3}});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "c2ln",
                           "summary": [{"type": "summary_text", "text": "Let me see."}, {"type": "summary_text", "text": "Yes."}]});
    let summary = |index: u64, delta: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": index, "delta": delta});
    let read = means(
        &stream(&[
            created(),
            json!({"type": "response.in_progress", "response": {}}),
            added(0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
            summary(0, "Let me"),
            summary(0, " see."),
            json!({"type": "response.reasoning_summary_text.done", "output_index": 0, "summary_index": 0, "text": "Let me see."}),
            summary(1, "Yes."),
            done(0, reasoning),
            added(1, message("")),
            text(1, "Look"),
            text(1, "ing."),
            json!({"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "Looking."}),
            done(1, message("Looking.")),
            added(2, call("call_1", "")),
            piece(2, "{\"x\":"),
            piece(2, "1}"),
            json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"x\":1}"}),
            done(2, call("call_1", "{\"x\":1}")),
            added(3, call("call_2", "")),
            done(3, call("call_2", "{}")),
            end("completed", json!({ "usage": usage })),
        ]),
        r#"start resp_1 m 17 | (Let me see.

Yes.) | signed c2ln | Looking. | call_1 f {"x":1} | call_2 f {} | calls | usage 9 5 14"#,
    );
    assert!(read.skipped.is_empty(), "{}", read.skipped);
}

#[test]
fn ends_of_items_complete_what_deltas_lacked() {
    let calls = stream(&[
        added(0, message("")),
        text(0, "Lo"),
        done(0, message("Look")),
        done(1, message("ing")),
        added(2, call("c1", "")),
        piece(2, "{\"x\""),
        done(2, call("c1", "{\"x\":1}")),
        done(3, call("c2", "{\"y\":2}")),
        completed(),
    ]);
    means(&calls, r#"Looking | c1 f {"x":1} | c2 f {"y":2} | calls"#);
    // Only the last event contains the output items.
    let last = end("completed", json!({"output": [message("A"), call("c1", "{}")]}));
    means(&stream(&[created(), last]), "start resp_1 m 17 | A | c1 f {} | calls");
}

#[test]
fn contradicting_arguments_are_an_error() {
    let [left, right] = [piece(0, "{\"x\":"), piece(0, "1}")];
    let other = done(0, call("c1", "{\"x\":2}"));
    let events = [added(0, call("c1", "")), left.clone(), right.clone(), other, completed()];
    means(&stream(&events), r#"c1 f {"x":1} open | error Protocol upstream_protocol"#);
    let spaced = done(0, call("c1", "{ \"x\": 1 }"));
    let events = [added(0, call("c1", "")), left, right, spaced, completed()];
    means(&stream(&events), r#"c1 f {"x":1} | calls"#);
}

#[test]
fn items_with_the_same_index_are_told_apart_by_their_ids() {
    let of = |id: &str, mut event: Value| {
        let place =
            if event.get("item").is_some() { &mut event["item"]["id"] } else { &mut event["item_id"] };
        *place = id.into();
        event
    };
    let call_at_0 = |id: &str, call_id: &str, arguments: &str| {
        [
            of(id, added(0, call(call_id, ""))),
            of(id, piece(0, arguments)),
            of(id, done(0, call(call_id, arguments))),
        ]
    };
    let text_at_0 = [of("m", added(0, message(""))), of("m", text(0, "A")), of("m", done(0, message("A")))];
    let [one, two] = [call_at_0("f1", "c1", "{\"x\":1}"), call_at_0("f2", "c2", "{\"x\":2}")];
    let named = |id: &str, mut item: Value| {
        item["id"] = id.into();
        item
    };
    let whole =
        json!({"output": [named("f1", call("c1", "{\"x\":1}")), named("f2", call("c2", "{\"x\":2}"))]});
    for last in [completed(), end("completed", whole)] {
        let events = [one.to_vec(), two.to_vec(), vec![last]].concat();
        means(&stream(&events), r#"c1 f {"x":1} | c2 f {"x":2} | calls"#);
    }
    let events = [one.to_vec(), text_at_0.to_vec(), vec![completed()]].concat();
    means(&stream(&events), r#"A | c1 f {"x":1} | calls"#);
    // Calls that share an item ID are also read correctly.
    let events = [one.to_vec(), call_at_0("f1", "c2", "{\"x\":2}").to_vec(), vec![completed()]].concat();
    means(&stream(&events), r#"c1 f {"x":1} | c2 f {"x":2} | calls"#);
    let events = [one.to_vec(), one.to_vec(), vec![completed()]].concat();
    means(&stream(&events), r#"c1 f {"x":1} | calls"#);
    // The items have no end events of their own; only the complete response ends them.
    let whole = json!({"output": [named("f1", call("c1", "{\"x\":1}")), named("m", message("A"))]});
    let events = [&one[..2], &text_at_0[..2], &[end("completed", whole)]].concat();
    means(&stream(&events), r#"A | c1 f {"x":1} | calls"#);
    // The first item is still open when the second one begins.
    let [first, args, done] = one;
    let events = [vec![first], text_at_0.to_vec(), vec![args, done, completed()]].concat();
    means(&stream(&events), r#"A | c1 f {"x":1} | calls"#);
    // The text has no start event.
    let [_, delta, done] = text_at_0;
    let events = [two.to_vec(), vec![delta, done, completed()]].concat();
    means(&stream(&events), r#"A | c2 f {"x":2} | calls"#);
}

#[test]
fn streams_without_an_end_are_truncated() {
    let begun = [created(), added(0, message("")), text(0, "A")];
    means(&stream(&begun), "start resp_1 m 17 | A | error Truncated upstream_truncated");
    let ended = [added(0, message("")), text(0, "A"), done(0, message("A"))];
    means(&stream(&ended), "A | error Truncated upstream_truncated");
    let cut = [added(0, call("c1", "")), piece(0, "{\"x\":")];
    means(&stream(&cut), r#"c1 f {"x": open | error Truncated upstream_truncated"#);
    let settings = ReaderSettings { tolerate_truncation: true, ..ReaderSettings::default() };
    assert_eq!(read_splits(settings, stream(&cut).as_bytes()).summary(), r#"c1 f {"x": cut | length"#);
}

#[test]
fn incomplete_responses_say_why() {
    for (reason, finish) in
        [("max_output_tokens", "length"), ("content_filter", "filter"), ("steered", "length")]
    {
        let last = end("incomplete", json!({"incomplete_details": {"reason": reason}}));
        means(&stream(&[added(0, message("")), text(0, "A"), last]), &format!("A | {finish}"));
    }
    let last = end("incomplete", json!({"incomplete_details": {"reason": "max_output_tokens"}}));
    means(
        &stream(&[added(0, call("c1", "")), piece(0, "{\"x\":"), last.clone()]),
        r#"c1 f {"x": cut | length"#,
    );
    means(&stream(&[added(0, call("c1", "")), last]), "c1 f  cut | length");
}

#[test]
fn failures_keep_their_kind() {
    let error = json!({"code": "rate_limit_exceeded", "message": "slow down"});
    means(
        &stream(&[created(), end("failed", json!({ "error": error }))]),
        "start resp_1 m 17 | error RateLimit rate_limit_exceeded",
    );
    means(&stream(&[end("failed", json!({}))]), "start resp_1  0 | error Upstream error");
    let event = json!({"type": "error", "code": "server_error", "message": "boom", "param": null});
    means(&stream(&[event]), "error Upstream server_error");
    means(
        "data: {\"error\":{\"message\":\"no\",\"code\":\"invalid_api_key\"}}\n\n",
        "error Unauthorized invalid_api_key",
    );
    means(
        "{\"error\":{\"message\":\"no\",\"code\":\"invalid_api_key\"}}",
        "error Unauthorized invalid_api_key",
    );
}

#[test]
fn the_result_of_a_search_is_the_list_of_its_pages() {
    let action = json!({"type": "search", "query": "q", "sources": [{"type": "url", "url": "u"}]});
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action});
    let expected = format!(r#"ran ws_1 web_search {action} [{{"type":"url","url":"u"}}] | stop"#);
    means(&stream(&[done(0, search), completed()]), &expected);
}

#[test]
fn hosted_items_refusals_images_and_citations() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}});
    let image =
        json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"});
    let note = json!({"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1});
    let mut cited = message("A");
    cited["content"][0]["annotations"] = json!([note]);
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let events = [
        added(0, search.clone()),
        json!({"type": "response.web_search_call.searching", "output_index": 0}),
        done(0, search),
        text(1, "A"),
        json!({"type": "response.output_text.annotation.added", "output_index": 1, "content_index": 0, "annotation": note}),
        done(1, cited),
        done(2, image),
        json!({"type": "response.refusal.delta", "output_index": 3, "content_index": 0, "delta": "N"}),
        done(3, refusal),
        completed(),
    ];
    means(
        &stream(&events),
        r#"ran ws_1 web_search {"type":"search","query":"q"}  | A | cites u t 0-1 | media image/png AAAA | refused No. | stop"#,
    );
}

#[test]
fn custom_tools_have_plain_input() {
    let call = |input: &str| json!({"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "sql", "input": input});
    let delta = |delta: &str| json!({"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": delta});
    let events = [added(0, call("")), delta("SELECT"), delta(" 1"), done(0, call("SELECT 1;")), completed()];
    means(&stream(&events), "c1 sql SELECT 1; | calls");
}

#[test]
fn whole_response() {
    let body = json!({"id": "resp_1", "object": "response", "created_at": 17, "model": "m", "status": "completed",
        "output": [{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                   message("A"), call("c1", "{\"x\":1}")],
        "error": null, "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}})
    .to_string();
    means(&body, r#"start resp_1 m 17 | (hm) | A | c1 f {"x":1} | calls | usage 1 2 3"#);
    for at in 1..body.len() {
        let read = read_in(ReaderSettings::default(), [&body.as_bytes()[..at]], true);
        assert!(read.summary().starts_with("error Protocol"), "{at}: {}", read.summary());
    }
}

#[test]
fn unknown_events_and_wrong_members_are_left_out() {
    let events = [
        json!({"type": "response.a_new_event", "output_index": 9}),
        json!({"type": "keepalive"}),
        json!({"type": "a_new_event"}),
        json!({"type": "response.output_item.added"}),
        json!({"type": "response.output_item.added", "output_index": -1, "item": 5}),
        json!({"type": "response.output_text.delta", "output_index": "0", "delta": "A"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": null}),
        done(1, json!({"type": "a_new_item"})),
        done(0, message("A")),
        text(0, "late"),
        done(0, message("again")),
        completed(),
    ];
    let read = means(&stream(&events), "A | stop");
    assert_eq!((read.skipped.count(Skip::NotAChunk), read.skipped.count(Skip::LateContent)), (3, 2));
}

#[test]
fn line_ends_and_names_make_no_difference() {
    let plain = stream(&[
        added(0, message("")),
        text(0, "A"),
        text(0, "B"),
        text(0, "C"),
        done(0, message("ABC")),
        completed(),
    ]);
    for dressed in [
        plain.replace('\n', "\r\n"),
        format!("\u{feff}{plain}"),
        plain.replace("event: response.output_text.delta", "event: response.completed"),
        plain.replace("data: ", "data:"),
        plain.replace(",\"obfuscation\":\"x\"", ""),
        plain.clone() + "data: [DONE]\n\n",
    ] {
        means(&dressed, "ABC | stop");
    }
}

#[test]
fn text_behind_the_end_mark_of_a_gateway_is_not_read() {
    let delta = |text: &str| {
        let delta = json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "delta": text});
        format!("data: {delta}\n\n")
    };
    let begun = stream(&[created(), added(0, message(""))]);
    let body = [begun, delta("a"), delta("b"), "data: [DONE]\n\n".to_owned(), delta("late")].concat();
    let read = read_splits(ReaderSettings::default(), body.as_bytes());
    assert_eq!(read.summary(), "start resp_1 m 17 | ab | stop");
}
