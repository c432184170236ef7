//! Tests the tools that this API defines and that clients run, such as `bash_20250124`.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{
    dialect::{Answering, ClientDialect, Dialect, Stamp, UpstreamDialect, fitted, messages::ReaderSettings},
    event::{CallEnd, CallStart, Event, Finish, Runner, Source},
};

use crate::read::read_splits;

fn sent(fields: &Value, dialect: Dialect) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let conversation = ClientDialect::Messages.side().decode(body.to_string().as_bytes()).unwrap();
    let upstream = UpstreamDialect::try_from(dialect).unwrap();
    let fitted = fitted(&conversation, Dialect::Messages, upstream.side()).unwrap();
    serde_json::from_slice(&upstream.side().encode(&fitted, "m").body).unwrap()
}

#[test]
fn tools_of_clients_are_functions_of_the_same_name() {
    for (declaration, members) in [
        (json!({"type": "bash_20250124", "name": "bash"}), &["command", "restart"][..]),
        (
            json!({"type": "bash_20241022", "name": "bash", "cache_control": {"type": "ephemeral"}}),
            &["command"],
        ),
        (
            json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
            &["insert_text", "view_range"],
        ),
        (json!({"type": "text_editor_20250124", "name": "str_replace_editor"}), &["new_str", "insert_line"]),
        (json!({"type": "memory_20250818", "name": "memory"}), &["old_path", "insert_text"]),
        (
            json!({"type": "computer_20241022", "name": "computer", "display_width_px": 8, "display_height_px": 6}),
            &["coordinate"],
        ),
        (
            json!({"type": "computer_20251124", "name": "computer", "display_width_px": 8, "display_height_px": 6, "enable_zoom": true}),
            &["region", "scroll_direction"],
        ),
    ] {
        let fields =
            json!({"tools": [declaration], "tool_choice": {"type": "tool", "name": declaration["name"]}});
        let chat = sent(&fields, Dialect::Chat);
        let function = &chat["tools"][0]["function"];
        assert_eq!(
            (&function["name"], &chat["tool_choice"]["function"]["name"]),
            (&declaration["name"], &declaration["name"])
        );
        for member in members {
            assert!(function["parameters"]["properties"].get(member).is_some(), "{member} {chat}");
        }
        let display = declaration.get("display_width_px").is_some();
        assert_eq!(function["description"].as_str().unwrap().contains("8 x 6"), display);
        // Upstreams of this API get the declaration itself.
        assert_eq!(sent(&fields, Dialect::Messages)["tools"], json!([declaration]));
    }
    let old = json!({"tools": [{"type": "text_editor_20241022", "name": "str_replace_editor"}]});
    assert!(sent(&old, Dialect::Chat).to_string().contains("undo_edit"));
    let new = json!({"tools": [{"type": "text_editor_20250429", "name": "str_replace_based_edit_tool"}]});
    assert!(!sent(&new, Dialect::Chat).to_string().contains("undo_edit"));
}

#[test]
fn tools_of_servers_are_no_functions() {
    for kind in
        ["web_search_20250305", "code_execution_20260521", "bash_new", "computer_toolset_20990101", "bash_1"]
    {
        let fields = json!({"tools": [{"type": kind, "name": "x"}]});
        assert!(sent(&fields, Dialect::Chat).get("tools").is_none(), "{kind}");
        assert_eq!(sent(&fields, Dialect::Messages)["tools"], fields["tools"]);
    }
}

/// A toolset of which one member is disabled.
fn toolset() -> Value {
    json!({"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": false}}})
}

#[test]
fn members_of_a_toolset_are_functions() {
    let used = json!({"type": "tool_use", "id": "toolu_1", "name": "left_click", "toolset_name": "computer", "input": {"coordinate": [1, 2]}});
    let fields = json!({
        "tools": [{"name": "f", "input_schema": {"type": "object"}}, toolset(), {"type": "browser_toolset_20260801"}],
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [used]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]},
        ],
    });
    let chat = sent(&fields, Dialect::Chat);
    let names: Vec<_> = chat["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..3], ["f", "computer__screenshot", "computer__cursor_position"]);
    assert!(!names.contains(&"computer__zoom") && names.contains(&"browser__zoom"));
    assert!(!names.contains(&"browser__javascript_exec"), "it is disabled by default");
    let function = &chat["messages"][1]["tool_calls"][0]["function"];
    assert_eq!(
        (&function["name"], &function["arguments"]),
        (&json!("computer__left_click"), &json!(r#"{"coordinate":[1,2]}"#))
    );
    // Upstreams of this API get the toolsets and the blocks themselves.
    let messages = sent(&fields, Dialect::Messages);
    assert_eq!((&messages["tools"], &messages["messages"][1]["content"][0]), (&fields["tools"], &used));
}

#[test]
fn call_of_a_member_names_its_toolset() {
    for (name, source) in
        [("computer__left_click", Source::Format("hermes")), ("computer__left_click", Source::Native)]
    {
        for stream in [false, true] {
            let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}], "tools": [toolset()], "stream": stream});
            let conversation = ClientDialect::Messages.side().decode(body.to_string().as_bytes()).unwrap();
            let answering = Answering::new(&conversation, Stamp::default());
            let mut writer = ClientDialect::Messages.side().writer(&answering);
            let mut out = BytesMut::new();
            let (name, runner) = (name.into(), Runner::Client);
            let start = CallStart { index: 0, id: "toolu_1".into(), name, runner, source, signature: None };
            writer.event(&Event::CallStart(start), &mut out);
            writer.event(&Event::CallEnd { index: 0, end: CallEnd::Complete }, &mut out);
            writer.event(&Event::Finish(Finish::Calls), &mut out);
            writer.finish(&mut out);
            let out = String::from_utf8(out.to_vec()).unwrap();
            let block = r#"{"type":"tool_use","id":"toolu_1","name":"left_click","input":{},"toolset_name":"computer"}"#;
            assert!(out.contains(block), "{out}");
        }
    }
}

#[test]
fn upstreams_call_of_a_member_keeps_its_toolset() {
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "left_click", "toolset_name": "computer", "input": {}});
    let events = [
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let read = read_splits(ReaderSettings::default(), stream.as_bytes());
    assert!(read.summary().starts_with("toolu_1 computer__left_click {}"), "{}", read.summary());
}
