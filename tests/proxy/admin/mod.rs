//! Tests the admin API and the programs that register tools at run time.

mod access;
mod api;
mod chats;
mod console;
mod events;
mod exchanges;
mod figures;
mod formats;
mod hosted_calls;
mod logins;
mod messages;
mod missed_calls;
mod programs;
mod requests;
mod sample;
mod settings;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;

use crate::support::{
    client::{Client, Reply},
    proxy::{Proxy, Setup},
    upstream::{Upstream, at_once},
};

const KEY: &str = "admin-key-of-tests";

/// Enables the admin API with a key.
const WITH_KEY: &str = "[admin]\napi_keys = [\"admin-key-of-tests\"]\n";

/// Hosted tools: `echo` returns its arguments, and `careful` does the same once a person has allowed it.
const TOOLS: &str = r#"
[execution]
[[providers]]
name = "echo"
kind = "command"
command = ["cat"]
description = "Repeats."
parameters = { type = "object", properties = { text = { type = "string" } } }
[[providers]]
name = "careful"
kind = "command"
command = ["cat"]
[[tools]]
name = "careful"
permission = "ask"
"#;

/// A proxy with additional `tables` in its configuration, and its upstream.
async fn proxy(tables: &str) -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let setup = Setup { execution: tables.to_owned(), ..Setup::new(upstream.address) };
    (upstream, setup.start().await)
}

/// Reads a stream up to the end of the next event called `name`, and returns what was read.
async fn event(stream: &mut Reply, name: &str) -> String {
    let begin = format!("event: {name}\n");
    let mut text = stream.until(&begin).await;
    while !text.split_once(&begin).is_some_and(|(_, rest)| rest.contains("\n\n")) {
        text += &stream.until("\n").await;
    }
    text
}

struct Ask {
    request: Request<Full<Bytes>>,
}

impl Ask {
    fn new(proxy: &Proxy, method: &str, path: &str) -> Self {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = Request::builder().method(method).uri(proxy.url(path)).body(Full::default()).unwrap();
        Self { request }
    }

    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.request.headers_mut().append(name, value.parse().unwrap());
        self
    }

    fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    fn body(self, kind: &str, body: impl Into<Bytes>) -> Self {
        let mut this = self.header("content-type", kind);
        *this.request.body_mut() = Full::new(body.into());
        this
    }

    async fn send(self) -> Reply {
        Client::new().send(self.request).await.unwrap()
    }

    /// Sends the request. Returns the status and the JSON body.
    async fn answer(self) -> (u16, Value) {
        let reply = self.send().await;
        let status = reply.status().as_u16();
        let text = reply.rest().await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}
