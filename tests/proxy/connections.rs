//! Tests client connections byte by byte: the order of responses, and when a connection ends.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::support::{
    client::{Client, STREAM, WHOLE, stream_error},
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse, get, post},
    soon,
    upstream::{Exchange, Upstream, at_once, held_once, text},
};

/// A request that a client may send.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Stream,
    Whole,
    Models,
    Head,
    Options,
    Nowhere,
    Mismatch,
}

use Asked::{Head, Mismatch, Models, Nowhere, Options, Stream, Whole};

impl Asked {
    fn bytes(self) -> String {
        match self {
            Stream => post(STREAM, ""),
            Whole => post(WHOLE, ""),
            Models => get("/v1/models"),
            Head => "HEAD /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            Options => "OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            Nowhere => get("/nowhere"),
            Mismatch => post("{", ""),
        }
    }

    async fn is_answered(self, client: &mut Raw) {
        let response = match self {
            Head => client.response_without_body().await,
            _ => client.response().await,
        };
        assert!(response.header("x-request-id").is_some(), "{self:?}");
        assert!(response.header("date").is_some(), "{self:?}");
        assert_eq!(response.header("connection"), None, "{self:?}");
        match self {
            Stream => {
                assert!(
                    response.is_stream() && response.header("transfer-encoding").is_some(),
                    "{}",
                    response.body
                )
            }
            Whole => assert!(is_whole(&response), "{}", response.body),
            Models => assert!(response.body.contains("\"object\":\"list\"")),
            Head => assert!(response.header("content-length").is_some_and(|length| length != "0")),
            Options => assert_eq!((response.status, response.header("allow")), (204, Some("post, options"))),
            Nowhere => assert_eq!(response.status, 404),
            Mismatch => assert_eq!(response.status, 400),
        }
    }
}

fn is_whole(response: &RawResponse) -> bool {
    response.status == 200 && response.header("content-length").is_some() && response.body.contains("hello")
}

const MIXED: [Asked; 11] =
    [Stream, Stream, Models, Whole, Stream, Options, Whole, Mismatch, Head, Nowhere, Stream];

#[tokio::test]
async fn one_connection_serves_all_kinds_of_requests_in_any_order() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    for asked in MIXED.into_iter().chain(MIXED.into_iter().rev()) {
        client.send(asked.bytes()).await;
        asked.is_answered(&mut client).await;
    }
    assert_eq!(upstream.connections(), 1);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_in_any_split() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let bytes: String = MIXED.into_iter().map(Asked::bytes).collect();
    for size in [bytes.len(), 1, 3, 50, 97, 256, 512] {
        let mut client = Raw::connect(&proxy).await;
        client.send_pieces(bytes.as_bytes().chunks(size)).await;
        for asked in MIXED {
            asked.is_answered(&mut client).await;
        }
    }
    let two = Stream.bytes() + &Models.bytes();
    for cut in 1..two.len() {
        let mut client = Raw::connect(&proxy).await;
        let (before, after) = two.as_bytes().split_at(cut);
        client.send_pieces([before, after]).await;
        Stream.is_answered(&mut client).await;
        Models.is_answered(&mut client).await;
    }
}

#[tokio::test]
async fn requests_pipelined_during_a_stream_wait_for_its_end() {
    for size in [1, 7, 4096] {
        let (upstream, go_on) = held_once().await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut client = Raw::connect(&proxy).await;
        client.send(Stream.bytes()).await;
        client.until("first").await;
        let more: String = [Models, Stream, Whole].map(Asked::bytes).concat();
        client.send_pieces(more.as_bytes().chunks(size)).await;
        go_on.notify_one();
        client.until("0\r\n\r\n").await;
        for asked in [Models, Stream, Whole] {
            asked.is_answered(&mut client).await;
        }
    }
}

/// Requests beyond the read-ahead limit stay in the socket buffer until they can be read.
#[tokio::test]
async fn many_requests_pipelined_during_a_stream_are_not_lost() {
    let (upstream, go_on) = held_once().await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    client.send(Stream.bytes()).await;
    client.until("first").await;
    let long = WHOLE.replace("hi", &"x".repeat(10_000));
    for _ in 0..8 {
        client.send(post(&long, "")).await;
    }
    go_on.notify_one();
    client.until("0\r\n\r\n").await;
    for _ in 0..8 {
        Whole.is_answered(&mut client).await;
    }
}

#[tokio::test]
async fn connection_close_is_obeyed() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for options in
        ["connection: close\r\n", "connection: x, Close\r\n", "connection: x\r\nconnection: CLOSE\r\n"]
    {
        for body in [STREAM, WHOLE, "{"] {
            let mut client = Raw::connect(&proxy).await;
            client.send(post(body, options)).await;
            let response = client.response().await;
            assert_eq!(response.header("connection"), Some("close"), "{options}");
            assert!(response.status == if body == "{" { 400 } else { 200 });
            client.closed().await;
        }
    }
    let mut client = Raw::connect(&proxy).await;
    client.send(post(STREAM, "connection: keep-alive, closed\r\n")).await;
    assert_eq!(client.response().await.header("connection"), None);
    client.send(Models.bytes()).await;
    Models.is_answered(&mut client).await;
}

/// HTTP/1.0 has no chunks, so a stream ends with the connection.
#[tokio::test]
async fn http10_response_is_not_chunked() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (body, options) in [(STREAM, ""), (WHOLE, ""), (STREAM, "connection: keep-alive\r\n")] {
        let mut client = Raw::connect(&proxy).await;
        client.send(post(body, options).replace("HTTP/1.1", "HTTP/1.0")).await;
        let response = client.response().await;
        assert_eq!(
            (response.header("transfer-encoding"), response.header("connection")),
            (None, Some("close"))
        );
        assert!(if body == STREAM { response.is_stream() } else { is_whole(&response) }, "{}", response.body);
        client.closed().await;
    }
}

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    for _ in 0..2 {
        let request = post(STREAM, "expect: 100-continue\r\n");
        let (head, body) = request.split_at(request.len() - STREAM.len());
        client.send(head).await;
        assert_eq!(client.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send(body).await;
        Stream.is_answered(&mut client).await;
    }
    // A client may also send the body without waiting.
    client.send(post(STREAM, "expect: 100-continue\r\n")).await;
    let first = client.until("\r\n\r\n").await;
    assert!(first.starts_with("HTTP/1.1 100 ") || first.starts_with("HTTP/1.1 200 "), "{first}");
}

#[tokio::test]
async fn chunked_request_may_be_followed_by_another() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let (one, two) = STREAM.split_at(20);
    let chunks = format!("{:x}\r\n{one}\r\n{:x};x=y\r\n{two}\r\n0\r\nx: y\r\n\r\n", one.len(), two.len());
    let bytes = head.to_owned() + &chunks + &Models.bytes();
    for size in [1, 11, bytes.len()] {
        let mut client = Raw::connect(&proxy).await;
        client.send_pieces(bytes.as_bytes().chunks(size)).await;
        Stream.is_answered(&mut client).await;
        Models.is_answered(&mut client).await;
    }
}

/// The refusal has a content length, so the connection can stay open.
#[tokio::test]
async fn connection_persists_after_a_refusal_of_the_upstream() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        if exchange.body.windows(8).any(|window| window == b"\"stream\"") {
            exchange.whole("500 Oops", "", r#"{"error":{"message":"no"}}"#).await;
            return exchange;
        }
        at_once(exchange).await
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    for _ in 0..3 {
        client.send(Stream.bytes()).await;
        let response = client.response().await;
        assert!(response.status >= 500 && response.header("content-length").is_some(), "{}", response.status);
        assert_eq!((response.header("connection"), response.header("transfer-encoding")), (None, None));
        assert!(response.header("x-request-id").is_some());
    }
    client.send(Models.bytes()).await;
    Models.is_answered(&mut client).await;
}

/// Starts an upstream that runs `before` and then waits until its connection is closed. Also returns notifications
/// of both steps.
async fn left_alone<F>(before: fn(Exchange) -> F) -> (Upstream, Arc<Notify>, Arc<Notify>)
where
    F: Future<Output = Exchange> + Send + 'static,
{
    let (begun, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tell = (begun.clone(), gone.clone());
    let upstream = Upstream::start(move |exchange| {
        let (begun, gone) = tell.clone();
        async move {
            begun.notify_one();
            let mut exchange = before(exchange).await;
            exchange.gone().await;
            gone.notify_one();
            exchange
        }
    })
    .await;
    (upstream, begun, gone)
}

async fn nothing(exchange: Exchange) -> Exchange {
    exchange
}

async fn first(mut exchange: Exchange) -> Exchange {
    exchange.begin().await;
    exchange.piece(text("first")).await;
    exchange
}

async fn flood(mut exchange: Exchange) -> Exchange {
    exchange.begin().await;
    while exchange.piece(text(&"x".repeat(30_000))).await {}
    exchange
}

/// A client that shuts down its sending side counts as disconnected, even if it has sent part of another request.
#[tokio::test]
async fn half_closed_client_aborts_the_request() {
    for more in ["", "GET /v1/mod"] {
        let (upstream, begun, gone) = left_alone(nothing).await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut client = Raw::connect(&proxy).await;
        client.send(Stream.bytes() + more).await;
        soon("the upstream to be asked", begun.notified()).await;
        client.half_close().await;
        soon("the upstream to be left alone", gone.notified()).await;

        let (upstream, _, gone) = left_alone(first).await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut client = Raw::connect(&proxy).await;
        client.send(Stream.bytes() + more).await;
        client.until("first").await;
        client.half_close().await;
        soon("the upstream to be left alone", gone.notified()).await;
        client.rest().await;
    }
}

#[tokio::test]
async fn client_that_leaves_with_a_full_socket_is_noticed() {
    let (upstream, begun, gone) = left_alone(flood).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    client.send(Stream.bytes()).await;
    soon("the upstream to be asked", begun.notified()).await;
    client.until("xxx").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(client);
    soon("the upstream to be left alone", gone.notified()).await;
}

/// The limit applies even if the client does not read. When it does read, it gets the error.
#[tokio::test]
async fn total_timeout_runs_while_the_client_does_not_read() {
    let (upstream, begun, gone) = left_alone(flood).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.timeouts.total = Some(Duration::from_millis(500));
    let proxy = setup.start().await;
    let mut client = Raw::connect_narrow(&proxy).await;
    client.send(Stream.bytes()).await;
    soon("the upstream to be asked", begun.notified()).await;
    soon("the upstream to be left alone", gone.notified()).await;
    let error = stream_error(&client.response().await.body);
    assert_eq!(error["code"], "upstream_timeout");
    client.send(Models.bytes()).await;
    Models.is_answered(&mut client).await;
}

#[tokio::test]
async fn slow_client_keeps_its_connection() {
    const PIECES: usize = 600;
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        for _ in 0..PIECES {
            exchange.piece(text(&"x".repeat(30_000))).await;
        }
        exchange.finished().await
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    // The second request is sent while the first response waits for the client.
    client.send(Stream.bytes()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.send(Whole.bytes() + &Models.bytes()).await;
    let response = client.response().await;
    assert!(response.is_stream() && response.body.matches('x').count() >= PIECES * 30_000);
    let response = client.response().await;
    assert!(response.status == 200 && response.body.len() > PIECES * 30_000, "{}", response.status);
    Models.is_answered(&mut client).await;
}

/// A stream must not overtake or lose earlier responses that are waiting for space in the socket buffer.
#[tokio::test]
async fn own_and_streamed_responses_stay_in_order_through_a_full_socket() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect_narrow(&proxy).await;
    let round = get("/metrics").repeat(3) + &get("/v1/models") + &Stream.bytes();
    client.send(round.repeat(100)).await;
    for _ in 0..100 {
        for _ in 0..3 {
            let response = client.response().await;
            assert!(response.body.contains("toolwire_streams_in_flight"), "{}", response.body);
        }
        Models.is_answered(&mut client).await;
        Stream.is_answered(&mut client).await;
    }
}

#[tokio::test]
async fn stopping_server_closes_idle_connections() {
    let (upstream, go_on) = held_once().await;
    let mut proxy = Setup::new(upstream.address).start().await;
    let mut streaming = Raw::connect(&proxy).await;
    streaming.send(Stream.bytes()).await;
    streaming.until("first").await;
    // These connections are idle after a response by hyper, after a response by toolwire's own code, and before any
    // request.
    let mut listed = Raw::connect(&proxy).await;
    listed.send(Models.bytes()).await;
    Models.is_answered(&mut listed).await;
    let mut streamed = Raw::connect(&proxy).await;
    streamed.send(Stream.bytes()).await;
    go_on.notify_one();
    go_on.notify_one();
    let silent = Raw::connect(&proxy).await;
    let half = a_half_known(&proxy).await;
    // Lets the other streaming client finish.
    go_on.notify_one();
    assert!(streamed.response().await.is_stream());
    proxy.stop();
    for mut idle in [listed, streamed, silent, half] {
        idle.closed().await;
    }
    go_on.notify_one();
    streaming.until("0\r\n\r\n").await;
    streaming.closed().await;
    soon("the server to end", proxy.ended()).await;
}

/// A connection whose protocol is not known yet.
async fn a_half_known(proxy: &Proxy) -> Raw {
    let mut client = Raw::connect(proxy).await;
    client.send("P").await;
    client
}

#[tokio::test]
async fn protocol_is_detected_byte_by_byte() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    client.send_pieces(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".chunks(1)).await;
    // The server's SETTINGS frame: its length, then the frame type 4.
    assert!(client.until("\x04").await.starts_with("\0\0"));
    for begun in ["P", "PR", "PRO", "PRI"] {
        let mut client = Raw::connect(&proxy).await;
        client.send_pieces([begun.as_bytes(), b"ME /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"]).await;
        assert_eq!(client.response().await.status, 405, "{begun}");
    }
}

/// A client that does not complete its request's head in time is disconnected. The clock is paused.
#[tokio::test]
async fn connection_without_a_complete_request_head_times_out() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for begun in ["", "P", "PRI", "G", "POST /v1/chat/completions HTTP/1.1\r\nhost:"] {
        for kept in [false, true] {
            let mut client = Raw::connect(&proxy).await;
            if kept {
                client.send(Stream.bytes()).await;
                Stream.is_answered(&mut client).await;
            }
            client.send(begun).await;
            tokio::time::pause();
            client.closed_without_timeout().await;
            tokio::time::resume();
        }
    }
}

#[tokio::test]
async fn http2_connection_without_a_request_times_out() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for begun in ["PRI * HTTP/2.0\r\n\r\nSM", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut client = Raw::connect(&proxy).await;
        client.send(begun).await;
        tokio::time::pause();
        client.rest_without_timeout().await;
        tokio::time::resume();
    }
    // This client has sent a request, and it answers pings.
    let client = Client::http2();
    let reply = client.chat(&proxy, STREAM).await;
    assert!(reply.rest().await.ends_with("data: [DONE]\n\n"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(200)).await;
    tokio::time::resume();
    let reply = client.chat(&proxy, STREAM).await;
    assert!(reply.rest().await.ends_with("data: [DONE]\n\n"));
}

/// Two servers could read such requests differently, so they are rejected and the connection is closed.
#[tokio::test]
async fn ambiguous_requests_are_rejected() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let hidden = get("/v1/models");
    for lines in [
        "content-length: 5\r\ncontent-length: 6\r\n\r\n",
        "content-length: +5\r\n\r\n",
        "content-length: 5, 6\r\n\r\n",
        "content-length: 0x5\r\n\r\n",
        "transfer-encoding: chunked, identity\r\n\r\n",
        "transfer-encoding: chunkedd\r\n\r\n",
        "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked;x=y\r\n\r\n0\r\n\r\n",
        "transfer-encoding : chunked\r\n\r\n",
        " transfer-encoding: chunked\r\n\r\n",
        "transfer-encoding:\r\n chunked\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n5 5\r\nhello\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "x: a\0b\r\n\r\n",
        "x: a\rb\r\n\r\n",
    ] {
        let mut client = Raw::connect(&proxy).await;
        client
            .send(format!("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{lines}{hidden}{hidden}"))
            .await;
        let rest = client.rest().await;
        assert!(rest.starts_with("HTTP/1.1 400 "), "{lines:?}: {rest}");
        assert!(!rest.contains("\"list\""), "{lines:?}: {rest}");
    }
    assert_eq!(upstream.requests(), 0);
}
