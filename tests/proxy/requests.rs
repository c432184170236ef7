//! Tests paths, methods, keys, IDs and models: responses that need no upstream, and the requests that upstreams
//! get.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::{
    dialect::Dialect,
    proxy::tap::{Ending, Opening, Tap, Watch},
    rules::Reasoning,
};

use crate::support::{
    client::{Client, STREAM, WHOLE, chat_request},
    proxy::{Proxy, Setup},
    upstream::{END, Upstream, text},
};

async fn answering() -> Upstream {
    Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        exchange.piece(text("hello")).await;
        exchange.finished().await
    })
    .await
}

fn request(proxy: &Proxy, method: Method, path: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(proxy.url(path));
    request.header("content-type", "application/json").body(Full::default()).unwrap()
}

#[tokio::test]
async fn keys_are_asked_for_where_models_are() {
    let upstream = answering().await;
    let mut setup = Setup::new(upstream.address);
    setup.keys = vec!["alpha", "beta"];
    let proxy = setup.start().await;
    let client = Client::new();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(client.get(&proxy, path).await.status(), 200, "{path}");
    }
    for path in ["/v1/models", "/v1/models/m"] {
        let reply = client.get(&proxy, path).await;
        assert_eq!(reply.status(), 401, "{path}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert_eq!(reply.json().await["error"]["code"], "invalid_api_key");
    }
    assert_eq!(client.chat(&proxy, STREAM).await.status(), 401);
    assert_eq!(upstream.requests(), 0);
    for (name, value) in [("authorization", "Bearer beta"), ("x-api-key", "alpha")] {
        let mut request = chat_request(&proxy, STREAM);
        request.headers_mut().insert(name, HeaderValue::from_static(value));
        assert_eq!(client.send(request).await.unwrap().status(), 200);
    }
}

/// Errors are JSON objects and never web pages.
#[tokio::test]
async fn unknown_paths_and_methods_are_errors_in_the_clients_form() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    for path in ["/v1/chat", "/v1/completions/x", "/v1/models/unknown", "/index.html"] {
        let reply = client.get(&proxy, path).await;
        assert_eq!(reply.status(), 404, "{path}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert!(reply.json().await["error"]["message"].is_string());
    }
    let reply = client.get(&proxy, "/v1/chat/completions").await;
    assert_eq!((reply.status().as_u16(), reply.header("allow")), (405, Some("POST, OPTIONS")));
    assert!(reply.json().await["error"]["message"].as_str().unwrap().contains("GET"));
    let reply = client.send(request(&proxy, Method::DELETE, "/v1/models/m")).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
}

/// Claude Code sends `HEAD /` before its first request (docs/protocols/messages.md#requests).
#[tokio::test]
async fn root_says_what_is_where() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    let head = client.send(request(&proxy, Method::HEAD, "/")).await.unwrap();
    assert_eq!((head.status(), head.rest().await.as_str()), (StatusCode::OK, ""));
    let root = client.get(&proxy, "/").await;
    assert_eq!(root.status(), 200);
    let text = root.rest().await;
    assert!(text.contains("POST /v1/chat/completions") && text.contains("POST /v1/messages"), "{text}");
    assert!(text.contains("Ollama is running"), "{text}");
}

#[tokio::test]
async fn clients_of_messages_get_their_own_form() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi there"}]}"#;
    let post = |path: &str, body: &'static str| {
        let mut post = request(&proxy, Method::POST, path);
        *post.body_mut() = Full::new(Bytes::from(body));
        client.send(post)
    };
    let message = post("/v1/messages?beta=true", body).await.unwrap().json().await;
    assert_eq!((&message["type"], &message["role"]), (&"message".into(), &"assistant".into()), "{message}");
    let counted = post("/v1/messages/count_tokens", body).await.unwrap().json().await;
    assert!(counted["input_tokens"].as_u64().is_some_and(|tokens| (2..30).contains(&tokens)), "{counted}");
    let long = body.replace("Hi there", &"Hi there ".repeat(100_000)).leak();
    let counted = post("/v1/messages/count_tokens", long).await.unwrap().json().await;
    assert!(counted["input_tokens"].as_u64().is_some_and(|tokens| tokens >= 200_000), "{counted}");
    assert_eq!(upstream.requests(), 1, "nobody is asked to count");
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let reply =
            post(path, r#"{"model":"nobody","messages":[{"role":"user","content":"?"}]}"#).await.unwrap();
        assert_eq!(reply.status(), 404, "{path}");
        assert_eq!(reply.json().await["error"]["type"], "not_found_error");
        let reply = post(path, "{").await.unwrap();
        assert_eq!(reply.status(), 400, "{path}");
        assert_eq!(reply.json().await["error"]["type"], "invalid_request_error");
        assert_eq!(client.get(&proxy, path).await.status(), 405);
    }
}

#[tokio::test]
async fn compaction_that_only_its_server_can_read_is_refused() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut post = request(&proxy, Method::POST, "/v1/responses");
    let item = json!([{"role": "user", "content": "hi"}, {"type": "compaction", "encrypted_content": "A"}]);
    *post.body_mut() = Full::new(Bytes::from(json!({"model": "m", "input": item}).to_string()));
    let reply = Client::new().send(post).await.unwrap();
    assert_eq!(reply.status(), 400);
    assert_eq!(reply.json().await["error"]["param"], "input[1]");
    assert_eq!(upstream.requests(), 0);
}

/// The header applies to one request, and the model's setting to all others.
#[tokio::test]
async fn request_chooses_how_reasoning_is_passed_on() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.begin().await;
        exchange.piece(text("x").replace("\"content\":\"x\"", "\"reasoning_content\":\"hm\"")).await;
        exchange.piece(text("hello")).await;
        exchange.finished().await
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.settings.reasoning = Reasoning::Drop;
    let proxy = setup.start().await;
    let client = Client::new();
    for (header, expected) in [
        (None, json!({"content": "hello"})),
        (Some("auto"), json!({"content": "hello", "reasoning_content": "hm"})),
        (Some("reasoning"), json!({"content": "hello", "reasoning": "hm"})),
        (Some("inline"), json!({"content": "<think>hm</think>hello"})),
    ] {
        let mut request = chat_request(&proxy, WHOLE);
        if let Some(word) = header {
            request.headers_mut().insert("x-toolwire-reasoning", HeaderValue::from_static(word));
        }
        let body = client.send(request).await.unwrap().json().await;
        let message = body["choices"][0]["message"].as_object().unwrap();
        let said = message.iter().filter(|(key, value)| *key != "role" && !value.is_null());
        assert_eq!(Value::from_iter(said.map(|(key, value)| (key.clone(), value.clone()))), expected);
    }
    assert_eq!(upstream.requests(), 4);
    for values in [&["Inline"][..], &[""], &["auto, drop"], &["auto", "auto"], &["\u{e9}"]] {
        for path in ["/v1/chat/completions", "/v1/messages"] {
            let mut request = request(&proxy, Method::POST, path);
            *request.body_mut() = Full::new(Bytes::from(WHOLE));
            for value in values {
                let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                request.headers_mut().append("x-toolwire-reasoning", value);
            }
            let reply = client.send(request).await.unwrap();
            assert_eq!(reply.status(), 400, "{values:?}");
            let error = reply.json().await["error"].clone();
            assert_eq!(error["type"], "invalid_request_error");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("x-toolwire-reasoning"), "{message}");
            assert!(values.len() > 1 || message.contains("`inline`, `drop`, `off`"), "{message}");
        }
    }
    assert_eq!(upstream.requests(), 4);
}

#[tokio::test]
async fn head_and_options() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    let whole = client.get(&proxy, "/v1/models").await;
    let head = client.send(request(&proxy, Method::HEAD, "/v1/models")).await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.header("content-length"), whole.header("content-length"));
    assert_eq!(head.rest().await, "");
    let options = client.send(request(&proxy, Method::OPTIONS, "/v1/chat/completions")).await.unwrap();
    assert_eq!((options.status(), options.header("allow")), (StatusCode::NO_CONTENT, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn models_are_listed_and_found_on_every_listener() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    let list = client.get(&proxy, "/v1/models").await.json().await;
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "m");
    assert_eq!(list["data"][1]["id"], "org/other");
    for path in ["/v1/models/org/other", "/v1/models/org%2Fother"] {
        let model = client.get(&proxy, path).await.json().await;
        assert_eq!((&model["id"], &model["object"]), (&"org/other".into(), &"model".into()));
        assert_eq!(model["owned_by"], "up");
    }
    let other = format!("http://{}/healthz", proxy.addresses[1]);
    let reply = client.send(Request::get(other).body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(reply.status(), 200);
}

#[tokio::test]
async fn requests_that_are_none() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    let unknown = r#"{"model":"nobody","messages":[{"role":"user","content":"hi"}]}"#;
    for (body, status, param) in [("no json", 400, None), (unknown, 404, Some("model")), ("{}", 400, None)] {
        let reply = client.chat(&proxy, body).await;
        assert_eq!(reply.status(), status, "{body}");
        let error = reply.json().await["error"].clone();
        if let Some(param) = param {
            assert_eq!(error["param"], param);
        }
    }
    let mut zipped = chat_request(&proxy, STREAM);
    zipped.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
    assert_eq!(client.send(zipped).await.unwrap().status(), 415);
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn request_ids_are_kept_if_they_are_sane() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    let long = "x".repeat(129);
    for (id, kept) in [("trace-1.2:3_4", true), ("", false), ("a b", false), ("a\"b", false), (&*long, false)]
    {
        let mut request = request(&proxy, Method::GET, "/nowhere");
        request.headers_mut().insert("x-request-id", HeaderValue::from_str(id).unwrap());
        let reply = client.send(request).await.unwrap();
        let given = reply.header("x-request-id").unwrap();
        assert_eq!(given == id, kept, "{id}");
        assert!(kept || given.starts_with("req_"));
        // Anthropic's SDKs read this header instead.
        assert_eq!(reply.header("request-id"), Some(given));
    }
    let reply = client.chat(&proxy, STREAM).await;
    assert!(reply.header("x-request-id").unwrap().starts_with("req_"));
    assert_eq!(reply.header("request-id"), reply.header("x-request-id"));
}

/// The client's own headers, above all its key, are not forwarded.
#[tokio::test]
async fn the_upstream_is_asked_as_configured() {
    let asked = Arc::new(Mutex::new(None));
    let keep = asked.clone();
    let upstream = Upstream::start(move |mut exchange| {
        let keep = keep.clone();
        async move {
            exchange.begin().await;
            exchange.piece(text("hello")).await;
            exchange.piece(END).await;
            exchange.end().await;
            let header = |name| exchange.header(name).map(str::to_owned);
            let line = exchange.head.lines().next().unwrap().to_owned();
            let headers = ["authorization", "accept", "accept-encoding", "content-type", "x-extra", "cookie"];
            *keep.lock().unwrap() = Some((line, headers.map(header)));
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.upstream.headers =
        HeaderMap::from_iter([(HeaderName::from_static("x-extra"), HeaderValue::from_static("yes"))]);
    let proxy = setup.start().await;
    let mut request = chat_request(&proxy, STREAM);
    request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer clients-own"));
    request.headers_mut().insert("cookie", HeaderValue::from_static("session=1"));
    request.headers_mut().insert("accept-encoding", HeaderValue::from_static("gzip"));
    Client::new().send(request).await.unwrap().rest().await;
    let (line, [authorization, accept, encoding, content, extra, cookie]) =
        asked.lock().unwrap().take().unwrap();
    assert_eq!(line, "post /base/chat/completions http/1.1");
    assert_eq!(authorization.as_deref(), Some("bearer upstream-key"));
    assert_eq!(accept.as_deref(), Some("text/event-stream, application/json"));
    assert_eq!(encoding.as_deref(), Some("identity"));
    assert_eq!(content.as_deref(), Some("application/json"));
    assert_eq!((extra.as_deref(), cookie), (Some("yes"), None));
}

#[tokio::test]
async fn requests_are_counted() {
    let upstream = answering().await;
    let proxy = Setup::new(upstream.address).start().await;
    let client = Client::new();
    client.chat(&proxy, STREAM).await.rest().await;
    client.get(&proxy, "/nowhere").await.rest().await;
    let reply = client.get(&proxy, "/metrics").await;
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let metrics = reply.rest().await;
    for line in [
        "toolwire_requests_total{route=\"chat_completions\",model=\"m\",status=\"200\"} 1\n",
        "toolwire_requests_total{route=\"unknown\",model=\"other\",status=\"404\"} 1\n",
        "toolwire_first_byte_seconds_count{model=\"m\"} 1\n",
        "toolwire_streams_in_flight 0\n",
        "toolwire_waiting_requests{upstream=\"up\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[derive(Debug, Default, Clone)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl Tap for Seen {
    fn begin(&self, opening: &Opening<'_>) -> Option<Box<dyn Watch>> {
        assert_eq!(opening.upstream.dialect(), Dialect::Chat);
        assert_eq!(opening.body.as_ref(), STREAM.as_bytes());
        self.note(format!("begin {} {}", opening.model.name, opening.upstream.endpoint().unwrap().path()));
        Some(Box::new(self.clone()))
    }
}

impl Watch for Seen {
    fn answered(&mut self, status: StatusCode, _: &HeaderMap, _: std::time::Duration) {
        self.note(format!("answered {}", status.as_u16()));
    }

    fn piece(&mut self, bytes: &[u8], _: std::time::Duration) {
        self.note(format!("piece of {}", bytes.len()));
    }

    fn end(&mut self, ending: Ending<'_>, _: std::time::Duration) {
        self.note(match ending {
            Ending::Done => "done".to_owned(),
            Ending::Failed(failure) => format!("failed {}", failure.status()),
            Ending::Cancelled => "cancelled".to_owned(),
        });
    }
}

#[tokio::test]
async fn a_tap_sees_the_exchange() {
    let upstream = answering().await;
    let mut setup = Setup::new(upstream.address);
    let seen = Seen::default();
    setup.tap = Some(Arc::new(seen.clone()));
    let proxy = setup.start().await;
    Client::new().chat(&proxy, STREAM).await.rest().await;
    // The end of a response is recorded when the response is dropped.
    drop(proxy);
    let seen = seen.0.lock().unwrap().clone();
    assert_eq!(seen[..2], ["begin m /base/chat/completions", "answered 200"]);
    let pieces = seen[2..seen.len() - 1].iter().map(|piece| {
        let length: usize = piece.strip_prefix("piece of ").unwrap().parse().unwrap();
        length
    });
    assert_eq!(pieces.sum::<usize>(), text("hello").len() + END.len());
    assert_eq!(seen.last().unwrap(), "done");
}
