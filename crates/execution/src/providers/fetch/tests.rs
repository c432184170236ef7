use serde_json::json;

use super::*;
use crate::{client_options::ClientOptions, provider::Hosts, test_server::Server};

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn moved(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn invocation(url: &str) -> Invocation {
    Invocation::in_test(NAME, json!({"url": url}))
}

fn private() -> Options {
    Options { allow_private: true, ..Options::default() }
}

async fn read(options: Options, call: &Invocation) -> Result<Value, ToolError> {
    let provider = options.build(&Host::detached("web")).unwrap();
    provider.run(call).await.map(|output| serde_json::from_str(&output.content).unwrap())
}

async fn read_from(options: Options, responses: &[String]) -> Result<Value, ToolError> {
    let responses: Vec<_> = responses.iter().map(String::as_str).collect();
    let server = Server::start(&responses).await;
    read(options, &invocation(&server.url("127.0.0.1"))).await
}

#[tokio::test]
async fn pages_are_read_as_text_and_files_as_files() {
    let page = "<title>Lyon</title><h1>Weather</h1><a href=/more>Rain</a> all day";
    for (kind, body, title, content) in [
        ("text/html; charset=utf-8", page, "Lyon", "# Weather\n\n[Rain](http://HOST/more) all day"),
        ("application/xhtml+xml", page, "Lyon", "# Weather\n\n[Rain](http://HOST/more) all day"),
        ("text/plain", " <b>as written</b>\n", "", "<b>as written</b>"),
        ("application/json", "{\"a\":1}", "", "{\"a\":1}"),
        ("application/ld+json", "{\"a\":1}", "", "{\"a\":1}"),
        ("application/pdf", "%PDF-1.7", "", "[application/pdf, 9 bytes]"),
    ] {
        let server = Server::start(&[&response("200 OK", kind, body)]).await;
        let told = read(private(), &invocation(&server.url("127.0.0.1"))).await.unwrap();
        let content = content.replace("HOST", &server.address.to_string());
        let content =
            if kind == "application/pdf" { told["content"].as_str().unwrap().to_owned() } else { content };
        assert_eq!((&told["title"], &told["content"]), (&json!(title), &json!(content)), "{kind}");
        assert_eq!((&told["ok"], &told["url"]), (&json!(true), &json!(server.url("127.0.0.1"))));
        assert!(server.requests()[0].contains("user-agent: toolwire/"));
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    for (responses, code, is_retryable) in [
        (vec![response("404 Not Found", "text/html", "no")], ErrorCode::ProviderError, false),
        (vec![response("503 Service Unavailable", "text/html", "no")], ErrorCode::ProviderError, true),
        (vec![response("200 OK", "application/octet-stream", "x")], ErrorCode::UnsupportedContent, false),
        (vec![response("200 OK", "video/mp4", "xxxxftypmp42")], ErrorCode::UnsupportedContent, false),
        (
            vec![response("200 OK", "text/html\r\nContent-Encoding: gzip", "x")],
            ErrorCode::UnsupportedContent,
            false,
        ),
        (vec![response("200 OK", "text/html", &"x".repeat(2000))], ErrorCode::TooLarge, false),
        (vec![moved("/start")], ErrorCode::ProviderError, false),
        (vec![moved("ftp://127.0.0.1/")], ErrorCode::BlockedUrl, false),
        (vec![moved("http://user@127.0.0.1:PORT/")], ErrorCode::BlockedUrl, false),
        (vec![moved("http://169.254.169.254/latest/meta-data")], ErrorCode::BlockedUrl, false),
    ] {
        let shown = format!("{responses:?}");
        let options = Options { max_body: 1000, ..private() };
        let error = read_from(options, &responses).await.unwrap_err();
        assert_eq!((error.code, error.is_retryable), (code, is_retryable), "{shown}: {error}");
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_not_reached() {
    let server = Server::start(&[&response("200 OK", "text/plain", "secret")]).await;
    let port = server.address.port();
    for url in [
        server.url("127.0.0.1"),
        server.url("localhost"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://example.com@127.0.0.1:{port}/"),
        "file:///etc/passwd".to_owned(),
        "http://metadata.google.internal/".to_owned(),
    ] {
        let error = read(Options::default(), &invocation(&url)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::BlockedUrl, "{url}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn redirects_are_followed_only_to_hosts_that_the_rules_admit() {
    let there = response("200 OK", "text/plain", "there");
    let server = Server::start(&[&moved("http://localhost:PORT/other"), &there]).await;
    let port = server.address.port();
    let call = || invocation(&server.url("127.0.0.1"));
    let told = read(private(), &call()).await.unwrap();
    assert_eq!(
        (&told["content"], &told["url"]),
        (&json!("there"), &json!(format!("http://localhost:{port}/other")))
    );

    let server = Server::start(&[&moved("http://localhost:PORT/other"), &there]).await;
    let asks =
        Invocation { hosts: Hosts::new(|host| host != "localhost"), ..invocation(&server.url("127.0.0.1")) };
    let told = read(private(), &asks).await.unwrap();
    let target = format!("http://localhost:{}/other", server.address.port());
    assert!(told["content"].as_str().unwrap().contains(&target), "{told}");
    assert_eq!(server.requests().len(), 1);

    let server = Server::start(&[&moved("http://localhost:PORT/other"), &there]).await;
    let only = ClientOptions::of(&json!({"allowed_domains": ["127.0.0.1"]}));
    let limited = Invocation { options: Arc::new(only), ..invocation(&server.url("127.0.0.1")) };
    assert_eq!(read(private(), &limited).await.unwrap_err().code, ErrorCode::BlockedUrl);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn text_is_cut_at_the_smaller_limit() {
    let page = response("200 OK", "text/plain", &"word ".repeat(1000));
    let server = Server::start(&[&page]).await;
    let few = ClientOptions::of(&json!({"max_content_tokens": 10}));
    for (options, expected) in [(ClientOptions::default(), 1000), (few, 40)] {
        let call = Invocation { options: Arc::new(options), ..invocation(&server.url("127.0.0.1")) };
        let told = read(Options { max_content: 1000, ..private() }, &call).await.unwrap();
        assert_eq!((told["content"].as_str().unwrap().len(), &told["truncated"]), (expected, &json!(true)));
    }
}
