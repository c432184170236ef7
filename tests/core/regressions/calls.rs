//! Tests native calls with an ID that already occurs in the history, and native calls that break off, for clients
//! of every dialect.

use bytes::BytesMut;
use serde_json::{Value, json};
use toolwire::{dialect::ClientDialect, rules::Rules};

use crate::support::{
    exchange::{Exchange, request, tools},
    upstream::Speech,
};

fn calls(ids: &[&str]) -> Value {
    let call =
        |id: &&str| json!({"id": id, "type": "function", "function": {"name": "a", "arguments": "{}"}});
    ids.iter().map(call).collect()
}

/// Servers that number their calls from 0 repeat the same IDs in every turn. Claude Code confuses the new call with
/// the old one, which already has a result, and makes the call again and again.
#[test]
fn id_of_a_call_in_the_history_is_not_used_again() {
    let history = json!([
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": null, "tool_calls": calls(&["call_0", "call_1"])},
        {"role": "tool", "tool_call_id": "call_0", "content": "1"},
        {"role": "tool", "tool_call_id": "call_1", "content": "2"},
    ]);
    let declared = tools(["a"], &Value::Null);
    let delta = |index: usize, id: &str| {
        let function = json!({"name": "a", "arguments": "{}"});
        json!(["d", {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}])
    };
    let events = [delta(0, "call_0"), delta(1, "call_2"), json!(["fin", "tool_calls"]), json!(["done"])];
    let stream = Speech::Chat.stream(&events);
    for client in ClientDialect::all() {
        let conversation = request(&json!({"messages": history, "tools": declared}));
        let exchange = Exchange { client, ..Exchange::new(conversation, Rules::default(), Speech::Chat) };
        let (answer, _) = exchange.at_every_cut("ids", &stream);
        let ids: Vec<_> = answer.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 2, "{client:?}");
        assert!(ids[0] != "call_0" && ids[0].starts_with("call_"), "{client:?}: {ids:?}");
        assert_eq!(ids[1], "call_2", "{client:?}");
    }
}

/// Clients run a call as soon as its item or block ends, so the end must not be sent while the response may still
/// fail.
#[test]
fn call_that_breaks_off_with_the_stream_does_not_end() {
    let function = json!({"name": "a", "arguments": "{\"x\":"});
    let call =
        json!(["d", {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}]);
    let stream = Speech::Chat.stream(&[call]);
    for client in ClientDialect::all() {
        let conversation = request(&json!({"tools": tools(["a"], &Value::Null)}));
        let exchange = Exchange { client, ..Exchange::new(conversation, Rules::default(), Speech::Chat) };
        let mut pipeline = exchange.pipeline();
        let mut out = BytesMut::new();
        pipeline.push(&stream, &mut out);
        pipeline.finish(&mut out);
        pipeline.write_failure(&mut out);
        let sent = String::from_utf8(out.to_vec()).expect("UTF-8");
        for end in ["content_block_stop", "arguments.done", "output_item.done", "finish_reason\":\"tool"] {
            assert!(!sent.contains(end), "{client:?}: {end} in {sent}");
        }
        assert!(sent.contains("error"), "{client:?}: {sent}");
    }
}
