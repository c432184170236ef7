//! Tests clients of Gemini's API: what their paths and keys mean, and that a key in a URL is shown nowhere.

use std::sync::{Arc, Mutex};

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{
    support::{
        client::{Client, Reply},
        proxy::{Proxy, Setup},
        upstream::{END, Upstream, text},
    },
    telemetry::Collector,
};

/// The client's key, which occurs in no other text.
const KEY: &str = "canary-4f1d-key";

const BODY: &str = r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#;

type Heads = Arc<Mutex<Vec<String>>>;

/// An upstream that answers with a stream, and the heads and bodies that it has received.
async fn noting() -> (Upstream, Heads) {
    let heads = Heads::default();
    let upstream = Upstream::start_sharing(Arc::clone(&heads), |mut exchange, heads| async move {
        let body = String::from_utf8(exchange.body.clone()).unwrap();
        heads.lock().unwrap().push(format!("{}{body}", exchange.head));
        exchange.begin().await;
        exchange.piece(text("hello")).await;
        exchange.piece(END).await;
        exchange.finished().await
    });
    (upstream.await, heads)
}

fn setup(upstream: &Upstream, more: &str) -> Setup {
    let execution = format!("[[keys]]\nname = \"team\"\nkey = \"{KEY}\"\n\n{more}");
    Setup { execution, wildcard: true, ..Setup::new(upstream.address) }
}

async fn ask(proxy: &Proxy, method: Method, path: &str, key: Option<&str>) -> Reply {
    let body = if method == Method::POST { BODY } else { "" };
    let mut request = Request::builder().method(method).uri(proxy.url(path));
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    if let Some(key) = key {
        request = request.header("x-goog-api-key", key);
    }
    Client::new().send(request.body(Full::from(body)).unwrap()).await.unwrap()
}

#[tokio::test]
async fn paths_name_the_model_and_the_form_of_the_response() {
    let (upstream, heads) = noting().await;
    let proxy = setup(&upstream, "").start().await;
    for (path, model, kind) in [
        ("/v1beta/models/a%2Fb:generateContent", "a/b", "application/json"),
        ("/v1/models/a/b:generateContent", "a/b", "application/json"),
        ("/v1alpha/models/x:streamGenerateContent?alt=sse", "x", "text/event-stream; charset=utf-8"),
        ("/v1beta/models/x:streamGenerateContent", "x", "application/json"),
        ("/v1beta/tunedModels/x:generateContent?alt=json", "tunedModels/x", "application/json"),
    ] {
        let reply = ask(&proxy, Method::POST, path, Some(KEY)).await;
        assert_eq!((reply.status(), reply.header("content-type")), (StatusCode::OK, Some(kind)), "{path}");
        let body = reply.rest().await;
        assert!(body.contains("hello") && body.contains("\"finishReason\":\"STOP\""), "{path}: {body}");
        let head = heads.lock().unwrap().pop().unwrap();
        assert!(head.contains(&format!("\"model\":\"{model}\"")), "{path}: {head}");
        assert!(!head.contains("toolwire_path"), "{head}");
    }
    let count = ask(&proxy, Method::POST, "/v1beta/models/m:countTokens", Some(KEY)).await.json().await;
    assert!(count["totalTokens"].as_u64() > Some(0), "{count}");
}

#[tokio::test]
async fn list_of_models_is_the_one_of_the_client_that_asks() {
    let (upstream, _) = noting().await;
    let proxy = setup(&upstream, "").start().await;
    let by_key = format!("/v1/models?key={KEY}");
    for (path, key) in [("/v1beta/models?pageSize=1", Some(KEY)), ("/v1/models", Some(KEY)), (&by_key, None)]
    {
        let list = ask(&proxy, Method::GET, path, key).await.json().await;
        assert_eq!(list["models"][0]["name"], "models/m", "{path}: {list}");
        assert_eq!(list["models"][0]["supportedGenerationMethods"][0], "generateContent");
    }
    let one = ask(&proxy, Method::GET, "/v1beta/models/org/other", Some(KEY)).await.json().await;
    assert_eq!(one["name"], "models/org/other");
    let request = Request::get(proxy.url("/v1/models")).header("authorization", format!("Bearer {KEY}"));
    let list = Client::new().send(request.body(Full::default()).unwrap()).await.unwrap().json().await;
    assert_eq!(list["object"], "list");
}

#[tokio::test]
async fn errors_have_googles_form() {
    let (upstream, _) = noting().await;
    let proxy = setup(&upstream, "").start().await;
    for (path, key, status, word) in [
        ("/v1beta/models/m:generateContent", None, 401, "UNAUTHENTICATED"),
        ("/v1beta/models/m:generateContent?key=wrong", None, 401, "UNAUTHENTICATED"),
        ("/v1beta/models/m:embedContent", Some(KEY), 404, "NOT_FOUND"),
        ("/v1/models/m:embedContent", Some(KEY), 404, "NOT_FOUND"),
        ("/v1beta/models/%ff:generateContent", Some(KEY), 404, "NOT_FOUND"),
        ("/v1beta/models", Some(KEY), 405, "INVALID_ARGUMENT"),
    ] {
        let reply = ask(&proxy, Method::POST, path, key).await;
        assert_eq!(reply.status(), status, "{path}");
        let error = reply.json().await["error"].clone();
        assert_eq!((&error["code"], &error["status"]), (&json!(status), &json!(word)), "{path}: {error}");
    }
}

#[tokio::test]
async fn key_in_a_url_is_shown_nowhere() {
    let (upstream, heads) = noting().await;
    let collector = Collector::start("200 OK").await;
    let proxy = setup(&upstream, &collector.table("sample = 1.0")).start().await;
    let client = Client::new();
    for path in ["generateContent", "streamGenerateContent", "countTokens", "embedContent"] {
        let path = format!("/v1beta/models/m:{path}?alt=sse&key={KEY}&x=1");
        let reply = ask(&proxy, Method::POST, &path, None).await;
        let headers = format!("{:?}", reply.headers("x-request-id"));
        assert!(!(headers + &reply.rest().await).contains(KEY), "{path}");
    }
    let wrong = format!("/v1beta/models/m:generateContent?key=not-{KEY}");
    assert!(!ask(&proxy, Method::POST, &wrong, None).await.rest().await.contains(KEY));
    for path in ["/metrics", "/admin/exchanges", "/admin/keys", "/admin/state"] {
        let shown = client.get(&proxy, path).await.rest().await;
        assert!(!shown.contains(KEY), "{path}: {shown}");
    }
    for head in heads.lock().unwrap().iter() {
        assert!(!head.contains(KEY) && !head.contains("alt=sse"), "{head}");
    }
    assert!(!heads.lock().unwrap().is_empty());
    let exported = collector.after(proxy).await;
    assert!(!exported.spans.is_empty() && !exported.shows(KEY));
}

#[tokio::test]
async fn stored_members_of_a_path_are_not_taken_from_the_client() {
    let (upstream, heads) = noting().await;
    let proxy = setup(&upstream, "").start().await;
    let body = r#"{"contents":[{"parts":[{"text":"hi"}]}],"toolwire_path":{"model":"evil","stream":true},"toolwirePath":{}}"#;
    let request = Request::post(proxy.url("/v1beta/models/good:generateContent"))
        .header("content-type", "application/json")
        .header("x-goog-api-key", KEY);
    let reply = Client::new().send(request.body(Full::from(body)).unwrap()).await.unwrap();
    let whole: Value = reply.json().await;
    assert_eq!(whole["candidates"][0]["content"]["parts"][0]["text"], "hello");
    assert!(heads.lock().unwrap()[0].contains("\"model\":\"good\""));
}
