//! Tests with a scripted image service.

use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

use super::*;
use crate::files::{ImageGauges, ImageSettings};

/// The service's reply to a request.
#[derive(Debug, Clone)]
enum Reply {
    /// A status and a JSON body.
    Json(u16, Value),
    /// A status and a body that is not JSON.
    Text(u16, String),
    Bytes(Vec<u8>),
    /// No reply.
    Silence,
    /// Part of a response, after which the connection closes.
    Broken,
    /// The body, sent when this many requests have arrived.
    After(usize, Value),
}

/// A scripted image service. Its last reply is repeated.
struct Scripted {
    address: SocketAddr,
    requests: Mutex<Vec<(String, Value)>>,
    replies: Mutex<VecDeque<Reply>>,
    open: AtomicUsize,
    most_open: AtomicUsize,
    arrived: Notify,
}

impl Scripted {
    async fn start(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let double = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            requests: Mutex::default(),
            replies: Mutex::new(replies.into_iter().collect()),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            arrived: Notify::new(),
        });
        let serving = Arc::clone(&double);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let double = Arc::clone(&serving);
                tokio::spawn(async move { double.serve(stream).await });
            }
        });
        double
    }

    async fn serve(&self, mut stream: TcpStream) {
        let (head, body) = request(&mut stream).await;
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_open.fetch_max(open, Ordering::SeqCst);
        self.requests.lock().push((head, body));
        self.arrived.notify_waiters();
        let reply = {
            let mut replies = self.replies.lock();
            if replies.len() > 1 { replies.pop_front().unwrap() } else { replies[0].clone() }
        };
        let (status, body) = match reply {
            Reply::Json(status, value) => (status, value.to_string().into_bytes()),
            Reply::Text(status, text) => (status, text.into_bytes()),
            Reply::Bytes(bytes) => (200, bytes),
            Reply::After(count, value) => {
                loop {
                    let arrived = self.arrived.notified();
                    if self.requests.lock().len() >= count {
                        break;
                    }
                    arrived.await;
                }
                (200, value.to_string().into_bytes())
            }
            Reply::Silence => std::future::pending().await,
            Reply::Broken => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"data").await;
                return;
            }
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        self.open.fetch_sub(1, Ordering::SeqCst);
        let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().clone()
    }
}

async fn request(stream: &mut TcpStream) -> (String, Value) {
    let mut read = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        read.extend_from_slice(&piece[..count]);
        let text = std::str::from_utf8(&read).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return (head, serde_json::from_str(body).unwrap_or_default());
            }
        }
        assert!(count > 0, "the request broke off");
    }
}

struct Setup {
    service: Arc<Scripted>,
    folder: tempfile::TempDir,
    provider: Arc<dyn Provider>,
}

impl Setup {
    async fn new(engine: Engine, replies: impl IntoIterator<Item = Reply>, change: fn(&mut Options)) -> Self {
        let service = Scripted::start(replies).await;
        let mut options = Options {
            engine,
            base_url: Some(format!("http://{}/v1", service.address).parse().unwrap()),
            api_key: Some(SecretString::from("the-key")),
            model: "painter".to_owned(),
            ..Options::default()
        };
        change(&mut options);
        let folder = tempfile::tempdir().unwrap();
        let provider = options.build(&host(Some(folder.path().to_str().unwrap()))).unwrap();
        Self { service, folder, provider }
    }

    async fn run(&self, arguments: Value) -> Result<Output, ToolError> {
        let call = Invocation::in_test(TOOL, arguments);
        timeout(Duration::from_secs(20), self.provider.run(&call)).await.expect("the call hangs")
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path()).unwrap().count()
    }
}

fn host(folder: Option<&str>) -> Host {
    let settings = ImageSettings { folder: folder.map(str::to_owned), ..ImageSettings::default() };
    let files = ImageFiles::new(&settings, ImageGauges::default()).map(Arc::new);
    if let Some(files) = &files {
        files.reached_at("http://127.0.0.1:8787");
    }
    Host::detached("painter").with_files(files)
}

/// The first bytes of a PNG file, as base64.
fn png() -> String {
    BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\n and more")
}

fn gemini() -> Reply {
    Reply::Json(
        200,
        json!({"candidates": [{"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": png()}}]}}]}),
    )
}

fn blocked() -> Reply {
    Reply::Json(200, json!({"candidates": [{"finishReason": "IMAGE_SAFETY", "finishMessage": "RAW words"}]}))
}

fn openai(count: usize) -> Reply {
    Reply::Json(200, json!({"created": 1, "data": vec![json!({"b64_json": png()}); count]}))
}

fn content(output: &Output) -> Value {
    serde_json::from_str(&output.content).unwrap()
}

fn urls(output: &Output) -> usize {
    content(output)["data"]["image_urls"].as_array().unwrap().len()
}

#[tokio::test]
async fn two_images_are_made_by_default_and_kept_as_files() {
    let setup = Setup::new(Engine::Gemini, [gemini()], |_| {}).await;
    let output = setup.run(json!({"prompt": "a red fox"})).await.unwrap();
    let result = content(&output);
    assert_eq!(
        (result["kind"].as_str(), result["data"]["prompt"].as_str()),
        (Some("images"), Some("a red fox"))
    );
    assert_eq!(result["message"], "Generated 2 images from the description.");
    assert_eq!((urls(&output), setup.files(), output.summary.as_str()), (2, 2, "2 images"));
    let url = result["data"]["image_urls"][0].as_str().unwrap();
    let name = url.strip_prefix("http://127.0.0.1:8787/api/images/").unwrap();
    assert!(crate::files::is_name(name), "{name}");
    assert!(result["markdown"].as_str().unwrap().starts_with(&format!("![Image 1]({url})\n")));
    let requests = setup.service.requests();
    assert!(
        requests.iter().all(|(head, _)| head.starts_with("post /v1/models/painter:generatecontent http/1.1"))
    );
    assert!(requests.iter().all(|(head, _)| head.contains("x-goog-api-key: the-key")));
    assert_eq!(requests[0].1["contents"][0]["parts"][0]["text"], "a red fox");
    assert_eq!(requests[0].1["generationConfig"]["responseModalities"], json!(["TEXT", "IMAGE"]));
}

#[tokio::test]
async fn more_than_four_images_become_four_with_a_note() {
    let setup = Setup::new(Engine::Gemini, [gemini()], |_| {}).await;
    let output = setup.run(json!({"prompt": "a fox", "count": 9})).await.unwrap();
    assert_eq!((urls(&output), setup.service.requests().len()), (4, 4));
    assert!(content(&output)["message"].as_str().unwrap().contains("At most 4 images"));
    assert!(setup.service.most_open.load(Ordering::SeqCst) <= 2, "more than two requests at once");
}

#[tokio::test]
async fn two_requests_run_at_once() {
    let image = match gemini() {
        Reply::Json(_, image) | Reply::After(_, image) => image,
        _ => Value::Null,
    };
    let setup = Setup::new(Engine::Gemini, [Reply::After(2, image)], |_| {}).await;
    assert_eq!(urls(&setup.run(json!({"prompt": "a fox"})).await.unwrap()), 2);
}

#[tokio::test]
async fn single_image_that_fails_leaves_the_others() {
    let setup = Setup::new(Engine::Gemini, [blocked(), gemini()], |_| {}).await;
    let output = setup.run(json!({"prompt": "a fox", "count": 3})).await.unwrap();
    assert_eq!(urls(&output), 2);
    let message = content(&output)["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("1 image could not be generated") && message.contains("different description"),
        "{message}"
    );
    assert!(!output.content.contains("RAW"));
}

#[tokio::test]
async fn failures_become_codes_in_plain_words() {
    use ErrorCode::{AuthFailed, ContentPolicy, ProviderError, RateLimited};
    let not_png = json!({"candidates": [{"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "R0lGODlh"}}]}}]});
    let not_base64 = json!({"candidates": [{"content": {"parts": [{"inlineData": {"data": "***"}}]}}]});
    for (reply, code) in [
        (blocked(), ContentPolicy),
        (
            Reply::Json(
                400,
                json!({"error": {"message": "RAW", "details": [{"reason": "API_KEY_INVALID"}]}}),
            ),
            AuthFailed,
        ),
        (Reply::Json(429, json!({"error": {"message": "RAW"}})), RateLimited),
        (Reply::Json(500, json!({"error": {"message": "RAW"}})), ProviderError),
        (Reply::Text(200, "<html>RAW".to_owned()), ProviderError),
        (Reply::Text(302, String::new()), ProviderError),
        (Reply::Broken, ProviderError),
        (Reply::Json(200, not_png), ProviderError),
        (Reply::Json(200, not_base64), ProviderError),
    ] {
        let setup = Setup::new(Engine::Gemini, [reply.clone()], |_| {}).await;
        let error = setup.run(json!({"prompt": "a fox"})).await.unwrap_err();
        assert_eq!(error.code, code, "{reply:?}");
        assert!(!error.message.contains("RAW") && error.message.ends_with('.'), "{}", error.message);
        assert_eq!(setup.files(), 0);
    }
}

#[tokio::test]
async fn service_that_cannot_be_reached_is_reported() {
    let setup = Setup::new(Engine::Gemini, [gemini()], |options| {
        options.base_url = Some("http://127.0.0.1:1".parse().unwrap());
    });
    let error = setup.await.run(json!({"prompt": "a fox"})).await.unwrap_err();
    assert_eq!((error.code, error.is_retryable), (ErrorCode::ProviderError, true));
}

#[tokio::test]
async fn images_that_arrive_in_time_are_not_lost_with_the_others() {
    let setup = Setup::new(Engine::Gemini, [gemini(), Reply::Silence], |options| {
        options.timeout = Duration::from_secs(1);
    });
    let setup = setup.await;
    let output = setup.run(json!({"prompt": "a fox"})).await.unwrap();
    assert_eq!(urls(&output), 1);
    assert!(content(&output)["message"].as_str().unwrap().contains("did not answer within 1 s"));
}

#[tokio::test]
async fn silent_service_times_out() {
    let setup =
        Setup::new(Engine::OpenAi, [Reply::Silence], |options| options.timeout = Duration::from_secs(1));
    let error = setup.await.run(json!({"prompt": "a fox"})).await.unwrap_err();
    assert_eq!((error.code, error.is_retryable), (ErrorCode::Timeout, true));
}

#[tokio::test]
async fn images_over_the_limit_are_refused() {
    let large = BASE64_STANDARD.encode([b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 2 << 20]].concat());
    let setup =
        Setup::new(Engine::OpenAi, [Reply::Json(200, json!({"data": [{"b64_json": large}]}))], |_| {}).await;
    let error = setup.run(json!({"prompt": "a fox", "count": 1})).await.unwrap_err();
    assert_eq!((error.code, setup.files()), (ErrorCode::TooLarge, 0));
}

#[tokio::test]
async fn openai_gets_one_request_for_all_images() {
    let setup = Setup::new(Engine::OpenAi, [openai(3)], |options| {
        options.style_suffix = "on parchment".to_owned();
        options.request = Some(json!({"quality": "low", "size": "auto"}));
    });
    let setup = setup.await;
    let output = setup.run(json!({"prompt": "a fox", "count": 3, "aspect_ratio": "16:9"})).await.unwrap();
    assert_eq!(urls(&output), 3);
    let requests = setup.service.requests();
    assert_eq!(requests.len(), 1);
    let (head, body) = &requests[0];
    assert!(
        head.starts_with("post /v1/images/generations ") && head.contains("authorization: bearer the-key")
    );
    let expected = json!({"model": "painter", "prompt": "a fox\non parchment", "n": 3, "size": "auto", "quality": "low"});
    assert_eq!(*body, expected);
    assert_eq!(content(&output)["data"]["prompt"], "a fox", "the suffix is not the user's");
}

#[tokio::test]
async fn images_at_addresses_are_downloaded_unless_the_address_is_private() {
    let image = Scripted::start([Reply::Bytes(BASE64_STANDARD.decode(png()).unwrap())]).await;
    let url =
        |address: SocketAddr| Reply::Json(200, json!({"data": [{"url": format!("http://{address}/x.png")}]}));
    let private = Setup::new(Engine::OpenAi, [url(image.address)], |_| {}).await;
    let error = private.run(json!({"prompt": "a fox", "count": 1})).await.unwrap_err();
    assert_eq!((error.code, private.files(), image.requests().len()), (ErrorCode::BlockedUrl, 0, 0));
    let allowed =
        Setup::new(Engine::OpenAi, [url(image.address)], |options| options.allow_private = true).await;
    assert_eq!(urls(&allowed.run(json!({"prompt": "a fox", "count": 1})).await.unwrap()), 1);
    let (head, _) = image.requests().remove(0);
    assert!(head.starts_with("get /x.png ") && !head.contains("the-key"), "{head}");
    for bad in [
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "//x",
        "javascript:alert(1)",
        "http://u:p@x/",
    ] {
        let reply = Reply::Json(200, json!({"data": [{"url": bad}]}));
        let setup = Setup::new(Engine::OpenAi, [reply], |options| options.allow_private = true).await;
        let error = setup.run(json!({"prompt": "a fox", "count": 1})).await.unwrap_err();
        assert_eq!((error.code, setup.files()), (ErrorCode::BlockedUrl, 0), "{bad}");
    }
}

#[tokio::test]
async fn predict_filters_images_by_leaving_them_out() {
    let reply = json!({"predictions": [{"bytesBase64Encoded": png(), "mimeType": "image/png"}, {"raiFilteredReason": "RAW"}]});
    let setup =
        Setup::new(Engine::Predict, [Reply::Json(200, reply), Reply::Json(200, json!({}))], |_| {}).await;
    let output = setup.run(json!({"prompt": "a fox", "aspect_ratio": "9:16"})).await.unwrap();
    assert_eq!(urls(&output), 1);
    assert!(content(&output)["message"].as_str().unwrap().contains("1 image could not be generated"));
    let (head, body) = setup.service.requests().remove(0);
    assert!(head.starts_with("post /v1/models/painter:predict "));
    assert_eq!(body["instances"][0]["prompt"], "a fox");
    assert_eq!(
        (&body["parameters"]["sampleCount"], &body["parameters"]["aspectRatio"]),
        (&json!(2), &json!("9:16"))
    );
    assert_eq!(setup.run(json!({"prompt": "a fox"})).await.unwrap_err().code, ErrorCode::ContentPolicy);
}

#[tokio::test]
async fn key_is_tested_with_a_request_that_costs_nothing() {
    for (reply, verdict) in [
        (Reply::Json(200, json!({"data": []})), Verdict::Valid),
        (Reply::Json(401, json!({})), Verdict::Invalid),
        (Reply::Json(429, json!({})), Verdict::RateLimited),
        (Reply::Json(500, json!({})), Verdict::Unreachable),
    ] {
        let setup = Setup::new(Engine::OpenAi, [reply], |_| {}).await;
        let key = SecretString::from("another-key");
        assert_eq!(setup.provider.test(Some(&key)).await, Some(verdict));
        let (head, _) = setup.service.requests().remove(0);
        assert!(head.starts_with("get /v1/models ") && head.contains("bearer another-key"), "{head}");
    }
}

#[test]
fn nothing_is_offered_without_a_key_or_a_folder() {
    let tools = |options: &Options, folder| options.build(&host(folder)).unwrap().tools().len();
    let with_key = Options { api_key: Some(SecretString::from("k")), ..Options::default() };
    assert_eq!((tools(&with_key, Some("/tmp/x")), tools(&with_key, None)), (1, 0));
    assert_eq!(tools(&Options::default(), Some("/tmp/x")), 0);
    let own = Options { base_url: Some("http://localhost:1".parse().unwrap()), ..Options::default() };
    assert_eq!(tools(&own, Some("/tmp/x")), 1);
    let error = Options { engine: Engine::OpenAi, ..with_key }.build(&host(None)).unwrap_err();
    assert!(error.message.contains("`model`"), "{error}");
}
