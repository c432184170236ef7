//! Requests of clients with keys, as raw bytes.

use serde_json::Value;

use crate::support::{
    proxy::{Proxy, Setup},
    raw::{Raw, RawResponse},
    upstream::{Upstream, at_once},
};

pub(super) const ADMIN: &str = "key-of-the-admin-1";
pub(super) const ALICE: &str = "key-of-alice-0001-and-more";
pub(super) const BOB: &str = "key-of-bob-000001";

/// Clients that may use one model each, and an admin API with a key.
pub(super) const TABLES: &str = r#"
[admin]
api_keys = ["key-of-the-admin-1"]
[[keys]]
name = "alice"
key = "key-of-alice-0001-and-more"
models = ["m"]
[[keys]]
name = "bob"
key = "key-of-bob-000001"
models = ["org/other"]
"#;

/// A proxy with [`TABLES`], and its upstream.
pub(super) async fn proxy() -> (Upstream, Proxy) {
    proxy_with("").await
}

/// A proxy with [`TABLES`] and more tables, and its upstream.
pub(super) async fn proxy_with(tables: &str) -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let setup = Setup { execution: format!("{TABLES}{tables}"), ..Setup::new(upstream.address) };
    (upstream, setup.start().await)
}

pub(super) fn bearer(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

/// Sends a request with this target on a connection that is closed after the response. The body is declared as JSON
/// unless `headers` say otherwise.
pub(super) async fn ask(
    proxy: &Proxy,
    (method, target): (&str, &str),
    (host, headers): (&str, &str),
    body: &str,
) -> RawResponse {
    let mut client = Raw::connect(proxy).await;
    let length = body.len();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}connection: close\r\n");
    let kind = if headers.contains("content-type:") { "" } else { "content-type: application/json\r\n" };
    let body = format!("{kind}content-length: {length}\r\n\r\n{body}");
    client.send_lossy(head + &body).await;
    client.response().await
}

/// Sends a request with a key.
pub(super) async fn ask_as(proxy: &Proxy, key: &str, line: (&str, &str), body: &Value) -> RawResponse {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(proxy, line, ("localhost", &bearer(key)), &body).await
}

/// Like [`ask_as`], but returns the status and the body, which must be JSON.
pub(super) async fn answer_as(proxy: &Proxy, key: &str, line: (&str, &str), body: &Value) -> (u16, Value) {
    let response = ask_as(proxy, key, line, body).await;
    let value = serde_json::from_str(&response.body);
    (response.status, value.unwrap_or_else(|error| panic!("{line:?}: {error}: {:?}", response.body)))
}
