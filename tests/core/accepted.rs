//! Requests that upstreams accept, whatever is in the client's history and declarations.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Part, Turn},
    dialect::{ClientDialect, Dialect, UpstreamDialect},
};

const UPSTREAMS: [Dialect; 5] =
    [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama];

fn decoded(client: ClientDialect, body: &Value) -> Conversation {
    client.side().decode(body.to_string().as_bytes()).unwrap()
}

/// What an upstream of `dialect` gets that knows the model as `model`.
fn sent(dialect: Dialect, conversation: &Conversation, model: &str) -> Value {
    let upstream = UpstreamDialect::try_from(dialect).unwrap();
    let side = upstream.side();
    let conversation = conversation.in_forms(side.name_form(), side.id_form());
    serde_json::from_slice(&side.encode(&conversation, model).body).unwrap()
}

/// All objects in `value`.
fn objects(value: &Value) -> Vec<&Value> {
    let inner: Vec<&Value> = match value {
        Value::Object(members) => members.values().flat_map(objects).collect(),
        Value::Array(elements) => elements.iter().flat_map(objects).collect(),
        _ => Vec::new(),
    };
    value.is_object().then_some(value).into_iter().chain(inner).collect()
}

/// The values of these members, wherever they are, in order.
fn members<'v>(value: &'v Value, keys: &[&str]) -> Vec<&'v Value> {
    objects(value).into_iter().flat_map(|object| keys.iter().filter_map(|key| object.get(key))).collect()
}

fn history(client: ClientDialect, arguments: &str) -> Conversation {
    let (name, id) = ("f", "c1");
    let body = match client.dialect() {
        Dialect::Responses => json!({"model": "m", "input": [{"role": "user", "content": "a"},
            {"type": "function_call", "call_id": id, "name": name, "arguments": arguments, "extra": 1},
            {"type": "function_call_output", "call_id": id, "output": "R"}]}),
        _ => json!({"model": "m", "messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, "extra": 1}]},
            {"role": "tool", "tool_call_id": id, "content": "R"}]}),
    };
    decoded(client, &body)
}

#[test]
fn arguments_that_are_not_an_object_become_one_for_every_upstream() {
    for client in ClientDialect::all().filter(|client| client.dialect() != Dialect::Messages) {
        for upstream in UPSTREAMS {
            for arguments in ["{\"n\":1", "{\"n\":1}{\"n\":2}", "", " ", "null", "[1]", "\"x\"", "{'n': 1}"] {
                let body = sent(upstream, &history(client, arguments), "m");
                let found = members(&body, &["arguments", "args", "input"]);
                let object = found.iter().find_map(|value| match value {
                    Value::String(text) => serde_json::from_str::<Value>(text).ok().filter(Value::is_object),
                    Value::Object(_) => Some((*value).clone()),
                    _ => None,
                });
                let object = object.unwrap_or_else(|| panic!("{client:?} to {upstream}: {body}"));
                let kept = object.to_string().contains(&json!(arguments).to_string());
                assert!(kept || object == json!({}), "{client:?} to {upstream}: {body}");
            }
            let exact = "{\"n\": 1.50, \"é\":\"\\u00e9\"}";
            let body = sent(upstream, &history(client, exact), "m").to_string();
            let text = json!(exact).to_string();
            let is_text = matches!(upstream, Dialect::Chat | Dialect::Responses);
            assert!(!is_text || body.contains(&text), "{client:?} to {upstream}: {body}");
            let kept_members = upstream != client.dialect() || body.contains("\"extra\":1");
            assert!(kept_members, "{client:?} to {upstream}: {body}");
        }
    }
}

/// Two turns, in each two calls with the same two ids.
fn repeated_ids(client: ClientDialect) -> Conversation {
    let (a, b) = ("list_files:0", "list_files:0");
    let body = match client.dialect() {
        Dialect::Responses => {
            let call = |n: u32| json!({"type": "function_call", "call_id": a, "name": "f", "arguments": format!("{{\"n\":{n}}}"), "extra": n});
            let output = |n: u32| json!({"type": "function_call_output", "call_id": a, "output": format!("r{n}"), "extra": n});
            json!({"model": "m", "input": [{"role": "user", "content": "a"}, call(0), call(1), output(0), output(1),
                call(2), output(2)]})
        }
        Dialect::Messages => {
            let call = |n: u32| json!({"type": "tool_use", "id": "x", "name": "f", "input": {"n": n}, "cache_control": {"type": "ephemeral"}});
            let result = |n: u32| json!({"type": "tool_result", "tool_use_id": "x", "content": format!("r{n}"), "cache_control": {"type": "ephemeral"}});
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": [call(0), call(1)]}, {"role": "user", "content": [result(0), result(1)]},
                {"role": "assistant", "content": [call(2)]}, {"role": "user", "content": [result(2)]}]})
        }
        _ => {
            let call = |id: &str, n: u32| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": format!("{{\"n\":{n}}}")}, "extra": n});
            let result =
                |id: &str, n: u32| json!({"role": "tool", "tool_call_id": id, "content": format!("r{n}")});
            json!({"model": "m", "messages": [{"role": "user", "content": "a"},
                {"role": "assistant", "content": null, "tool_calls": [call(a, 0), call(b, 1)]}, result(a, 0), result(b, 1),
                {"role": "assistant", "content": null, "tool_calls": [call(a, 2)]}, result(a, 2)]})
        }
    };
    decoded(client, &body)
}

#[test]
fn call_ids_that_repeat_become_unique_and_results_follow_them() {
    for client in ClientDialect::all() {
        let conversation = repeated_ids(client);
        for upstream in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini] {
            let body = sent(upstream, &conversation, "m");
            let objects = objects(&body);
            let text = |object: &Value, key: &str| object.get(key)?.as_str().map(str::to_owned);
            let calls: Vec<String> = objects
                .iter()
                .filter(|object| object.get("content").is_none())
                .filter_map(|object| {
                    let is_call = object.get("function").is_some()
                        || object.get("input").is_some() && object.get("name").is_some()
                        || object.get("args").is_some()
                        || object.get("arguments").is_some() && object.get("call_id").is_some();
                    text(object, "id").or_else(|| text(object, "call_id")).filter(|_| is_call)
                })
                .collect();
            let results: Vec<String> = objects
                .iter()
                .filter_map(|object| {
                    let is_result = object.get("response").is_some() || object.get("output").is_some();
                    text(object, "tool_call_id").or_else(|| text(object, "tool_use_id")).or_else(|| {
                        text(object, "call_id").or_else(|| text(object, "id")).filter(|_| is_result)
                    })
                })
                .collect();
            assert_eq!(calls.len(), 3, "{client:?} to {upstream}: {body}");
            assert_eq!(calls.iter().collect::<HashSet<_>>().len(), 3, "{client:?} to {upstream}: {body}");
            assert_eq!(calls, results, "{client:?} to {upstream}: {body}");
            if upstream == client.dialect() {
                let kept = members(&body, &["extra", "cache_control"]).len();
                assert!(kept >= 3, "members of calls are kept: {body}");
            }
        }
    }
}

#[test]
fn new_ids_do_not_change_with_the_next_request() {
    let whole = repeated_ids(ClientDialect::Chat);
    for length in 1..whole.turns.len() {
        let turns: Vec<Turn> = whole.turns.iter().take(length).cloned().collect();
        let head = Conversation { turns, ..whole.clone() };
        let ids = |conversation: &Conversation| {
            let side = UpstreamDialect::try_from(Dialect::Messages).unwrap();
            let conversation = conversation.in_forms(side.side().name_form(), side.side().id_form());
            let parts = conversation.turns.iter().flat_map(|turn| turn.parts.clone()).collect::<Vec<Part>>();
            format!("{parts:?}")
        };
        let (head, whole) = (ids(&head), ids(&whole));
        assert!(whole.starts_with(head.trim_end_matches(']')), "{whole}\n{head}");
    }
}

fn roles(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn models_that_take_one_system_message_get_one_at_the_beginning() {
    let codex = json!({"model": "m", "instructions": "I", "input": [
        {"role": "developer", "content": [{"type": "input_text", "text": "P"}]}, {"role": "developer", "content": "A"},
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "x"}, {"role": "system", "content": "L"},
        {"role": "user", "content": "go"}]});
    let claude = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "I\n\nP"}],
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x"},
            {"role": "system", "content": "A"}, {"role": "system", "content": "L"}, {"role": "user", "content": "go"}]});
    let late = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x"},
        {"role": "system", "content": "I\n\nP\n\nA\n\nL"}, {"role": "user", "content": "go"}]});
    let cases =
        [(ClientDialect::Responses, codex), (ClientDialect::Messages, claude), (ClientDialect::Chat, late)];
    for (client, body) in cases {
        for upstream in [Dialect::Chat, Dialect::Ollama] {
            let body = sent(upstream, &decoded(client, &body), "qwen3.6-27b");
            assert_eq!(roles(&body), ["system", "user", "assistant", "user"], "{client:?} to {upstream}");
            assert_eq!(body["messages"][0]["content"], "I\n\nP\n\nA\n\nL", "{client:?} to {upstream}");
        }
    }
}

#[test]
fn other_models_get_only_adjacent_system_messages_at_the_beginning_as_one() {
    let body = json!({"model": "m", "messages": [
        {"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, {"role": "user", "content": "hi"},
        {"role": "system", "content": "L"}, {"role": "system", "content": "M"}]});
    let conversation = decoded(ClientDialect::Chat, &body);
    let all = ["system", "developer", "user", "system", "system"];
    assert_eq!(roles(&sent(Dialect::Chat, &conversation, "gpt-5")), all, "OpenAI takes them all");
    let mut local = UpstreamDialect::try_from(Dialect::Chat).unwrap();
    local.adapt_to_host("localhost");
    let body: Value = serde_json::from_slice(&local.side().encode(&conversation, "m").body).unwrap();
    assert_eq!(roles(&body), ["system", "user", "system", "system"]);
    assert_eq!(body["messages"][0]["content"], "A\n\nB");
}
