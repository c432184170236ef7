//! Tests hostile clients, and clients that are slow, silent or gone.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::sync::Notify;

use super::metrics;
use crate::support::{
    proxy::Setup,
    soon,
    upstream::{Exchange, Upstream, at_once, held, text},
    websocket::{Received, WebSocket, create, frame},
};

#[tokio::test]
async fn wrong_messages_are_answered_and_the_connection_goes_on() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    for (message, status) in [
        (String::new(), 400),
        ("{".repeat(100_000), 400),
        ("[1]".to_owned(), 400),
        (r#"{"type":"session.update"}"#.to_owned(), 400),
        (r#"{"type":"response.create","input":"hi"}"#.to_owned(), 400),
        (create(json!({"input": []})), 400),
        (create(json!({"input": "hi", "background": true})), 400),
        (create(json!({"input": "hi", "generate": 1})), 400),
        (create(json!({"input": "hi", "stream_id": "a b"})), 400),
        (create(json!({"input": "hi", "Model": "other"})), 400),
        (create(json!({"input": "hi", "model": "no such model"})), 404),
        (create(json!({"input": "hi", "previous_response_id": "resp_\u{0}"})), 400),
    ] {
        socket.text(&message).await;
        let event = socket.event().await;
        assert_eq!(
            (&event["type"], &event["status"]),
            (&json!("error"), &json!(status)),
            "{message:.80}: {event}"
        );
        assert!(event["error"]["message"].is_string() && event["error"]["type"].is_string(), "{event}");
    }
    socket.create(json!({"input": "hi"})).await;
    socket.response().await;
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn violations_of_the_protocol_close_the_connection() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (bytes, code) in [
        (frame(0x82, b"binary"), 1003),
        (frame(0x81, b"\xff"), 1007),
        (vec![0x81, 2, b'h', b'i'], 1002),
        (frame(0x83, b"reserved"), 1002),
        (frame(0xc1, b"compressed"), 1002),
    ] {
        let mut socket = WebSocket::connect(&proxy, "").await;
        socket.raw(bytes).await;
        socket.closed(code).await;
    }
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "hi"})).await;
    socket.response().await;
}

#[tokio::test]
async fn message_at_the_limit_is_read_and_a_larger_one_is_not() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.max_body = 4096;
    let proxy = setup.start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    let spare = create(json!({"input": ""})).len();
    socket.create(json!({"input": "x".repeat(4096 - spare)})).await;
    socket.response().await;
    for fragments in [1, 100] {
        let mut socket = WebSocket::connect(&proxy, "").await;
        let message = create(json!({"input": "x".repeat(4097 - spare)}));
        let pieces: Vec<_> = message.as_bytes().chunks(message.len().div_ceil(fragments)).collect();
        for (place, piece) in pieces.iter().enumerate() {
            let first =
                if place == 0 { 0x01 } else { 0x00 } | if place + 1 == pieces.len() { 0x80 } else { 0 };
            socket.raw_lossy(frame(first, piece)).await;
        }
        let event = socket.event().await;
        assert_eq!((&event["status"], &event["error"]["param"]), (&json!(413), &json!("body")), "{event}");
        socket.closed(1009).await;
    }
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn message_of_many_empty_fragments_is_one_message() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    let message = create(json!({"input": "hi"}));
    socket.raw(frame(0x01, message.as_bytes())).await;
    let empty = frame(0x00, b"").repeat(1000);
    for _ in 0..200 {
        socket.raw(&empty).await;
    }
    socket.raw(frame(0x80, b"")).await;
    socket.response().await;
}

#[tokio::test]
async fn incomplete_message_ends_the_connection() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.body_timeout = Duration::from_millis(200);
    let proxy = setup.start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "hi"})).await;
    socket.response().await;
    let start = frame(0x01, b"{\"type\":");
    socket.raw(start).await;
    let event = socket.event().await;
    assert_eq!((&event["status"], &event["error"]["code"]), (&json!(408), &json!("request_timeout")));
    socket.closed(1008).await;
}

#[tokio::test]
async fn messages_beyond_the_memory_are_refused() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    (setup.limits.max_body, setup.limits.max_pending_bodies) = (100_000, 100_000);
    let proxy = setup.start().await;
    let mut first = WebSocket::connect(&proxy, "").await;
    let half = frame(0x01, &[b' '; 90_000]);
    first.raw(&half).await;
    let mut second = WebSocket::connect(&proxy, "").await;
    let refused = async {
        loop {
            second.text(&json!({"type": "unknown", "padding": "x".repeat(20_000)}).to_string()).await;
            let event = second.event().await;
            if event["status"] != 400 {
                return event;
            }
        }
    };
    let event = soon("the memory to be used up", refused).await;
    assert_eq!(
        (&event["status"], event["headers"]["retry-after"].is_string()),
        (&json!(503), true),
        "{event}"
    );
    drop(first);
    let served = async {
        loop {
            second.text(&create(json!({"input": "x".repeat(20_000)}))).await;
            if second.event().await["type"] == "response.created" {
                break;
            }
        }
    };
    soon("the memory to be returned", served).await;
}

#[tokio::test]
async fn burst_of_requests_is_served_in_order() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    let burst: Vec<u8> = (0..300)
        .flat_map(|number| {
            frame(0x81, create(json!({"input": "hi", "metadata": {"number": number.to_string()}})).as_bytes())
        })
        .collect();
    let mut sent = 0;
    // More than the queue and the sockets hold is sent only as responses are read.
    for number in 0..300 {
        while sent < burst.len() && sent < (number + 40) * burst.len() / 300 {
            let end = (sent + 1000).min(burst.len());
            socket.raw(&burst[sent..end]).await;
            sent = end;
        }
        assert_eq!(socket.response().await["metadata"]["number"], number.to_string());
    }
    assert_eq!(upstream.requests(), 300);
}

#[tokio::test]
async fn lanes_of_a_connection_are_limited() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut socket = WebSocket::connect(&proxy, "").await;
    for lane in 0..32 {
        socket.create(json!({"input": "hi", "stream_id": format!("lane-{lane}")})).await;
        socket.response().await;
    }
    socket.create(json!({"input": "hi", "stream_id": "one-more"})).await;
    let event = socket.event().await;
    assert_eq!(event["error"]["code"], "websocket_stream_limit_reached", "{event}");
    assert_eq!((&event["stream_id"], &event["status"]), (&json!("one-more"), &json!(400)));
    for lane in [json!("lane-7"), json!(null)] {
        socket.create(json!({"input": "hi", "stream_id": lane})).await;
        socket.response().await;
    }
}

/// An upstream that never ends its response. Also returns a notification of the connection's end.
async fn flooding() -> (Upstream, Arc<Notify>) {
    let gone = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(Arc::clone(&gone), |mut exchange: Exchange, gone| async move {
        exchange.begin().await;
        while exchange.piece(text(&"x".repeat(30_000))).await {}
        gone.notify_one();
        exchange
    })
    .await;
    (upstream, gone)
}

#[tokio::test]
async fn client_that_does_not_read_stops_the_upstream_and_is_disconnected() {
    let (upstream, gone) = flooding().await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.write_timeout = Duration::from_millis(300);
    let proxy = setup.start().await;
    let mut socket = WebSocket::connect_narrow(&proxy).await;
    socket.create(json!({"input": "hi"})).await;
    // It still sends, which does not count as reading.
    let pings = async {
        while socket.raw_lossy(frame(0x89, &[b'p'; 125])).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::join!(pings, async { soon("the upstream's request to end", gone.notified()).await });
    let counted = async { while !metrics(&proxy).await.contains("toolwire_client_stalls_total 1\n") {} };
    soon("the stall to be counted", counted).await;
}

#[tokio::test]
async fn many_connections_are_served_side_by_side() {
    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.queue.max_concurrent = 64;
    let proxy = setup.start().await;
    let mut sockets = Vec::new();
    for _ in 0..50 {
        let mut socket = WebSocket::connect(&proxy, "").await;
        socket.create(json!({"input": "hi"})).await;
        sockets.push(socket);
    }
    for socket in &mut sockets {
        socket.until("response.output_text.delta").await;
    }
    let release = async {
        loop {
            go_on.notify_waiters();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ends = async {
        for socket in &mut sockets {
            socket.response().await;
            socket.raw(frame(0x88, b"")).await;
            assert_eq!(socket.next().await, Received::Close(1005));
        }
    };
    tokio::select! {
        () = release => {}
        () = ends => {}
    }
}
