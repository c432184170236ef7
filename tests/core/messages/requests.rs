//! Tests requests to Messages upstreams.

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::{
        ClientDialect, KeyHeader, UpstreamDialect, UpstreamRequest, UpstreamSide,
        messages::{Effort, LaterSystem, Options},
    },
};

fn chat(fields: Value) -> Conversation {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "?"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    ClientDialect::Chat.side().decode(body.to_string().as_bytes()).unwrap()
}

fn request(options: &Options, conversation: &Conversation) -> (Value, UpstreamRequest) {
    let upstream = UpstreamDialect::Messages(options.clone());
    let request = upstream.side().encode(conversation, &conversation.model);
    (serde_json::from_slice(&request.body).unwrap(), request)
}

fn asked(fields: Value) -> Value {
    request(&Options::default(), &chat(fields)).0
}

fn messages(turns: Value) -> Value {
    asked(json!({ "messages": turns }))["messages"].take()
}

fn image() -> &'static str {
    "data:image/jpg;base64,AAAA"
}

#[test]
fn a_tool_loop_alternates_between_user_and_assistant() {
    let body = asked(json!({"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": image()}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.5}"}},
            {"id": "f.f:1", "type": "function", "function": {"name": "f", "arguments": "no object"}},
            {"id": "c3", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "user", "content": "between"},
        {"role": "tool", "tool_call_id": "f.f:1", "content": ""},
        {"role": "system", "content": "Hurry."},
        {"role": "tool", "tool_call_id": "c3", "content": "ok"},
        {"role": "assistant", "content": "So  \n"}]}));
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}, {"type": "text", "text": "Hurry."}])
    );
    let id = body["messages"][1]["content"][1]["id"].as_str().unwrap();
    assert!(
        id.starts_with("f_f_1_") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
        "{id}"
    );
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1.5}},
                {"type": "tool_use", "id": id, "name": "f", "input": {"input": "no object"}},
                {"type": "tool_use", "id": "c3", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "42"},
                {"type": "tool_result", "tool_use_id": id, "content": ""},
                {"type": "tool_result", "tool_use_id": "c3", "content": "ok"},
                {"type": "text", "text": "between"}]},
            {"role": "assistant", "content": "So"},
        ])
    );
    // The tools in the history are declared, but may not be called.
    assert_eq!(body["tools"], json!([{"name": "f", "input_schema": {"type": "object", "properties": {}}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn empty_messages_are_left_out() {
    assert_eq!(
        messages(json!([
            {"role": "user", "content": "a"}, {"role": "assistant", "content": " \n"}, {"role": "user", "content": "b"},
            {"role": "assistant", "content": null}])),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])
    );
    let only_system = asked(json!({"messages": [{"role": "system", "content": "Go."}]}));
    assert_eq!(only_system["messages"], json!([{"role": "user", "content": "Go."}]));
    assert_eq!(only_system.get("system"), None);
}

#[test]
fn later_system_messages_stay_if_the_model_knows_them() {
    let options = Options { later_system: LaterSystem::Keep, ..Options::default() };
    let conversation =
        chat(json!({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"},
        {"role": "system", "content": "t"}]}));
    let (body, _) = request(&options, &conversation);
    assert_eq!(body["system"], "s");
    assert_eq!(body["messages"][1], json!({"role": "system", "content": "t"}));
}

#[test]
fn calls_of_the_oldest_form_get_ids() {
    assert_eq!(
        messages(json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"}])),
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_0", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "1"}]}])
    );
}

#[test]
fn sampling_is_within_the_ranges_of_the_api() {
    let body = asked(
        json!({"temperature": 1.7, "top_p": 0.5, "stop": ["a", " \n"], "seed": 1, "max_completion_tokens": 9}),
    );
    assert_eq!(
        (&body["temperature"], &body["top_p"], &body["stop_sequences"]),
        (&json!(1), &json!(0.5), &json!(["a"]))
    );
    assert_eq!(body["max_tokens"], 9);
    let (body, request) = request(
        &Options::default(),
        &chat(json!({"temperature": 1, "top_p": 1, "seed": 1, "logit_bias": {}})),
    );
    assert_eq!((body.get("top_p"), &body["max_tokens"]), (None, &json!(8192)));
    assert_eq!(request.dropped, ["logit_bias", "seed"]);
}

#[test]
fn tools_have_schemas_of_objects() {
    let tool = |function: Value| json!({"type": "function", "function": function});
    let body = asked(json!({"tools": [
        tool(json!({"name": "a", "description": "A.", "parameters": {"type": "object", "properties": {"x": {}}}, "strict": true})),
        tool(json!({"name": "b"})),
        tool(json!({"name": "c", "parameters": {"properties": {"y": {}}}})),
        tool(json!({"name": "d", "parameters": {"type": ["object", "null"], "required": []}}))]}));
    assert_eq!(
        body["tools"],
        json!([
            {"name": "a", "description": "A.", "input_schema": {"type": "object", "properties": {"x": {}}}},
            {"name": "b", "input_schema": {"type": "object", "properties": {}}},
            {"name": "c", "input_schema": {"type": "object", "properties": {"y": {}}}},
            {"name": "d", "input_schema": {"type": "object", "required": []}}])
    );
    assert_eq!(body.get("tool_choice"), None);
}

#[test]
fn choices_are_those_of_the_api() {
    let tools = json!([{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}}]);
    let choice = |choice: Value, parallel: bool| {
        let body = asked(json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel}));
        (body["tool_choice"].clone(), body["tools"].as_array().unwrap().len())
    };
    assert_eq!(choice(json!("auto"), true), (Value::Null, 2));
    assert_eq!(choice(json!("auto"), false), (json!({"type": "auto", "disable_parallel_tool_use": true}), 2));
    assert_eq!(choice(json!("required"), true), (json!({"type": "any"}), 2));
    assert_eq!(choice(json!("none"), false), (json!({"type": "none"}), 2));
    let named = json!({"type": "function", "function": {"name": "b"}});
    assert_eq!(
        choice(named.clone(), false),
        (json!({"type": "tool", "name": "b", "disable_parallel_tool_use": true}), 2)
    );
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}});
    assert_eq!(choice(allowed, true), (json!({"type": "any"}), 1));
}

#[test]
fn effort_and_format_are_output_config() {
    let schema = json!({"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}});
    let body = asked(json!({"reasoning_effort": "minimal", "response_format": schema}));
    assert_eq!(
        body["output_config"],
        json!({"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}})
    );
    assert_eq!(asked(json!({"reasoning_effort": "none"}))["thinking"], json!({"type": "disabled"}));
    let thinking = Options { effort: Effort::Thinking, ..Options::default() };
    let of =
        |limit: u64| request(&thinking, &chat(json!({"reasoning_effort": "medium", "max_tokens": limit}))).0;
    assert_eq!(of(8000)["thinking"], json!({"type": "enabled", "budget_tokens": 4096}));
    assert_eq!(of(2000)["thinking"], json!({"type": "enabled", "budget_tokens": 1999}));
    assert_eq!(of(1024).get("thinking"), None);
    let (body, request) = request(
        &Options { effort: Effort::Drop, ..Options::default() },
        &chat(json!({"reasoning_effort": "high", "response_format": {"type": "grammar"}})),
    );
    assert_eq!(
        (body.get("output_config"), request.dropped),
        (None, vec!["reasoning_effort".to_owned(), "response_format".to_owned()])
    );
}

#[test]
fn requests_of_the_same_api_keep_everything() {
    let body = json!({
        "model": "m", "max_tokens": 5, "top_k": 3, "temperature": 0.5, "metadata": {"user_id": "u"},
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 2000}, "context_management": {"edits": []},
        "output_config": {"effort": "max", "x": 1},
        "tools": [
            {"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}, "strict": true},
            {"type": "web_search_20250305", "name": "web_search"}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "file", "file_id": "f"}},
                {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "b", "citations": [{"type": "char_location"}]},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}, "cache_control": {"type": "ephemeral"}},
                {"type": "tool_use", "id": "t2", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "cache_control": {"type": "ephemeral"}, "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]},
                {"type": "tool_result", "tool_use_id": "t2", "content": "y"},
                {"type": "text", "text": "now", "cache_control": {"type": "ephemeral"}}]}],
        "stream": true});
    let conversation = ClientDialect::Messages.side().decode(body.to_string().as_bytes()).unwrap();
    let (encoded, request) = request(&Options::default(), &conversation);
    assert_eq!(encoded, body);
    assert_eq!(request.dropped, Vec::<String>::new());
}

#[test]
fn only_signed_thinking_goes_back() {
    let of = |signature: &str| {
        let body = json!({"model": "m", "max_tokens": 5, "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": signature},
                {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"}]});
        let conversation = ClientDialect::Messages.side().decode(body.to_string().as_bytes()).unwrap();
        let (encoded, request) = request(&Options::default(), &conversation);
        (encoded["messages"][1]["content"].clone(), request.dropped)
    };
    assert_eq!(of("c2ln").0[0], json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}));
    for other in ["", "chat:c2ln"] {
        assert_eq!(of(other), (json!("b"), vec!["messages[].reasoning".to_owned()]), "{other}");
    }
}

#[test]
fn the_key_and_the_version_have_headers_of_their_own() {
    let options = Options::default();
    assert_eq!((options.path(), options.key_header()), ("messages", KeyHeader::Named("x-api-key")));
    assert_eq!(options.headers(), [("anthropic-version", "2023-06-01")]);
}
