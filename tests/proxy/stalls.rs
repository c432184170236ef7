//! Tests clients that do not read their responses.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::support::{
    client::{Client, STREAM, WHOLE},
    http2::{Http2, JSON_POST},
    proxy::{Proxy, Setup},
    raw::{Raw, get, post},
    soon,
    upstream::{Exchange, Upstream, at_once, text},
};

/// Far shorter than the timeout of [`soon`].
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// An upstream that never ends the first response on a connection. Also returns a notification of the connection's
/// end.
async fn flooding() -> (Upstream, Arc<Notify>) {
    let gone = Arc::new(Notify::new());
    let tell = gone.clone();
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        let tell = tell.clone();
        async move {
            exchange.begin().await;
            while exchange.piece(text(&"x".repeat(30_000))).await {}
            tell.notify_one();
            exchange
        }
    })
    .await;
    (upstream, gone)
}

async fn metrics(proxy: &Proxy) -> String {
    Client::new().get(proxy, "/metrics").await.rest().await
}

async fn counted(proxy: &Proxy, stalls: usize) {
    let line = format!("toolwire_client_stalls_total {stalls}\n");
    let counted = async {
        loop {
            let metrics = metrics(proxy).await;
            if metrics.contains(&line) && metrics.contains("toolwire_streams_in_flight 0\n") {
                return metrics;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let metrics = soon("the stall to be counted", counted).await;
    assert!(metrics.contains("toolwire_client_disconnects_total 0\n"), "{metrics}");
}

#[tokio::test]
async fn client_that_stops_reading_a_stream_is_disconnected() {
    let (upstream, gone) = flooding().await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = WRITE_TIMEOUT;
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    let mut clients = Vec::new();
    for stalls in 1..=3 {
        let mut client = Raw::connect_narrow(&proxy).await;
        client.send(post(STREAM, "")).await;
        clients.push(client);
        soon("the upstream to be left alone", gone.notified()).await;
        counted(&proxy, stalls).await;
    }
}

#[tokio::test]
async fn client_that_stops_reading_an_unstreamed_response_is_disconnected() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        exchange.begin().await;
        for _ in 0..300 {
            exchange.piece(text(&"x".repeat(30_000))).await;
        }
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = WRITE_TIMEOUT;
    let proxy = setup.start().await;
    let mut client = Raw::connect_narrow(&proxy).await;
    client.send(post(WHOLE, "")).await;
    counted(&proxy, 1).await;
}

/// These responses need no upstream, and hyper writes them.
#[tokio::test]
async fn client_that_never_reads_is_disconnected() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = WRITE_TIMEOUT;
    let proxy = setup.start().await;
    let mut client = Raw::connect_narrow(&proxy).await;
    while client.send_lossy(get("/metrics").repeat(100)).await {}
    counted(&proxy, 1).await;
}

#[tokio::test]
async fn http2_stream_with_a_closed_window_is_reset_alone() {
    let (upstream, gone) = flooding().await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = WRITE_TIMEOUT;
    setup.upstream.queue.max_concurrent = 1;
    let proxy = setup.start().await;
    let client = Client::http2();
    for stalls in 1..=2 {
        let mut stalled = client.chat(&proxy, STREAM).await;
        stalled.until("xxx").await;
        soon("the upstream to be left alone", gone.notified()).await;
        counted(&proxy, stalls).await;
        assert_eq!(client.get(&proxy, "/healthz").await.rest().await, "ok\n");
        assert!(stalled.breaks_off().await, "a stream that was reset does not look complete");
    }
}

/// How long requests wait for a slot: twice as long as a client that does not read can occupy it.
const WAIT: Duration = Duration::from_secs(6);

/// An upstream with two slots, and a proxy whose timeouts do not disconnect clients.
async fn with_two_places() -> (Proxy, Upstream) {
    let (upstream, _) = flooding().await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.queue.max_concurrent = 2;
    setup.upstream.queue.wait_timeout = WAIT;
    (setup.start().await, upstream)
}

#[tokio::test]
async fn clients_that_read_nothing_give_up_their_places_to_those_who_wait() {
    let (proxy, _upstream) = with_two_places().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Raw::connect_narrow(&proxy).await;
        client.send(post(STREAM, "")).await;
        clients.push(client);
    }
    let client = Client::new();
    for _ in 0..2 {
        let mut served = client.chat(&proxy, STREAM).await;
        assert_eq!(served.status(), 200);
        served.until("xxx").await;
    }
}

#[tokio::test]
async fn http2_streams_that_are_not_read_give_up_their_places_to_those_who_wait() {
    let (proxy, _upstream) = with_two_places().await;
    let stalled = Client::http2();
    let mut replies = Vec::new();
    for _ in 0..2 {
        let mut reply = stalled.chat(&proxy, STREAM).await;
        reply.until("xxx").await;
        replies.push(reply);
    }
    let mut served = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(served.status(), 200);
    served.until("xxx").await;
}

#[tokio::test]
async fn http2_connection_that_stops_reading_is_closed() {
    let (upstream, gone) = flooding().await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = WRITE_TIMEOUT;
    let proxy = setup.start().await;
    let mut client = Http2::connect(&proxy).await;
    client.request(1, "POST", "/v1/chat/completions", &JSON_POST, 4).await;
    client.data(1, STREAM.as_bytes(), 1).await;
    soon("the upstream to be left alone", gone.notified()).await;
    // The client only sends pings. If it read anything, that would count as progress.
    let closed = async {
        while client.ping().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the connection to be closed", closed).await;
    soon("the end of the answer", async {
        while !metrics(&proxy).await.contains("toolwire_streams_in_flight 0\n") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let metrics = metrics(&proxy).await;
    assert!(!metrics.contains("toolwire_client_stalls_total 0\n"), "{metrics}");
    assert!(metrics.contains("toolwire_client_disconnects_total 0\n"), "{metrics}");
}

/// The client takes longer than the limit in total, but never pauses that long.
#[tokio::test]
async fn slow_client_is_not_disconnected() {
    const PIECES: usize = 200;
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        exchange.begin().await;
        for _ in 0..PIECES {
            exchange.piece(text(&"x".repeat(30_000))).await;
        }
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = Duration::from_secs(1);
    let proxy = setup.start().await;
    let mut client = Raw::connect_narrow(&proxy).await;
    client.send(post(STREAM, "")).await;
    client.read_slowly(PIECES * 15_000, 150_000, Duration::from_millis(150)).await;
    let response = client.response().await;
    assert!(response.is_stream() && response.body.matches('x').count() >= PIECES * 30_000);
}

/// The upstream's silence is not the client's fault. The clock is paused and only advances while all tasks are
/// waiting.
#[tokio::test]
async fn silent_upstream_does_not_count_as_a_stalled_client() {
    let silent = Upstream::start(|mut exchange: Exchange| async move {
        exchange.begin().await;
        exchange.piece(text("first")).await;
        tokio::time::sleep(Duration::from_secs(70)).await;
        exchange.finished().await
    })
    .await;
    for client in [Client::new(), Client::http2()] {
        let proxy = Setup::new(silent.address).start().await;
        let mut reply = client.chat(&proxy, STREAM).await;
        reply.until("first").await;
        tokio::time::pause();
        let rest = reply.rest_without_timeout().await;
        tokio::time::resume();
        assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    }
}
