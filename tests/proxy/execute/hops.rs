//! Tests hops that only call hosted tools.

use serde_json::json;

use super::script::{added, call, end, setup, text, upstream};
use crate::support::client::{Client, WHOLE, weather};

fn said(body: &str) -> String {
    let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok());
    events.filter_map(|event| Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn hosted_call_is_run_and_the_response_goes_on() {
    let first =
        text("Let me look.") + &call(0, "call_0", "search", r#"{"query":"rain"}"#) + &end("tool_calls");
    let (upstream, asked) = upstream([first, text("It rains.") + &end("stop")]).await;
    let proxy = setup(&upstream, "").start().await;
    let request = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}]});
    let body = Client::new().chat(&proxy, request.to_string()).await.rest().await;
    assert_eq!(said(&body), "Let me look.\n\nIt rains.", "{body}");
    assert!(!body.contains("tool_calls") && !body.contains("search"), "{body}");
    assert_eq!(body.matches("\"finish_reason\":\"stop\"").count(), 1, "{body}");
    assert_eq!(body.matches("\"role\"").count(), 1, "{body}");
    assert_eq!(body.matches("[DONE]").count(), 1, "{body}");
    assert!(body.contains(r#""prompt_tokens":20"#) && body.contains(r#""total_tokens":26"#), "{body}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0]["tools"][0]["function"]["name"], "search");
    let added = added(&asked[1], 1);
    assert_eq!(added[0]["content"], "Let me look.");
    assert_eq!(added[0]["tool_calls"][0]["function"]["arguments"], r#"{"query":"rain"}"#);
    assert_eq!(added[0]["tool_calls"][0]["id"], added[1]["tool_call_id"]);
    assert_eq!(added[1]["content"], r#"found {"query":"rain"}"#);
    assert_eq!(added.len(), 2);
}

#[tokio::test]
async fn whole_response_has_the_text_of_all_hops() {
    let first = call(0, "call_0", "search", "{}") + &call(1, "call_1", "broken", "{}") + &end("tool_calls");
    let (upstream, asked) = upstream([first, text("Done.") + &end("stop")]).await;
    let proxy = setup(&upstream, "").start().await;
    let response = Client::new().chat(&proxy, WHOLE).await.json().await;
    let choice = &response["choices"][0];
    assert_eq!(choice["message"]["content"], "Done.");
    assert_eq!(choice["finish_reason"], "stop");
    assert!(choice["message"].get("tool_calls").is_none(), "{response}");
    let asked = asked.lock().unwrap();
    let added = added(&asked[1], 1);
    assert_eq!(added[1]["content"], "found {}");
    assert!(added[2]["content"].as_str().unwrap().contains("\"ok\":false"), "{added:?}");
}

#[tokio::test]
async fn hop_with_calls_of_the_client_alone_ends_the_response() {
    let hop = call(0, "call_abcdefgh0123456789", "weather", r#"{"city":"Paris"}"#) + &end("tool_calls");
    let (upstream, asked) = upstream([hop]).await;
    let proxy = setup(&upstream, "").start().await;
    let response = Client::new().chat(&proxy, weather(json!({})).to_string()).await.json().await;
    let choice = &response["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["tool_calls"][0]["id"], "call_abcdefgh0123456789");
    assert_eq!(asked.lock().unwrap().len(), 1);
}
