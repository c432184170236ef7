//! Tests what the console's chats tell of hosted calls.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    KEY, TOOLS,
    chats::{begin, events, hello, names, said},
};
use crate::support::{
    proxy::Setup,
    upstream::{END, Exchange, Upstream, text},
};

#[tokio::test]
async fn hosted_calls_are_told_between_the_texts() {
    let upstream = Upstream::start(|exchange: Exchange| async move {
        if exchange.body.windows(13).any(|part| part == b"\"tool_call_id") {
            return exchange.stream(text("done") + END).await;
        }
        let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "echo", "arguments": "{\"text\":\"x\"}"}}]}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        exchange.stream(format!("{}data: {call}\n\ndata: {end}\n\ndata: [DONE]\n\n", text("wait "))).await
    })
    .await;
    let execution = format!("{TOOLS}[admin]\napi_keys = [\"{KEY}\"]\ncapture = \"redacted\"\n");
    let proxy = Setup { execution, ..Setup::new(upstream.address) }.start().await;
    for client in ["chat", "responses", "messages"] {
        let mut events = events(&begin(&proxy, &hello(client)).await.rest().await);
        // A call that arrives at once may have run before its arguments are looked at.
        let written = events.extract_if(.., |(_, data)| data.get("input_text").is_some()).next();
        let expected = [
            "message_start",
            "message_update",
            "tool_use",
            "tool_result",
            "message_update",
            "message_complete",
        ];
        assert_eq!(names(&events), expected, "{client}: {events:?}");
        assert_eq!(said(&events), "wait \n\ndone");
        let (used, result) = (&events[2].1, &events[3].1);
        if let Some((_, written)) = written {
            assert_eq!(written["input_text"], "{\"text\":\"x\"}");
            assert_eq!(written["toolCall"], json!({"id": used["toolCall"]["id"], "name": "echo"}));
        }
        assert_eq!(
            (&used["toolCall"]["name"], &used["toolCall"]["input"]),
            (&json!("echo"), &json!({"text": "x"}))
        );
        assert_eq!((&result["ok"], &result["toolCall"]["id"]), (&json!(true), &used["toolCall"]["id"]));
        assert!(result["result"].as_str().unwrap().contains("\"x\""), "{result}");
        assert_eq!(events[5].1["hop"], 2, "{events:?}");
    }
}

/// An upstream that writes a call to `echo` in two pieces, the second one once `go_on` is notified.
async fn calling_in_two_pieces(go_on: &Arc<Notify>) -> Upstream {
    let go_on = Arc::clone(go_on);
    Upstream::start(move |mut exchange: Exchange| {
        let go_on = Arc::clone(&go_on);
        async move {
            if exchange.body.windows(13).any(|part| part == b"\"tool_call_id") {
                return exchange.stream(text("done") + END).await;
            }
            let delta = |call: Value, finish: Value| {
                let choice = json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish});
                format!("data: {}\n\n", json!({"choices": [choice]}))
            };
            let first = json!({"name": "echo", "arguments": "{\"text\":\"Grüß"});
            exchange.begin().await;
            exchange.piece(delta(json!({"index": 0, "id": "call_1", "function": first}), Value::Null)).await;
            go_on.notified().await;
            let rest = json!({"index": 0, "function": {"arguments": "e\"}"}});
            exchange.piece(delta(rest, json!("tool_calls"))).await;
            exchange.finished().await
        }
    })
    .await
}

#[tokio::test]
async fn arguments_of_hosted_calls_are_told_as_they_are_written() {
    let go_on = Arc::new(Notify::new());
    let upstream = calling_in_two_pieces(&go_on).await;
    let captured =
        |capture: &str| format!("{TOOLS}[admin]\napi_keys = [\"{KEY}\"]\ncapture = \"{capture}\"\n");
    let proxy = Setup { execution: captured("redacted"), ..Setup::new(upstream.address) }.start().await;
    for client in ["chat", "responses", "messages"] {
        let mut page = begin(&proxy, &hello(client)).await;
        // The model has not written the rest yet.
        let begun = page.until("Grüß\"}\n\n").await;
        go_on.notify_one();
        let events = events(&(begun + &page.rest().await));
        let expected = [
            "message_start",
            "tool_use",
            "tool_use",
            "tool_use",
            "tool_result",
            "message_update",
            "message_complete",
        ];
        assert_eq!(names(&events), expected, "{client}: {events:?}");
        let written: String = events.iter().filter_map(|(_, data)| data["input_text"].as_str()).collect();
        assert_eq!(written, "{\"text\":\"Grüße\"}", "{client}");
        let (used, end) = (&events[3].1, &events[6].1);
        assert!(
            events[1..3].iter().all(|(_, data)| data["toolCall"]["id"] == used["toolCall"]["id"]),
            "{events:?}"
        );
        assert_eq!(used["toolCall"]["input"], json!({"text": "Grüße"}));
        assert!(end["ttft_ms"].is_u64(), "{end}");
    }
    // Without captured contents, there are only sizes.
    let proxy = Setup { execution: captured("off"), ..Setup::new(upstream.address) }.start().await;
    go_on.notify_one();
    let events = events(&begin(&proxy, &hello("chat")).await.rest().await);
    assert_eq!(
        names(&events),
        ["message_start", "tool_use", "tool_result", "message_update", "message_complete"]
    );
    assert_eq!(events[1].1["toolCall"]["input"], Value::Null, "{events:?}");
}
