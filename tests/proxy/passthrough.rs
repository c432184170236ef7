//! Tests paths whose requests are passed to the upstream without being interpreted.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};
use toolwire::{
    config::{Origins, Passthrough},
    dialect::{Dialect, UpstreamDialect},
};

use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream},
};

const BODY: &str = "{ \"model\" : \"m\", \"input\":[1.50,\"é\"] }";

fn setup(upstream: &Upstream) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = Passthrough::parse(&["/v1/embeddings", "/v1/audio/*", "/v1/files*"]).unwrap();
    setup
}

fn request(proxy: &Proxy, method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(proxy.url(path));
    request.header("content-type", "application/json").body(Full::new(body.into())).unwrap()
}

fn post(proxy: &Proxy, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    request(proxy, Method::POST, "/v1/embeddings", body)
}

/// An upstream that records requests and answers each with `status`, `headers` and `body`.
async fn noting(
    status: &'static str,
    headers: &'static str,
    body: &'static str,
) -> (Upstream, Arc<Mutex<Vec<(String, Vec<u8>)>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let upstream = Upstream::start_sharing(seen.clone(), move |mut exchange, seen| async move {
        seen.lock().unwrap().push((exchange.head.clone(), exchange.body.clone()));
        exchange.whole(status, headers, body).await;
        exchange
    })
    .await;
    (upstream, seen)
}

/// Sends these bytes, and returns the proxy's answer. The proxy closes the connection after the answer.
async fn answer(proxy: &Proxy, bytes: &str) -> String {
    let mut stream = TcpStream::connect(proxy.addresses[0]).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("the end of the connection", stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

#[tokio::test]
async fn request_and_response_pass_unread_without_credentials() {
    let headers = "content-type: application/x-thing\r\ncontent-disposition: attachment\r\nretry-after: 9\r\n\
                   connection: x-mine, retry-after\r\nx-mine: 1\r\nset-cookie: a=b\r\nserver: s\r\n";
    let (upstream, seen) = noting("201 Created", headers, "\u{1}not json").await;
    let mut setup = setup(&upstream);
    setup.keys = vec!["client-key"];
    let proxy = setup.start().await;
    for client in [Client::new(), Client::http2()] {
        let mut request = request(&proxy, Method::POST, "/v1/embeddings?a=1&b=%2e", BODY);
        for (name, value) in [
            ("authorization", "Bearer client-key"),
            ("accept", "x/y"),
            ("cookie", "secret=1"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-toolwire-reasoning", "drop"),
            ("x-custom", "1"),
            ("openai-organization", "theirs"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let reply = client.send(request).await.unwrap();
        assert_eq!(reply.status(), 201);
        for (name, value) in [
            ("content-type", Some("application/x-thing")),
            ("content-disposition", Some("attachment")),
            ("x-content-type-options", Some("nosniff")),
            ("retry-after", None),
            ("x-mine", None),
            ("set-cookie", None),
            ("server", None),
        ] {
            assert_eq!(reply.header(name), value, "{name}");
        }
        assert!(reply.header("x-request-id").is_some());
        assert_eq!(reply.rest().await, "\u{1}not json");
    }
    for (head, body) in &*seen.lock().unwrap() {
        assert!(head.starts_with("post /base/embeddings?a=1&b=%2e http/1.1\r\n"), "{head}");
        assert_eq!(body, BODY.as_bytes());
        for (name, value) in [
            ("authorization", Some("bearer upstream-key")),
            ("content-type", Some("application/json")),
            ("accept", Some("x/y")),
            ("accept-encoding", Some("identity")),
            ("cookie", None),
            ("x-forwarded-for", None),
            ("x-toolwire-reasoning", None),
            ("x-custom", None),
            ("openai-organization", None),
        ] {
            assert_eq!(header(head, name), value, "{name}");
        }
    }
}

#[tokio::test]
async fn model_chooses_the_upstream_and_gets_its_name_there() {
    let (upstream, seen) = noting("200 OK", "", "{}").await;
    let proxy = setup(&upstream).start().await;
    let client = Client::new();
    let renamed = BODY.replace("\"m\"", "\"org/other\"");
    assert_eq!(client.send(post(&proxy, renamed.clone())).await.unwrap().status(), 200);
    let form = |name: &str| {
        format!(
            "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n\0\r\n\
             --b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n{name}\r\n--b--\r\n"
        )
    };
    let mut audio = request(&proxy, Method::POST, "/v1/audio/transcriptions", form("org/other"));
    audio.headers_mut().insert("content-type", "multipart/form-data; boundary=b".parse().unwrap());
    assert_eq!(client.send(audio).await.unwrap().status(), 200);
    let mut raw = request(&proxy, Method::POST, "/v1/audio/raw", "model=no");
    raw.headers_mut().insert("content-type", "audio/wav".parse().unwrap());
    raw.headers_mut().insert("x-toolwire-model", "org/other".parse().unwrap());
    assert_eq!(client.send(raw).await.unwrap().status(), 200);
    // If there is only one upstream, a request need not name a model.
    assert_eq!(client.send(post(&proxy, "{}")).await.unwrap().status(), 200);
    let bodies: Vec<_> = seen.lock().unwrap().iter().map(|(_, body)| body.clone()).collect();
    let expected = [renamed.replace("org/other", "theirs"), form("theirs"), "model=no".into(), "{}".into()];
    assert_eq!(bodies, expected.map(String::into_bytes));

    for (body, status) in [
        ("{\"model\":\"nobody\"}", 404),
        ("{\"model\":7}", 400),
        ("{\"model\":\"m\",\"Model\":\"m\"}", 400),
        ("{\"model\":\"m\",\"model\":\"m\"}", 400),
        ("{", 400),
    ] {
        let reply = client.send(post(&proxy, body)).await.unwrap();
        assert_eq!(reply.status(), status, "{body}");
        assert!(reply.json().await["error"]["message"].is_string());
    }
    for kind in
        ["text/plain", "application/json5", "application/x-www-form-urlencoded", "application/octet-stream"]
    {
        for (body, status) in
            [("{\"model\":\"nobody\"}", 404), ("{\"MODEL\":\"m\"}", 400), ("{\"model\":\"m\"} {}", 400)]
        {
            let mut request = post(&proxy, body);
            request.headers_mut().insert("content-type", kind.parse().unwrap());
            assert_eq!(client.send(request).await.unwrap().status(), status, "{kind}: {body}");
        }
        let mut request = post(&proxy, "{\"input\":1}");
        request.headers_mut().remove("content-type");
        *request.body_mut() = Full::new("{\"model\":\"nobody\"}".into());
        assert_eq!(client.send(request).await.unwrap().status(), 404);
    }
    let query = request(&proxy, Method::GET, "/v1/files?a=1&Model=m", "");
    assert_eq!(client.send(query).await.unwrap().status(), 400);
    assert_eq!(upstream.requests(), 4);
}

#[tokio::test]
async fn multipliers_of_the_upstreams_work_are_limited() {
    let (upstream, seen) = noting("200 OK", "content-type: application/json\r\n", "{}").await;
    let mut setup = setup(&upstream);
    setup.limits.max_n = 4;
    let proxy = setup.start().await;
    for (member, status) in [
        ("\"n\":4", 200),
        ("\"n\":5", 400),
        ("\"best_of\":1e9", 400),
        ("\"\\u006e\":\"5\"", 400),
        ("\"N\":5", 400),
    ] {
        let body = format!("{{\"model\":\"m\",{member}}}");
        let reply = Client::new().send(post(&proxy, body)).await.unwrap();
        assert_eq!(reply.status(), status, "{member}");
        let body = reply.rest().await;
        assert!(status == 200 || body.contains("at most 4"), "{body}");
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn other_methods_keys_and_upstreams_are_checked() {
    let (upstream, seen) = noting("200 OK", "", "{}").await;
    let mut with_keys = setup(&upstream);
    with_keys.keys = vec!["k"];
    with_keys.cors_origins = Origins::Any;
    let proxy = with_keys.start().await;
    let client = Client::new();
    assert_eq!(client.send(post(&proxy, BODY)).await.unwrap().status(), 401);
    for (method, status) in
        [(Method::GET, 200), (Method::DELETE, 200), (Method::PUT, 405), (Method::HEAD, 405)]
    {
        let mut request = request(&proxy, method, "/v1/files/f-1?limit=2", "");
        request.headers_mut().insert("x-api-key", "k".parse().unwrap());
        assert_eq!(client.send(request).await.unwrap().status(), status);
    }
    let lines: Vec<_> =
        seen.lock().unwrap().iter().map(|(head, _)| head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["get /base/files/f-1?limit=2 http/1.1", "delete /base/files/f-1?limit=2 http/1.1"]);
    let mut with_body = request(&proxy, Method::DELETE, "/v1/files/f-1", "x");
    with_body.headers_mut().insert("x-api-key", "k".parse().unwrap());
    assert_eq!(client.send(with_body).await.unwrap().status(), 400);
    let mut preflight = request(&proxy, Method::OPTIONS, "/v1/embeddings", "");
    for (name, value) in [("origin", "https://ui.example"), ("access-control-request-method", "POST")] {
        preflight.headers_mut().insert(name, value.parse().unwrap());
    }
    let reply = client.send(preflight).await.unwrap();
    assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST, DELETE, OPTIONS"));

    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn only_upstreams_with_openais_other_paths_get_them() {
    let (upstream, seen) = noting("200 OK", "", "{}").await;
    let client = Client::new();
    for (dialect, path) in [
        (Dialect::Chat, Some("/base/embeddings")),
        (Dialect::Responses, Some("/base/embeddings")),
        (Dialect::Completions, Some("/base/embeddings")),
        (Dialect::Ollama, Some("/base/v1/embeddings")),
        (Dialect::Lumo, None),
        (Dialect::Messages, None),
        (Dialect::Gemini, None),
    ] {
        let mut setup = setup(&upstream);
        setup.upstream.options = UpstreamDialect::try_from(dialect).unwrap();
        let proxy = setup.start().await;
        let reply = client.send(post(&proxy, BODY)).await.unwrap();
        let got = seen.lock().unwrap().pop().map(|(head, _)| head);
        match path {
            Some(path) => {
                assert_eq!(reply.status(), 200, "{dialect}");
                assert!(got.unwrap().starts_with(&format!("post {path} http/1.1\r\n")), "{dialect}");
            }
            None => {
                assert_eq!(reply.status(), 400, "{dialect}");
                let message = reply.json().await["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains(&format!("speaks `{}`", dialect.name())), "{message}");
                assert_eq!(got, None);
            }
        }
    }
}

#[tokio::test]
async fn only_listed_paths_are_passed_through_however_they_are_written() {
    let (upstream, _) = noting("200 OK", "", "{}").await;
    let proxy = setup(&upstream).start().await;
    let line = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        )
    };
    for target in [
        "/v1/completions/",
        "/v1/embeddings/",
        "/v1/audio/../completions",
        "/v1/audio/%2e%2e/completions",
        "/v1/audio/.%2E/completions",
        "/v1/audio//speech",
        "/v1/audio/a%2fb",
        "/v1/audio/..;/completions",
        "/v1/files/../../admin",
        "/v1/audio/",
    ] {
        let told = answer(&proxy, &line(target)).await;
        assert!(told.starts_with("HTTP/1.1 404"), "{target}: {told}");
    }
    let upgrade = "GET /v1/files/x HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    let told = answer(&proxy, &upgrade.replace("connection: upgrade", "connection: close, upgrade")).await;
    assert!(told.starts_with("HTTP/1.1 426") && told.contains("over HTTP"), "{told}");
    let key = upgrade.replace("connection: upgrade\r\nupgrade: websocket", "connection: close");
    let told = answer(&proxy, &key).await;
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("not passed through"), "{told}");
    let twice =
        line("/v1/embeddings").replace("host: localhost", "host: localhost\r\ncontent-type: text/plain");
    let told = answer(&proxy, &twice).await;
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
    assert_eq!(upstream.requests(), 0);
    assert!(answer(&proxy, &line("//v1/embeddings")).await.starts_with("HTTP/1.1 200"));
}

/// A browser must not treat an upstream's response as a page of this server.
#[tokio::test]
async fn no_response_becomes_a_page() {
    for status in ["200 OK", "201 Created", "400 Bad Request", "404 Not Found", "500 Oops"] {
        for kind in [
            "text/html",
            "image/svg+xml",
            "application/xhtml+xml",
            "text/xml",
            "application/json",
            "application/pdf",
        ] {
            for (disposition, expected) in [
                ("inline", "attachment"),
                (" INLINE ; filename=\"a.html\"", "attachment; filename=\"a.html\""),
                ("", "attachment"),
                ("Attachment;filename=b", "Attachment;filename=b"),
            ] {
                let headers = format!(
                    "content-type: {kind}\r\ncontent-disposition: {disposition}\r\ncontent-security-policy: default-src *\r\n\
                     cross-origin-resource-policy: cross-origin\r\naccess-control-allow-origin: *\r\nrefresh: 0\r\n"
                );
                let upstream = Upstream::start_sharing(
                    (status, headers),
                    |mut exchange, (status, headers)| async move {
                        exchange.whole(status, &headers, "<script>alert(document.domain)</script>").await;
                        exchange
                    },
                )
                .await;
                let proxy = setup(&upstream).start().await;
                let reply = Client::new().get(&proxy, "/v1/files/a/content").await;
                for (name, value) in [
                    ("content-security-policy", &["sandbox; default-src 'none'"][..]),
                    ("cross-origin-resource-policy", &["same-origin"]),
                    ("x-content-type-options", &["nosniff"]),
                    ("content-type", &[kind]),
                    ("content-disposition", &[expected]),
                    ("access-control-allow-origin", &[]),
                    ("refresh", &[]),
                ] {
                    assert_eq!(reply.headers(name), value, "{name} {status} {kind}");
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_pass_with_their_status_and_without_the_upstreams_key() {
    let error = "{\"error\":{\"message\":\"bad key upstream-key\",\"x\":[1.0]}}";
    let (upstream, _) =
        noting("401 Unauthorized", "content-type: application/json\r\nretry-after: 3\r\n", error).await;
    let proxy = setup(&upstream).start().await;
    let client = Client::new();
    let reply = client.send(post(&proxy, BODY)).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.header("retry-after")), (401, Some("3")));
    let body = reply.rest().await;
    assert!(!body.contains("upstream-key") && body.contains("\"x\":[1.0]"), "{body}");
    assert!(client.get(&proxy, "/metrics").await.rest().await.contains("route=\"passthrough\""));

    let (upstream, _) = noting("503 Busy", "content-type: text/plain\r\n", "later").await;
    let proxy = setup(&upstream).start().await;
    let reply = client.send(post(&proxy, BODY)).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.header("content-type")), (503, Some("text/plain")));
    assert_eq!(reply.rest().await, "later");

    let (upstream, _) = noting("302 Found", "location: http://127.0.0.1:1/x\r\n", "").await;
    let proxy = setup(&upstream).start().await;
    let reply = client.send(post(&proxy, BODY)).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.header("location")), (502, None));

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut unreachable = setup(&upstream);
    unreachable.upstream.base_url = format!("http://{nobody}/v1").parse().unwrap();
    let reply = client.send(post(&unreachable.start().await, BODY)).await.unwrap();
    assert_eq!(reply.status(), 502);
    assert!(reply.json().await["error"]["message"].as_str().unwrap().contains("cannot be reached"));
}

#[tokio::test]
async fn compressed_and_empty_responses_pass() {
    let (upstream, _) = noting("200 OK", "content-encoding: gzip\r\n", "xx").await;
    let proxy = setup(&upstream).start().await;
    let client = Client::new();
    let reply = client.send(post(&proxy, BODY)).await.unwrap();
    assert_eq!(reply.header("content-encoding"), Some("gzip"));
    assert_eq!(reply.rest().await, "xx");
    let upstream = Upstream::start(|mut exchange| async {
        exchange.raw("HTTP/1.1 204 No Content\r\n\r\n").await;
        exchange.keep();
        exchange
    })
    .await;
    let proxy = setup(&upstream).start().await;
    for _ in 0..3 {
        let reply = client.send(request(&proxy, Method::DELETE, "/v1/files/x", "")).await.unwrap();
        assert_eq!(reply.status(), 204);
        assert_eq!(reply.rest().await, "");
    }
    assert_eq!(upstream.connections(), 1, "the connection is reused");
}

#[tokio::test]
async fn large_bodies_pass_and_larger_ones_are_refused() {
    let large: &'static str = Box::leak("x".repeat(3 << 20).into_boxed_str());
    let (upstream, seen) = noting("200 OK", "", large).await;
    let mut setup = setup(&upstream);
    setup.limits.max_body = 2 << 20;
    let proxy = setup.start().await;
    for client in [Client::new(), Client::http2()] {
        let body = format!("{{\"input\":\"{}\"}}", "y".repeat(1 << 20));
        let reply = client.send(post(&proxy, body.clone())).await.unwrap();
        assert_eq!(reply.rest().await.len(), large.len());
        assert_eq!(seen.lock().unwrap().pop().unwrap().1.len(), body.len());
        assert_eq!(client.send(post(&proxy, "x".repeat(3 << 20))).await.unwrap().status(), 413);
    }
    assert_eq!(upstream.requests(), 2);
}

#[tokio::test]
async fn response_arrives_piece_by_piece() {
    let go_on = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(go_on.clone(), |mut exchange: Exchange, go_on| async move {
        exchange.begin().await;
        for piece in ["one", "two", "three"] {
            exchange.piece(piece).await;
            go_on.notified().await;
        }
        exchange.end().await;
        exchange
    })
    .await;
    let proxy = setup(&upstream).start().await;
    for client in [Client::new(), Client::http2()] {
        let mut reply = client.send(post(&proxy, BODY)).await.unwrap();
        assert_eq!(reply.header("content-type"), Some("text/event-stream"));
        for piece in ["one", "two", "three"] {
            assert_eq!(reply.until(piece).await, piece);
            go_on.notify_one();
        }
        assert_eq!(reply.rest().await, "");
    }
    assert_eq!(upstream.connections(), 1);
}

/// The response breaks off with chunks as well as with a content length.
#[tokio::test]
async fn truncated_response_breaks_off_for_the_client() {
    for head in ["content-length: 100\r\n", "transfer-encoding: chunked\r\n"] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.raw(format!("HTTP/1.1 200 OK\r\n{head}\r\n")).await;
            exchange.piece("some").await;
            exchange
        })
        .await;
        let proxy = setup(&upstream).start().await;
        for client in [Client::new(), Client::http2()] {
            let reply = client.send(post(&proxy, BODY)).await.unwrap();
            assert_eq!(reply.status(), 200);
            assert!(reply.breaks_off().await, "{head}");
        }
    }
}

#[tokio::test]
async fn silent_upstream_ends_the_response() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.begin().await;
        exchange.piece("some").await;
        exchange.silent().await
    })
    .await;
    for is_total in [false, true] {
        let mut setup = setup(&upstream);
        let limit = Duration::from_millis(50);
        match is_total {
            true => setup.upstream.timeouts.total = Some(limit),
            false => setup.upstream.timeouts.idle = limit,
        }
        let proxy = setup.start().await;
        for client in [Client::new(), Client::http2()] {
            assert!(client.send(post(&proxy, BODY)).await.unwrap().breaks_off().await);
        }
    }
}

#[tokio::test]
async fn client_that_goes_away_takes_the_upstream_request_with_it() {
    for begins in [false, true] {
        for client in [Client::new(), Client::http2()] {
            let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let shared = (asked.clone(), gone.clone());
            let upstream =
                Upstream::start_sharing(shared, move |mut exchange: Exchange, (asked, gone)| async move {
                    if begins {
                        exchange.begin().await;
                        exchange.piece("some").await;
                    }
                    asked.notify_one();
                    exchange.gone().await;
                    gone.notify_one();
                    exchange
                })
                .await;
            let proxy = setup(&upstream).start().await;
            let asking = client.send(post(&proxy, BODY));
            if begins {
                let mut reply = asking.await.unwrap();
                reply.until("some").await;
            } else {
                let mut asking = Box::pin(asking);
                tokio::select! {
                    _ = &mut asking => panic!("there is no response"),
                    () = soon("the upstream to be asked", asked.notified()) => {}
                }
            }
            drop(client);
            soon("the upstream's connection to be closed", gone.notified()).await;
        }
    }
}

#[tokio::test]
async fn client_that_reads_nothing_is_dropped() {
    let gone = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(gone.clone(), |mut exchange: Exchange, gone| async move {
        exchange.begin().await;
        while exchange.piece("x".repeat(64 << 10)).await {}
        gone.notify_one();
        exchange
    })
    .await;
    let mut setup = setup(&upstream);
    setup.limits.write_timeout = Duration::from_millis(200);
    let proxy = setup.start().await;
    let mut client = TcpStream::connect(proxy.addresses[0]).await.unwrap();
    let head = "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    soon("the upstream's connection to be closed", gone.notified()).await;
}

#[tokio::test]
async fn requests_that_are_passed_through_share_the_upstreams_queue() {
    let upstream = Upstream::start(|mut exchange| async {
        exchange.begin().await;
        exchange.piece("some").await;
        exchange.silent().await
    })
    .await;
    let mut setup = setup(&upstream);
    setup.upstream.queue.max_concurrent = 1;
    setup.upstream.queue.max_waiting = 0;
    let proxy = setup.start().await;
    let client = Client::new();
    let mut open = client.send(post(&proxy, BODY)).await.unwrap();
    open.until("some").await;
    let reply = client.send(post(&proxy, BODY)).await.unwrap();
    assert_eq!(reply.status(), 429);
    let error: Value = reply.json().await;
    assert!(error["error"]["message"].is_string());
    drop(open);
}

/// Open responses continue after the signal until the drain timeout aborts them.
#[tokio::test]
async fn open_response_outlives_the_signal_to_stop() {
    let go_on = Arc::new(Notify::new());
    let upstream = Upstream::start_sharing(go_on.clone(), |mut exchange: Exchange, go_on| async move {
        exchange.begin().await;
        exchange.piece("some").await;
        go_on.notified().await;
        exchange.piece("more").await;
        exchange.end().await;
        exchange
    })
    .await;
    for client in [Client::new(), Client::http2()] {
        let mut proxy = setup(&upstream).start().await;
        let mut reply = client.send(post(&proxy, BODY)).await.unwrap();
        reply.until("some").await;
        proxy.stop();
        go_on.notify_one();
        assert_eq!(reply.rest().await, "more");
        proxy.ended().await;
    }
    let mut setup = setup(&upstream);
    setup.drain_timeout = Duration::from_millis(100);
    let mut proxy = setup.start().await;
    let mut reply = Client::new().send(post(&proxy, BODY)).await.unwrap();
    reply.until("some").await;
    proxy.stop();
    assert!(reply.breaks_off().await);
    proxy.ended().await;
}
