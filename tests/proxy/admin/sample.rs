//! Tests POST `/admin/sample`, which creates the console's sample exchange.

use serde_json::json;

use super::{Ask, KEY, WITH_KEY, proxy};
use crate::support::soon;

const PATH: &str = "/admin/sample";

#[tokio::test]
async fn sample_is_an_exchange_with_a_call_that_was_found_in_text() {
    let (upstream, proxy) = proxy(&format!("{WITH_KEY}capture = \"redacted\"\n")).await;
    let (status, sample) = Ask::new(&proxy, "POST", PATH).key(KEY).json(&json!({})).answer().await;
    assert_eq!(status, 200, "{sample}");
    let id = sample["exchange"].as_str().unwrap();
    let ended = async {
        loop {
            let path = format!("/admin/exchanges/{id}");
            let (_, one) = Ask::new(&proxy, "GET", &path).key(KEY).answer().await;
            if one["exchange"]["state"] != "running" {
                return one;
            }
            tokio::task::yield_now().await;
        }
    };
    let row = soon("the end of the sample", ended).await["exchange"].clone();
    let shown = (&row["state"], &row["model"], &row["upstream"], &row["key"], &row["calls"]);
    assert_eq!(
        shown,
        (&json!("done"), &json!("sample"), &json!("sample"), &json!("console"), &json!(1)),
        "{row}"
    );
    let path = format!("/admin/exchanges/{id}/events");
    let (_, events) = Ask::new(&proxy, "GET", &path).key(KEY).answer().await;
    let call = &events["calls"][0];
    assert_eq!(call["name"], "get_weather", "{events}");
    assert_eq!(call["format"], "hermes", "{call}");
    assert!(call["ranges"]["arguments"].is_array(), "{call}");
    let kinds: Vec<_> = events["rows"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row["out"].as_array().into_iter().flatten())
        .filter_map(|out| out["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"text") && kinds.contains(&"call_start"), "{kinds:?}");
    let text = events.to_string();
    assert!(text.contains("I will look") && text.contains("Oslo"), "{text}");
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn sample_needs_what_other_requests_that_change_something_need() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    assert_eq!(Ask::new(&proxy, "POST", PATH).json(&json!({})).answer().await.0, 401);
    assert_eq!(Ask::new(&proxy, "POST", PATH).key("wrong").json(&json!({})).answer().await.0, 401);
    assert_eq!(Ask::new(&proxy, "GET", PATH).key(KEY).answer().await.0, 405);
    let long = Ask::new(&proxy, "POST", PATH).key(KEY).body("application/json", vec![b' '; (1 << 20) + 1]);
    assert_eq!(long.answer().await.0, 413);
    let (_, list) = Ask::new(&proxy, "GET", "/admin/exchanges").key(KEY).answer().await;
    assert_eq!(list["exchanges"], json!([]));
}
