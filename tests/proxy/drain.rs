//! Tests graceful shutdown: new requests are refused, open responses continue, and those still open at the deadline
//! end with an error.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use crate::support::{
    client::{Client, STREAM, chat_request, stream_error},
    http2::{Http2, JSON_POST},
    proxy::Setup,
    raw::{Raw, get, post},
    soon,
    upstream::{Upstream, at_once, held, text},
};

#[tokio::test]
async fn open_responses_finish_and_new_requests_are_refused() {
    for client in [Client::new(), Client::http2()] {
        let go_on = Arc::new(Notify::new());
        let upstream = held(&go_on).await;
        let mut proxy = Setup::new(upstream.address).start().await;
        let mut open = client.chat(&proxy, STREAM).await;
        open.until("first").await;
        proxy.stop();
        // The listeners close immediately.
        let refused = async {
            while Client::new()
                .send(chat_request(&proxy, STREAM))
                .await
                .is_ok_and(|reply| reply.status() == 200)
            {}
        };
        soon("new requests to be refused", refused).await;
        go_on.notify_one();
        assert!(open.rest().await.ends_with("data: [DONE]\n\n"));
        soon("the server to end", proxy.ended()).await;
    }
}

#[tokio::test]
async fn connections_that_wait_to_be_accepted_are_answered() {
    let upstream = Upstream::start(at_once).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    // The server runs on the test's thread, so it cannot accept these connections yet.
    let asked = |_| {
        let mut client = TcpStream::connect(proxy.addresses[0]).unwrap();
        client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        client
    };
    let clients: Vec<_> = (0..32).map(asked).collect();
    proxy.stop();
    soon("the server to end", proxy.ended()).await;
    for mut client in clients {
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply:?}");
    }
}

#[tokio::test]
async fn server_that_will_stop_is_not_ready_and_serves() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.drain_delay = Some(Duration::from_secs(600));
    let mut proxy = setup.start().await;
    let client = Client::new();
    assert_eq!(client.get(&proxy, "/readyz").await.status(), 200);
    proxy.stop();
    let unready = async { while client.get(&proxy, "/readyz").await.status() == 200 {} };
    soon("the server to be unready", unready).await;
    assert!(client.chat(&proxy, STREAM).await.rest().await.ends_with("data: [DONE]\n\n"));
    assert_eq!(Client::new().get(&proxy, "/healthz").await.status(), 200);
}

#[tokio::test]
async fn streams_open_at_the_drain_deadline_end_with_an_error() {
    let upstream = held(&Arc::new(Notify::new())).await;
    for client in [Client::new(), Client::http2()] {
        let mut setup = Setup::new(upstream.address);
        setup.drain_timeout = Duration::from_millis(100);
        let mut proxy = setup.start().await;
        let mut open = client.chat(&proxy, STREAM).await;
        open.until("first").await;
        proxy.stop();
        let body = open.rest().await;
        assert_eq!(stream_error(&body)["code"], "shutting_down", "{body}");
        soon("the server to end", proxy.ended()).await;
    }
}

#[tokio::test]
async fn responses_not_begun_at_the_drain_deadline_are_refused() {
    let asked = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(asked.clone(), |exchange, asked| async move {
        asked.notify_one();
        exchange.silent().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.drain_timeout = Duration::from_millis(100);
    let mut proxy = setup.start().await;
    let client = Client::new();
    let mut reply = std::pin::pin!(client.send(chat_request(&proxy, STREAM)));
    tokio::select! {
        _ = &mut reply => panic!("a response before the upstream sent one"),
        () = soon("the upstream to be asked", asked.notified()) => {}
    }
    proxy.stop();
    let reply = reply.await.unwrap();
    assert_eq!(reply.status(), 503);
    assert_eq!(reply.json().await["error"]["code"], "shutting_down");
    soon("the server to end", proxy.ended()).await;
}

#[tokio::test]
async fn idle_server_stops_at_once() {
    let upstream = held(&Arc::new(Notify::new())).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    // An idle connection that is kept alive.
    client.get(&proxy, "/healthz").await.rest().await;
    let _silent = tokio::net::TcpStream::connect(proxy.addresses[0]).await.unwrap();
    proxy.stop();
    soon("the server to end", proxy.ended()).await;
}

/// The server does not wait for incomplete requests or silent clients.
#[tokio::test]
async fn connections_without_an_open_response_are_closed_at_once() {
    let upstream = Upstream::start(at_once).await;
    for kept in [false, true] {
        for begun in ["G", "GET /v1/models HTTP/1.1\r\n", "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n"] {
            let mut proxy = Setup::new(upstream.address).start().await;
            let mut client = Raw::connect(&proxy).await;
            if kept {
                client.send(post(STREAM, "") + &get("/v1/models")).await;
                assert!(client.response().await.is_stream());
                assert_eq!(client.response().await.status, 200);
            }
            client.send(begun).await;
            // By the time this request is answered, the data sent earlier has been read.
            Client::new().get(&proxy, "/healthz").await.rest().await;
            proxy.stop();
            soon("the server to end", proxy.ended()).await;
            client.closed().await;
        }
    }
}

#[tokio::test]
async fn request_with_an_incomplete_body_is_refused_at_once() {
    let upstream = Upstream::start(at_once).await;
    for headers in ["", "expect: 100-continue\r\n"] {
        let mut proxy = Setup::new(upstream.address).start().await;
        let mut client = Raw::connect(&proxy).await;
        let request = post(STREAM, headers);
        let (begun, _) = request.split_at(request.len() - STREAM.len());
        client.send(begun).await;
        if headers.is_empty() {
            client.send("{\"model\":").await;
            Client::new().get(&proxy, "/healthz").await.rest().await;
        } else {
            client.until("100 Continue\r\n\r\n").await;
        }
        proxy.stop();
        let response = client.response().await;
        assert_eq!((response.status, response.header("connection")), (503, Some("close")));
        assert!(response.body.contains("shutting_down"), "{}", response.body);
        client.closed().await;
        soon("the server to end", proxy.ended()).await;
    }
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn http2_connections_without_an_open_stream_are_closed_at_once() {
    let upstream = Upstream::start(at_once).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let kept = Client::http2();
    kept.chat(&proxy, STREAM).await.rest().await;
    // None of these clients answers pings. The first has sent no request, the next ones half a head and half a body,
    // and the last one a request that has been answered.
    let _idle = Http2::connect(&proxy).await;
    let mut half_head = Http2::connect(&proxy).await;
    half_head.request(1, "GET", "/v1/models", &[(":authority", "localhost")], 1).await;
    let mut half_body = Http2::connect(&proxy).await;
    half_body.request(1, "POST", "/v1/chat/completions", &JSON_POST, 4).await;
    half_body.data(1, b"{", 0).await;
    let mut ended = Http2::connect(&proxy).await;
    ended.request(1, "GET", "/healthz", &[(":authority", "localhost")], 5).await;
    ended.status().await;
    Client::new().get(&proxy, "/healthz").await.rest().await;
    proxy.stop();
    soon("the server to end", proxy.ended()).await;
}

/// An HTTP/2 client gets its complete response even if it never acknowledges the end, and then does not delay the
/// shutdown.
#[tokio::test]
async fn http2_stream_that_ends_during_the_drain_is_complete() {
    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let mut client = Http2::connect(&proxy).await;
    client.request(1, "POST", "/v1/chat/completions", &JSON_POST, 4).await;
    client.data(1, STREAM.as_bytes(), 1).await;
    client.status().await;
    proxy.stop();
    go_on.notify_one();
    let rest = client.rest().await;
    assert!(rest.windows(6).any(|window| window == b"[DONE]"));
    soon("the server to end", proxy.ended()).await;
}

/// The limit holds no matter how clients and upstreams behave. The clock is paused, so only timers advance it.
#[tokio::test]
async fn the_drain_never_takes_longer_than_its_limit() {
    const LIMIT: Duration = Duration::from_secs(8);
    let flood = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        while exchange.piece(text(&"x".repeat(30_000))).await {}
        exchange
    })
    .await;
    for reads in [true, false] {
        let silent = held(&Arc::new(Notify::new())).await;
        let upstream = if reads { &silent } else { &flood };
        let mut setup = Setup::new(upstream.address);
        setup.drain_timeout = LIMIT;
        let mut proxy = setup.start().await;
        let mut http1 = Raw::connect_narrow(&proxy).await;
        http1.send(post(STREAM, "")).await;
        http1.until("data: ").await;
        let http2 = Client::http2();
        let mut open = http2.chat(&proxy, STREAM).await;
        open.until("data: ").await;
        let mut unread = Http2::connect(&proxy).await;
        unread.request(1, "POST", "/v1/chat/completions", &JSON_POST, 4).await;
        unread.data(1, STREAM.as_bytes(), 1).await;
        unread.status().await;
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        proxy.stop();
        proxy.ended().await;
        let took = begun.elapsed();
        tokio::time::resume();
        // Timers have a resolution of one millisecond.
        assert!(took <= LIMIT + Duration::from_millis(10), "{took:?}");
    }
}
