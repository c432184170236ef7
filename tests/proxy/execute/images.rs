//! Tests images that a hosted tool or a chat command generates, and the server for their files.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::script::{Asked, added, call, end, text, upstream};
use crate::support::{
    client::Client,
    proxy::{NEVER, Proxy, Setup},
    raw::{Raw, get},
    soon,
    upstream::{Exchange, Upstream},
};

/// The bytes of [`PNG_BYTES`] in base64.
const PNG: &str = "iVBORw0KGgphYmM=";

/// The signature of a PNG file and three more bytes.
const PNG_BYTES: &[u8] = b"\x89PNG\r\n\x1a\nabc";

async fn json_reply(mut exchange: Exchange, status: &str, body: Value) -> Exchange {
    exchange.whole(status, "content-type: application/json\r\n", &body.to_string()).await;
    exchange
}

/// A service with Gemini's API that generates an image for every prompt except forbidden ones.
async fn service() -> Upstream {
    Upstream::start(|exchange| async move {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap();
        let is_forbidden = body["contents"][0]["parts"][0]["text"].as_str().unwrap().contains("forbidden");
        let candidate = match is_forbidden {
            true => json!({"finishReason": "IMAGE_SAFETY", "finishMessage": "RAW"}),
            false => json!({"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}}),
        };
        json_reply(exchange, "200 OK", json!({"candidates": [candidate]})).await
    })
    .await
}

/// A proxy with an image provider. `settings` are lines of `[execution]`.
fn setup(upstream: &Upstream, service: &Upstream, state: &Path, settings: &str) -> Setup {
    let mut setup = Setup::new(upstream.address);
    setup.state_dir = Some(state.to_owned());
    let base = format!("http://{}/v1beta", service.address);
    setup.execution = format!(
        "[execution]\n{settings}\n[[providers]]\nname = \"painter\"\nkind = \"images\"\nbase_url = \"{base}\"\napi_key = \"the-key\"\n"
    );
    setup
}

fn request(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

async fn post(proxy: &Proxy, path: &str, body: &Value) -> Value {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().json().await
}

async fn post_text(proxy: &Proxy, path: &str, body: &Value) -> String {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().rest().await
}

/// Returns the URLs of the Markdown images in a text.
fn images(text: &str) -> Vec<String> {
    let links = text.split("](").skip(1);
    links.filter_map(|link| Some(link.split_once(')')?.0.to_owned())).collect()
}

fn path_of(url: &str, proxy: &Proxy) -> String {
    url.strip_prefix(&proxy.url("")).unwrap().to_owned()
}

/// An upstream that must not get any request.
async fn unasked() -> (Upstream, Asked) {
    upstream([]).await
}

#[tokio::test]
async fn model_generates_images_and_clients_get_them_by_their_urls() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let first = call(0, "call_0", "generate_images", r#"{"prompt":"a red fox"}"#) + &end("tool_calls");
    let (upstream, asked) = upstream([first, text("Here they are.") + &end("stop")]).await;
    let proxy = setup(&upstream, &service, state.path(), "").start().await;
    let response = post(&proxy, "/v1/chat/completions", &request("draw a red fox")).await;
    assert_eq!(response["choices"][0]["message"]["content"], "Here they are.");
    let result = {
        let asked = asked.lock().unwrap();
        let result = added(&asked[1], 1)[1]["content"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&result).unwrap()
    };
    assert_eq!(
        (&result["kind"], &result["message"]),
        (&json!("images"), &json!("Generated 2 images from the description."))
    );
    assert_eq!(result["data"]["prompt"], "a red fox");
    let urls = result["data"]["image_urls"].as_array().unwrap();
    assert_eq!(urls.len(), 2);
    for url in urls {
        let reply = Client::new().get(&proxy, &path_of(url.as_str().unwrap(), &proxy)).await;
        assert_eq!(reply.status(), 200);
        for (name, value) in [
            ("content-type", "image/png"),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value));
        }
        let shown = Request::get(url.as_str().unwrap()).header("accept", "image/avif,image/webp,*/*;q=0.8");
        let shown = Client::new().send(shown.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(shown.header("cross-origin-resource-policy"), Some("cross-origin"), "a page shows it");
        assert!(reply.header("cache-control").unwrap().contains("immutable"));
        assert_eq!(reply.bytes().await, PNG_BYTES);
    }
}

/// A model that generates two images and then shows them.
fn drawing() -> [String; 2] {
    let first = call(0, "call_0", "generate_images", r#"{"prompt":"a red fox"}"#) + &end("tool_calls");
    [first, text("Here they are.") + &end("stop")]
}

#[tokio::test]
async fn images_are_items_of_a_response() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    for stream in [true, false] {
        let (upstream, asked) = upstream(drawing().into_iter().chain([text("A fox.") + &end("stop")])).await;
        let proxy = setup(&upstream, &service, state.path(), "visibility = \"items\"").start().await;
        let body = json!({"model": "m", "stream": stream, "input": "draw a red fox"});
        let response = match stream {
            false => post(&proxy, "/v1/responses", &body).await,
            true => {
                let stream = post_text(&proxy, "/v1/responses", &body).await;
                let generating = "event: response.image_generation_call.generating";
                assert_eq!(stream.matches(generating).count(), 2, "{stream}");
                assert!(!stream.contains("mcp_call"), "{stream}");
                let mut events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
                serde_json::from_str::<Value>(events.next_back().unwrap()).unwrap()["response"].clone()
            }
        };
        let output = response["output"].as_array().unwrap();
        let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["image_generation_call", "image_generation_call", "message"], "{response}");
        for item in &output[..2] {
            assert_eq!((&item["status"], &item["result"]), (&json!("completed"), &json!(PNG)));
            assert_eq!(item["output_format"], "png");
        }
        let id = response["id"].as_str().unwrap();
        let stored = Client::new().get(&proxy, &format!("/v1/responses/{id}")).await.json().await;
        assert_eq!(stored["output"], response["output"]);
        let next = json!({"model": "m", "previous_response_id": id, "input": "what is it?"});
        let next = post(&proxy, "/v1/responses", &next).await;
        assert_eq!(next["output"][0]["content"][0]["text"], "A fox.", "{next}");
        let asked = asked.lock().unwrap();
        assert!(!asked.iter().any(|request| request.to_string().contains(PNG)), "the model got the data");
    }
}

#[tokio::test]
async fn refused_images_are_failed_items() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let first = call(0, "call_0", "generate_images", r#"{"prompt":"forbidden"}"#) + &end("tool_calls");
    let (upstream, _) = upstream([first, text("I cannot.") + &end("stop")]).await;
    let proxy = setup(&upstream, &service, state.path(), "visibility = \"items\"").start().await;
    let response = post(&proxy, "/v1/responses", &json!({"model": "m", "input": "draw it"})).await;
    let item = &response["output"][0];
    assert_eq!((&item["type"], &item["status"]), (&json!("image_generation_call"), &json!("failed")));
    assert_eq!((&item["result"], &response["status"]), (&Value::Null, &json!("completed")));
}

#[tokio::test]
async fn more_images_than_the_limit_of_a_client_are_refused() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let settings = "rate_wait = \"1ms\"\n[[tools]]\nname = \"generate_images\"\nrate_limit = \"2/1h\"";
    let (upstream, asked) = upstream(drawing()).await;
    let mut setup = setup(&upstream, &service, state.path(), settings);
    setup.keys = vec!["one", "two"];
    let proxy = setup.start().await;
    let ask = async |key: &str, text: &str| {
        let post =
            Request::post(proxy.url("/v1/chat/completions")).header("authorization", format!("Bearer {key}"));
        let post = post.body(Full::new(Bytes::from(request(text).to_string()))).unwrap();
        let response = Client::new().send(post).await.unwrap().json().await;
        response["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    for _ in 0..2 {
        assert!(ask("one", "/generate-image a fox").await.contains("/api/images/"));
    }
    let refused = ask("one", "/generate-image a fox").await;
    assert!(refused.contains("Too many") && !refused.contains("/api/images/"), "{refused}");
    assert!(ask("two", "/generate-image a fox").await.contains("/api/images/"));
    assert_eq!(service.requests(), 6, "what is refused never reaches the service");
    assert_eq!(ask("one", "draw a fox").await, "Here they are.");
    let said = added(&asked.lock().unwrap()[1], 1)[1]["content"].to_string();
    assert!(said.contains("rate_limited"), "{said}");
}

/// These dialects have no items for images, so clients only get the links in the model's text.
#[tokio::test]
async fn other_clients_do_not_get_the_data_of_images() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let (upstream, _) = upstream(drawing()).await;
        let proxy = setup(&upstream, &service, state.path(), "visibility = \"items\"").start().await;
        let mut body = request("draw a red fox");
        body["max_tokens"] = 99.into();
        let response = post(&proxy, path, &body).await.to_string();
        assert!(response.contains("generate_images") && response.contains("/api/images/"), "{response}");
        assert!(!response.contains(PNG), "{response}");
    }
}

/// The service claims that every image is a PNG.
#[tokio::test]
async fn images_are_served_as_what_they_are() {
    for (bytes, served) in [
        (b"\xff\xd8\xff\xe0abc".as_slice(), Some((".jpg", "image/jpeg"))),
        (b"RIFF\x04\x00\x00\x00WEBPVP8 ", Some((".webp", "image/webp"))),
        (PNG_BYTES, Some((".png", "image/png"))),
        (b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>1</script></svg>", None),
        (b"<!doctype html><script>1</script>", None),
    ] {
        let state = tempfile::tempdir().unwrap();
        let service = Upstream::start_sharing(BASE64_STANDARD.encode(bytes), |exchange, data| async move {
            let part = json!({"inlineData": {"mimeType": "image/png", "data": data}});
            json_reply(exchange, "200 OK", json!({"candidates": [{"content": {"parts": [part]}}]})).await
        });
        let (service, (upstream, _)) = (service.await, unasked().await);
        let proxy = setup(&upstream, &service, state.path(), "").start().await;
        let response = post(&proxy, "/v1/chat/completions", &request("/generate-image a fox")).await;
        let urls = images(response["choices"][0]["message"]["content"].as_str().unwrap());
        let Some((ending, content_type)) = served else {
            assert!(urls.is_empty(), "{response}");
            continue;
        };
        assert_eq!(urls.len(), 2, "{response}");
        for url in urls {
            assert!(url.ends_with(ending), "{url}");
            let reply = Client::new().get(&proxy, &path_of(&url, &proxy)).await;
            assert_eq!(reply.header("content-type"), Some(content_type));
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(reply.bytes().await, bytes);
            for other in [".png", ".jpg", ".webp"].into_iter().filter(|other| *other != ending) {
                let path = path_of(&url, &proxy).replace(ending, other);
                assert_eq!(Client::new().get(&proxy, &path).await.status(), 404);
            }
        }
    }
}

/// An image of the maximum size must pass through every part of toolwire.
#[tokio::test]
async fn image_of_the_largest_size_is_an_item_and_a_larger_one_is_refused() {
    const LIMIT: usize = 2 << 20;
    for (size, is_kept) in [(LIMIT, true), (LIMIT + 1, false)] {
        let state = tempfile::tempdir().unwrap();
        let mut bytes = PNG_BYTES.to_vec();
        bytes.resize(size, 7);
        let data = BASE64_STANDARD.encode(bytes);
        let service = Upstream::start_sharing(data.clone(), |exchange, data| async move {
            let part = json!({"inlineData": {"mimeType": "image/png", "data": data}});
            json_reply(exchange, "200 OK", json!({"candidates": [{"content": {"parts": [part]}}]})).await
        });
        let (service, (upstream, asked)) = (service.await, upstream(drawing()).await);
        let proxy = setup(&upstream, &service, state.path(), "visibility = \"items\"").start().await;
        let body = json!({"model": "m", "stream": true, "input": "draw a red fox"});
        let stream = post_text(&proxy, "/v1/responses", &body).await;
        // Each of the two images is in its own item and again in the complete response at the end.
        assert_eq!(stream.matches(&data).count(), if is_kept { 4 } else { 0 });
        assert!(stream.contains("event: response.completed"), "{}", stream.len());
        let said = added(&asked.lock().unwrap()[1], 1)[1]["content"].to_string();
        assert_eq!(said.contains("too_large"), !is_kept, "{said}");
    }
}

#[tokio::test]
async fn refused_description_is_a_result_for_the_model() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let first = call(0, "call_0", "generate_images", r#"{"prompt":"forbidden"}"#) + &end("tool_calls");
    let (upstream, asked) = upstream([first, text("I cannot.") + &end("stop")]).await;
    let proxy = setup(&upstream, &service, state.path(), "").start().await;
    let response = post(&proxy, "/v1/chat/completions", &request("draw it")).await;
    assert_eq!(response["choices"][0]["message"]["content"], "I cannot.");
    let asked = asked.lock().unwrap();
    let result = added(&asked[1], 1)[1]["content"].to_string();
    assert!(result.contains("content_policy") && result.contains("different description"), "{result}");
    assert!(!result.contains("RAW") && !result.contains("the-key"), "{result}");
}

#[tokio::test]
async fn names_that_are_not_of_images_are_refused() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    std::fs::write(state.path().join("secret.png"), "secret").unwrap();
    let (upstream, _) = unasked().await;
    let mut setup = setup(&upstream, &service, state.path(), "");
    setup.keys = vec!["client-key"];
    let proxy = setup.start().await;
    let unknown = "20261123_081500_0123456789abcdef0123456789abcdef.png";
    let long = "a".repeat(5_000);
    for (name, status) in [
        (unknown, 404),
        ("", 404),
        ("..", 400),
        (".", 400),
        ("../secret.png", 400),
        ("..%2fsecret.png", 400),
        ("..%5csecret.png", 400),
        ("%2e%2e/secret.png", 400),
        ("..\\secret.png", 400),
        ("images/../../secret.png", 400),
        ("/etc/passwd", 400),
        ("secret.png", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.png%00", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.jpg", 404),
        ("20261123_081500_0123456789abcdef0123456789abcdef.webp", 404),
        ("20261123_081500_0123456789abcdef0123456789abcdef.jpeg", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.gif", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.svg", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.html", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.svg.png", 400),
        ("20261123_081500_0123456789abcdef0123456789abcdef.png/", 400),
        ("%3220261123_081500_0123456789abcdef0123456789abcdef.png", 400),
        ("20261123_081500_0123456789ABCDEF0123456789abcdef.png", 400),
        ("%E2%80%AE.png", 400),
        (&long, 400),
    ] {
        let mut connection = Raw::connect(&proxy).await;
        connection.send(get(&format!("/api/images/{name}"))).await;
        let response = connection.response().await;
        assert_eq!(response.status, status, "{name}: {}", response.body);
        assert!(!response.body.contains("secret") || name.contains("secret"), "{}", response.body);
    }
    let with_query = format!("/api/images/{unknown}?x=../../secret.png");
    assert_eq!(Client::new().get(&proxy, &with_query).await.status(), 404);
    assert_eq!(Client::new().get(&proxy, "/api/images").await.status(), 404);
    let posted = Request::post(proxy.url(&format!("/api/images/{unknown}"))).body(Full::default()).unwrap();
    assert_eq!(Client::new().send(posted).await.unwrap().status(), 405);
}

#[tokio::test]
async fn without_the_stage_there_are_no_images() {
    let (upstream, _) = unasked().await;
    let proxy = Setup::new(upstream.address).start().await;
    let path = "/api/images/20261123_081500_0123456789abcdef0123456789abcdef.png";
    assert_eq!(Client::new().get(&proxy, path).await.status(), 404);
}

#[tokio::test]
async fn images_are_served_without_a_key_and_to_head_requests() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let folder = state.path().join("images");
    std::fs::create_dir(&folder).unwrap();
    let name = "20261123_081500_0123456789abcdef0123456789abcdef.png";
    std::fs::write(folder.join(name), PNG_BYTES).unwrap();
    let (upstream, _) = unasked().await;
    let mut setup = setup(&upstream, &service, state.path(), "");
    setup.keys = vec!["client-key"];
    let proxy = setup.start().await;
    let path = format!("/api/images/{name}");
    let reply = Client::new().get(&proxy, &path).await;
    assert_eq!((reply.status().as_u16(), reply.bytes().await.as_slice()), (200, PNG_BYTES));
    let head = Request::head(proxy.url(&path)).body(Full::default()).unwrap();
    let reply = Client::new().send(head).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.header("content-length")), (200, Some("11")));
    assert_eq!(reply.rest().await, "");
}

#[tokio::test]
async fn command_is_answered_without_the_model_in_every_dialect() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let (upstream, asked) = unasked().await;
    let proxy = setup(&upstream, &service, state.path(), "").start().await;
    let command = "/generate-image a red fox";
    let chat = request(command);
    let messages = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": command}]});
    let responses = json!({"model": "m", "input": command});
    for (path, body, place) in [
        ("/v1/chat/completions", &chat, "/choices/0/message/content"),
        ("/v1/messages", &messages, "/content/0/text"),
        ("/v1/responses", &responses, "/output/0/content/0/text"),
    ] {
        let whole = post(&proxy, path, body).await;
        let text = whole.pointer(place).and_then(Value::as_str).unwrap_or_else(|| panic!("{whole}"));
        assert!(
            text.starts_with("Generated 2 images from the description.\n\n![a red fox](http://"),
            "{text}"
        );
        let urls = images(text);
        assert_eq!(urls.len(), 2, "{text}");
        for url in urls {
            assert_eq!(Client::new().get(&proxy, &path_of(&url, &proxy)).await.bytes().await, PNG_BYTES);
        }
        let mut streamed = body.clone();
        streamed["stream"] = true.into();
        let stream = post_text(&proxy, path, &streamed).await;
        assert!(stream.contains("Generated 2 images") && stream.contains("/api/images/"), "{stream}");
        let is_ended =
            ["[DONE]", "message_stop", "response.completed"].iter().any(|mark| stream.contains(mark));
        assert!(is_ended && !stream.contains("\"error\":{"), "{stream}");
    }
    assert!(asked.lock().unwrap().is_empty(), "the model was asked");
}

/// A service that generates the first image at once, and further ones after the file `go` has been created.
/// Notifies `left` when a request is cancelled.
async fn slow_service(go: PathBuf, left: Arc<Notify>) -> (Upstream, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let shared = (go, left, Arc::clone(&asked));
    let service = Upstream::start_sharing(shared, |mut exchange, (go, left, asked)| async move {
        if asked.fetch_add(1, Ordering::SeqCst) > 0 && !go.exists() {
            exchange.gone().await;
            left.notify_one();
            return exchange;
        }
        let candidate =
            json!({"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}});
        json_reply(exchange, "200 OK", json!({"candidates": [candidate]})).await
    });
    (service.await, asked)
}

#[tokio::test]
async fn client_that_leaves_while_images_are_generated_leaves_no_file_behind() {
    for body in [request("draw a red fox"), request("/generate-image a red fox")] {
        let (left, state) = (Arc::<Notify>::default(), tempfile::tempdir().unwrap());
        let go = state.path().join("go");
        let (service, asked) = slow_service(go.clone(), Arc::clone(&left)).await;
        let [calls, answer] = drawing();
        let (upstream, _) = upstream([calls.clone(), calls, answer]).await;
        let mut setup = setup(&upstream, &service, state.path(), "");
        setup.limits.keep_alive = Duration::from_millis(40);
        let proxy = setup.start().await;
        let metrics = async || Client::new().get(&proxy, "/metrics").await.rest().await;
        let until = async |line: &str| {
            while !metrics().await.contains(line) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut streamed = body.clone();
        streamed["stream"] = true.into();
        let mut reply = Client::new().chat(&proxy, streamed.to_string()).await;
        reply.until(": keep-alive").await;
        soon("the first image to be kept", until("toolwire_images 1\n")).await;
        drop(reply);
        soon("the service to be left alone", left.notified()).await;
        soon("the first image to be removed", until("toolwire_images 0\n")).await;
        let files = std::fs::read_dir(state.path().join("images")).unwrap();
        assert_eq!(files.count(), 0);
        let counted = metrics().await;
        let cancelled = "toolwire_hosted_calls_total{tool=\"generate_images\",provider=\"painter\",code=\"cancelled\"} 1\n";
        assert!(counted.contains(cancelled), "{counted}");
        assert_eq!(counted.matches("toolwire_hosted_calls_total{").count(), 1, "{counted}");
        assert!(counted.contains("toolwire_client_disconnects_total 1\n"), "{counted}");
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        // The repeated request is a new call.
        std::fs::write(&go, "").unwrap();
        post(&proxy, "/v1/chat/completions", &body).await;
        assert_eq!(asked.load(Ordering::SeqCst), 4);
        assert!(metrics().await.contains("toolwire_images 2\n"));
    }
}

#[tokio::test]
async fn command_has_token_counts_for_clients_that_want_them() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let (upstream, _) = unasked().await;
    let proxy = setup(&upstream, &service, state.path(), "").start().await;
    for wanted in [true, false] {
        let mut body = request("/generate-image a fox");
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": wanted});
        let stream = post_text(&proxy, "/v1/chat/completions", &body).await;
        let counts = "\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0";
        assert_eq!(stream.contains(counts), wanted, "{stream}");
    }
}

#[tokio::test]
async fn command_says_what_went_wrong_as_a_message() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let (upstream, _) = unasked().await;
    let proxy = setup(&upstream, &service, state.path(), "").start().await;
    for (text, said) in [
        ("/generate-image forbidden", "Please try a different description."),
        ("/generate-image", "Describe the image after the command"),
    ] {
        let response = post(&proxy, "/v1/chat/completions", &request(text)).await;
        let choice = &response["choices"][0];
        assert!(choice["message"]["content"].as_str().unwrap().contains(said), "{response}");
        assert_eq!(choice["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn command_can_be_renamed_and_switched_off() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    for (settings, text, is_command) in [
        ("image_command = \"off\"", "/generate-image a fox", false),
        ("image_command = \"/draw\"", "/generate-image a fox", false),
        ("image_command = \"/draw\"", "/draw a fox", true),
    ] {
        let (upstream, asked) = upstream([super::script::text("hello") + &end("stop")]).await;
        let proxy = setup(&upstream, &service, state.path(), settings).start().await;
        let response = post(&proxy, "/v1/chat/completions", &request(text)).await;
        let said = response["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(said.contains("/api/images/"), is_command, "{settings} {text}: {said}");
        assert_eq!(asked.lock().unwrap().len(), usize::from(!is_command));
    }
}

#[tokio::test]
async fn command_is_text_without_a_provider_of_images() {
    let (upstream, asked) = upstream([text("hello") + &end("stop")]).await;
    let proxy = super::script::setup(&upstream, "").start().await;
    let response = post(&proxy, "/v1/chat/completions", &request("/generate-image a fox")).await;
    assert_eq!(response["choices"][0]["message"]["content"], "hello");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn streamed_command_keeps_its_client_with_comments() {
    let service = Upstream::start(Exchange::silent).await;
    let state = tempfile::tempdir().unwrap();
    let (upstream, _) = unasked().await;
    let mut setup = setup(&upstream, &service, state.path(), "");
    setup.limits.keep_alive = std::time::Duration::from_millis(20);
    assert_eq!(setup.upstream.timeouts.header, NEVER);
    let proxy = setup.start().await;
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "/generate-image a fox"}]});
    let mut reply = Client::new().chat(&proxy, body.to_string()).await;
    assert_eq!(reply.status(), 200);
    reply.until("\n\n").await;
    while service.requests() < 2 {
        tokio::task::yield_now().await;
    }
    drop(reply);
}

#[tokio::test]
async fn links_begin_with_the_public_url() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let (upstream, _) = unasked().await;
    let settings = "public_url = \"https://ai.example/\"";
    let proxy = setup(&upstream, &service, state.path(), settings).start().await;
    let response = post(&proxy, "/v1/chat/completions", &request("/generate-image a fox")).await;
    let said = response["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(said.contains("](https://ai.example/api/images/"), "{said}");
}

#[tokio::test]
async fn images_survive_a_restart_and_are_counted() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let (upstream, _) = unasked().await;
    let start = || setup(&upstream, &service, state.path(), "public_url = \"http://x\"").start();
    let proxy = start().await;
    let response = post(&proxy, "/v1/chat/completions", &request("/generate-image a fox")).await;
    let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
    assert!(metrics.contains("toolwire_images 2\n"), "{metrics}");
    drop(proxy);
    let proxy = start().await;
    let said = response["choices"][0]["message"]["content"].as_str().unwrap();
    for url in images(said) {
        let path = url.strip_prefix("http://x").unwrap();
        assert_eq!(Client::new().get(&proxy, path).await.status(), 200);
    }
}

#[tokio::test]
async fn command_shows_what_the_tool_is_doing_like_a_call_of_the_model() {
    let (service, state) = (service().await, tempfile::tempdir().unwrap());
    let (upstream, _) = unasked().await;
    let proxy = setup(&upstream, &service, state.path(), "visibility = \"reasoning\"").start().await;
    for (text, shown) in [("/Generate-Image 3 foxes", "Generating images: 3 foxes"), ("/generate-image", "")]
    {
        let response = post(&proxy, "/v1/chat/completions", &request(text)).await;
        let message = &response["choices"][0]["message"];
        let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
        assert!(reasoning.starts_with(shown) && reasoning.is_empty() == shown.is_empty(), "{response}");
        let images = message["content"].as_str().unwrap().matches("/api/images/").count();
        assert_eq!(images, if shown.is_empty() { 0 } else { 3 }, "{response}");
    }
}
