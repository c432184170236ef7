//! Tests requirements on HTTP gateways that no other test covers. docs/protocols/http1.md lists all of them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request},
    proxy::{NEVER, Setup},
    raw::{Raw, get, post},
    upstream::{END, Exchange, Upstream, answer, at_once, text},
};

/// Returns the names of the fields in a lower-case head.
fn names(head: &str) -> BTreeSet<&str> {
    head.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect()
}

#[tokio::test]
async fn request_headers_are_not_forwarded() {
    let seen = Arc::new(Mutex::new(String::new()));
    let head = seen.clone();
    let upstream = Upstream::start(move |exchange: Exchange| {
        *head.lock().unwrap() = exchange.head.clone();
        at_once(exchange)
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    let headers = "connection: keep-alive, x-hop, te\r\nx-hop: 1\r\nte: trailers\r\nkeep-alive: timeout=5\r\n\
        proxy-connection: keep-alive\r\nproxy-authorization: Basic x\r\ntrailer: x\r\nupgrade: websocket\r\n\
        authorization: Bearer mine\r\ncookie: a=b\r\nforwarded: for=x\r\nvia: 1.1 x\r\nx-custom: y\r\n";
    client.send(post(STREAM, headers)).await;
    assert!(client.response().await.is_stream());
    let head = seen.lock().unwrap().clone();
    let sent = [
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    ];
    assert_eq!(names(&head), BTreeSet::from(sent), "{head}");
    assert!(head.contains("authorization: bearer upstream-key\r\n"), "{head}");
}

#[tokio::test]
async fn response_headers_are_not_forwarded() {
    const HEADERS: &str = "connection: x-hop\r\nx-hop: 1\r\nset-cookie: a=b\r\nvia: 1.1 x\r\nserver: up\r\n\
        keep-alive: timeout=5\r\ntrailer: x\r\nupgrade: h2c\r\nproxy-authenticate: Basic\r\nalt-svc: clear\r\n";
    for status in ["200 OK", "500 Oops"] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.whole(status, HEADERS, &answer()).await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let mut client = Raw::connect(&proxy).await;
        client.send(post(STREAM, "")).await;
        let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
        let ours = [
            "cache-control",
            "content-length",
            "content-type",
            "date",
            "request-id",
            "transfer-encoding",
            "x-accel-buffering",
            "x-request-id",
        ];
        assert!(names(&head).is_subset(&BTreeSet::from(ours)), "{head}");
    }
}

/// RFC 9110, section 7.6.1: fields listed in `Connection` must not be forwarded.
#[tokio::test]
async fn retry_after_listed_in_connection_is_not_forwarded() {
    for (connection, expected) in [("", Some("7")), ("connection: x, Retry-After\r\n", None)] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.whole("429 Slow", &format!("{connection}retry-after: 7\r\n"), "{}").await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let reply = Client::new().chat(&proxy, STREAM).await;
        assert_eq!((reply.status().as_u16(), reply.header("retry-after")), (429, expected), "{connection}");
    }
}

/// RFC 9110, sections 15.5.2, 15.5.6, 15.5.8 and 15.5.22: these statuses require a header field. toolwire adds it
/// for 401, and replaces the other three statuses.
#[tokio::test]
async fn refusals_have_the_header_that_their_status_needs() {
    for (theirs, ours, header) in [
        (401, 401, Some("www-authenticate")),
        (405, 502, None),
        (407, 502, None),
        (426, 502, None),
        (418, 418, None),
    ] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.whole(&format!("{theirs} No"), "", r#"{"error":{"message":"no"}}"#).await;
            exchange
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        for body in [STREAM, WHOLE] {
            let reply = Client::new().chat(&proxy, body).await;
            assert_eq!(reply.status().as_u16(), ours, "{theirs}");
            assert!(header.is_none_or(|name| reply.header(name).is_some()), "{theirs}");
        }
    }
}

/// RFC 9110, sections 10.1.1 and 15.2.
#[tokio::test]
async fn expectation_of_an_http10_request_is_ignored() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    let request = post(STREAM, "expect: 100-continue\r\n").replace("HTTP/1.1", "HTTP/1.0");
    let (head, body) = request.split_at(request.len() - STREAM.len());
    client.send(head).await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(!client.has_data());
    client.send(body).await;
    let response = client.response().await;
    assert!(response.is_stream(), "{}", response.status);
}

/// RFC 9112, section 6.1.
#[tokio::test]
async fn http10_request_with_transfer_encoding_is_rejected() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for length in ["", "content-length: 5\r\n"] {
        let mut client = Raw::connect(&proxy).await;
        let size = STREAM.len();
        client
            .send(format!(
                "POST /v1/chat/completions HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: keep-alive\r\n\
                 {length}transfer-encoding: chunked\r\n\r\n{size:x}\r\n{STREAM}\r\n0\r\n\r\n{}",
                get("/v1/models")
            ))
            .await;
        let rest = client.rest().await;
        assert!(rest.contains(" 400 ") && !rest.contains("\"list\""), "{rest}");
    }
    assert_eq!(upstream.requests(), 0);
}

/// RFC 9110, section 8.6, and RFC 9112, section 6.1.
#[tokio::test]
async fn response_without_content_has_neither_length_nor_coding() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    for path in ["/v1/chat/completions", "/v1/models"] {
        client.send(format!("OPTIONS {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        let response = client.response().await;
        assert_eq!(response.status, 204);
        assert_eq!((response.header("content-length"), response.header("transfer-encoding")), (None, None));
    }
}

#[tokio::test]
async fn head_response_has_no_body_whatever_its_status() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["key"];
    let proxy = setup.start().await;
    let mut client = Raw::connect(&proxy).await;
    for (path, status) in [
        ("/healthz", 200),
        ("/metrics", 200),
        ("/v1/models", 401),
        ("/v1/chat/completions", 405),
        ("/nowhere", 404),
    ] {
        // A body would be read as the start of the second response.
        let head = format!("HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        client.send(head + &get("/healthz")).await;
        assert_eq!(client.response_without_body().await.status, status, "{path}");
        assert_eq!(client.response().await.body, "ok\n", "{path}");
    }
}

/// RFC 9112, section 3.2.
#[tokio::test]
async fn targets_in_other_forms_do_not_open_a_tunnel() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for line in
        ["CONNECT example.com:443", "CONNECT 127.0.0.1:1", "GET *", "OPTIONS *", "POST example.com:80"]
    {
        let mut client = Raw::connect(&proxy).await;
        client.send_lossy(format!("{line} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        let status = client.response().await.status;
        assert!((400..500).contains(&status), "{line}: {status}");
    }
    assert_eq!(upstream.requests(), 0);
}

/// RFC 9112, section 2.2.
#[tokio::test]
async fn empty_lines_before_a_request_are_skipped() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    for request in [get("/healthz"), post(STREAM, ""), get("/healthz")] {
        client.send(format!("\r\n\r\n{request}")).await;
        assert_eq!(client.response().await.status, 200);
    }
}

/// RFC 9112, section 8. The connection is closed at every byte of the response.
#[tokio::test]
async fn truncated_response_never_looks_complete() {
    let events = answer();
    let json = r#"{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#;
    let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
    let first = text("hello");
    let with_length = |body: &str| format!("content-length: {}\r\n\r\n{body}", body.len());
    let in_chunks = "transfer-encoding: chunked\r\n\r\n";
    for (body, response, mark) in [
        (STREAM, with_length(&events), "[DONE]"),
        (STREAM, format!("{in_chunks}{}{}0\r\n\r\n", chunk(&first), chunk(END)), "[DONE]"),
        // Without framing, a finish reason before the end of the connection is enough.
        (STREAM, format!("\r\n{events}"), r#""stop"}]}"#),
        (WHOLE, with_length(json), ""),
        (WHOLE, format!("{in_chunks}{}0\r\nx: y\r\n\r\n", chunk(json)), ""),
    ] {
        let response = format!("HTTP/1.1 200 OK\r\n{response}");
        // A stream is complete with its end marker, and a non-streaming response with its last byte.
        let complete =
            if mark.is_empty() { response.len() } else { response.find(mark).unwrap() + mark.len() };
        let (head, cut) = (response.find("\r\n\r\n").unwrap(), Arc::new(Mutex::new(0)));
        let next = cut.clone();
        let bytes = response.clone();
        let upstream = Upstream::start(move |mut exchange| {
            let piece = bytes[..*next.lock().unwrap()].to_owned();
            async move {
                exchange.raw(piece).await;
                exchange
            }
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        let client = Client::new();
        for length in
            (0..complete).filter(|length| *length < head + 8 || length % 7 == 0 || length + 8 > complete)
        {
            *cut.lock().unwrap() = length;
            let reply = client.send(chat_request(&proxy, body)).await.unwrap();
            let status = reply.status().as_u16();
            let text = reply.rest().await;
            assert!(text.contains("\"error\""), "{status} after {length} of {response:?}: {text}");
            assert!(body == STREAM || status == 502, "{status} after {length} of {response:?}");
        }
        *cut.lock().unwrap() = response.len();
        let text = client.send(chat_request(&proxy, body)).await.unwrap().rest().await;
        assert!(text.contains("hello") && !text.contains("\"error\""), "{text}");
    }
}

/// RFC 9112, section 6.3: bytes after the last byte of a message are not part of it.
#[tokio::test]
async fn bytes_after_the_response_are_not_part_of_it() {
    let (first, hidden) = (text("hello"), text("hidden"));
    let length = first.len() + END.len();
    for response in [
        format!("content-length: {length}\r\n\r\n{first}{END}{hidden}"),
        format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n{first}{END}\r\n0\r\n\r\n{hidden}"),
    ] {
        let upstream = Upstream::start(move |mut exchange| {
            let response = response.clone();
            async move {
                exchange.raw(format!("HTTP/1.1 200 OK\r\n{response}")).await;
                exchange.keep();
                exchange
            }
        })
        .await;
        let proxy = Setup::new(upstream.address).start().await;
        for _ in 0..3 {
            let body = Client::new().chat(&proxy, STREAM).await.rest().await;
            assert!(body.contains("hello") && !body.contains("hidden"), "{body}");
        }
        assert_eq!(upstream.connections(), 3);
    }
}

/// RFC 9110, section 7.6. If an upstream's address leads back to toolwire, `max_concurrent` ends the loop.
#[tokio::test]
async fn request_loop_is_bounded() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut setup = Setup::new(port);
    setup.listen = vec![port];
    setup.upstream.base_url = format!("http://{port}/v1").parse().unwrap();
    setup.upstream.queue.max_waiting = 0;
    setup.upstream.queue.wait_timeout = NEVER;
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, STREAM).await;
    assert_eq!(reply.status().as_u16(), 429);
}
