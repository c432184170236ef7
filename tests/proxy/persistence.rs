//! Tests request boundaries: if it is unclear where a request ends, the bytes after it are never executed as
//! another request.

use std::time::Duration;

use crate::support::{
    client::{STREAM, WHOLE},
    proxy::Setup,
    raw::{Raw, get, post},
    upstream::{Upstream, at_once},
};

/// Encodes `body` as one chunk, followed by the final chunk.
fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

fn post_with(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n{body}"
    )
}

/// RFC 9112, section 6.1.
#[tokio::test]
async fn content_length_beside_transfer_encoding_closes_the_connection_after_the_answer() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (body, status) in [(STREAM, 200), (WHOLE, 200), ("{", 400)] {
        for headers in [
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            "Transfer-Encoding: Chunked\r\nContent-Length: 0\r\n",
            "content-length: 5\r\nx: y\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n",
        ] {
            for size in [1, 40, 4096] {
                let mut client = Raw::connect(&proxy).await;
                let bytes = post_with("/v1/chat/completions", headers, &chunked(body)) + &post(WHOLE, "");
                let asked = upstream.requests();
                client.send_pieces(bytes.as_bytes().chunks(size)).await;
                let response = client.response().await;
                assert_eq!(
                    (response.status, response.header("connection")),
                    (status, Some("close")),
                    "{headers}"
                );
                client.closed().await;
                assert_eq!(upstream.requests() - asked, usize::from(status == 200), "{headers}");
            }
        }
    }
}

/// Whether a request is ambiguous depends only on the request itself, not on earlier ones.
#[tokio::test]
async fn kept_connection_is_closed_after_the_first_doubtful_request() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    let doubtful = "content-length: 3\r\ntransfer-encoding: chunked\r\n";
    let bytes = post(STREAM, "")
        + &post_with("/v1/chat/completions", "transfer-encoding: chunked\r\n", &chunked(WHOLE))
        + &get("/v1/models")
        + &post_with("/v1/chat/completions", doubtful, &chunked(STREAM))
        + &get("/v1/models");
    client.send(bytes).await;
    assert!(client.response().await.is_stream());
    assert_eq!(client.response().await.header("connection"), None);
    assert_eq!(client.response().await.header("connection"), None);
    let last = client.response().await;
    assert!(last.is_stream());
    assert_eq!(last.header("connection"), Some("close"));
    client.closed().await;
}

#[tokio::test]
async fn unread_body_does_not_become_a_request() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["key"];
    let proxy = setup.start().await;
    let hidden = get("/metrics");
    let length = format!("content-length: {}\r\n", hidden.len());
    let in_chunks = "transfer-encoding: chunked\r\n";
    for (path, status) in [
        ("/v1/chat/completions", 401),
        ("/nowhere", 404),
        ("/v1/models", 405),
        ("/metrics", 405),
        ("/v1/models/m", 405),
    ] {
        for (headers, body) in [(&*length, hidden.clone()), (in_chunks, chunked(&hidden))] {
            for size in [1, 4096] {
                let mut client = Raw::connect(&proxy).await;
                let bytes = post_with(path, headers, &body) + &hidden;
                client.send_pieces(bytes.as_bytes().chunks(size)).await;
                let response = client.response().await;
                assert_eq!(
                    (response.status, response.header("connection")),
                    (status, Some("close")),
                    "{path}"
                );
                client.closed().await;
            }
        }
    }
}

/// An upgrade that is refused does not affect the connection.
#[tokio::test]
async fn upgrade_is_ignored() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    for upgrade in ["websocket", "h2c"] {
        for body in [STREAM, WHOLE] {
            let headers =
                format!("connection: upgrade, http2-settings\r\nupgrade: {upgrade}\r\nhttp2-settings: \r\n");
            client.send(post(body, &headers)).await;
            let response = client.response().await;
            assert_eq!((response.status, response.header("connection")), (200, None));
        }
    }
}

#[tokio::test]
async fn malformed_request_chunks_end_the_connection() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let extension = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(100_000));
    let many_extensions =
        "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n \r\n".repeat(1000);
    let trailers = format!("0\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    for body in
        ["zz\r\n", "5\r\nhelloXX0\r\n\r\n", "fffffffffffffffff\r\n", &extension, &many_extensions, &trailers]
    {
        let mut client = Raw::connect(&proxy).await;
        let headers = "transfer-encoding: chunked\r\n";
        client.send_lossy(post_with("/v1/chat/completions", headers, body) + &get("/v1/models")).await;
        let rest = client.rest().await;
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 400 "), "{rest}");
        assert!(!rest.contains("\"list\""), "{rest}");
    }
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn request_body_shorter_than_announced_is_not_a_request() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (headers, body) in [
        (format!("content-length: {}\r\n", WHOLE.len() + 1), WHOLE.to_owned()),
        ("transfer-encoding: chunked\r\n".to_owned(), format!("{:x}\r\n{WHOLE}\r\n0\r\n", WHOLE.len())),
    ] {
        let mut client = Raw::connect(&proxy).await;
        client.send(post_with("/v1/chat/completions", &headers, &body)).await;
        client.half_close().await;
        let rest = client.rest().await;
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 400 "), "{rest}");
    }
    assert_eq!(upstream.requests(), 0);
}

/// Closing a socket with unread bytes resets the connection, which discards data that the client has not read yet.
#[tokio::test]
async fn last_response_arrives_although_the_client_goes_on_sending() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for request in [post(STREAM, "connection: close\r\n"), post(STREAM, "").replace("HTTP/1.1", "HTTP/1.0")] {
        let mut client = Raw::connect(&proxy).await;
        client.send(request + &get("/v1/models").repeat(20_000)).await;
        assert!(client.response().await.is_stream());
        client.closed().await;
    }
}

/// The last response closes the connection while most earlier ones are waiting for space in the socket buffer.
#[tokio::test]
async fn responses_before_the_last_arrive_through_a_full_socket() {
    const ANSWERS: usize = 1000;
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for last in [
        post_with("/nowhere", "content-length: 1000\r\n", "{"),
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        "GET\0\r\n".to_owned(),
    ] {
        let mut client = Raw::connect_narrow(&proxy).await;
        client.send(get("/metrics").repeat(ANSWERS) + &last).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        for _ in 0..ANSWERS {
            let response = client.response().await;
            assert!(response.status == 200 && response.body.ends_with("# EOF\n"));
        }
        let response = client.response().await;
        assert_eq!(response.header("connection"), Some("close"));
        client.closed().await;
    }
}

#[tokio::test]
async fn request_heads_are_limited() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let many = "x: y\r\n".repeat(200);
    let long = format!("x: {}\r\n", "y".repeat(70_000));
    let uri = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(66_000));
    for (request, statuses) in [
        (format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), &[431][..]),
        (format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{long}\r\n"), &[431]),
        (uri, &[414, 431]),
    ] {
        let mut client = Raw::connect(&proxy).await;
        client.send_lossy(request + &get("/v1/models")).await;
        let response = client.response().await;
        assert!(statuses.contains(&response.status), "{}", response.status);
        client.closed().await;
    }
}
