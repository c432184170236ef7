//! Tests request bodies that arrive slowly or exceed the memory budget.

use std::time::Duration;

use crate::support::{
    client::WHOLE,
    http2::{Http2, JSON_POST},
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse, post},
    soon,
    upstream::{Exchange, Upstream, at_once},
};

async fn start(upstream: &Upstream, change: impl FnOnce(&mut Setup)) -> Proxy {
    let mut setup = Setup::new(upstream.address);
    change(&mut setup);
    setup.start().await
}

fn is_late(response: &RawResponse) {
    assert_eq!((response.status, response.header("connection")), (408, Some("close")));
    assert!(response.body.contains("\"code\":\"request_timeout\""), "{}", response.body);
}

#[tokio::test]
async fn request_body_that_misses_its_deadline_is_rejected() {
    let upstream = Upstream::start(at_once).await;
    let proxy = start(&upstream, |setup| setup.limits.body_timeout = Duration::from_millis(200)).await;
    for begun in ["", "{", WHOLE.strip_suffix('}').unwrap()] {
        let mut client = Raw::connect(&proxy).await;
        let request = post(WHOLE, "");
        client.send(request.strip_suffix(WHOLE).unwrap().to_owned() + begun).await;
        is_late(&client.response().await);
        client.closed().await;
    }
    let mut client = Raw::connect(&proxy).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    client
        .send(format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{WHOLE}\r\n0\r\n", WHOLE.len()))
        .await;
    is_late(&client.response().await);
    client.closed().await;
    // The client gets `100 Continue` but then sends no body.
    let mut client = Raw::connect(&proxy).await;
    client.send(format!("{head}expect: 100-continue\r\ncontent-length: 100\r\n\r\n")).await;
    client.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    is_late(&client.response().await);
    client.closed().await;
    assert_eq!(upstream.requests(), 0);
}

/// No pause between two bytes is too long, but the complete body takes too long.
#[tokio::test]
async fn slowly_dripping_request_body_is_rejected() {
    let upstream = Upstream::start(at_once).await;
    let proxy = start(&upstream, |setup| setup.limits.body_timeout = Duration::from_millis(300)).await;
    let mut client = Raw::connect(&proxy).await;
    client.send(post(&" ".repeat(100_000), "").trim_end_matches(' ')).await;
    let dripping = async {
        while client.send_lossy(" ").await {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if client.has_data() {
                break;
            }
        }
    };
    soon("an answer", dripping).await;
    is_late(&client.response().await);
}

#[tokio::test]
async fn http2_request_body_that_misses_its_deadline_is_rejected() {
    let upstream = Upstream::start(at_once).await;
    let proxy = start(&upstream, |setup| setup.limits.body_timeout = Duration::from_millis(200)).await;
    let mut client = Http2::connect(&proxy).await;
    client.request(1, "POST", "/v1/chat/completions", &JSON_POST, 4).await;
    client.data(1, b"{", 0).await;
    assert_eq!(client.status().await, 408);
}

/// Returns a valid request body of about `size` bytes.
fn large(size: usize) -> String {
    WHOLE.replace("hi", &"x".repeat(size))
}

/// Sends the first half of a large body. Returns the client and the unsent half.
async fn half_sent(proxy: &Proxy) -> (Raw, String) {
    let request = post(&large(100_000), "");
    let (begun, rest) = request.split_at(60_000);
    let mut client = Raw::connect(proxy).await;
    client.send(begun).await;
    (client, rest.to_owned())
}

#[tokio::test]
async fn incomplete_bodies_count_against_max_pending_bodies() {
    let upstream = Upstream::start(at_once).await;
    let proxy = start(&upstream, |setup| {
        setup.limits.max_body = 200_000;
        setup.limits.max_pending_bodies = 1_000_000;
        setup.threads = 2;
    })
    .await;
    let mut pending = Vec::new();
    // Together, these exceed the budget. Their connections are on both threads, so it is not determined which of
    // them are refused.
    for _ in 0..40 {
        pending.push(half_sent(&proxy).await);
    }
    let mut refused = 0;
    let mut served = 0;
    for (mut client, rest) in pending {
        client.send_lossy(rest).await;
        let response = client.response().await;
        match response.status {
            200 => served += 1,
            503 => {
                assert_eq!(
                    (response.header("retry-after"), response.header("connection")),
                    (Some("1"), Some("close"))
                );
                assert!(response.body.contains("\"code\":\"overloaded\""), "{}", response.body);
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(refused > 0 && served > 0, "{refused} refused, {served} served");
    // The complete budget is available again.
    for _ in 0..20 {
        let mut client = Raw::connect(&proxy).await;
        client.send(post(&large(150_000), "")).await;
        assert_eq!(client.response().await.status, 200);
    }
}

/// A request's memory counts until the upstream answers, since only then is it certain that the upstream has the
/// body.
#[tokio::test]
async fn bodies_of_requests_awaiting_the_upstream_count_against_max_pending_bodies() {
    let (asked, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut exchange: Exchange| {
        let asked = asked.clone();
        async move {
            asked.send(()).unwrap();
            exchange.gone().await;
            exchange
        }
    })
    .await;
    let proxy = start(&upstream, |setup| {
        setup.limits.max_body = 200_000;
        setup.limits.max_pending_bodies = 300_000;
    })
    .await;
    let mut first = Raw::connect(&proxy).await;
    first.send(post(&large(190_000), "")).await;
    soon("the upstream to be asked", seen.recv()).await;
    let mut second = Raw::connect(&proxy).await;
    second.send(post(&large(190_000), "")).await;
    assert_eq!(second.response().await.status, 503);
    drop(first);
    let asked_again = async {
        loop {
            let mut client = Raw::connect(&proxy).await;
            client.send(post(&large(190_000), "")).await;
            tokio::select! {
                response = client.response() => assert_eq!(response.status, 503),
                _ = seen.recv() => return,
            }
        }
    };
    soon("memory to be free", asked_again).await;
}

/// Bodies on several streams of one connection count like bodies on several connections.
#[tokio::test]
async fn http2_streams_share_max_pending_bodies() {
    let upstream = Upstream::start(at_once).await;
    let proxy = start(&upstream, |setup| {
        setup.limits.max_body = 20_000;
        setup.limits.max_pending_bodies = 40_000;
    })
    .await;
    let mut client = Http2::connect(&proxy).await;
    // The bodies fit into the initial flow-control window of the connection.
    for stream in [1, 3, 5, 7, 9] {
        client.request(stream, "POST", "/v1/chat/completions", &JSON_POST, 4).await;
        client.data(stream, &[b' '; 12_000], 0).await;
    }
    assert_eq!(client.status().await, 503);
}
