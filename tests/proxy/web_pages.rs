//! Tests that web pages of other sites have no access even if clients need no key.

use serde_json::Value;
use toolwire::config::{Origins, Passthrough};

use crate::support::{
    client::{Client, WHOLE},
    http2::Http2,
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse},
    upstream::{Upstream, at_once},
};

/// Requests that toolwire serves to programs without a key, each with its body.
const REQUESTS: [(&str, &str); 15] = [
    ("POST /v1/chat/completions", WHOLE),
    ("POST /v1/responses", r#"{"model":"m","input":"hi"}"#),
    ("POST /v1/messages", r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#),
    ("POST /v1/messages/count_tokens", r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#),
    ("POST /v1/embeddings", r#"{"model":"m","input":"hi"}"#),
    ("GET /v1/files/x", ""),
    ("DELETE /v1/files/x", ""),
    ("GET /v1/models", ""),
    ("GET /v1/models/m", ""),
    ("GET /v1/responses/resp_1", ""),
    ("DELETE /v1/responses/resp_1", ""),
    ("POST /v1/providers", "{}"),
    ("GET /metrics", ""),
    ("GET /api/images/x.png", ""),
    ("GET /", ""),
];

/// The headers that browsers send for pages of other sites.
const FOREIGN: [&[&str]; 12] = [
    // The page's host name resolves to this machine (DNS rebinding).
    &["host: evil.example:8787"],
    &["host: evil.example:8787", "origin: http://evil.example:8787", "sec-fetch-site: same-origin"],
    &["host: localhost.evil.example", "sec-fetch-site: none"],
    &["host: 127.0.0.1.evil.example", "origin: http://127.0.0.1.evil.example"],
    &["host: 192.168.0.5:8787"],
    &["host: 0.0.0.0:8787", "origin: http://0.0.0.0:8787", "sec-fetch-site: same-origin"],
    // The page sends a simple request or submits a form.
    &[
        "host: localhost:8787",
        "origin: https://evil.example",
        "sec-fetch-site: cross-site",
        "sec-fetch-mode: no-cors",
    ],
    &["host: 127.0.0.1:8787", "origin: null", "sec-fetch-site: cross-site", "sec-fetch-mode: navigate"],
    &["host: localhost:8787", "origin: http://localhost:3000", "sec-fetch-site: same-site"],
    &["host: 127.0.0.1:8787", "origin: http://127.0.0.1:3000"],
    // The page loads a script or redirects to this server.
    &[
        "host: localhost:8787",
        "sec-fetch-site: cross-site",
        "sec-fetch-mode: no-cors",
        "sec-fetch-dest: script",
    ],
    &["host: localhost:8787", "origin: http://localhost:8787", "sec-fetch-site: cross-site"],
];

/// The headers that programs and pages of allowed origins send.
const OWN: [&[&str]; 10] = [
    &["host: localhost:8787"],
    &["host: LOCALHOST.:8787"],
    &["host: a.localhost"],
    &["host: 127.0.0.2:1"],
    &["host: [::1]:8787"],
    &["host: ai.example"],
    &["host: admin.example:8443"],
    &["host: localhost:8787", "sec-fetch-site: none", "sec-fetch-mode: navigate"],
    &["host: localhost:8787", "origin: http://localhost:8787", "sec-fetch-site: same-origin"],
    &["host: localhost:8787", "origin: https://ui.example", "sec-fetch-site: cross-site"],
];

fn setup(upstream: &Upstream) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = Passthrough::parse(&["/v1/embeddings", "/v1/files*"]).unwrap();
    setup.cors_origins = Origins::parse(&["https://ui.example"]).unwrap();
    setup.hosts = vec!["ai.example".to_owned()];
    setup.execution = "[admin]\nhosts = [\"admin.example\"]\n[execution]\n[[providers]]\nname = \"addons\"\nkind = \"http\"\nkeys = [\"key-of-the-program-1\"]\n".to_owned();
    setup
}

async fn send(proxy: &Proxy, (line, body): (&str, &str), headers: &[&str]) -> RawResponse {
    let mut client = Raw::connect(proxy).await;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    client
        .send(format!(
            "{line} HTTP/1.1\r\n{headers}{kind}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
        .await;
    client.response().await
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_everything() {
    let upstream = Upstream::start(at_once).await;
    let proxy = setup(&upstream).start().await;
    for headers in FOREIGN {
        for (line, body) in REQUESTS.into_iter().chain([("GET /nowhere", ""), ("OPTIONS /v1/models", "")]) {
            let response = send(&proxy, (line, body), headers).await;
            assert_eq!(response.status, 403, "{line} {headers:?}: {}", response.body);
            assert_eq!(response.header("access-control-allow-origin"), None, "{line} {headers:?}");
            let error: Value = serde_json::from_str(&response.body).unwrap();
            let is_host = error["error"]["message"].as_str().unwrap().contains("`hosts`");
            let is_origin = error["error"]["message"].as_str().unwrap().contains("`cors_origins`");
            assert!(is_host != is_origin, "{error}");
            assert_eq!(error["type"] == "error", line.contains("/v1/messages"), "{line}: {error}");
        }
        for probe in ["GET /healthz", "GET /readyz"] {
            assert_eq!(send(&proxy, (probe, ""), headers).await.status, 200, "{probe} {headers:?}");
        }
    }
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn programs_and_allowed_pages_are_served() {
    let upstream = Upstream::start(at_once).await;
    let proxy = setup(&upstream).start().await;
    for headers in OWN {
        for request in REQUESTS {
            let response = send(&proxy, request, headers).await;
            assert!(![403, 415].contains(&response.status), "{request:?} {headers:?}: {}", response.body);
        }
    }
    assert!(upstream.requests() > 0);
}

#[tokio::test]
async fn with_keys_every_host_and_page_is_served() {
    let upstream = Upstream::start(at_once).await;
    let mut with_keys = setup(&upstream);
    with_keys.keys = vec!["secret"];
    let proxy = with_keys.start().await;
    for headers in FOREIGN {
        let headers = [headers, &["authorization: Bearer secret"]].concat();
        let mut client = Raw::connect(&proxy).await;
        let length = WHOLE.len();
        client
            .send(format!(
                "POST /v1/chat/completions HTTP/1.1\r\n{}\r\ncontent-length: {length}\r\n\r\n{WHOLE}",
                headers.join("\r\n")
            ))
            .await;
        assert_eq!(client.response().await.status, 200, "{headers:?}, without a type");
        assert_eq!(send(&proxy, ("GET /metrics", ""), &headers).await.status, 200);
    }
}

#[tokio::test]
async fn preflight_of_an_allowed_page_is_answered_without_keys() {
    let upstream = Upstream::start(at_once).await;
    let proxy = setup(&upstream).start().await;
    let asks = "access-control-request-method: POST";
    let site = "sec-fetch-site: cross-site";
    let line = ("OPTIONS /v1/chat/completions", "");
    let allowed = send(&proxy, line, &["host: localhost:1", "origin: https://ui.example", site, asks]).await;
    assert_eq!(
        (allowed.status, allowed.header("access-control-allow-origin")),
        (204, Some("https://ui.example"))
    );
    let other = send(&proxy, line, &["host: localhost:1", "origin: https://evil.example", site, asks]).await;
    assert_eq!((other.status, other.header("access-control-allow-methods")), (403, None));
}

#[tokio::test]
async fn body_that_a_browser_does_not_declare_as_json_is_refused_without_keys() {
    let upstream = Upstream::start(at_once).await;
    let proxy = setup(&upstream).start().await;
    for (line, body) in &REQUESTS[..4] {
        for kind in [
            "",
            "content-type: text/plain\r\n",
            "content-type: application/x-www-form-urlencoded\r\n",
            "content-type: text/plain; application/json\r\n",
        ] {
            let mut client = Raw::connect(&proxy).await;
            let length = body.len();
            client
                .send(format!(
                    "{line} HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\n{kind}content-length: {length}\r\n\r\n{body}"
                ))
                .await;
            let response = client.response().await;
            assert_eq!(
                (response.status, response.header("connection")),
                (415, Some("close")),
                "{line} {kind}"
            );
            assert!(response.body.contains("Content-Type: application/json"), "{}", response.body);
        }
        let curl = "content-type: application/x-www-form-urlencoded";
        let mut client = Raw::connect(&proxy).await;
        let length = body.len();
        client
            .send(format!(
                "{line} HTTP/1.1\r\nhost: localhost\r\n{curl}\r\ncontent-length: {length}\r\n\r\n{body}"
            ))
            .await;
        assert_eq!(client.response().await.status, 200, "{line} of a program");
        let declared = send(&proxy, (line, body), &["host: localhost", "accept: */*"]).await;
        assert_eq!(declared.status, 200, "{line}: {}", declared.body);
    }
    assert_eq!(upstream.requests(), 6);
}

#[tokio::test]
async fn http2_is_checked_by_its_authority() {
    let upstream = Upstream::start(at_once).await;
    for (fields, status) in [
        (&[(":authority", "localhost:8787")][..], 200),
        (&[(":authority", "ai.example")], 200),
        (&[(":authority", "evil.example:8787")], 403),
        (&[(":authority", "evil.example"), ("host", "localhost")], 403),
        (&[(":authority", "localhost"), ("host", "evil.example")], 403),
        (&[("host", "evil.example")], 403),
        (&[(":authority", "localhost"), ("sec-fetch-site", "cross-site")], 403),
    ] {
        let proxy = setup(&upstream).start().await;
        let mut client = Http2::connect(&proxy).await;
        client.request(1, "GET", "/v1/models", fields, 5).await;
        assert_eq!(client.status().await, status, "{fields:?}");
    }
}

/// Answers link to generated images, which pages of any origin may show.
#[tokio::test]
async fn any_page_that_knows_its_name_may_show_an_image() {
    let upstream = Upstream::start(at_once).await;
    let proxy = setup(&upstream).start().await;
    let line = ("GET /api/images/00000000000000000000000000000000.png", "");
    for (headers, status) in [
        (
            &[
                "host: localhost:1",
                "sec-fetch-site: cross-site",
                "sec-fetch-mode: no-cors",
                "sec-fetch-dest: image",
            ][..],
            404,
        ),
        (
            &[
                "host: localhost:1",
                "sec-fetch-site: cross-site",
                "sec-fetch-mode: navigate",
                "sec-fetch-dest: document",
            ],
            404,
        ),
        (
            &[
                "host: localhost:1",
                "sec-fetch-site: cross-site",
                "sec-fetch-mode: no-cors",
                "sec-fetch-dest: empty",
            ],
            403,
        ),
        (&["host: evil.example", "sec-fetch-site: same-origin", "sec-fetch-dest: image"], 403),
    ] {
        assert_eq!(send(&proxy, line, headers).await.status, status, "{headers:?}");
    }
}

#[tokio::test]
async fn a_page_opens_no_door_by_the_console() {
    let upstream = Upstream::start(at_once).await;
    let proxy = setup(&upstream).start().await;
    let typed = ["host: localhost:1", "sec-fetch-site: none", "sec-fetch-mode: navigate"];
    for path in ["GET /console/", "GET /"] {
        assert_eq!(send(&proxy, (path, ""), &typed).await.status, 200, "{path}");
    }
    let linked = ["host: localhost:1", "sec-fetch-site: cross-site", "sec-fetch-mode: navigate"];
    assert_eq!(send(&proxy, ("GET /console/", ""), &linked).await.status, 200, "a link leads to the page");
    assert_eq!(Client::new().get(&proxy, "/v1/models").await.status(), 200);
}
