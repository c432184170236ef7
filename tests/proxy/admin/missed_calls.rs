//! Tests the notice of calls that are written in a format which is not looked for.

use serde_json::{Value, json};

use super::{Ask, KEY, WITH_KEY, event};
use crate::support::{
    client::{Client, weather},
    proxy::{Proxy, Setup},
    soon,
    upstream::{END, Upstream, text},
};
use toolwire::rules::Detect;

const REACT: &str = "Action: weather\\nAction Input: {\\\"city\\\": \\\"Oslo\\\"}";

/// A proxy whose upstream writes what the user asks for: the inside of a JSON string.
async fn proxy(detect: Detect) -> (Upstream, Proxy) {
    let upstream = Upstream::start(|exchange| async move {
        let request: Value = serde_json::from_slice(&exchange.body).unwrap();
        let said = request["messages"][0]["content"].as_str().unwrap().to_owned();
        exchange.stream(text(&said) + END).await
    })
    .await;
    let mut setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    setup.settings.detect = detect;
    (upstream, setup.start().await)
}

/// A request whose response is this text.
fn asking(said: &str) -> Value {
    weather(json!({"stream": true, "messages": [{"role": "user", "content": said}]}))
}

async fn missed(proxy: &Proxy) -> Vec<String> {
    let metrics = Client::new().get(proxy, "/metrics").await.rest().await;
    metrics
        .lines()
        .filter(|line| line.starts_with("toolwire_missed_calls_total{"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn call_in_a_format_that_is_not_looked_for_is_noticed() {
    let (_upstream, proxy) = proxy(Detect::Auto).await;
    let mut feed = Ask::new(&proxy, "GET", "/admin/events").key(KEY).send().await;
    feed.until(": connected\n\n").await;
    let client = Client::new();
    let got = client.chat(&proxy, asking(REACT).to_string()).await.rest().await;
    assert!(got.contains("Action: weather") && got.contains("\"finish_reason\":\"stop\""), "{got}");
    let told = event(&mut feed, "call_missed").await;
    assert!(told.contains("\"format\":\"react\",\"calls\":1"), "{told}");
    assert_eq!(missed(&proxy).await, ["toolwire_missed_calls_total{format=\"react\"} 1"]);
    let row = async {
        loop {
            let (_, list) = Ask::new(&proxy, "GET", "/admin/exchanges").key(KEY).answer().await;
            if list["exchanges"][0]["missed_format"] == "react" {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the mark in the list", row).await;
}

/// The metric after these responses, and after one with a call in the format `react`, which is noticed.
async fn noticed(detect: Detect, requests: &[Value]) -> Vec<String> {
    let (_upstream, proxy) = proxy(detect).await;
    let client = Client::new();
    for request in requests {
        client.chat(&proxy, request.to_string()).await.rest().await;
    }
    let react = async {
        loop {
            client.chat(&proxy, asking(REACT).to_string()).await.rest().await;
            let missed = missed(&proxy).await;
            if missed.iter().any(|line| line.contains("react")) {
                return missed;
            }
        }
    };
    soon("the notice", react).await
}

#[tokio::test]
async fn what_is_found_quoted_or_not_wanted_is_not_noticed() {
    let list = "[weather(city=\\\"Oslo\\\")]";
    let hermes = "<tool_call>{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {}}</tool_call>";
    let (mut none, mut other) = (asking(list), asking(list));
    none["tool_choice"] = json!("none");
    other["tools"][0]["function"]["name"] = json!("other");
    let requests = [asking(hermes), none, other, asking("The weather is fine (mostly).")];
    let missed = noticed(Detect::Auto, &requests).await;
    assert!(matches!(&missed[..], [react] if react.contains("react")), "{missed:?}");
    let missed = noticed(Detect::Formats(vec!["pythonic"]), &[asking(list)]).await;
    assert!(matches!(&missed[..], [react] if react.contains("react")), "{missed:?}");
    let missed = noticed(Detect::Auto, &[asking(list)]).await;
    assert!(missed.iter().any(|line| line.contains("pythonic")), "{missed:?}");
}
