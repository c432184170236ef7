//! Tests tools that are declared in the middle of a conversation.

use super::*;

fn names(sent: &Value, pointer: &str) -> Vec<String> {
    let names = sent["tools"].as_array().into_iter().flatten().map(|tool| tool.pointer(pointer).unwrap());
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn tools_that_items_declare_are_declared() {
    let declared = json!([{"type": "function", "name": "found", "parameters": {"type": "object"}}]);
    for items in [
        json!([{"type": "tool_search_call", "call_id": "t1", "arguments": {"q": "x"}},
            {"type": "tool_search_output", "call_id": "t1", "tools": declared}]),
        json!([{"type": "additional_tools", "role": "developer", "tools": declared}]),
    ] {
        let mut fields = between(items.clone());
        fields["tools"] = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
        let sent_to = |upstream| sent(ClientDialect::Responses, fields.clone(), upstream).unwrap();
        assert_eq!(names(&sent_to(Dialect::Chat), "/function/name"), ["f", "found"]);
        assert_eq!(names(&sent_to(Dialect::Messages), "/name"), ["f", "found"]);
        // In Responses, the item itself declares the tool.
        let same = sent_to(Dialect::Responses);
        assert_eq!(names(&same, "/name"), ["f"]);
        assert!(same["input"].to_string().contains("found"));
    }
    let items = json!([{"type": "tool_search_output", "call_id": "t1", "tools": declared}]);
    let mut fields = between(items);
    fields["tools"] = declared.clone();
    let sent = sent(ClientDialect::Responses, fields, Dialect::Chat).unwrap();
    assert_eq!(names(&sent, "/function/name"), ["found"]);
}

#[test]
fn tools_that_a_system_message_adds_and_removes_are_followed() {
    let definition = json!({"name": "late", "input_schema": {"type": "object"}});
    let added =
        json!({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}});
    let removed = json!({"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}});
    let fields = json!({
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "a"}, {"role": "system", "content": [added, removed]}, {"role": "user", "content": "b"}],
    });
    let chat = sent(ClientDialect::Messages, fields.clone(), Dialect::Chat).unwrap();
    assert_eq!(names(&chat, "/function/name"), ["late"]);
    assert_eq!(chat["messages"].as_array().unwrap().len(), 2);
    let messages = sent(ClientDialect::Messages, fields, Dialect::Messages).unwrap();
    assert_eq!(names(&messages, "/name"), ["f"]);
}
