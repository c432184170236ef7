//! Tests that upstreams get requests they accept, no matter what the client's history and declarations contain.

mod schemas;
mod signatures;

use std::collections::HashSet;

use serde_json::{Value, json};
use toolwire::{
    conversation::{Conversation, Part, Turn},
    dialect::{
        ClientDialect, Dialect, UpstreamDialect,
        chat::{Options, PastReasoning, Server},
    },
};

const UPSTREAMS: [Dialect; 5] =
    [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Ollama];

fn decoded(client: ClientDialect, body: &Value) -> Conversation {
    client.side().decode(body.to_string().as_bytes()).unwrap()
}

/// Returns the request that toolwire sends to an upstream of `dialect` whose name for the model is `model`.
fn sent(dialect: Dialect, conversation: &Conversation, model: &str) -> Value {
    let upstream = UpstreamDialect::try_from(dialect).unwrap();
    let side = upstream.side();
    let conversation = conversation.in_forms(side.name_form(), side.id_form());
    serde_json::from_slice(&side.encode(&conversation, model).body).unwrap()
}

/// Returns all objects in `value`, at any depth.
fn objects(value: &Value) -> Vec<&Value> {
    let inner: Vec<&Value> = match value {
        Value::Object(members) => members.values().flat_map(objects).collect(),
        Value::Array(elements) => elements.iter().flat_map(objects).collect(),
        _ => Vec::new(),
    };
    value.is_object().then_some(value).into_iter().chain(inner).collect()
}

/// Returns the values of all members named in `keys`, at any depth and in order.
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
    // In the others, arguments are objects.
    let has_objects = |client: &ClientDialect| {
        let dialects = [Dialect::Messages, Dialect::Gemini, Dialect::Interactions, Dialect::Completions];
        dialects.contains(&client.dialect())
    };
    for client in ClientDialect::all().filter(|client| !has_objects(client)) {
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
            // Calls of Ollama's API are written anew.
            let is_own = upstream == client.dialect() && upstream != Dialect::Ollama;
            let kept_members = !is_own || body.contains("\"extra\":1");
            assert!(kept_members, "{client:?} to {upstream}: {body}");
        }
    }
}

/// A conversation of two turns whose calls all have the same ID.
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
        Dialect::Gemini => {
            let call =
                |n: u32| json!({"functionCall": {"id": "x", "name": "f", "args": {"n": n}, "extra": n}});
            let result = |n: u32| json!({"functionResponse": {"id": "x", "name": "f", "response": {"output": format!("r{n}")}, "extra": n}});
            json!({"contents": [{"role": "user", "parts": [{"text": "a"}]},
                {"role": "model", "parts": [call(0), call(1)]}, {"role": "user", "parts": [result(0), result(1)]},
                {"role": "model", "parts": [call(2)]}, {"role": "user", "parts": [result(2)]}]})
        }
        Dialect::Interactions => {
            let call =
                |n: u32| json!({"type": "function_call", "id": "x", "name": "f", "arguments": {"n": n}});
            let result =
                |n: u32| json!({"type": "function_result", "call_id": "x", "result": format!("r{n}")});
            json!({"model": "m", "input": [{"type": "text", "text": "a"}, call(0), call(1), result(0), result(1),
                call(2), result(2)]})
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
    for client in ClientDialect::all().filter(|client| *client != ClientDialect::Completions) {
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

/// Returns the request for an upstream at `host`, with the adaptations that toolwire makes for that host.
fn sent_with(mut upstream: UpstreamDialect, host: &str, conversation: &Conversation, model: &str) -> Value {
    upstream.adapt_to_host(host);
    serde_json::from_slice(&upstream.side().encode(conversation, model).body).unwrap()
}

fn upstream(dialect: Dialect) -> UpstreamDialect {
    UpstreamDialect::try_from(dialect).unwrap()
}

#[test]
fn cache_control_of_chat_goes_to_messages_from_each_place() {
    let (five, hour) = (json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"}));
    let body = json!({"model": "m", "cache_control": five,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}, "cache_control": hour},
            {"type": "function", "function": {"name": "g", "cache_control": five}}],
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "S", "cache_control": hour}, {"type": "text", "text": "T"}]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "a", "cache_control": five},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}, "cache_control": five}]},
            {"role": "assistant", "content": "x", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "cache_control": five}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "R", "cache_control": hour}]},
            {"role": "user", "content": "plain", "cache_control": five}]});
    let body = sent(Dialect::Messages, &decoded(ClientDialect::Chat, &body), "m");
    let image =
        json!({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "cache_control": five});
    assert_eq!(body["cache_control"], five);
    assert_eq!((&body["tools"][0]["cache_control"], &body["tools"][1]["cache_control"]), (&hour, &five));
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "S", "cache_control": hour}, {"type": "text", "text": "T"}])
    );
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "a", "cache_control": five}, image]},
            {"role": "assistant", "content": [{"type": "text", "text": "x"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {}, "cache_control": five}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "R", "cache_control": hour},
                {"type": "text", "text": "plain", "cache_control": five}]},
        ])
    );
}

#[test]
fn cache_control_of_messages_goes_to_openrouter_only() {
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let body = json!({"model": "m", "max_tokens": 9,
        "system": [{"type": "text", "text": "S", "cache_control": hour}],
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}, "cache_control": hour}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": hour}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "R", "cache_control": hour}]}]});
    let conversation = decoded(ClientDialect::Messages, &body);
    let body = sent_with(upstream(Dialect::Chat), "openrouter.ai", &conversation, "m");
    let hinted = |text: &str| json!({"type": "text", "text": text, "cache_control": hour});
    assert_eq!(body["tools"][0]["cache_control"], hour);
    let content = |place: usize| body["messages"][place]["content"].clone();
    assert_eq!(content(0), json!([hinted("S")]));
    assert_eq!(content(1), json!([{"type": "text", "text": "a"}, hinted("b")]));
    assert_eq!(content(3), json!([hinted("R")]));
    for host in ["localhost", "api.openai.com", "api.groq.com"] {
        let body = sent_with(upstream(Dialect::Chat), host, &conversation, "m");
        assert!(!body.to_string().contains("cache_control"), "{host}: {body}");
    }
}

#[test]
fn white_space_of_an_indented_body_is_not_part_of_arguments() {
    let written = "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\
        \"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\n   \"command\" : \"a  b\\n\",\n\t\"n\": [ 1.50 , 1e2 ] }}]}]}";
    let conversation = ClientDialect::Messages.side().decode(written.as_bytes()).unwrap();
    let body = sent(Dialect::Chat, &conversation, "m");
    let arguments = &body["messages"][1]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(arguments, "{\"command\":\"a  b\\n\",\"n\":[1.50,1e2]}");
    let text = json!({"model": "m", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [
        {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{ \"a\": 1 }"}}]}]});
    let body = sent(Dialect::Responses, &decoded(ClientDialect::Chat, &text), "m");
    assert_eq!(body["input"][1]["arguments"], "{ \"a\": 1 }", "text stays as it is");
}

#[test]
fn thinking_that_the_client_turns_off_is_off_at_each_upstream() {
    let off = json!({"model": "m", "max_tokens": 99, "thinking": {"type": "disabled"},
        "messages": [{"role": "user", "content": "q"}]});
    let (messages, chat) = (decoded(ClientDialect::Messages, &off), decoded(ClientDialect::Chat, &off));
    let thinking = &off["thinking"];
    for host in ["api.deepseek.com", "api.moonshot.ai"] {
        assert_eq!(&sent_with(upstream(Dialect::Chat), host, &messages, "m")["thinking"], thinking);
    }
    for (host, model, effort) in [
        ("api.openai.com", "gpt-5.2", "none".into()),
        ("api.openai.com", "gpt-5.1-codex", Value::Null),
        ("api.openai.com", "gpt-4o", Value::Null),
        ("generativelanguage.googleapis.com", "gemini-2.5-flash", "none".into()),
        ("generativelanguage.googleapis.com", "gemini-3-pro", Value::Null),
        ("localhost", "gpt-5.2", Value::Null),
    ] {
        let body = sent_with(upstream(Dialect::Chat), host, &messages, model);
        assert_eq!(body["reasoning_effort"], effort, "{model}");
        assert_eq!(body.get("thinking"), None);
    }
    assert_eq!(sent(Dialect::Responses, &messages, "gpt-5.1")["reasoning"], json!({"effort": "none"}));
    assert_eq!(sent(Dialect::Responses, &messages, "o4-mini").get("reasoning"), None);
    let messages_body = sent(Dialect::Messages, &chat, "m");
    assert_eq!(&messages_body["thinking"], thinking, "{messages_body}");
    assert_eq!(&sent(Dialect::Messages, &messages, "m")["thinking"], thinking);
    assert_eq!(&sent(Dialect::Chat, &chat, "m")["thinking"], thinking);
    for conversation in [&messages, &chat] {
        assert_eq!(sent(Dialect::Ollama, conversation, "m")["think"], json!(false));
        let config = |model: &str| {
            sent(Dialect::Gemini, conversation, model)["generationConfig"]["thinkingConfig"].clone()
        };
        assert_eq!(config("gemini-2.5-flash"), json!({"thinkingBudget": 0}));
        assert_eq!(config("gemini-3-flash"), json!({"thinkingLevel": "minimal"}));
        assert_eq!(config("gemini-2.5-pro"), Value::Null, "it cannot be turned off");
    }
}

#[test]
fn result_with_a_reference_is_text_for_gemini() {
    let response = |content: &str| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": content}]});
        let body = sent(Dialect::Gemini, &decoded(ClientDialect::Chat, &body), "m");
        body["contents"][2]["parts"][0]["functionResponse"]["response"].clone()
    };
    for content in [r##"{"$ref":"#/$defs/x"}"##, r##"{"a":[{"b":{"\u0024ref":1}}]}"##, r##"[{"$ref":"x"}]"##]
    {
        assert_eq!(response(content), json!({"output": content}));
    }
    for content in [r#"{"price":"$5","note":"see $ref"}"#, r##"{"$refs":1}"##] {
        assert_eq!(response(content), serde_json::from_str::<Value>(content).unwrap());
    }
}

#[test]
fn past_call_without_arguments_has_none() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "t"}, "x": 1});
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "r"}]});
    let body = sent(Dialect::Chat, &decoded(ClientDialect::Chat, &body), "m");
    let sent = json!({"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}, "x": 1});
    assert_eq!(body["messages"][1]["tool_calls"][0], sent);
}

#[test]
fn past_reasoning_goes_back_under_the_name_that_the_server_reads() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "x", "reasoning_content": "PLAN"}, {"role": "user", "content": "b"}]});
    let conversation = decoded(ClientDialect::Chat, &body);
    for (server, past_reasoning, key) in [
        (Server::Vllm, PastReasoning::Auto, "reasoning"),
        (Server::Ollama, PastReasoning::Auto, "reasoning"),
        (Server::Unknown, PastReasoning::Auto, "reasoning_content"),
        (Server::LlamaCpp, PastReasoning::Auto, "reasoning_content"),
        (Server::Vllm, PastReasoning::ReasoningContent, "reasoning_content"),
        (Server::Unknown, PastReasoning::Reasoning, "reasoning"),
    ] {
        let options = Options { server, past_reasoning, ..Options::default() };
        let request = UpstreamDialect::Chat(options).side().encode(&conversation, "m");
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["messages"][1][key], "PLAN", "{server:?}: {body}");
    }
}
