//! Tests the statistics of the last hours, and the list of open responses.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Ask, KEY, WITH_KEY, event};
use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request},
    proxy::{Proxy, Setup},
    soon,
    upstream::{Upstream, at_once, text},
};

/// Enables the admin API, and adds a client called `team`.
fn tables() -> String {
    format!("{WITH_KEY}[[keys]]\nname = \"team\"\nkey = \"k\"\n")
}

async fn get(proxy: &Proxy, path: &str) -> Value {
    let (status, json) = Ask::new(proxy, "GET", path).key(KEY).answer().await;
    assert_eq!(status, 200, "{json}");
    json
}

async fn chat(proxy: &Proxy, body: &'static str) -> String {
    let mut request = chat_request(proxy, body);
    request.headers_mut().insert("authorization", "Bearer k".parse().unwrap());
    Client::new().send(request).await.unwrap().rest().await
}

/// Waits until the statistics, grouped by `by`, include `count` requests, and returns them. A request is counted
/// shortly after its response has been sent.
async fn figures(proxy: &Proxy, by: &str, count: u64) -> Value {
    let counted = async {
        loop {
            let figures = get(proxy, &format!("/admin/metrics?window=1h&by={by}")).await;
            if figures["totals"]["requests"].as_u64() >= Some(count) {
                return figures;
            }
        }
    };
    soon("the figures", counted).await
}

#[tokio::test]
async fn requests_are_in_the_figures_of_model_key_and_upstream() {
    let upstream = Upstream::start(|mut exchange| async move {
        if String::from_utf8(exchange.body.clone()).unwrap().contains("\"stream\":true") {
            return at_once(exchange).await;
        }
        exchange.whole("429 Too Many Requests", "content-type: application/json\r\n", "{}").await;
        exchange
    })
    .await;
    let proxy = Setup { execution: tables(), ..Setup::new(upstream.address) }.start().await;
    chat(&proxy, STREAM).await;
    chat(&proxy, WHOLE).await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    let by_model = figures(&proxy, "model", 3).await;
    assert_eq!(
        (&by_model["by"], &by_model["window_s"], &by_model["step_s"]),
        (&"model".into(), &3600.into(), &60.into())
    );
    let totals = &by_model["totals"];
    assert_eq!(totals["requests"], 3, "requests for the admin API are not among them: {by_model}");
    assert_eq!(totals["errors"], json!({"rate_limit": 1, "unauthorized": 1}));
    assert!(totals["ttft_ms"]["p50"].is_f64() && totals["duration_ms"]["p95"].is_f64(), "{totals}");
    let names = |figures: &Value| {
        let rows = figures["rows"].as_array().unwrap().iter();
        rows.map(|row| {
            (row["name"].as_str().unwrap().to_owned(), row["totals"]["requests"].as_u64().unwrap())
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(names(&by_model), [("m".to_owned(), 2), ("other".to_owned(), 1)]);
    assert_eq!(names(&figures(&proxy, "key", 3).await), [("other".to_owned(), 1), ("team".to_owned(), 2)]);
    assert_eq!(names(&figures(&proxy, "upstream", 3).await), [("other".to_owned(), 1), ("up".to_owned(), 2)]);
    assert_eq!((&by_model["now"]["requests"], &by_model["now"]["window_s"]), (&3.into(), &60.into()));
}

#[tokio::test]
async fn wrong_window_and_group_are_rejected() {
    let (_upstream, proxy) = super::proxy(WITH_KEY).await;
    for (query, path) in [
        ("by=client", "by"),
        ("by=", "by"),
        ("window=61m", "window"),
        ("window=0s", "window"),
        ("window=1%0d%0a", "window"),
        ("window=99999999999999999999h", "window"),
    ] {
        let (status, error) =
            Ask::new(&proxy, "GET", &format!("/admin/metrics?{query}")).key(KEY).answer().await;
        assert_eq!((status, &error["error"]["path"]), (400, &path.into()), "{query}: {error}");
    }
    assert_eq!(get(&proxy, "/admin/metrics?window=59s").await["window_s"], 60);
    assert_eq!(get(&proxy, "/admin/metrics?window=60m&by=key").await["window_s"], 3600);
    for path in ["/admin/metrics", "/admin/streams"] {
        let (status, _) = Ask::new(&proxy, "GET", path).key("wrong").answer().await;
        assert_eq!(status, 401, "{path}");
    }
}

#[tokio::test]
async fn response_in_progress_is_listed_with_its_state() {
    let go_on = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(Arc::clone(&go_on), |mut exchange, go_on| async move {
        go_on.notified().await;
        exchange.begin().await;
        exchange.piece(text("first words")).await;
        go_on.notified().await;
        exchange.finished().await
    })
    .await;
    let proxy = Setup { execution: tables(), ..Setup::new(upstream.address) }.start().await;
    let mut request = chat_request(&proxy, STREAM);
    request.headers_mut().insert("authorization", "Bearer k".parse().unwrap());
    let client = Client::new();
    let mut asked = std::pin::pin!(client.send(request));
    let listed = async {
        loop {
            let json = get(&proxy, "/admin/streams").await;
            if json["count"] == 1 {
                return json;
            }
        }
    };
    let waiting = tokio::select! {
        _ = &mut asked => panic!("nobody has answered"),
        listed = soon("the response in the list", listed) => listed,
    };
    let stream = &waiting["streams"][0];
    assert_eq!(
        (&stream["state"], &stream["ttft_ms"], &stream["tokens"]),
        (&"waiting".into(), &Value::Null, &0.into())
    );
    assert_eq!(
        (&stream["model"], &stream["target"], &stream["upstream"]),
        (&"m".into(), &"m".into(), &"up".into())
    );
    assert_eq!(
        (&stream["client"], &stream["key"], &stream["hops"]),
        (&"chat".into(), &"team".into(), &1.into())
    );
    go_on.notify_one();
    let mut reply = asked.await.unwrap();
    reply.until("first words").await;
    let streaming = get(&proxy, "/admin/streams").await;
    let stream = &streaming["streams"][0];
    assert_eq!((&stream["state"], &stream["tokens"]), (&"streaming".into(), &3.into()));
    assert!(stream["ttft_ms"].is_u64(), "{stream}");
    assert_eq!(streaming["now"]["running"], 1);
    go_on.notify_one();
    reply.rest().await;
    let over = async { while get(&proxy, "/admin/streams").await["count"] != 0 {} };
    soon("the end of the response", over).await;
}

#[tokio::test]
async fn readers_get_the_streams_and_the_figures_every_second() {
    let (_upstream, proxy) = super::proxy(WITH_KEY).await;
    let mut streams =
        Ask::new(&proxy, "GET", "/admin/streams").key(KEY).header("accept", "text/event-stream").send().await;
    assert_eq!(streams.header("content-type"), Some("text/event-stream; charset=utf-8"));
    for _ in 0..2 {
        let text = event(&mut streams, "streams").await;
        let data = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["count"], &data["streams"]), (&0.into(), &json!([])));
    }
    let mut feed = Ask::new(&proxy, "GET", "/admin/events").key(KEY).send().await;
    for _ in 0..2 {
        let text = event(&mut feed, "metrics").await;
        assert!(text.contains("\"running\":0") && text.contains("\"t\":"), "{text}");
    }
}
