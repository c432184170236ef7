//! Tests requests to Responses upstreams.

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::{ClientDialect, UpstreamDialect, chat::Server, responses::Options},
};

fn encoded(conversation: &Conversation) -> (Value, Vec<String>) {
    let upstream = UpstreamDialect::Responses(Options::default());
    let request = upstream.side().encode(conversation, &conversation.model);
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

fn decoded(client: ClientDialect, body: &Value) -> Conversation {
    client.side().decode(body.to_string().as_bytes()).unwrap()
}

#[test]
fn a_tool_loop_of_chat_becomes_items() {
    let body = json!({"model": "m", "max_tokens": 5, "temperature": 0.5, "stop": ["x"], "reasoning_effort": "low",
        "parallel_tool_calls": false, "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}},
        "tools": [{"type": "function", "function": {"name": "f", "description": "F."}}],
        "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}]},
            {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"}]});
    let (request, dropped) = encoded(&decoded(ClientDialect::Chat, &body));
    assert_eq!(
        request,
        json!({
            "model": "m", "instructions": "Be brief.",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "42"}],
            "tools": [{"type": "function", "name": "f", "description": "F.", "parameters": {"type": "object", "properties": {}}, "strict": false}],
            "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
            "max_output_tokens": 16, "temperature": 0.5, "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "r", "schema": {"type": "object"}}},
            "include": ["reasoning.encrypted_content"], "store": false, "stream": false})
    );
    assert_eq!(dropped, ["messages[].reasoning", "stop"]);
}

#[test]
fn requests_of_the_same_api_keep_everything() {
    let items = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_file", "file_id": "f"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "c2ln"},
        {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "b", "annotations": []}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"}]);
    let body = json!({
        "model": "m", "instructions": "Be brief.", "input": items, "stream": true, "store": false, "max_output_tokens": 50,
        "tools": [{"type": "custom", "name": "sql", "format": {"type": "text"}}, {"type": "web_search", "x": 1}],
        "include": ["web_search_call.action.sources"], "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"verbosity": "low"}, "prompt_cache_key": "k", "truncation": "auto"});
    let (request, dropped) = encoded(&decoded(ClientDialect::Responses, &body));
    let mut expected = body;
    expected["include"].as_array_mut().unwrap().push("reasoning.encrypted_content".into());
    assert_eq!(request, expected);
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn state_of_other_upstreams_stays_behind() {
    let body = |state: &str| {
        json!({"model": "m", "input": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": state},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": "b"},
            {"type": "message", "role": "user", "content": "c"}]})
    };
    let (request, _) = encoded(&decoded(ClientDialect::Responses, &body("c2ln")));
    assert_eq!(request["input"][0], json!({"type": "reasoning", "summary": [], "encrypted_content": "c2ln"}));
    let (request, dropped) = encoded(&decoded(ClientDialect::Responses, &body("messages:c2ln")));
    assert_eq!(request["input"][0]["role"], "assistant");
    assert_eq!(dropped, ["messages[].reasoning"]);
}

fn encoded_for(server: Server, body: &Value) -> (Value, Vec<String>) {
    let upstream = UpstreamDialect::Responses(Options { server, ..Options::default() });
    let request = upstream.side().encode(&decoded(ClientDialect::Responses, body), "m");
    (serde_json::from_slice(&request.body).unwrap(), request.dropped)
}

/// A request with a namespace, and a call to each of its tools in the history.
fn with_namespace() -> Value {
    let function = |name: &str| {
        json!({"type": "function", "name": name, "description": "F.", "defer_loading": true, "strict": true,
            "parameters": {"type": "object", "properties": {}, "additionalProperties": false, "required": []}})
    };
    json!({
        "model": "m", "store": false, "stream": false, "include": ["reasoning.encrypted_content"],
        "tools": [
            {"type": "namespace", "name": "sky", "description": "All about the sky.", "tools": [
                function("weather"), {"type": "custom", "name": "note", "format": {"type": "text"}}]},
            {"type": "namespace", "name": "empty", "description": "Nothing.", "tools": []},
            {"type": "tool_search"}],
        "tool_choice": {"type": "function", "name": "weather", "namespace": "sky"},
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "function_call", "call_id": "c1", "name": "weather", "namespace": "sky", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "note", "namespace": "sky", "input": "x"},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"}],
    })
}

#[test]
fn namespaces_go_to_servers_that_know_them() {
    let body = with_namespace();
    assert_eq!(encoded_for(Server::OpenAi, &body), (body.clone(), Vec::new()));
    for server in [Server::Unknown, Server::Vllm] {
        let (request, _) = encoded_for(server, &body);
        let names: Vec<_> =
            request["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["sky__weather", "sky__note"], "{request}");
        assert!(!request["input"].to_string().contains("namespace"), "{request}");
        assert_eq!(request["tool_choice"], json!({"type": "function", "name": "sky__weather"}));
    }
    let mut allowed = body;
    let weather = json!({"type": "function", "name": "weather", "namespace": "sky"});
    allowed["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": [weather]});
    assert_eq!(encoded_for(Server::OpenAi, &allowed), (allowed.clone(), Vec::new()));
}

#[test]
fn only_shown_tools_of_namespaces_are_declared() {
    let mut conversation = decoded(ClientDialect::Responses, &with_namespace());
    conversation.tools.retain(|tool| tool.name == "sky__note");
    let upstream = UpstreamDialect::Responses(Options { server: Server::OpenAi, ..Options::default() });
    let request: Value = serde_json::from_slice(&upstream.side().encode(&conversation, "m").body).unwrap();
    let tools = request["tools"][0]["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("note")), "{request}");
}

#[test]
fn plain_reasoning_goes_to_servers_that_read_it() {
    let content = json!([{"type": "reasoning_text", "text": "hm"}]);
    let body = json!({"model": "m", "input": [
        {"role": "user", "content": "a"},
        {"type": "reasoning", "id": "rs_7", "summary": [], "content": content},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"}]});
    let expected = json!({"type": "reasoning", "id": "rs_0", "summary": [], "content": content});
    for server in [Server::Vllm, Server::Sglang, Server::LlamaCpp, Server::LmStudio, Server::Ollama] {
        let (request, dropped) = encoded_for(server, &body);
        assert_eq!((&request["input"][1], dropped), (&expected, Vec::new()), "{server:?}");
    }
    for server in [Server::Unknown, Server::OpenAi, Server::Other] {
        let (request, dropped) = encoded_for(server, &body);
        assert_eq!(request["input"][1]["type"], "function_call", "{server:?}");
        assert_eq!(dropped, ["messages[].reasoning"]);
    }
}
