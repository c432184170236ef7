//! Tests the events about messages and hops in the feed and in the audit file.

use std::{path::Path, pin::pin};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Ask, KEY, WITH_KEY, event};
use crate::support::{
    client::{Client, Reply, STREAM, WHOLE, chat_request},
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream, at_once, text},
};

async fn feed(proxy: &Proxy) -> Reply {
    let mut feed = Ask::new(proxy, "GET", "/admin/events").key(KEY).send().await;
    feed.until(": connected\n\n").await;
    feed
}

/// Returns the names and the data of events, without the statistics that are sent every second.
fn events(text: &str) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(given) = line.strip_prefix("event: ") {
            name = given.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((std::mem::take(&mut name), serde_json::from_str(data).unwrap()));
        }
    }
    events.retain(|(name, _)| name != "metrics");
    events
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

fn only<'e>(events: &'e [(String, Value)], name: &str) -> &'e Value {
    let mut found = events.iter().filter(|(own, _)| own == name);
    let (_, data) = found.next().unwrap_or_else(|| panic!("no {name}: {events:?}"));
    assert!(found.next().is_none(), "{name} twice: {events:?}");
    data
}

async fn refusing(mut exchange: Exchange) -> Exchange {
    let body = r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#;
    exchange.whole("429 Too Many Requests", "content-type: application/json\r\n", body).await;
    exchange
}

/// A proxy that writes its events to `audit.jsonl` in `folder`.
fn filed(upstream: &Upstream, folder: &Path) -> Setup {
    let path = folder.join("audit.jsonl");
    Setup { execution: format!("[execution]\naudit = {path:?}\n"), ..Setup::new(upstream.address) }
}

/// Stops the proxy and returns the events in its audit file.
async fn in_file(mut proxy: Proxy, folder: &Path) -> Vec<(String, Value)> {
    proxy.stop();
    proxy.ended().await;
    drop(proxy);
    let text = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["event"].as_str().unwrap().to_owned(), line)).collect()
}

#[tokio::test]
async fn response_has_its_events_also_without_hosted_tools() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let mut feed = feed(&proxy).await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    let id = reply.header("x-request-id").unwrap().to_owned();
    reply.rest().await;
    let text = event(&mut feed, "message_complete").await;
    let events = events(&text);
    let without_updates: Vec<_> =
        names(&events).into_iter().filter(|name| *name != "message_update").collect();
    assert_eq!(without_updates, ["message_start", "hop_start", "hop_end", "message_complete"], "{text}");
    assert!(events.iter().all(|(_, data)| data["request"] == *id && data["hop"] == 1), "{text}");
    let exchange = events[0].1["exchange"].as_str().unwrap();
    assert!(
        exchange.starts_with("ex_") && events.iter().all(|(_, data)| data["exchange"] == exchange),
        "{text}"
    );
    let start = only(&events, "message_start");
    assert_eq!(
        (&start["model"], &start["client"], &start["upstream"]),
        (&"m".into(), &"chat".into(), &"up".into())
    );
    assert_eq!((&start["key"], &start["tools"]), (&Value::Null, &json!([])));
    assert_eq!(only(&events, "hop_start")["model"], "m");
    assert_eq!(only(&events, "hop_end")["finish"], "stop");
    let complete = only(&events, "message_complete");
    assert!(
        complete["finish"] == "stop" && complete["ms"].is_u64() && complete["ttft_ms"].is_u64(),
        "{text}"
    );
    let (_, update) = events.iter().rfind(|(name, _)| name == "message_update").unwrap();
    assert_eq!((&update["bytes"], &update["tokens"], &update["held"]), (&5.into(), &1.into(), &0.into()));
    assert!(!text.contains("hello"), "contents are not captured: {text}");
}

#[tokio::test]
async fn captured_text_comes_in_pieces_and_without_secrets() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        for piece in ["the key is sk-proj-abc", "defghijklmnop. ", "Keep it."] {
            exchange.piece(text(piece)).await;
        }
        exchange.finished().await
    });
    let upstream = upstream.await;
    let execution = format!("{WITH_KEY}capture = \"redacted\"\n");
    let proxy = Setup { execution, ..Setup::new(upstream.address) }.start().await;
    let mut feed = feed(&proxy).await;
    let mut reply = Client::new().chat(&proxy, STREAM).await;
    reply.until("Keep it.").await;
    reply.rest().await;
    let text = event(&mut feed, "message_complete").await;
    let events = events(&text);
    let pieces =
        events.iter().filter(|(name, _)| name == "message_update").map(|(_, data)| data["content"].as_str());
    let expected = "the key is xxxxxxxxxxxxxxxxxxxxxxxx. Keep it.";
    assert_eq!(pieces.flatten().collect::<String>(), expected, "{text}");
    assert_eq!(only(&events, "message_complete")["content"], expected);
    assert!(!text.contains("sk-proj"), "{text}");
}

#[tokio::test]
async fn refused_request_is_an_error_with_the_code_of_the_client() {
    let upstream = Upstream::start(refusing).await;
    let proxy = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let mut feed = feed(&proxy).await;
    let reply = Client::new().chat(&proxy, WHOLE).await.json().await;
    let text = event(&mut feed, "error").await;
    let events = events(&text);
    assert_eq!(names(&events), ["message_start", "hop_start", "hop_end", "error"], "{text}");
    let error = &only(&events, "error")["error"];
    assert_eq!((&error["code"], &error["retryable"]), (&reply["error"]["code"], &true.into()));
    assert_eq!(only(&events, "hop_end")["finish"], "error");
}

#[tokio::test]
async fn every_begin_has_one_end_in_the_file_however_the_response_ends() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(|mut exchange| async move {
        let asked = String::from_utf8(exchange.body.clone()).unwrap();
        if asked.contains("refuse") {
            return refusing(exchange).await;
        }
        exchange.begin().await;
        exchange.piece(text("first")).await;
        if asked.contains("break") {
            return exchange;
        }
        if asked.contains("hold") {
            return exchange.silent().await;
        }
        exchange.finished().await
    })
    .await;
    let proxy = filed(&upstream, folder.path()).start().await;
    let client = Client::new();
    client.chat(&proxy, STREAM.replace("\"m\"", "\"unknown\"")).await.rest().await;
    for body in [STREAM, WHOLE] {
        for asked in ["hi", "refuse", "break"] {
            client.chat(&proxy, body.replace("hi", asked)).await.rest().await;
        }
    }
    // The client disconnects before the response has ended.
    let mut reply = client.chat(&proxy, STREAM.replace("hi", "hold")).await;
    reply.until("first").await;
    drop(reply);
    let file = in_file(proxy, folder.path()).await;
    let count = |name: &str| file.iter().filter(|(own, _)| own == name).count();
    assert_eq!(count("message_start"), 7, "{file:?}");
    assert_eq!((count("message_complete"), count("error")), (2, 5), "{file:?}");
    assert_eq!(count("hop_start"), count("hop_end"), "{file:?}");
    assert_eq!(count("message_update"), 0, "single pieces are only for live readers");
    let numbers: Vec<_> = file.iter().map(|(_, line)| line["sequence"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[tokio::test]
async fn client_that_leaves_before_the_answer_is_a_cancelled_error() {
    let folder = tempfile::tempdir().unwrap();
    let asked = std::sync::Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(asked.clone(), |exchange, asked| async move {
        asked.notify_one();
        exchange.silent().await
    })
    .await;
    let proxy = filed(&upstream, folder.path()).start().await;
    let client = Client::new();
    {
        let mut reply = pin!(client.send(chat_request(&proxy, STREAM)));
        tokio::select! {
            _ = &mut reply => panic!("nobody has answered"),
            () = soon("the upstream to be asked", asked.notified()) => {}
        }
    }
    drop(client);
    let file = in_file(proxy, folder.path()).await;
    assert_eq!(names(&file), ["message_start", "hop_start", "hop_end", "error"], "{file:?}");
    assert_eq!(only(&file, "error")["error"]["code"], "cancelled");
    assert_eq!(only(&file, "hop_end")["finish"], "cancelled");
}

#[tokio::test]
async fn reader_that_joins_in_the_middle_gets_the_begin_too() {
    let go_on = std::sync::Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(go_on.clone(), |mut exchange, go_on| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        go_on.notified().await;
        exchange.piece(text("second")).await;
        exchange.finished().await
    })
    .await;
    let proxy = Setup { execution: WITH_KEY.to_owned(), ..Setup::new(upstream.address) }.start().await;
    let mut reply = Client::new().chat(&proxy, STREAM).await;
    reply.until("first").await;
    let mut feed = feed(&proxy).await;
    go_on.notify_one();
    reply.rest().await;
    let text = event(&mut feed, "message_complete").await;
    let events = events(&text);
    assert_eq!(names(&events)[..2], ["message_start", "hop_start"], "{text}");
    let (_, update) = events.iter().rfind(|(name, _)| name == "message_update").unwrap();
    assert_eq!(update["bytes"], 11, "all of the text counts: {text}");
}

#[tokio::test]
async fn many_tiny_pieces_make_few_events() {
    const PIECES: usize = 20_000;
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        let piece = text("a").repeat(100);
        for _ in 0..PIECES / 100 {
            exchange.piece(&piece).await;
        }
        exchange.finished().await
    });
    let upstream = upstream.await;
    let execution = format!("{WITH_KEY}capture = \"redacted\"\n");
    let proxy = Setup { execution, ..Setup::new(upstream.address) }.start().await;
    let mut feed = feed(&proxy).await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    let text = event(&mut feed, "message_complete").await;
    let events = events(&text);
    let updates: Vec<_> = events.iter().filter(|(name, _)| name == "message_update").collect();
    assert!(updates.len() < PIECES / 100, "{}", updates.len());
    assert_eq!(updates.last().unwrap().1["tokens"], PIECES);
}
