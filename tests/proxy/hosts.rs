//! Tests that every request must name its host exactly once.

use crate::support::{
    client::STREAM,
    http2::Http2,
    proxy::Setup,
    raw::Raw,
    upstream::{Upstream, at_once},
};

const ROUTES: [&str; 8] = [
    "GET /v1/models",
    "GET /v1/models/m",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /nowhere",
    "OPTIONS /v1/chat/completions",
    "DELETE /v1/models",
];

#[tokio::test]
async fn request_without_exactly_one_valid_host_is_rejected() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let post = format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n", STREAM.len());
    let gets = ROUTES.map(|route| (format!("{route} HTTP/1.1\r\n"), ""));
    for (line, body) in gets.into_iter().chain([(post, STREAM)]) {
        for hosts in [
            "",
            "host: x\r\nhost: x\r\n",
            "host: x\r\nHost: y\r\n",
            "host:\r\n",
            "host: a b\r\n",
            "host: a/b\r\n",
        ] {
            let mut client = Raw::connect(&proxy).await;
            client.send(format!("{line}{hosts}\r\n{body}{line}host: x\r\n\r\n{body}")).await;
            let response = client.response().await;
            assert_eq!(
                (response.status, response.header("connection")),
                (400, Some("close")),
                "{line}{hosts}"
            );
            assert!(response.body.contains("\"param\":\"host\""), "{}", response.body);
            client.closed().await;
        }
    }
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn http10_needs_no_host_but_may_not_have_two() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (hosts, status) in [
        ("", 200),
        ("host: localhost\r\n", 200),
        ("host: localhost\r\nhost: localhost\r\n", 400),
        ("host: /\r\n", 400),
    ] {
        let mut client = Raw::connect(&proxy).await;
        client.send(format!("GET /v1/models HTTP/1.0\r\n{hosts}\r\n")).await;
        let rest = client.rest().await;
        assert!(rest.contains(&format!(" {status} ")), "{hosts:?}: {rest}");
    }
}

/// A target in absolute form names the host, but the header is required too.
#[tokio::test]
async fn absolute_form_is_accepted_and_needs_host_too() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (host, status) in [("host: 127.0.0.1\r\n", 200), ("", 400)] {
        let mut client = Raw::connect(&proxy).await;
        client.send(format!("GET http://localhost/v1/models HTTP/1.1\r\n{host}\r\n")).await;
        assert_eq!(client.response().await.status, status);
    }
}

#[tokio::test]
async fn http2_names_the_host_as_authority_or_header() {
    let upstream = Upstream::start(at_once).await;
    for (fields, status) in [
        (&[(":authority", "x")][..], 200),
        (&[("host", "x")], 200),
        (&[(":authority", "x"), ("host", "x")], 200),
        (&[], 400),
        (&[("host", "x"), ("host", "x")], 400),
        (&[(":authority", "x"), ("host", "x"), ("host", "y")], 400),
        (&[(":authority", "x"), ("host", "a b")], 400),
        (&[(":authority", "user@x")], 400),
        (&[(":authority", "localhost:80@x")], 400),
    ] {
        let mut proxy = Setup::new(upstream.address).start().await;
        let mut client = Http2::connect(&proxy).await;
        client.request(1, "GET", "/healthz", fields, 5).await;
        assert_eq!(client.status().await, status, "{fields:?}");
        proxy.stop();
    }
}
