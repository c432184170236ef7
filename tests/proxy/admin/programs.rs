//! Tests programs that register their tools at run time.

use std::{
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use ring::hmac;
use serde_json::{Value, json};

use super::{Ask, KEY, WITH_KEY, event, proxy};
use crate::support::{
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream, at_once},
};

const REGISTRATION: &str = "registration-key-1";

/// A provider that lets programs register, with additional `settings`.
fn tables(settings: &str) -> String {
    format!(
        "{WITH_KEY}[execution]\n[[providers]]\nname = \"addons\"\nkind = \"http\"\n\
         keys = [\"{REGISTRATION}\", \"registration-key-2\"]\n{settings}"
    )
}

fn register(proxy: &Proxy, body: &Value) -> Ask {
    Ask::new(proxy, "POST", "/v1/providers").key(REGISTRATION).json(body)
}

fn description(fields: Value) -> Value {
    let mut body = json!({"id": "tabs", "label": "Tabs", "tools": [
        {"name": "tab.open", "label": "Open", "description": "Opens a tab.",
         "parameters": {"type": "object", "properties": {"url": {"type": "string"}}}},
    ]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

async fn run(proxy: &Proxy) -> Value {
    let ask = Ask::new(proxy, "POST", "/admin/tools/tab_open/run").key(KEY);
    ask.json(&json!({"input": {"url": "https://example.com"}})).answer().await.1
}

async fn tools(proxy: &Proxy) -> Vec<String> {
    let (_, list) = Ask::new(proxy, "GET", "/admin/tools").key(KEY).answer().await;
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn until_tools(proxy: &Proxy, expected: &[&str]) {
    let reached = async {
        while tools(proxy).await != expected {
            tokio::task::yield_now().await;
        }
    };
    soon("the tools", reached).await;
}

/// Signs a request, and returns the headers to add.
fn signed(method: &str, path: &str, body: &str) -> [(&'static str, String); 2] {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, REGISTRATION.as_bytes());
    let tag = hmac::sign(&key, format!("{time}.{method}.{path}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    [("x-toolwire-timestamp", time), ("x-toolwire-signature", format!("v1={hex}"))]
}

#[tokio::test]
async fn without_a_provider_for_them_programs_cannot_register() {
    let (_upstream, proxy) = proxy(&format!("{WITH_KEY}[execution]\n")).await;
    for (method, path) in
        [("POST", "/v1/providers"), ("DELETE", "/v1/providers/x"), ("GET", "/v1/providers/x/calls")]
    {
        assert_eq!(Ask::new(&proxy, method, path).key(REGISTRATION).send().await.status(), 404, "{path}");
    }
}

#[tokio::test]
async fn registration_needs_a_registration_key() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup { execution: tables(""), ..Setup::new(upstream.address) };
    setup.keys = vec!["key-of-a-client"];
    let proxy = setup.start().await;
    for (method, path) in [
        ("POST", "/v1/providers"),
        ("DELETE", "/v1/providers/tabs"),
        ("POST", "/v1/providers/tabs/heartbeat"),
        ("GET", "/v1/providers/tabs/calls"),
        ("POST", "/v1/providers/tabs/results/call_1"),
    ] {
        for key in [None, Some("wrong"), Some(KEY), Some("key-of-a-client"), Some("")] {
            let ask = Ask::new(&proxy, method, path);
            let ask = if let Some(key) = key { ask.key(key) } else { ask };
            assert_eq!(ask.send().await.status(), 401, "{method} {path} with {key:?}");
        }
    }
    let reply = Ask::new(&proxy, "GET", "/v1/providers").key(REGISTRATION).send().await;
    assert_eq!((reply.status().as_u16(), reply.header("allow")), (405, Some("POST, OPTIONS")));
    let models = Ask::new(&proxy, "GET", "/v1/models").key(REGISTRATION).send().await;
    assert_eq!(models.status(), 401, "a registration key is not a client's key");
}

#[tokio::test]
async fn program_registers_is_renewed_and_unregisters() {
    let (_upstream, proxy) = proxy(&tables("")).await;
    let (status, answer) = register(&proxy, &description(json!({}))).answer().await;
    assert_eq!((status, &answer), (200, &json!({"success": true, "lease_s": 60, "refused_tools": []})));
    until_tools(&proxy, &["tab_open"]).await;
    let other = || "registration-key-2";
    let heartbeat = |key: &str| Ask::new(&proxy, "POST", "/v1/providers/tabs/heartbeat").key(key);
    assert_eq!(heartbeat(REGISTRATION).answer().await, (200, json!({"success": true, "lease_s": 60})));
    assert_eq!(heartbeat(other()).send().await.status(), 404);
    let taken = Ask::new(&proxy, "POST", "/v1/providers").key(other()).json(&description(json!({})));
    assert_eq!(taken.send().await.status(), 409);
    let remove = |key: &str| Ask::new(&proxy, "DELETE", "/v1/providers/tabs").key(key);
    assert_eq!(remove(other()).send().await.status(), 404);
    assert_eq!(remove(REGISTRATION).answer().await, (200, json!({"success": true})));
    until_tools(&proxy, &[]).await;
    assert_eq!(remove(REGISTRATION).send().await.status(), 404);
}

#[tokio::test]
async fn program_that_dies_loses_its_tools_and_comes_back() {
    let (_upstream, proxy) = proxy(&tables("lease = \"200ms\"\n")).await;
    register(&proxy, &description(json!({}))).send().await;
    until_tools(&proxy, &["tab_open"]).await;
    until_tools(&proxy, &[]).await;
    register(&proxy, &description(json!({}))).send().await;
    until_tools(&proxy, &["tab_open"]).await;
}

/// Starts a program that answers calls at its own address. Also returns the calls that it receives.
async fn program(answer: &'static str) -> (Upstream, Arc<Mutex<Vec<(String, String)>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let program =
        Upstream::start_sharing(Arc::clone(&calls), move |mut exchange: Exchange, calls| async move {
            let body = String::from_utf8(exchange.body.clone()).unwrap();
            calls.lock().unwrap().push((exchange.head.clone(), body));
            exchange.raw(answer).await;
            exchange
        });
    (program.await, calls)
}

macro_rules! response {
    ($status:literal, $body:literal) => {
        concat!(
            "HTTP/1.1 ",
            $status,
            "\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n",
            $body
        )
    };
}

#[tokio::test]
async fn call_goes_to_the_callback_signed_and_with_its_token() {
    let (program, calls) = program(response!(
        "200 OK",
        r#"{"content":[{"type":"text","text":"opened"},{"type":"text","text":"it"}]}"#
    ))
    .await;
    let (_upstream, proxy) = proxy(&tables("allow_private = true\n")).await;
    let url = format!("http://{}/tools?x=1", program.address);
    register(&proxy, &description(json!({"callback_url": url, "token": "token-of-the-program"})))
        .send()
        .await;
    until_tools(&proxy, &["tab_open"]).await;
    let ran = run(&proxy).await;
    assert_eq!((&ran["ok"], &ran["result"]), (&json!(true), &json!("opened it")));
    let (head, body) = calls.lock().unwrap().first().cloned().unwrap();
    assert!(head.starts_with("post /tools?x=1 http/1.1\r\n"), "{head}");
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
    assert_eq!(field("authorization"), "bearer token-of-the-program");
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(message["type"], "TOOL_EXECUTE");
    assert_eq!(message["toolName"], "tab.open");
    assert_eq!(message["params"], json!({"url": "https://example.com"}));
    assert_eq!(message["toolCallId"], ran["id"]);
    let key = hmac::Key::new(hmac::HMAC_SHA256, REGISTRATION.as_bytes());
    let signed = format!("{}.POST./tools?x=1.{body}", field("x-toolwire-timestamp"));
    let tag: String =
        hmac::sign(&key, signed.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(field("x-toolwire-signature"), format!("v1={tag}"));
    assert!(!head.contains(REGISTRATION) && !body.contains(REGISTRATION));
}

#[tokio::test]
async fn failing_programs_become_error_results() {
    for (answer, code) in [
        (response!("500 Internal Server Error", "secret words"), "provider_error"),
        (response!("401 Unauthorized", "{}"), "auth_failed"),
        (response!("200 OK", "not JSON"), "provider_error"),
        (response!("200 OK", r#"{"error":"Unknown tool: tab.open"}"#), "provider_error"),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
            "provider_error",
        ),
        ("garbage\r\n\r\n", "provider_error"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n", "too_large"),
        (
            concat!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            ),
            "too_large",
        ),
        ("", "provider_error"),
    ] {
        let (program, _calls) = program(answer).await;
        let settings = "allow_private = true\nmax_result = \"40B\"\n";
        let (_upstream, proxy) = proxy(&tables(settings)).await;
        let url = format!("http://{}/", program.address);
        register(&proxy, &description(json!({"callback_url": url}))).send().await;
        until_tools(&proxy, &["tab_open"]).await;
        let ran = soon("a result", run(&proxy)).await;
        assert_eq!(
            (&ran["ok"], &ran["result"]["error"]["code"]),
            (&json!(false), &json!(code)),
            "{answer}: {ran}"
        );
        assert!(!ran.to_string().contains("secret words"), "{ran}");
    }
}

#[tokio::test]
async fn callbacks_inside_of_the_network_are_refused_by_default() {
    let (_upstream, proxy) = proxy(&tables("")).await;
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:9/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.0.0.1/",
        "http://localhost/",
        "http://metadata.google.internal/",
        "gopher://example.com/",
        "not a URL",
    ] {
        let (status, error) = register(&proxy, &description(json!({"callback_url": url}))).answer().await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!("callback_url")), "{url}: {error}");
    }
    let metadata = json!({"callback_url": "http://169.254.169.254/"});
    let (_upstream, open) = self::proxy(&tables("allow_private = true\n")).await;
    assert_eq!(
        register(&open, &description(metadata)).send().await.status(),
        400,
        "never the metadata service"
    );
    assert_eq!(tools(&proxy).await, [""; 0]);
}

#[tokio::test]
async fn signed_requests_count_once() {
    let (_upstream, proxy) = proxy(&tables("")).await;
    let body = description(json!({})).to_string();
    let headers = signed("POST", "/v1/providers", &body);
    let send = |path: &str, body: &str| {
        let ask = Ask::new(&proxy, "POST", path).body("application/json", body.to_owned());
        headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value))
    };
    assert_eq!(send("/v1/providers", &body.replace("Tabs", "Tubs")).send().await.status(), 401);
    assert_eq!(send("/v1/providers?x", &body).send().await.status(), 401);
    assert_eq!(send("/v1/providers", &body).send().await.status(), 200);
    let (status, error) = send("/v1/providers", &body).answer().await;
    assert_eq!(status, 401);
    assert!(error["error"]["message"].as_str().unwrap().contains("used before"), "{error}");
    let old = Ask::new(&proxy, "POST", "/v1/providers").body("application/json", body);
    let old = old.header("x-toolwire-timestamp", "1000").header("x-toolwire-signature", &headers[1].1);
    assert_eq!(old.send().await.status(), 401);
}

#[tokio::test]
async fn program_behind_a_firewall_gets_calls_over_its_stream() {
    let (_upstream, proxy) = proxy(&tables("")).await;
    register(&proxy, &description(json!({}))).send().await;
    until_tools(&proxy, &["tab_open"]).await;
    let unconnected = run(&proxy).await;
    assert_eq!(unconnected["ok"], false);
    let mut stream = Ask::new(&proxy, "GET", "/v1/providers/tabs/calls").key(REGISTRATION).send().await;
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    stream.until(": connected\n\n").await;
    let program = async {
        let call = event(&mut stream, "call").await;
        let (_, data) = call.split_once("data: ").unwrap();
        let message: Value = serde_json::from_str(data.trim()).unwrap();
        assert_eq!(message["toolName"], "tab.open");
        let path = format!("/v1/providers/tabs/results/{}", message["toolCallId"].as_str().unwrap());
        let result = json!({"content": [{"type": "text", "text": "opened"}]});
        let (status, _) =
            Ask::new(&proxy, "POST", &path).key("registration-key-2").json(&result).answer().await;
        assert_eq!(status, 404, "another key cannot answer");
        let answer = Ask::new(&proxy, "POST", &path).key(REGISTRATION).json(&result).answer().await;
        assert_eq!(answer, (200, json!({"success": true})));
        let (status, _) = Ask::new(&proxy, "POST", &path).key(REGISTRATION).json(&result).answer().await;
        assert_eq!(status, 404, "a call has one result");
    };
    let (ran, ()) = tokio::join!(run(&proxy), program);
    assert_eq!((&ran["ok"], &ran["result"]), (&json!(true), &json!("opened")));
    Ask::new(&proxy, "DELETE", "/v1/providers/tabs").key(REGISTRATION).send().await;
    stream.rest().await;
}

#[tokio::test]
async fn pages_of_allowed_origins_may_register() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup { execution: tables(""), ..Setup::new(upstream.address) };
    setup.cors_origins = toolwire::config::Origins::parse(&["https://ui.example"]).unwrap();
    let proxy = setup.start().await;
    let preflight = Ask::new(&proxy, "OPTIONS", "/v1/providers").header("origin", "https://ui.example");
    let reply = preflight.header("access-control-request-method", "POST").send().await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://ui.example"));
    assert_eq!(reply.header("access-control-allow-methods"), Some("POST, OPTIONS"));
    let ask = register(&proxy, &description(json!({}))).header("origin", "https://ui.example");
    assert_eq!(ask.send().await.header("access-control-allow-origin"), Some("https://ui.example"));
}

#[tokio::test]
async fn programs_are_told_when_toolwire_has_started() {
    let (program, calls) = program(response!("200 OK", "{}")).await;
    let settings = format!("ready_callbacks = [\"http://{}/ready\"]\n", program.address);
    let (_upstream, _proxy) = proxy(&tables(&settings)).await;
    let told = async {
        while calls.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("the message", told).await;
    let (head, body) = calls.lock().unwrap().first().cloned().unwrap();
    assert!(head.starts_with("post /ready ") && head.contains("x-toolwire-signature: v1="), "{head}");
    assert_eq!(body, r#"{"type":"ORCHESTRATOR_READY"}"#);
}

#[tokio::test]
async fn registered_tools_do_not_displace_those_of_other_providers() {
    let echo = "[[providers]]\nname = \"tab_open\"\nkind = \"command\"\ncommand = [\"cat\"]\n";
    let (_upstream, proxy) = proxy(&tables(echo)).await;
    register(&proxy, &description(json!({}))).send().await;
    assert_eq!(run(&proxy).await["result"], json!({"url": "https://example.com"}), "the configured one runs");
    assert_eq!(tools(&proxy).await, ["tab_open"]);
}
