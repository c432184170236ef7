//! Tests CORS: which origins' pages may read responses.

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use toolwire::config::Origins;

use crate::support::{
    client::{Client, Reply, STREAM, WHOLE, chat_request},
    proxy::{Proxy, Setup},
    raw::{Raw, post},
    upstream::{Upstream, at_once},
};

const PAGE: &str = "https://ui.example";

async fn proxy(origins: &[&str]) -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["secret"];
    setup.cors_origins = Origins::parse(origins).unwrap();
    (upstream, setup.start().await)
}

fn request(
    proxy: &Proxy,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(proxy.url(path)).body(Full::default()).unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
    }
    request
}

async fn preflight(client: &Client, proxy: &Proxy, path: &str, origin: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,x-stainless-os"),
        ("access-control-request-private-network", "true"),
    ];
    client.send(request(proxy, Method::OPTIONS, path, &headers)).await.unwrap()
}

#[tokio::test]
async fn preflight_of_an_allowed_origin_needs_no_key() {
    let (_upstream, proxy) = proxy(&[PAGE, "http://localhost:3000"]).await;
    for client in [Client::new(), Client::http2()] {
        for (path, methods) in [
            ("/v1/chat/completions", "POST, OPTIONS"),
            ("/v1/models", "GET, HEAD, OPTIONS"),
            ("/models", "GET, HEAD, POST, DELETE, OPTIONS"),
        ] {
            let reply = preflight(&client, &proxy, path, PAGE).await;
            assert_eq!(reply.status(), 204, "{path}");
            assert_eq!(reply.header("access-control-allow-origin"), Some(PAGE));
            assert_eq!(reply.header("access-control-allow-methods"), Some(methods));
            let allowed = reply.header("access-control-allow-headers").unwrap();
            assert_eq!(
                allowed,
                "authorization, content-type, x-api-key, api-key, x-goog-api-key, x-toolwire-reasoning, x-stainless-os"
            );
            assert_eq!(reply.header("access-control-max-age"), Some("7200"));
            assert_eq!(reply.header("access-control-allow-private-network"), Some("true"));
            assert_eq!(reply.header("access-control-allow-credentials"), None);
            assert_eq!(reply.header("vary"), Some("origin"));
        }
    }
}

#[tokio::test]
async fn preflight_of_another_origin_has_no_allow_origin() {
    let (_upstream, proxy) = proxy(&[PAGE]).await;
    let client = Client::new();
    for origin in ["https://evil.example", "https://ui.example:444", "http://ui.example", "null", "*"] {
        let reply = preflight(&client, &proxy, "/v1/chat/completions", origin).await;
        assert_eq!(reply.header("access-control-allow-origin"), None, "{origin}");
        assert_eq!(reply.header("access-control-allow-private-network"), None, "{origin}");
        assert_eq!(reply.header("vary"), Some("origin"), "{origin}");
    }
}

#[tokio::test]
async fn every_response_has_allow_origin() {
    let (_upstream, proxy) = proxy(&[PAGE]).await;
    let key = ("x-api-key", "secret");
    for client in [Client::new(), Client::http2()] {
        for body in [STREAM, WHOLE, "no json"] {
            let mut asked = chat_request(&proxy, body);
            asked.headers_mut().insert("origin", HeaderValue::from_static(PAGE));
            asked.headers_mut().insert(key.0, HeaderValue::from_static(key.1));
            assert_allowed(client.send(asked).await.unwrap());
        }
        for (path, headers) in [
            ("/v1/models", &[("origin", PAGE), key][..]),
            ("/v1/models/m", &[("origin", PAGE), key]),
            ("/v1/models", &[("origin", PAGE)]),
            ("/nowhere", &[("origin", PAGE)]),
            ("/v1/chat/completions", &[("origin", PAGE)]),
            ("/healthz", &[("origin", PAGE)]),
        ] {
            assert_allowed(client.send(request(&proxy, Method::GET, path, headers)).await.unwrap());
        }
        let reply = client.send(request(&proxy, Method::GET, "/v1/models", &[key])).await.unwrap();
        assert_eq!(reply.header("access-control-allow-origin"), None);
        assert_eq!(reply.header("vary"), Some("origin"), "a cache must not give it to another page");
    }
}

fn assert_allowed(reply: Reply) {
    let status = reply.status();
    assert_eq!(reply.header("access-control-allow-origin"), Some(PAGE), "{status}");
    let exposed = reply.header("access-control-expose-headers").unwrap();
    assert!(exposed.starts_with("x-request-id, request-id, retry-after, "), "{status}: {exposed}");
    assert_eq!(reply.header("vary"), Some("origin"), "{status}");
}

#[tokio::test]
async fn upstream_error_has_allow_origin() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.whole("429 Too Many Requests", "retry-after: 7\r\n", "{}").await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.cors_origins = Origins::parse(&[PAGE]).unwrap();
    let proxy = setup.start().await;
    let mut asked = chat_request(&proxy, STREAM);
    asked.headers_mut().insert("origin", HeaderValue::from_static(PAGE));
    let reply = Client::new().send(asked).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.header("retry-after")), (429, Some("7")));
    assert_allowed(reply);
}

#[tokio::test]
async fn star_allows_every_origin() {
    let (_upstream, proxy) = proxy(&["*"]).await;
    let client = Client::new();
    for origin in ["https://any.example", "null"] {
        let reply = preflight(&client, &proxy, "/v1/models", origin).await;
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        let headers = [("origin", origin)];
        let reply = client.send(request(&proxy, Method::GET, "/v1/models", &headers)).await.unwrap();
        assert_eq!(reply.status(), 401);
        assert_eq!((reply.header("access-control-allow-origin"), reply.header("vary")), (Some("*"), None));
    }
}

#[tokio::test]
async fn request_with_two_origins_has_no_allow_origin() {
    let (_upstream, proxy) = proxy(&[PAGE]).await;
    let mut raw = Raw::connect(&proxy).await;
    let headers = format!("x-api-key: secret\r\norigin: {PAGE}\r\norigin: https://evil.example\r\n");
    raw.send(post(STREAM, &headers)).await;
    let response = raw.response().await;
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, None));
}

#[tokio::test]
async fn without_cors_origins_there_are_no_cors_headers() {
    let (_upstream, proxy) = proxy(&[]).await;
    let client = Client::new();
    let reply = preflight(&client, &proxy, "/v1/chat/completions", PAGE).await;
    assert_eq!((reply.status().as_u16(), reply.header("allow")), (204, Some("POST, OPTIONS")));
    let headers = [("origin", PAGE), ("x-api-key", "secret")];
    let list = client.send(request(&proxy, Method::GET, "/v1/models", &headers)).await.unwrap();
    for reply in [reply, list] {
        for name in ["access-control-allow-origin", "access-control-allow-headers", "vary"] {
            assert_eq!(reply.header(name), None, "{name}");
        }
    }
}
