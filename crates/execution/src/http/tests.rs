use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::header::AUTHORIZATION;

use super::*;
use crate::{connect::MAX_TUNNELS, test_server::Server};

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn moved(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn private() -> AddressRules {
    AddressRules { allow_private: true, ..AddressRules::default() }
}

/// Resolves any name to the next of these lists of addresses.
fn resolving(answers: &'static [&'static [&'static str]]) -> (Lookup, Arc<AtomicUsize>) {
    let lookups = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&lookups);
    let lookup: Lookup = Arc::new(move |_| {
        let place = counter.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        Box::pin(async move {
            Ok(answers[place].iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect())
        })
    });
    (lookup, lookups)
}

fn guarded(rules: AddressRules) -> HttpClient {
    HttpClient::direct().guarded(rules)
}

fn direct() -> Arc<Proxies> {
    Arc::new(Proxies::One(None))
}

/// Uses the proxy at this address for all requests, regardless of the environment.
fn through(address: SocketAddr) -> Arc<Proxies> {
    let url = format!("http://user:sesame@{address}");
    let environment = |name: &str| ["http_proxy", "https_proxy"].contains(&name).then(|| url.clone());
    Arc::new(Proxies::of_environment(&environment))
}

fn download(url: &str) -> Download<'_> {
    Download {
        url,
        headers: HeaderMap::new(),
        max_body: 100,
        content_types: &["text/", "application/json"],
        admits: None,
    }
}

#[tokio::test]
async fn private_addresses_are_not_connected_to() {
    let server = Server::start(&[&ok("secret")]).await;
    let client = guarded(AddressRules { ports: vec![server.address.port()], ..AddressRules::default() });
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"] {
        let url = server.url(host);
        let result = client.get(download(&url)).await;
        assert!(matches!(result, Err(HttpError::Blocked(Blocked::Private))), "{host}: {result:?}");
        if let Ok(uri) = url.parse::<http::Uri>() {
            let result = client.send(Request::get(uri).body(Bytes::new()).unwrap(), 100).await;
            assert!(matches!(result, Err(HttpError::Blocked(Blocked::Private))), "{host}: {result:?}");
        }
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn names_that_resolve_to_a_private_address_are_not_connected_to() {
    let server = Server::start(&[&ok("secret")]).await;
    let rules = AddressRules { ports: vec![server.address.port()], ..AddressRules::default() };
    for addresses in [
        &["127.0.0.1"] as &'static [&'static str],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["93.184.216.34", "127.0.0.1"],
        &["0.0.0.0"],
        &["fe80::1"],
    ] {
        let lookup: Lookup = Arc::new(move |_| {
            Box::pin(async move {
                Ok(addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect())
            })
        });
        let client = HttpClient::with(Some(Arc::new(rules.clone())), direct(), lookup);
        let result = client.get(download(&server.url("site.example"))).await;
        assert!(matches!(result, Err(HttpError::Blocked(Blocked::Private))), "{addresses:?}: {result:?}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_checked_address_is_used() {
    let server = Server::start(&[&ok("page")]).await;
    let (lookup, lookups) = resolving(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = HttpClient::with(Some(Arc::new(private())), direct(), lookup);
    let response = client.get(download(&server.url("site.example"))).await.unwrap();
    assert_eq!(response.body(), "page");
    assert_eq!(lookups.load(Ordering::SeqCst), 1);
    let host = format!("\r\nhost: site.example:{}\r\n", server.address.port());
    assert!(server.requests()[0].contains(&host), "{:?}", server.requests());
    // The next connection resolves the name again, now to a forbidden address.
    let result = client.get(download(&server.url("site.example"))).await;
    assert!(matches!(result, Err(HttpError::Blocked(Blocked::Private))), "{result:?}");
    assert_eq!(lookups.load(Ordering::SeqCst), 2);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn redirects_are_checked_like_the_first_address() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "//metadata.google.internal/",
        "http://user@site.example/",
        "file:///etc/passwd",
        "http://[fe80::1]/",
    ] {
        let server = Server::start(&[&moved(location), &ok("secret")]).await;
        let client = guarded(private());
        let result = client.get(download(&server.url("127.0.0.1"))).await;
        assert!(matches!(result, Err(HttpError::Blocked(_))), "{location}: {result:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_more() {
    let step = moved("/next?a=b#c");
    let page = ok("page");
    let five = Server::start(&[&step, &step, &step, &step, &step, &page]).await;
    let client = guarded(private());
    let response = client.get(download(&five.url("127.0.0.1"))).await.unwrap();
    assert_eq!(response.body(), "page");
    assert!(five.requests()[5].starts_with("get /next?a=b http/1.1"));
    let endless = Server::start(&[&step]).await;
    let result = client.get(download(&endless.url("127.0.0.1"))).await;
    assert!(matches!(result, Err(HttpError::Redirect)), "{result:?}");
    assert_eq!(endless.requests().len(), 6);
}

#[tokio::test]
async fn credentials_stay_with_the_server_that_they_are_for() {
    let server = Server::start(&[
        &moved("/own"),
        &moved("http://other.example:PORT/"),
        &moved("http://site.example:PORT/"),
        &ok("page"),
    ])
    .await;
    let (lookup, _) = resolving(&[&["127.0.0.1"]]);
    let client = HttpClient::with(Some(Arc::new(private())), direct(), lookup);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    let url = server.url("site.example");
    client.get(Download { headers, ..download(&url) }).await.unwrap();
    let shown: Vec<_> = server.requests().iter().map(|request| request.contains("secret")).collect();
    assert_eq!(shown, [true, true, false, false]);
}

#[test]
fn redirects_lead_neither_nowhere_nor_to_http() {
    let url = Url::parse("https://example.com/a/b").unwrap();
    for (location, expected) in [
        ("c", Some("https://example.com/a/c")),
        ("//example.org/", Some("https://example.org/")),
        ("https://example.org", Some("https://example.org/")),
        ("http://example.com/", None),
        ("HTTP://example.com/", None),
        ("http://[", None),
    ] {
        let found = redirected(&url, &HeaderValue::from_str(location).unwrap()).ok();
        assert_eq!(found.as_ref().map(Url::as_str), expected, "{location}");
    }
}

#[tokio::test]
async fn sizes_and_types_of_responses_are_limited() {
    let full = "a".repeat(100);
    let chunked = |length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{length:x}\r\n{}\r\n0\r\n\r\n",
            "a".repeat(length)
        )
    };
    let with = |fields: &str| {
        format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}")
    };
    let head = format!("X: {}\r\nContent-Type: text/plain\r\n", "a".repeat(2 * MAX_HEAD));
    let missing =
        "HTTP/1.1 404 Not Found\r\nContent-Type: image/png\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_owned();
    for (response, expected) in [
        (ok(&full), "200"),
        (ok(&format!("{full}a")), "TooLarge"),
        (chunked(100), "200"),
        (chunked(101), "TooLarge"),
        (with("Content-Type: APPLICATION/JSON\r\n"), "200"),
        (with("Content-Type: text/plain\r\nContent-Encoding: identity\r\n"), "200"),
        (with("Content-Type: application/jsonp\r\n"), "ContentType"),
        (with("Content-Type: image/png\r\n"), "ContentType"),
        (with(""), "ContentType"),
        (with("Content-Type: text/html\r\nContent-Encoding: gzip\r\n"), "ContentType"),
        (with(&head), "Broken"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\ncut".to_owned(), "Broken"),
        ("220 mail.example ESMTP\r\n".to_owned(), "Broken"),
        (missing, "404"),
    ] {
        let server = Server::start(&[&response]).await;
        let result = guarded(private()).get(download(&server.url("127.0.0.1"))).await;
        let shown = match result {
            Ok(response) => response.status().as_str().to_owned(),
            Err(error) => format!("{error:?}"),
        };
        assert!(shown.starts_with(expected), "{response:.200}\nexpected {expected}, got {shown}");
        assert!(server.requests()[0].contains("accept-encoding: identity"));
    }
}

#[tokio::test]
async fn plain_request_to_an_address_of_the_configuration_is_forwarded_by_the_proxy() {
    let proxy = Server::start(&[&ok("page")]).await;
    let (lookup, lookups) = resolving(&[&["127.0.0.1"]]);
    let client = HttpClient::with(None, through(proxy.address), lookup);
    let response = client.get(download("http://site.example:81/a?b")).await.unwrap();
    assert_eq!(response.body(), "page");
    let requests = proxy.requests();
    assert!(requests[0].starts_with("get http://site.example:81/a?b http/1.1\r\n"), "{requests:?}");
    assert!(requests[0].contains("\r\nproxy-authorization: basic dxnlcjpzzxnhbwu=\r\n"), "{requests:?}");
    assert_eq!(lookups.load(Ordering::SeqCst), 0, "the proxy resolves the name");
}

#[tokio::test]
async fn proxy_gets_the_checked_address_of_what_others_have_chosen() {
    // The proxy's answer to CONNECT and the server's response use the same connection.
    let established = "HTTP/1.1 200 Connection established\r\n\r\n";
    let proxy = Server::start_tunnels(established, &ok("page")).await;
    let (lookup, lookups) = resolving(&[&["2606:2800::1", "93.184.216.34"], &["93.184.216.34", "10.0.0.1"]]);
    let rules = Some(Arc::new(AddressRules::default()));
    let client = HttpClient::with(rules, through(proxy.address), lookup);
    let response = client.get(download("http://site.example/a")).await.unwrap();
    assert_eq!(response.body(), "page");
    let requests = proxy.requests();
    assert!(requests[0].starts_with("connect 93.184.216.34:80 http/1.1\r\n"), "{requests:?}");
    assert!(requests[0].contains("\r\nproxy-authorization: "), "{requests:?}");
    assert!(requests[1].starts_with("get /a http/1.1\r\n"), "{requests:?}");
    assert!(requests[1].contains("\r\nhost: site.example\r\n"), "{requests:?}");
    assert!(!requests[1].contains("proxy-authorization"), "{requests:?}");
    assert_eq!(lookups.load(Ordering::SeqCst), 1);
    // No tunnel to a private address is requested, whether the address is part of the URL or a name resolves to it.
    for url in ["http://site.example/a", "http://10.0.0.1/a", "http://[::1]/a", "http://localhost/a"] {
        let result = client.get(download(url)).await;
        assert!(matches!(result, Err(HttpError::Blocked(_))), "{url}: {result:?}");
    }
    assert_eq!(proxy.requests().len(), 2);
}

#[tokio::test]
async fn refused_tunnel_names_the_status_of_the_proxy() {
    let proxy =
        Server::start(&["HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]).await;
    let addresses: &[&str] = &["2606:2800::1", "93.184.216.31", "93.184.216.32", "93.184.216.33"];
    for (rules, asked) in [(None, 1), (Some(Arc::new(AddressRules::default())), MAX_TUNNELS)] {
        let before = proxy.requests().len();
        let (lookup, _) = resolving(Box::leak(Box::new([addresses])));
        let client = HttpClient::with(rules, through(proxy.address), lookup);
        let result = client.get(download("https://site.example/a")).await;
        let Err(error @ HttpError::Connect(_)) = result else { panic!("{result:?}") };
        let reason = error.to_string();
        assert!(reason.contains("status 403 Forbidden") && !reason.contains("sesame"), "{reason}");
        assert_eq!(proxy.requests().len() - before, asked);
    }
}
