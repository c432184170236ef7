//! Tests that each API gets schemas it accepts.

use super::*;

#[test]
fn schemas_with_alternatives_keep_all_parameters() {
    let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
    let schema = json!({"type": "object", "description": "D", "anyOf": [
        {"type": "object", "properties": {"a": text, "k": text}, "required": ["k", "a"]},
        {"type": "object", "properties": {"b": number, "k": text}, "required": ["k", "b"]}]});
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "t", "parameters": schema, "strict": false}, "x": 1}]});
    let conversation = decoded(ClientDialect::Chat, &body);
    let expected = json!({"type": "object", "description": "D", "properties": {"a": text, "k": text, "b": number}, "required": ["k"]});
    assert_eq!(sent(Dialect::Messages, &conversation, "m")["tools"][0]["input_schema"], expected);
    assert_eq!(sent(Dialect::Responses, &conversation, "m")["tools"][0]["parameters"], expected);
    let openai = sent_with(upstream(Dialect::Chat), "api.openai.com", &conversation, "m");
    assert_eq!(
        (&openai["tools"][0]["function"]["parameters"], &openai["tools"][0]["x"]),
        (&expected, &json!(1))
    );
    let other = sent_with(upstream(Dialect::Chat), "localhost", &conversation, "m");
    assert_eq!(other["tools"], body["tools"], "what other servers take is not changed");
}

#[test]
fn schemas_that_an_api_refuses_are_changed_for_its_own_clients() {
    let both = json!({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]});
    let joined = json!({"type": "object", "properties": {"a": {}, "b": {}}});
    let none = json!({"type": "object", "properties": {}});
    let good = json!({"type": "object", "properties": {"a": {"anyOf": [{}, {}]}}, "x": 1});
    for (schema, expected) in [
        (&both, &joined),
        (
            &json!({"type": null, "properties": {"a": {}}}),
            &json!({"type": "object", "properties": {"a": {}}}),
        ),
        (&json!({}), &none),
        (&good, &good),
    ] {
        let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}],
            "tools": [{"name": "t", "input_schema": schema, "cache_control": {"type": "ephemeral"}}]});
        let tool = &sent(Dialect::Messages, &decoded(ClientDialect::Messages, &body), "m")["tools"][0];
        assert_eq!(
            (&tool["input_schema"], &tool["cache_control"]),
            (expected, &json!({"type": "ephemeral"}))
        );
        let body = json!({"model": "m", "input": "a", "tools": [{"type": "function", "name": "t", "parameters": schema, "x": 1}]});
        let tool = &sent(Dialect::Responses, &decoded(ClientDialect::Responses, &body), "m")["tools"][0];
        assert_eq!((&tool["parameters"], &tool["x"]), (expected, &json!(1)));
    }
    let body = json!({"model": "m", "input": "a", "tools": [{"type": "function", "name": "t", "parameters": null},
        {"type": "custom", "name": "c"}, {"type": "function", "name": "u", "parameters": {"type": "object"}}]});
    let tools = &sent(Dialect::Responses, &decoded(ClientDialect::Responses, &body), "m")["tools"];
    assert_eq!([&tools[0]["parameters"], &tools[2]["parameters"]], [&none, &none]);
    assert_eq!(tools[1], json!({"type": "custom", "name": "c"}));
}

#[test]
fn schema_that_is_null_is_that_of_a_tool_without_parameters() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}],
        "tools": [{"type": "function", "function": {"name": "t", "description": "D", "parameters": null}}]});
    let body = sent(Dialect::Chat, &decoded(ClientDialect::Chat, &body), "m");
    let function =
        json!({"name": "t", "description": "D", "parameters": {"type": "object", "properties": {}}});
    assert_eq!(body["tools"][0]["function"], function);
}
