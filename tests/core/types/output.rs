//! Sends one instance of each type in responses to clients of every dialect.

use std::fs;

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::{Answering, ClientDialect, Dialect, ReaderRules, Stamp, UpstreamDialect},
    format::KnownFormats,
    pipeline::{Pipeline, State},
    rules::Rules,
};

use super::check_all;
use crate::support::{
    repository::root,
    types::{
        claim::{Becomes, Entry},
        trace::{Seen, carries},
    },
};

#[test]
fn each_type_in_responses_becomes_what_its_table_says() {
    let is_output = |kind: &str| {
        matches!(kind, "output item" | "output block" | "part member" | "candidate member")
            || matches!(kind, "chunk member" | "choice member" | "delta member")
    };
    check_all(&super::DIALECTS, is_output, |own, kind, name, instance, entry| {
        let Some((with, without)) = responses(kind, name, instance) else { return Vec::new() };
        let at = |client: ClientDialect| {
            let fault = contradiction(own, client, instance, entry, &with, &without)?;
            Some(format!("for clients of {} {fault}", client.dialect()))
        };
        ClientDialect::all().filter_map(at).collect()
    });
}

/// An event that is read for its contents is in a fixture or in a reader's test, or changes what clients get. All
/// others change nothing.
#[test]
fn each_event_of_streams_becomes_what_its_table_says() {
    let known = known_streams();
    let is_event = |kind: &str| matches!(kind, "event" | "delta");
    check_all(&[Dialect::Responses, Dialect::Messages], is_event, |own, kind, name, instance, entry| {
        let is_read = entry.towards(own, Dialect::Chat).unwrap().becomes == Becomes::Mapped;
        if is_read && known.contains(&format!("\"{name}\"")) {
            return Vec::new();
        }
        let event = if kind == "delta" {
            json!({"type": "content_block_delta", "index": 0, "delta": instance})
        } else {
            instance.clone()
        };
        let (with, without) = (stream(own, Some(&event)), stream(own, None));
        let at = |client: ClientDialect| {
            let claim = entry.towards(own, client.dialect())?;
            let without = shown(own, client, true, &without).unwrap();
            let fault = Seen::of(&event, shown(own, client, true, &with), &without).contradicts(claim)?;
            Some(format!("for clients of {} {fault}", client.dialect()))
        };
        ClientDialect::all().filter(|client| client.dialect() != own).filter_map(at).collect()
    });
}

fn contradiction(
    own: Dialect,
    client: ClientDialect,
    instance: &Value,
    entry: &Entry,
    with: &str,
    without: &str,
) -> Option<String> {
    let claim = entry.towards(own, client.dialect());
    let with = shown(own, client, false, with);
    if own == client.dialect() && claim.is_none_or(|claim| claim.becomes == Becomes::Carried) {
        let left_out = claim.map(|claim| claim.without.clone()).unwrap_or_default();
        return match with {
            Ok(body) if carries(&body, instance, &left_out) => None,
            other => Some(format!("is not carried: {other:?}")),
        };
    }
    let without = shown(own, client, false, without).expect("the response without the instance is written");
    let claim = claim.or_else(|| entry.0.first()).unwrap();
    Seen::of(instance, with, &without).contradicts(claim)
}

/// A response with the instance, and the same without it. `None` if every response has it.
fn responses(kind: &str, name: &str, instance: &Value) -> Option<(String, String)> {
    let whole = |output: &[Value]| match kind {
        "output item" => {
            let text = json!({"type": "output_text", "text": "said", "annotations": []});
            let said = json!({"type": "message", "id": "msg_9", "role": "assistant", "status": "completed", "content": [text]});
            let output: Vec<_> = output.iter().cloned().chain([said]).collect();
            json!({
                "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m",
                "output": output, "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
            })
        }
        "output block" => {
            let content: Vec<_> =
                output.iter().cloned().chain([json!({"type": "text", "text": "said"})]).collect();
            json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
                "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
            })
        }
        "part member" => {
            let parts: Vec<_> = output.iter().cloned().chain([json!({"text": "said"})]).collect();
            json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
        }
        _ => {
            let mut body = json!({
                "id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": "said"}, "finish_reason": "stop"},
                ],
                "candidates": [{"content": {"role": "model", "parts": [{"text": "said"}]}, "finishReason": "STOP"}],
            });
            let is_gemini = kind == "candidate member";
            body.as_object_mut().unwrap().remove(if is_gemini { "choices" } else { "candidates" });
            let place = match kind {
                "candidate member" => &mut body["candidates"][0],
                "choice member" => &mut body["choices"][0],
                "delta member" => &mut body["choices"][0]["message"],
                _ => &mut body,
            };
            if let Some(one) = output.first() {
                place[name] = one[name].clone();
            }
            body
        }
    };
    let is_in_all = matches!(
        (kind, name),
        ("chunk member", "id" | "object" | "created" | "model" | "choices")
            | ("choice member", "index" | "delta" | "finish_reason")
            | ("delta member", "role" | "content")
            | ("candidate member", "content" | "finishReason" | "index")
    );
    let one = if kind.ends_with("member") { json!({ name: instance }) } else { instance.clone() };
    (!is_in_all).then(|| (whole(&[one]).to_string(), whole(&[]).to_string()))
}

/// A stream that says one word, with another event before its end.
fn stream(own: Dialect, event: Option<&Value>) -> String {
    let (mut before, behind) = if own == Dialect::Responses {
        let response = |status: &str| json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m"});
        let text = json!({"type": "output_text", "text": "said", "annotations": []});
        let item = |status: &str, content: Value| json!({"type": "message", "id": "msg_9", "role": "assistant", "status": status, "content": content});
        let before = vec![
            json!({"type": "response.created", "response": response("in_progress")}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", json!([]))}),
            json!({"type": "response.content_part.added", "item_id": "msg_9", "output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
            json!({"type": "response.output_text.delta", "item_id": "msg_9", "output_index": 0, "content_index": 0, "delta": "said"}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item("completed", json!([text]))}),
        ];
        let mut end = response("completed");
        end["output"] = json!([item("completed", json!([text]))]);
        end["usage"] = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
        (before, vec![json!({"type": "response.completed", "response": end})])
    } else {
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}});
        let before = vec![
            json!({"type": "message_start", "message": message}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "said"}}),
        ];
        let behind = vec![
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ];
        (before, behind)
    };
    before.extend(event.cloned());
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    before.iter().chain(&behind).map(event).collect()
}

/// What a client gets for this response of an upstream: the body, or the events of the stream.
fn shown(own: Dialect, client: ClientDialect, stream: bool, response: &str) -> Result<Value, String> {
    let question = match client.dialect() {
        Dialect::Responses => json!({"model": "m", "input": "q", "stream": stream, "store": false}),
        Dialect::Interactions => json!({"model": "m", "input": "q", "stream": stream, "store": false}),
        Dialect::Completions => json!({"model": "m", "prompt": "q", "stream": stream}),
        Dialect::Gemini => json!({
            "contents": [{"role": "user", "parts": [{"text": "q"}]}],
            "generationConfig": {"thinkingConfig": {"includeThoughts": true}},
            "toolwire_path": {"model": "m", "stream": stream},
        }),
        _ => {
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}], "stream": stream})
        }
    };
    let conversation = client.side().decode(question.to_string().as_bytes()).unwrap();
    let answering = Answering::new(&conversation, Stamp { seed: 11, created: 1_700_000_000 });
    let rules = Rules::default();
    let upstream = UpstreamDialect::try_from(own).unwrap();
    let reader = upstream.side().reader(&ReaderRules {
        max_frame: rules.limits.max_frame,
        tolerate_truncation: false,
        client: client.dialect(),
    });
    let writer = client.side().writer(&answering);
    let mut pipeline =
        Pipeline::new(&conversation, &rules, KnownFormats::built_in(), reader, writer, &answering);
    let mut out = BytesMut::new();
    pipeline.push(response.as_bytes(), &mut out);
    pipeline.finish(&mut out);
    pipeline.end(&mut out);
    if pipeline.state() != State::Done {
        return Err(pipeline.failure().map(|failure| failure.message().to_owned()).unwrap_or_default());
    }
    let text = String::from_utf8(out.to_vec()).unwrap();
    if !stream {
        return Ok(serde_json::from_str(&text).unwrap());
    }
    // Lines of JSON have no prefix.
    let data = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let data = data.filter_map(|data| data.parse::<Value>().ok());
    Ok(data.collect())
}

/// The fixtures and the tests of the readers.
fn known_streams() -> String {
    let mut all = String::new();
    for folder in [
        "fixtures/responses",
        "fixtures/messages",
        "tests/core/responses",
        "tests/core/messages",
        "tests/support",
    ] {
        collect(&root().join(folder), &mut all);
    }
    all
}

fn collect(folder: &std::path::Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, all);
        } else if let Ok(text) = fs::read_to_string(path) {
            all.push_str(&text);
        }
    }
}
