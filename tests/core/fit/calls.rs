//! Tests calls to tools that exist in only one API, and their results.

use super::*;

/// Returns what a Chat upstream gets, as `call ID NAME ARGUMENTS`, `result ID TEXT` and `ROLE TEXT`.
fn calls(client: ClientDialect, fields: Value) -> Vec<String> {
    let sent = sent(client, fields, Dialect::Chat).unwrap();
    let mut lines = Vec::new();
    for message in sent["messages"].as_array().unwrap() {
        let text = message["content"].as_str().unwrap_or_default();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let line = format!("call {} {} {}", call["id"], function["name"], function["arguments"]);
            lines.push(line.replace(['"', '\\'], ""));
        }
        match (message["role"].as_str().unwrap(), text) {
            ("tool", text) => {
                lines.push(format!("result {} {text}", message["tool_call_id"].as_str().unwrap()))
            }
            (role, text) if !text.is_empty() => lines.push(format!("{role} {text}")),
            (_, _) => assert!(message["tool_calls"].is_array(), "an empty message: {message}"),
        }
    }
    lines
}

#[test]
fn call_of_any_kind_and_its_output_are_a_call_and_a_result() {
    let cases = [
        (
            json!([
                {"type": "shell_call", "call_id": "c1", "status": "completed", "action": {"commands": ["ls"]}},
                {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a", "stderr": ""}]},
            ]),
            ["call c1 shell {commands:[ls]}", r#"result c1 {"stdout":"a","stderr":""}"#],
        ),
        (
            json!([
                {"type": "local_shell_call", "id": "l1", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
                {"type": "local_shell_call_output", "id": "l1", "output": "a.txt"},
            ]),
            ["call c1 local_shell {command:[ls]}", "result c1 a.txt"],
        ),
        (
            json!([
                {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "create_file", "path": "a"}},
                {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
            ]),
            ["call c1 apply_patch {type:create_file,path:a}", r#"result c1 {"status":"completed"}"#],
        ),
        (
            json!([
                {"type": "program", "id": "p1", "call_id": "c1", "code": "x", "fingerprint": "f"},
                {"type": "program_output", "id": "po", "call_id": "c1", "result": "1", "status": "completed"},
            ]),
            ["call c1 program {code:x}", "result c1 1"],
        ),
        (
            json!([{"type": "mcp_call", "id": "m1", "server_label": "s", "name": "g", "arguments": "{}", "output": "OUT"}]),
            ["call m1 s__g {}", "result m1 OUT"],
        ),
        (
            json!([{"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "x"}}]),
            ["call ws web_search {query:x}", r#"result ws {"status":"completed"}"#],
        ),
        (
            json!([{"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"type": "logs", "logs": "2"}]}]),
            ["call ci code_interpreter {code:1}", r#"result ci {"type":"logs","logs":"2"}"#],
        ),
        (
            json!([
                {"type": "brand_new_call", "call_id": "c1", "x": 1},
                {"type": "brand_new_call_output", "call_id": "c1", "output": "y"},
            ]),
            ["call c1 brand_new {x:1}", "result c1 y"],
        ),
    ];
    for (items, [call, result]) in cases {
        let lines = calls(ClientDialect::Responses, between(items.clone()));
        assert_eq!(lines, ["user q", call, result, "user r"], "{items}");
        // An upstream with the same API gets such items unchanged.
        let sent = sent(ClientDialect::Responses, between(items.clone()), Dialect::Responses).unwrap();
        assert_eq!(sent["input"].as_array().unwrap().len(), 2 + items.as_array().unwrap().len());
        assert_eq!(sent["input"][1]["type"], items[0]["type"]);
    }
}

#[test]
fn blocks_of_servers_are_calls_and_results() {
    let content = json!([
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "title": "T", "url": "https://a", "encrypted_content": "SEALED"}]},
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "g", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [{"type": "text", "text": "G"}]},
        {"type": "text", "text": "b"},
    ]);
    let fields = json!({"messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "F"}]},
    ]});
    let expected = [
        "user q",
        "call srvtoolu_1 web_search {query:x}",
        "assistant a",
        r#"result srvtoolu_1 {"type":"web_search_result","title":"T","url":"https://a"}"#,
        "call mcptoolu_1 s__g {}",
        "result mcptoolu_1 G",
        "call toolu_1 f {}",
        "assistant b",
        "result toolu_1 F",
    ];
    assert_eq!(calls(ClientDialect::Messages, fields), expected);
}

#[test]
fn result_without_its_call_is_text() {
    let items = json!([{"type": "shell_call_output", "call_id": "gone", "output": "a.txt"}]);
    let lines = calls(ClientDialect::Responses, between(items));
    assert_eq!(lines, ["user q", "user [the result of a call of shell_call: a.txt]", "user r"]);
}

#[test]
fn media_of_a_call_go_where_the_api_has_them() {
    let items = json!([
        {"type": "computer_call", "id": "k1", "call_id": "c1", "action": {"type": "click", "x": 1}},
        {"type": "computer_call_output", "call_id": "c1", "output":
            {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}},
    ]);
    let sent = sent(ClientDialect::Responses, between(items), Dialect::Messages).unwrap();
    assert_eq!(sent["messages"][2]["content"][0]["content"][0]["type"], "image", "{sent}");
    let items = json!([{"type": "image_generation_call", "id": "ig", "status": "completed", "result": "iVBORw0KGgo="}]);
    let sent = super::sent(ClientDialect::Responses, between(items), Dialect::Gemini).unwrap();
    assert!(
        sent.to_string().contains(r#""inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}"#),
        "{sent}"
    );
}

#[test]
fn unknown_item_is_told_as_text() {
    let items = json!([{"type": "mcp_approval_response", "approve": true, "approval_request_id": "a1"}]);
    let lines = calls(ClientDialect::Responses, between(items));
    let told = r#"user [mcp_approval_response: {"approve":true,"approval_request_id":"a1"}]"#;
    assert_eq!(lines, ["user q", told, "user r"]);
}
