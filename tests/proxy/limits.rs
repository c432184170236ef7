//! Tests slots, queues and size limits.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request},
    proxy::Setup,
    soon,
    upstream::{Upstream, text},
};

/// An upstream whose responses begin immediately. Each added permit lets one of them end.
async fn held(ends: Arc<Semaphore>) -> Upstream {
    Upstream::start(move |mut exchange| {
        let ends = ends.clone();
        async move {
            exchange.begin().await;
            exchange.piece(text("first")).await;
            ends.acquire().await.unwrap().forget();
            exchange.finished().await
        }
    })
    .await
}

#[tokio::test]
async fn slot_is_held_until_the_last_byte_and_the_queue_is_bounded() {
    let ends = Arc::new(Semaphore::new(0));
    let upstream = held(ends.clone()).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.queue.max_concurrent = 1;
    setup.upstream.queue.max_waiting = 1;
    let proxy = setup.start().await;
    let client = Client::new();

    let mut first = client.chat(&proxy, STREAM).await;
    first.until("first").await;
    let second = client.chat(&proxy, WHOLE);
    let mut second = std::pin::pin!(second);
    // Only the metrics show reliably that the second request is queued.
    let line = async {
        while !client
            .get(&proxy, "/metrics")
            .await
            .rest()
            .await
            .contains("waiting_requests{upstream=\"up\"} 1\n")
        {}
    };
    tokio::select! {
        _ = &mut second => panic!("the place is taken"),
        () = soon("the second to stand in line", line) => {}
    }
    let third = client.chat(&proxy, STREAM).await;
    assert_eq!((third.status().as_u16(), third.header("retry-after")), (429, Some("1")));
    assert_eq!(third.json().await["error"]["code"], "rate_limit_exceeded");
    assert_eq!(upstream.requests(), 1);

    ends.add_permits(2);
    assert!(first.rest().await.ends_with("data: [DONE]\n\n"));
    assert_eq!(second.await.status(), 200);
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn queued_stream_gets_keep_alives() {
    let ends = Arc::new(Semaphore::new(0));
    let upstream = held(ends.clone()).await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.queue.max_concurrent = 1;
    setup.limits.keep_alive = std::time::Duration::from_millis(50);
    let proxy = setup.start().await;
    let client = Client::new();
    let mut first = client.chat(&proxy, STREAM).await;
    first.until("first").await;
    let mut second = client.chat(&proxy, STREAM).await;
    second.until(": keep-alive\n\n: keep-alive\n\n").await;
    ends.add_permits(2);
    first.rest().await;
    assert!(second.rest().await.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn oversized_body_is_rejected_and_the_response_arrives() {
    let upstream = held(Arc::new(Semaphore::new(0))).await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.max_body = 1000;
    let proxy = setup.start().await;
    for size in [1001, 5 << 20] {
        let reply = Client::new().send(chat_request(&proxy, vec![b' '; size])).await.unwrap();
        assert_eq!(reply.status(), 413);
        let error = reply.json().await["error"].clone();
        assert_eq!(error["code"], "request_too_large");
        assert_eq!(error["param"], "body");
        assert!(error["message"].as_str().unwrap().contains("1000"), "{error}");
    }
    assert_eq!(upstream.requests(), 0);
}

/// Without a content length, the limit is only reached while the body is being read.
#[tokio::test]
async fn oversized_chunked_body_is_rejected() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let upstream = held(Arc::new(Semaphore::new(0))).await;
    let mut setup = Setup::new(upstream.address);
    setup.limits.max_body = 1000;
    let proxy = setup.start().await;
    let mut stream = tokio::net::TcpStream::connect(proxy.addresses[0]).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(format!("200\r\n{}\r\n", " ".repeat(512)).as_bytes()).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 12];
    soon("the refusal", stream.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
}
