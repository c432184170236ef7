//! Tests the event feed.

use serde_json::json;

use super::{Ask, KEY, TOOLS, WITH_KEY, event, proxy};
use crate::support::{
    client::{Client, Reply},
    proxy::Proxy,
};

async fn feed(proxy: &Proxy) -> Reply {
    let mut feed = Ask::new(proxy, "GET", "/admin/events").key(KEY).send().await;
    assert_eq!(feed.status(), 200);
    feed.until(": connected\n\n").await;
    feed
}

async fn run(proxy: &Proxy, tool: &str) {
    let path = format!("/admin/tools/{tool}/run");
    let reply =
        Ask::new(proxy, "POST", &path).key(KEY).json(&json!({"input": {"text": "a word"}})).send().await;
    assert_eq!(reply.status(), 200);
}

fn ids(events: &str) -> Vec<String> {
    events.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn feed_has_the_events_of_a_hosted_call_in_order() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let mut feed = feed(&proxy).await;
    assert_eq!(feed.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(feed.header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(feed.header("x-accel-buffering"), Some("no"));
    run(&proxy, "echo").await;
    let result = event(&mut feed, "tool_result").await;
    assert!(result.contains("event: tool_use\n"), "{result}");
    assert!(result.contains("\"ok\":true"), "{result}");
    assert!(!result.contains("a word"), "contents are not captured: {result}");
    let numbers: Vec<u64> =
        ids(&result).iter().map(|id| id.split_once('-').unwrap().1.parse().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers.len() >= 2, "{numbers:?}");
}

#[tokio::test]
async fn captured_contents_are_in_the_feed_without_secrets() {
    let tables = format!("{TOOLS}{WITH_KEY}capture = \"redacted\"\n");
    let (_upstream, proxy) = proxy(&tables).await;
    let mut feed = feed(&proxy).await;
    let body = json!({"input": {"text": format!("a word and {KEY}")}});
    Ask::new(&proxy, "POST", "/admin/tools/echo/run").key(KEY).json(&body).send().await;
    let events = event(&mut feed, "tool_result").await;
    assert!(events.contains("a word") && !events.contains(KEY), "{events}");
}

#[tokio::test]
async fn reader_that_comes_back_misses_nothing() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let mut feed = feed(&proxy).await;
    run(&proxy, "echo").await;
    let events = event(&mut feed, "tool_result").await;
    let last = ids(&events).pop().unwrap();
    drop(feed);
    run(&proxy, "echo").await;
    let mut again =
        Ask::new(&proxy, "GET", "/admin/events").key(KEY).header("last-event-id", &last).send().await;
    let missed = event(&mut again, "tool_result").await;
    assert!(missed.contains("event: tool_use\n") && !missed.contains("event: reset"), "{missed}");
    assert!(!ids(&missed).contains(&last));
    let mut foreign =
        Ask::new(&proxy, "GET", "/admin/events").key(KEY).header("last-event-id", "0badcafe-3").send().await;
    let reset = event(&mut foreign, "reset").await;
    assert!(reset.contains("{\"reason\":\"restarted\"}"), "{reset}");
}

#[tokio::test]
async fn feed_is_kept_alive_and_ends_with_the_server() {
    use crate::support::{
        proxy::Setup,
        upstream::{Upstream, at_once},
    };
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) };
    setup.limits.keep_alive = std::time::Duration::from_millis(20);
    let mut proxy = setup.start().await;
    let mut feed = feed(&proxy).await;
    feed.until(": keep-alive\n\n: keep-alive\n\n").await;
    proxy.stop();
    feed.rest().await;
    proxy.ended().await;
}

#[tokio::test]
async fn feed_works_over_http2() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let ask = Ask::new(&proxy, "GET", "/admin/events").key(KEY);
    let mut feed = Client::http2().send(ask.request).await.unwrap();
    feed.until(": connected\n\n").await;
    run(&proxy, "echo").await;
    feed.until("event: tool_result\n").await;
    let head = Ask::new(&proxy, "HEAD", "/admin/events").key(KEY).send().await;
    assert_eq!(head.rest().await, "");
}
