//! Tests that clients of this API get what an upstream of it wrote, where nothing has to change.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::{Answering, ClientDialect, Dialect, ReaderRules, Stamp, UpstreamDialect},
    format::KnownFormats,
    pipeline::{Pipeline, State},
    rules::{Rules, ServerCalls},
};

/// Calls that the upstream's servers ran, and an image, with members that no event has.
fn server_items() -> Vec<Value> {
    vec![
        json!({"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": [{"file_id": "file_1", "score": 0.50}]}),
        json!({"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1\n2", "container_id": "cntr_1", "outputs": [{"type": "logs", "logs": "3"}]}),
        json!({"type": "mcp_call", "id": "mcp_1", "status": "completed", "server_label": "docs", "name": "find", "arguments": "{}", "output": "o", "approval_request_id": "a_1"}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "open_page", "url": "https://a"}}),
        json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGVsbG8=", "revised_prompt": "r", "size": "1024x1024"}),
    ]
}

fn message() -> Value {
    let annotations = json!([
        {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 4},
        {"type": "url_citation", "start_index": 0, "end_index": 4, "url": "https://a", "title": "A", "more": true},
    ]);
    let part = json!({"type": "output_text", "text": "said", "annotations": annotations});
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
}

fn response(items: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": items})
}

fn stream(items: &[Value]) -> String {
    let mut events = vec![json!({"type": "response.created", "response": response(&[])})];
    for (place, item) in items.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(json!({"type": kind, "output_index": place, "item": item}));
        }
    }
    events.push(json!({"type": "response.completed", "response": response(items)}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// What a client gets, from an upstream whose bytes arrive in pieces of this size.
fn shown(response: &str, stream: bool, size: usize, server_calls: ServerCalls) -> String {
    let request = json!({"model": "m", "input": "q", "stream": stream, "store": false}).to_string();
    let client = ClientDialect::Responses;
    let conversation = client.side().decode(request.as_bytes()).unwrap();
    let answering = Answering::new(&conversation, Stamp { seed: 11, created: 17 });
    let rules = Rules { server_calls, ..Rules::default() };
    let upstream = UpstreamDialect::try_from(Dialect::Responses).unwrap();
    let reader = upstream.side().reader(&ReaderRules {
        max_frame: rules.limits.max_frame,
        tolerate_truncation: false,
        client: Dialect::Responses,
    });
    let writer = client.side().writer(&answering);
    let mut pipeline =
        Pipeline::new(&conversation, &rules, KnownFormats::built_in(), reader, writer, &answering);
    let mut out = BytesMut::new();
    for piece in response.as_bytes().chunks(size) {
        pipeline.push(piece, &mut out);
    }
    pipeline.finish(&mut out);
    pipeline.end(&mut out);
    assert!(matches!(pipeline.state(), State::Done), "{:?}", pipeline.failure());
    String::from_utf8(out.to_vec()).unwrap()
}

/// The output of the response in what a client got.
fn output(shown: &str, stream: bool) -> Vec<Value> {
    let whole: Value = match stream {
        true => {
            let last = shown.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
            serde_json::from_str::<Value>(last.unwrap()).unwrap()["response"].take()
        }
        false => serde_json::from_str(shown).unwrap(),
    };
    whole["output"].as_array().unwrap().clone()
}

#[test]
fn items_of_servers_and_annotations_are_forwarded() {
    let items: Vec<Value> = server_items().into_iter().chain([message()]).collect();
    for is_streamed in [false, true] {
        let sent = if is_streamed { stream(&items) } else { response(&items).to_string() };
        let first = shown(&sent, is_streamed, sent.len(), ServerCalls::Auto);
        let mut found = output(&first, is_streamed);
        let mut said = found.pop().unwrap();
        assert_eq!(found, server_items());
        assert_eq!(said["content"][0]["annotations"], message()["content"][0]["annotations"]);
        assert_eq!(said["content"][0]["text"].take(), "said");
        for item in &found {
            // Each is in the list and, in a stream, in the two events that begin and end it.
            let id = format!("\"id\":{}", item["id"]);
            assert_eq!(first.matches(&id).count(), if is_streamed { 3 } else { 1 }, "{id}");
        }
        for size in [1, 7, 64] {
            assert_eq!(shown(&sent, is_streamed, size, ServerCalls::Auto), first, "{size}");
        }
    }
}

#[test]
fn hidden_calls_of_servers_are_not_forwarded() {
    let items: Vec<Value> = server_items().into_iter().chain([message()]).collect();
    for is_streamed in [false, true] {
        let sent = if is_streamed { stream(&items) } else { response(&items).to_string() };
        let found = output(&shown(&sent, is_streamed, 64, ServerCalls::Hide), is_streamed);
        let kinds: Vec<_> = found.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["image_generation_call", "message"]);
    }
}

/// A response whose text has log probabilities.
fn with_logprobs(stream: bool) -> String {
    let logprobs = |piece: &str| json!([{"token": piece, "logprob": -0.5, "bytes": [1], "top_logprobs": []}]);
    let pieces = ["Hel", "lo ", "wor", "ld."];
    let all: Vec<Value> = pieces.iter().map(|piece| logprobs(piece)[0].clone()).collect();
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": pieces.concat(), "annotations": [], "logprobs": all}]});
    if !stream {
        return response(&[item]).to_string();
    }
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "msg_1", "content": []}}),
    ];
    for piece in pieces {
        events.push(json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1",
            "content_index": 0, "delta": piece, "logprobs": logprobs(piece)}));
    }
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    events.push(json!({"type": "response.completed", "response": response(&[item])}));
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

#[test]
fn log_probabilities_are_forwarded() {
    for stream in [false, true] {
        let upstream = with_logprobs(stream);
        for size in [1, 7, usize::MAX] {
            let shown = shown(&upstream, stream, size, ServerCalls::Auto);
            let output = output(&shown, stream);
            let tokens: Vec<&str> = output[0]["content"][0]["logprobs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|token| token["token"].as_str().unwrap())
                .collect();
            assert_eq!(tokens, ["Hel", "lo ", "wor", "ld."], "{shown}");
            if stream {
                let deltas = shown.lines().filter_map(|line| line.strip_prefix("data: "));
                let deltas = deltas.map(|data| serde_json::from_str::<Value>(data).unwrap());
                let deltas = deltas.filter(|event| event["type"] == "response.output_text.delta");
                for delta in deltas {
                    assert_eq!(delta["logprobs"][0]["token"], delta["delta"], "{shown}");
                }
                let done = shown
                    .lines()
                    .find(|line| line.contains("\"type\":\"response.output_text.done\""))
                    .unwrap();
                assert_eq!(done.matches("\"logprob\":").count(), 4, "{done}");
            }
        }
    }
}
