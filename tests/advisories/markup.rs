//! Tests that what clients, models and servers write does not become a page of toolwire's origin, nor a part of one.

use serde_json::{Value, json};
use toolwire::config::Passthrough;

use crate::{
    clients::{ADMIN, TABLES, answer_as, ask, ask_as},
    support::{
        client::{Client, chat_request},
        proxy::Setup,
        upstream::{Exchange, Upstream},
    },
};

const SCRIPT: &str = "<script>alert(document.domain)</script>";

/// CVE-2026-44568 (Open WebUI): stored text was shown as markup, so that its scripts ran for others.
#[tokio::test]
async fn stored_text_is_not_markup_of_the_console() {
    let upstream = Upstream::start(|mut exchange: Exchange| async move {
        let call = json!({"id": "c", "type": "function", "function": {"name": format!("f{SCRIPT}"), "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": SCRIPT, "tool_calls": [call]});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        let body = json!({"id": "x", "object": "chat.completion", "created": 1, "model": SCRIPT, "choices": [choice]});
        exchange.whole("200 OK", "content-type: application/json\r\n", &body.to_string()).await;
        exchange
    })
    .await;
    let mut setup = Setup::new(upstream.address);
    setup.wildcard = true;
    setup.execution = "[admin]\napi_keys = [\"key-of-the-admin-1\"]\ncapture = \"redacted\"\n".to_owned();
    let proxy = setup.start().await;
    let tool =
        json!({"type": "function", "function": {"name": "f", "description": SCRIPT, "parameters": {}}});
    let body = json!({"model": format!("m{SCRIPT}"), "messages": [{"role": "user", "content": SCRIPT}], "tools": [tool]});
    let status = Client::new().send(chat_request(&proxy, body.to_string())).await.unwrap().status();
    assert_eq!(status, 200);
    let (_, list) = answer_as(&proxy, ADMIN, ("GET", "/admin/exchanges"), &Value::Null).await;
    let row = &list["exchanges"][0];
    assert_eq!(row["model"], format!("m{SCRIPT}"), "it is kept as it was written");
    let path = format!("/admin/exchanges/{}", row["id"].as_str().unwrap());
    for path in
        ["/admin/exchanges", &path, &format!("{path}/events"), &format!("{path}/requests"), "/admin/tools"]
    {
        let response = ask_as(&proxy, ADMIN, ("GET", path), &Value::Null).await;
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        assert_eq!(response.header("content-type"), Some("application/json"), "{path}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    let page = ask(&proxy, ("GET", "/console/"), ("localhost", ""), "").await;
    let policy = page.header("content-security-policy").unwrap();
    let scripts = policy.split(';').map(str::trim).find(|rule| rule.starts_with("script-src")).unwrap();
    assert!(!scripts.contains("unsafe") && !scripts.contains('*') && !scripts.contains("http"), "{policy}");
    assert!(policy.contains("default-src") && policy.contains("frame-ancestors"), "{policy}");
    assert!(!page.body.contains(SCRIPT));
}

/// CVE-2026-44568 (Open WebUI): as above, for files that a server of others sends.
#[tokio::test]
async fn page_of_an_upstream_is_not_a_page_of_the_console() {
    for (kind, status) in [
        ("text/html", "200 OK"),
        ("image/svg+xml", "200 OK"),
        ("application/xhtml+xml", "200 OK"),
        ("text/xml", "500 Oops"),
        ("text/html; charset=utf-7", "404 Not Found"),
    ] {
        let upstream = Upstream::start(move |mut exchange: Exchange| async move {
            let headers = format!(
                "content-type: {kind}\r\ncontent-disposition: inline\r\nset-cookie: a=b\r\nlocation: /console/\r\n\
                 content-security-policy: default-src *\r\naccess-control-allow-origin: *\r\nrefresh: 0;url=/console/\r\n"
            );
            exchange.whole(status, &headers, SCRIPT).await;
            exchange
        })
        .await;
        let mut setup = Setup::new(upstream.address);
        setup.passthrough = Passthrough::parse(&["/v1/files/*"]).unwrap();
        setup.execution = "[admin]\n".to_owned();
        let proxy = setup.start().await;
        let response = ask(&proxy, ("GET", "/v1/files/a/content"), ("localhost", ""), "").await;
        assert_eq!(upstream.requests(), 1);
        let policy = "sandbox; default-src 'none'";
        assert_eq!(response.header("content-security-policy"), Some(policy), "{kind} {status}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{kind} {status}");
        for name in ["set-cookie", "location", "access-control-allow-origin", "refresh"] {
            assert_eq!(response.header(name), None, "{kind} {status}: {name}");
        }
    }
}

/// CVE-2025-58444 (MCP Inspector): an address of others was opened in the origin of the page.
#[tokio::test]
async fn console_is_only_redirected_to_itself() {
    let upstream = Upstream::start(crate::support::upstream::at_once).await;
    let setup = Setup { execution: TABLES.to_owned(), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    for target in [
        "/console",
        "/console?next=//evil.example/",
        "/",
        "//evil.example/console",
        "/console/..//evil.example/",
    ] {
        let response = ask(&proxy, ("GET", target), ("localhost", ""), "").await;
        let location = response.header("location").unwrap_or("console/");
        assert!(["console/", "/console/"].contains(&location), "{target}: {location}");
    }
}
