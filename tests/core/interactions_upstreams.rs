//! Requests to upstreams that speak Google's Interactions API, and their responses split at arbitrary points.

use serde_json::{Value, json};
use toolwire::dialect::{
    ClientDialect, UpstreamSide, fitted,
    interactions::{Options, ReaderSettings},
};

use crate::read::read_splits;

/// The request for a client's request, and the names of what is left out.
fn sent(client: ClientDialect, fields: &Value) -> (Value, Vec<String>) {
    let conversation = client.side().decode(fields.to_string().as_bytes()).unwrap();
    let request = Options::default().encode(&conversation, "gemini-3-pro");
    assert_eq!(request.path, None);
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

fn summary(body: &str) -> String {
    read_splits(ReaderSettings::default(), body.as_bytes()).summary()
}

/// A stream of events, which ends with `[DONE]`.
fn stream(events: &[Value]) -> String {
    let events = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["event_type"].as_str().unwrap()));
    events.collect::<String>() + "event: done\ndata: [DONE]\n\n"
}

fn steps(steps: &[Value]) -> Vec<Value> {
    let created = json!({"event_type": "interaction.created", "interaction": {"id": "i", "model": "m", "status": "in_progress"}});
    [created]
        .into_iter()
        .chain(steps.iter().enumerate().flat_map(|(index, step)| {
            [
                json!({"event_type": "step.start", "index": index, "step": step}),
                json!({"event_type": "step.stop", "index": index}),
            ]
        }))
        .collect()
}

fn completed(status: &str) -> Value {
    json!({"event_type": "interaction.completed", "interaction": {"id": "i", "status": status,
        "usage": {"total_input_tokens": 5, "total_tool_use_tokens": 1, "total_output_tokens": 3, "total_thought_tokens": 2}}})
}

#[test]
fn request_of_another_api_becomes_steps() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    let (body, dropped) = sent(
        ClientDialect::Chat,
        &json!({
        "model": "m", "stream": true, "temperature": 0.5, "max_tokens": 7, "stop": ["x"], "reasoning_effort": "low", "top_k": 3,
        "messages": [
            {"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "U"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
            {"role": "assistant", "content": "A", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "{\"r\":1}"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "D", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}),
    );
    assert_eq!(
        body,
        json!({
        "model": "gemini-3-pro", "system_instruction": "S",
        "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "U"},
                {"type": "image", "data": "AAAA", "mime_type": "image/png"}]},
            {"type": "model_output", "content": [{"type": "text", "text": "A"}]},
            {"type": "function_call", "id": "c1", "name": "f", "arguments": {"a": 1}},
            {"type": "function_result", "call_id": "c1", "name": "f", "result": {"r": 1}}],
        "tools": [{"type": "function", "name": "f", "description": "D", "parameters": {"type": "object"}}],
        "generation_config": {"max_output_tokens": 7, "temperature": 0.5, "stop_sequences": ["x"],
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["f"]}}, "thinking_level": "low", "thinking_summaries": "auto"},
        "response_format": {"type": "text", "mime_type": "application/json", "schema": {"type": "object"}},
        "stream": true, "store": false})
    );
    assert_eq!(dropped, ["top_k"]);
}

#[test]
fn request_of_the_same_api_keeps_what_only_it_has() {
    let request = json!({"model": "m", "system_instruction": "S", "stream": false, "store": false, "service_tier": "flex",
        "labels": {"a": "b"},
        "input": [{"type": "user_input", "content": [{"type": "text", "text": "U"}, {"type": "video", "uri": "u"}]},
            {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "hm"}]},
            {"type": "google_search_call", "id": "g", "arguments": {"queries": ["q"]}},
            {"type": "model_output", "content": [{"type": "text", "text": "A"}]},
            {"type": "user_input", "content": [{"type": "text", "text": "V"}]}],
        "tools": [{"type": "google_search"}],
        "generation_config": {"thinking_level": "high", "image_config": {"aspect_ratio": "1:1"}}});
    let (mut body, dropped) = sent(ClientDialect::Interactions, &request);
    assert_eq!(body["generation_config"]["thinking_summaries"].take(), "auto");
    body["generation_config"].as_object_mut().unwrap().shift_remove("thinking_summaries");
    let mut expected = request;
    expected["model"] = "gemini-3-pro".into();
    assert_eq!((body, dropped), (expected, vec![]));
}

#[test]
fn steps_of_all_kinds_are_read() {
    let output = json!({"type": "model_output", "content": [{"type": "text", "text": "é b",
        "annotations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 3}]},
        {"type": "image", "data": "AAAA", "mime_type": "image/png"}]});
    let all = [
        json!({"type": "user_input", "content": [{"type": "text", "text": "not said"}]}),
        json!({"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "hm"}]}),
        json!({"type": "google_search_call", "id": "g", "arguments": {"queries": ["q"]}}),
        json!({"type": "google_search_result", "call_id": "g", "result": [{"search_suggestions": "x"}]}),
        json!({"type": "mcp_server_tool_call", "id": "n", "name": "w", "server_name": "srv", "arguments": {"a": 1}}),
        output.clone(),
        output,
        json!({"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}}),
        json!({"type": "later"}),
    ];
    let said = "(hm) | signed s | ran g web_search {\"queries\":[\"q\"]}  | ran g web_search  [{\"search_suggestions\":\"x\"}] | \
        ran n w {\"a\":1}  | é b | cites u t 0-2 | media image/png AAAA | é b | cites u t 3-5 | media image/png AAAA | \
        c f {\"a\":1} | calls | usage 6 5 11";
    let mut events = steps(&all);
    events.push(completed("requires_action"));
    assert_eq!(summary(&stream(&events)), format!("start i m 0 | {said}"));
    let mut whole = completed("requires_action")["interaction"].take();
    (whole["model"], whole["steps"]) = (json!("m"), all.into());
    assert_eq!(summary(&whole.to_string()), format!("start i m 0 | {said}"));
}

#[test]
fn status_says_how_a_response_ends() {
    let text = json!({"type": "model_output", "content": [{"type": "text", "text": "a"}]});
    for (status, end) in [
        ("completed", "stop"),
        ("requires_action", "stop"),
        ("incomplete", "length"),
        ("budget_exceeded", "length"),
        ("later", "stop"),
    ] {
        let mut events = steps(std::slice::from_ref(&text));
        events.push(completed(status));
        assert_eq!(summary(&stream(&events)), format!("start i m 0 | a | {end} | usage 6 5 11"), "{status}");
    }
    let ended = |last: Value| {
        let mut events = steps(std::slice::from_ref(&text));
        events.push(last);
        summary(&stream(&events))
    };
    let mut filtered = completed("incomplete");
    filtered["interaction"]["errors"] = json!([{"code": "content_filter", "message": "no"}]);
    assert!(ended(filtered).contains("| filter |"));
    for status in ["failed", "cancelled"] {
        let mut failed = completed(status);
        assert!(ended(failed.clone()).contains("| error Upstream"), "{status}");
        failed["interaction"]["errors"] = json!([{"code": "quota", "message": "no more"}]);
        assert!(ended(failed).contains("| error "), "{status}");
    }
    let update = |status: &str| json!({"event_type": "interaction.status_update", "interaction_id": "i", "status": status});
    assert!(ended(update("failed")).contains("| error Upstream"));
    assert!(ended(update("in_progress")).ends_with("| a | stop"), "the end mark ends it");
    assert!(
        ended(json!({"event_type": "error", "error": {"code": "c", "message": "boom"}})).contains("| error ")
    );
    let cut = stream(&steps(std::slice::from_ref(&text))).replace("event: done\ndata: [DONE]\n\n", "");
    assert!(summary(&cut).ends_with("| error Truncated upstream_truncated"), "{}", summary(&cut));
    for status in ["completed", "requires_action", "later"] {
        let events = [steps(std::slice::from_ref(&text)), vec![update(status)]].concat();
        let cut = stream(&events).replace("event: done\ndata: [DONE]\n\n", "");
        assert!(
            summary(&cut).ends_with("| error Truncated upstream_truncated"),
            "{status}: {}",
            summary(&cut)
        );
    }
    let whole = |status: &str| summary(&json!({"id": "i", "status": status, "steps": [text]}).to_string());
    assert!(whole("in_progress").contains("error Truncated"), "{}", whole("in_progress"));
}

#[test]
fn arguments_and_texts_arrive_in_deltas() {
    let delta = |index: u64, delta: Value| json!({"event_type": "step.delta", "index": index, "delta": delta, "event_id": "e"});
    let start = |index: u64, step: Value| json!({"event_type": "step.start", "index": index, "step": step});
    let events = [
        start(0, json!({"type": "thought"})),
        delta(0, json!({"type": "thought_summary", "content": {"type": "text", "text": "h"}})),
        delta(0, json!({"type": "thought_signature", "signature": "s"})),
        start(1, json!({"type": "model_output"})),
        delta(1, json!({"type": "text", "text": "a"})),
        delta(1, json!({"type": "text", "text": "\u{1f600}"})),
        delta(1, json!({"type": "image", "data": "AAAA", "mime_type": "image/png"})),
        start(2, json!({"type": "function_call", "id": "c", "name": "f", "arguments": {}})),
        delta(2, json!({"type": "arguments_delta", "arguments": "{\"a\""})),
        delta(2, json!({"type": "arguments_delta", "arguments": ":1}"})),
        start(3, json!({"type": "code_execution_call", "id": "x"})),
        delta(3, json!({"type": "code_execution_call", "arguments": {"code": "1"}})),
        completed("requires_action"),
    ];
    let expected = "(h) | signed s | a😀 | media image/png AAAA | ran x code_execution {\"code\":\"1\"}  | c f {\"a\":1} | calls | \
        usage 6 5 11";
    assert_eq!(summary(&stream(&events)), expected);
}

#[test]
fn files_on_googles_servers_reach_them() {
    let uri = "https://generativelanguage.googleapis.com/v1beta/files/x";
    let video = json!({"type": "video", "uri": uri, "mime_type": "video/mp4"});
    let gemini = json!({"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": uri, "mimeType": "video/mp4"}}]}]});
    for (client, request) in [
        (
            ClientDialect::Interactions,
            json!({"model": "m", "input": [{"type": "user_input", "content": [video]}]}),
        ),
        (ClientDialect::Gemini, gemini),
    ] {
        let conversation = client.side().decode(request.to_string().as_bytes()).unwrap();
        let options = Options::default();
        let fitted = fitted(&conversation, client.dialect(), &options).unwrap();
        let body: Value = serde_json::from_slice(&options.encode(&fitted, "m").body).unwrap();
        assert_eq!(body["input"], json!([{"type": "user_input", "content": [video]}]), "{client:?}");
    }
}
