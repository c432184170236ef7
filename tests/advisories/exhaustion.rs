//! Tests small requests and answers that cost a server much: numbers, heads, schemas, patterns, chunks, compressed
//! bodies, ranges and resets.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use toolwire::{
    config::{Passthrough, ToolStyle},
    dialect::chat::Server,
    format::HERMES,
    rules::Enforce,
};

use crate::{
    clients::{ALICE, ask, bearer, proxy},
    hosted::{code, result_of},
    script::{self, call, end, text},
    support::{
        client::{Client, STREAM, WHOLE, chat_request, weather},
        http2::{Http2, JSON_POST},
        proxy::Setup,
        raw::{Raw, post},
        soon, taught,
        upstream::{Exchange, Upstream, at_once},
    },
};

/// CVE-2026-34756 (vLLM): a single request for many choices crashed a server.
#[tokio::test]
async fn number_of_choices_is_checked() {
    let (upstream, proxy) = proxy().await;
    for n in ["-1", "1e308", "129", "1000000000", "9223372036854775807"] {
        let body = format!(r#"{{"model":"m","n":{n},"messages":[{{"role":"user","content":"hi"}}]}}"#);
        let response =
            ask(&proxy, ("POST", "/v1/chat/completions"), ("localhost", &bearer(ALICE)), &body).await;
        assert_eq!(response.status, 400, "{n}: {}", response.body);
    }
    assert_eq!(upstream.requests(), 0);
}

/// CVE-2025-48956 (vLLM): the head of a request could have any size.
#[tokio::test]
async fn head_of_a_request_has_a_limit() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let long = format!("x-long: {}\r\n", "a".repeat(4 << 20));
    let many = (0..100_000).map(|number| format!("x-{number}: 1\r\n")).collect::<String>();
    let path = "a".repeat(4 << 20);
    for head in [
        format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{long}\r\n"),
        format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("GET /{path} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ] {
        let mut client = Raw::connect(&proxy).await;
        client.send_lossy(&head).await;
        let answer = client.rest_lossy().await;
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{:.40}: {answer:.100}", head);
        assert_eq!(Client::new().chat(&proxy, WHOLE).await.status(), 200);
    }
}

/// CVE-2025-48944 (vLLM): a tool whose `type` or `pattern` was not valid crashed a server.
#[tokio::test]
async fn schema_that_is_not_valid_is_survived() {
    let upstream = Upstream::start(at_once).await;
    for tools in [ToolStyle::Native, ToolStyle::Format(&HERMES)] {
        let proxy = Setup { tools, ..Setup::new(upstream.address) }.start().await;
        for property in [
            json!({"type": "string", "pattern": "("}),
            json!({"type": "string", "pattern": 7}),
            json!({"type": "no such type"}),
            json!({"type": 7}),
            json!({"type": ["string", 7, null]}),
            json!({"enum": {}}),
            json!({"items": true, "minItems": "x"}),
            json!({"$ref": 5}),
            json!({"$ref": "http://127.0.0.1:1/schema"}),
            json!({"$ref": "#/no/such"}),
            json!({"anyOf": {}}),
            json!({"properties": [], "required": 5, "additionalProperties": "x"}),
            json!(null),
            json!([]),
        ] {
            for parameters in [json!({"type": "object", "properties": {"x": property}}), property] {
                let mut body = weather(json!({"tool_choice": "required"}));
                body["tools"][0]["function"]["parameters"] = parameters.clone();
                let status = Client::new().chat(&proxy, body.to_string()).await.status().as_u16();
                assert!([200, 400].contains(&status), "{parameters}: {status}");
            }
        }
        assert_eq!(Client::new().chat(&proxy, WHOLE).await.status(), 200);
    }
}

/// CVE-2025-58446 (XGrammar): the grammar of a schema was far larger than the schema.
#[tokio::test]
async fn constraint_has_a_limit() {
    let largest = Arc::new(AtomicUsize::new(0));
    let upstream = Upstream::start_sharing(largest.clone(), |mut exchange: Exchange, largest| async move {
        largest.fetch_max(exchange.body.len(), Ordering::SeqCst);
        match exchange.head.starts_with("get ") {
            true => exchange.whole("404 Not Found", "", "").await,
            false => return at_once(exchange).await,
        }
        exchange
    })
    .await;
    let values: Vec<_> = (0..20_000).map(|number| format!("value {number}")).collect();
    let level =
        |next: &str| json!({"type": "object", "properties": {"a": {"$ref": next}, "b": {"$ref": next}}});
    let levels: serde_json::Map<_, _> =
        (0..30).map(|place| (format!("d{place}"), level(&format!("#/$defs/d{}", place + 1)))).collect();
    for server in [Server::Vllm, Server::Sglang, Server::LlamaCpp] {
        let proxy = taught::setup(&upstream, server, Enforce::Auto).start().await;
        for parameters in [
            json!({"type": "object", "properties": {"city": {"enum": values}}, "required": ["city"]}),
            json!({"type": "object", "properties": {"city": {"$ref": "#/$defs/d0"}}, "$defs": levels}),
            json!({"type": "object", "properties": {"city": {"type": "string", "minLength": 1_000_000_000}}}),
            json!({"type": "object", "properties": {"city": {"type": "array", "minItems": 1_000_000_000, "items": {}}}}),
        ] {
            let mut body = taught::required(json!({}));
            body["tools"][0]["function"]["parameters"] = parameters;
            body["tools"][0]["function"]["strict"] = true.into();
            let body = body.to_string();
            largest.store(0, Ordering::SeqCst);
            let status = Client::new().chat(&proxy, body.clone()).await.status().as_u16();
            assert!([200, 400].contains(&status), "{server:?}: {status}");
            let sent = largest.load(Ordering::SeqCst);
            assert!(sent <= 4 * body.len() + (256 << 10), "{server:?}: {sent} bytes for {}", body.len());
        }
    }
}

/// CVE-2026-0621 (MCP TypeScript SDK): a pattern took exponential time.
#[tokio::test]
async fn pattern_of_a_model_takes_linear_time() {
    for pattern in [
        "(a+)+$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(a|a|aa)*b",
        "(.*)*(.*)*(.*)*x",
        "(?=a+)+$",
        &"(a+".repeat(60),
    ] {
        let arguments = json!({"pattern": pattern}).to_string();
        let search = call(0, "call_s", "tool_search_tool_regex", &arguments) + &end("tool_calls");
        let (upstream, asked) = script::upstream([search, text("Done.") + &end("stop")]).await;
        let proxy = Setup::new(upstream.address).start().await;
        let tools: Vec<Value> = (0..50)
            .map(|number| {
                json!({"name": format!("tool_{number}"), "description": "a".repeat(4000) + "!", "defer_loading": true,
                    "input_schema": {"type": "object"}})
            })
            .chain([json!({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"})])
            .collect();
        let messages = json!([{"role": "user", "content": "hi"}]);
        let body = json!({"model": "m", "max_tokens": 9, "tools": tools, "messages": messages});
        let response = ask(&proxy, ("POST", "/v1/messages"), ("localhost", ""), &body.to_string()).await;
        assert_eq!(response.status, 200, "{pattern}: {}", response.body);
        assert!(response.body.contains("Done."), "{pattern}: {}", response.body);
        assert_eq!(asked.lock().unwrap().len(), 2, "{pattern}");
    }
}

/// CVE-2025-69229 (aiohttp): the work for a body grew with the square of the number of its chunks.
#[tokio::test]
async fn body_of_many_chunks_is_read() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = WHOLE.replace("hi", &"h".repeat(200_000));
    let chunks: String = body.chars().map(|letter| format!("1\r\n{letter}\r\n")).collect();
    let mut client = Raw::connect(&proxy).await;
    let request = post("", "transfer-encoding: chunked\r\n").replace("content-length: 0\r\n", "");
    client.send(format!("{request}{chunks}0\r\n\r\n")).await;
    assert_eq!(client.response().await.status, 200);
}

/// CVE-2025-69228 (aiohttp): the limit of a form's size held for each of its fields.
#[tokio::test]
async fn all_fields_of_a_form_count() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.passthrough = Passthrough::parse(&["/v1/audio/*"]).unwrap();
    setup.limits.max_body = 64 << 10;
    let proxy = setup.start().await;
    let field = |name: &str, value: &str| {
        format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    for (fields, status) in [(3, 200), (2000, 413)] {
        let many: String = (0..fields).map(|number| field(&format!("f{number}"), &"v".repeat(30))).collect();
        let body = field("model", "m") + &many + "--x--\r\n";
        let request = Request::post(proxy.url("/v1/audio/transcriptions"))
            .header("content-type", "multipart/form-data; boundary=x");
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        assert_eq!(Client::new().send(request).await.unwrap().status(), status, "{fields}");
    }
    assert_eq!(upstream.requests(), 1);
}

/// 50 MB of zeros, compressed.
fn bomb() -> Vec<u8> {
    let output = Command::new("sh").args(["-c", "head -c 50000000 /dev/zero | gzip -9"]).output().unwrap();
    assert!(output.stdout.len() < 100_000 && output.stdout.starts_with(&[0x1f, 0x8b]));
    output.stdout
}

/// CVE-2025-66471 (urllib3): a small compressed answer became a huge one.
#[tokio::test]
async fn compressed_bodies_are_not_unpacked() {
    let bomb = Arc::new(bomb());
    let upstream = Upstream::start_sharing(bomb.clone(), |mut exchange: Exchange, bomb| async move {
        let length = bomb.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
        );
        exchange.raw(head).await;
        exchange.raw(&**bomb).await;
        exchange.keep();
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    for body in [WHOLE, STREAM] {
        let reply = Client::new().chat(&proxy, body).await;
        assert!(reply.status().is_server_error(), "{}", reply.status());
        assert!(reply.rest().await.len() < 10_000);
    }
    let fetch = "[[providers]]\nname = \"web\"\nkind = \"fetch\"\nallow_private = true\n[[tools]]\nname = \"web_fetch\"\nretries = 0\n";
    let url = format!("http://{}/page", upstream.address);
    let result =
        result_of(fetch, &format!("Read {url}"), "web_fetch", &json!({"url": url}).to_string()).await;
    assert_eq!(code(&result), "unsupported_content", "{result:.200}");
    let mut request = chat_request(&proxy, bomb.to_vec());
    request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(Client::new().send(request).await.unwrap().status(), 415);
}

/// CVE-2025-62727 (Starlette): the work for a file grew with the square of the number of ranges that were asked for.
#[tokio::test]
async fn ranges_of_files_are_not_served() {
    let upstream = Upstream::start(at_once).await;
    let setup = Setup { execution: "[admin]\n".to_owned(), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let whole = ask(&proxy, ("GET", "/console/"), ("localhost", ""), "").await;
    assert_eq!(whole.status, 200);
    let ranges = (0..500).map(|number| format!("{number}-,")).collect::<String>();
    for range in
        ["bytes=0-1", "bytes=-1", &format!("bytes={ranges}0-"), &format!("bytes={}", "0".repeat(5000))]
    {
        let response =
            ask(&proxy, ("GET", "/console/"), ("localhost", &format!("range: {range}\r\n")), "").await;
        assert_eq!((response.status, response.header("content-range")), (200, None), "{range:.40}");
        assert_eq!(response.body.len(), whole.body.len());
    }
}

/// CVE-2025-8671 (HTTP/2, "MadeYouReset"): streams that the server itself had to reset did not count, but their work
/// went on.
#[tokio::test]
async fn work_for_streams_that_are_reset_ends() {
    let open = Arc::new(AtomicUsize::new(0));
    let upstream = Upstream::start_sharing(open.clone(), |exchange: Exchange, open| async move {
        if !exchange.body.windows(4).any(|word| word == b"slow") {
            return at_once(exchange).await;
        }
        open.fetch_add(1, Ordering::SeqCst);
        let exchange = exchange.silent().await;
        open.fetch_sub(1, Ordering::SeqCst);
        exchange
    })
    .await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = WHOLE.replace("hi", "slow");
    let mut client = Http2::connect(&proxy).await;
    for number in 0..3000 {
        let path = "/v1/chat/completions";
        if !client.post_to_be_reset(2 * number + 1, path, &JSON_POST, body.as_bytes()).await {
            break;
        }
    }
    let all_ended = async {
        while open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the end of all requests to the upstream", all_ended).await;
    assert_eq!(Client::new().chat(&proxy, WHOLE).await.status(), 200, "other clients are served");
}
