//! Checks that of the headers that the SDKs send, only those reach an upstream of which the tables of types say so.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};
use toolwire::dialect::{Dialect, UpstreamDialect};

use crate::{
    independent::types::{
        claim::{Becomes, Entry},
        instances, table,
    },
    support::{
        client::{Client, chat_request},
        proxy::{Proxy, Setup},
        upstream::{Exchange, Upstream},
    },
};

#[tokio::test]
async fn headers_of_the_sdks_become_what_their_tables_say() {
    let question = json!([{"role": "user", "content": "q"}]);
    for (own, path, fields) in [
        (Dialect::Chat, "/v1/chat/completions", json!({ "messages": question })),
        (Dialect::Responses, "/v1/responses", json!({"input": "q", "store": false})),
        (Dialect::Messages, "/v1/messages", json!({"messages": question, "max_tokens": 9})),
    ] {
        let mut body = fields;
        body["model"] = "m".into();
        for upstream in [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini] {
            check(own, path, &body, upstream).await;
        }
    }
}

async fn check(own: Dialect, path: &str, body: &Value, upstream: Dialect) {
    let claims = headers(own);
    let (_server, proxy, heads) = asking(upstream).await;
    let mut request = request(&proxy, path, body);
    for name in claims.keys().filter(|name| *name != "content-type") {
        let value = HeaderValue::try_from(format!("sent-{name}")).unwrap();
        request.headers_mut().insert(HeaderName::try_from(name).unwrap(), value);
    }
    Client::new().send(request).await.unwrap().rest().await;

    let head = heads.lock().unwrap().clone();
    assert!(!head.is_empty(), "the upstream was asked");
    for (name, entry) in claims.iter().filter(|(name, _)| *name != "content-type") {
        let is_carried = entry.towards(own, upstream).is_some_and(|claim| claim.becomes == Becomes::Carried);
        assert_eq!(
            head.contains(&format!("sent-{name}\r\n")),
            is_carried,
            "{own} to {upstream}, {name}: {head}"
        );
    }
}

#[tokio::test]
async fn upstreams_of_gemini_get_the_headers_of_their_table() {
    let (_server, proxy, heads) = asking(Dialect::Gemini).await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}]});
    Client::new().send(request(&proxy, "/v1/chat/completions", &body)).await.unwrap().rest().await;
    let head = heads.lock().unwrap().clone();
    for (name, entry) in headers(Dialect::Gemini) {
        let is_mapped = entry.0.iter().any(|claim| claim.becomes == Becomes::Mapped);
        assert_eq!(head.contains(&format!("\r\n{name}:")), is_mapped, "{name}: {head}");
    }
}

/// Each version of Anthropic's API accepts what the one before it accepts, or less. So clients of both get what they
/// expect from the older one.
#[tokio::test]
async fn upstreams_of_messages_get_one_version_whatever_the_clients_have() {
    let question = json!([{"role": "user", "content": "q"}]);
    let body = json!({"model": "m", "messages": question, "max_tokens": 9});
    for version in ["2023-06-01", "2026-10-21", "2030-01-01"] {
        let (_server, proxy, heads) = asking(Dialect::Messages).await;
        let mut request = request(&proxy, "/v1/messages", &body);
        request.headers_mut().insert("anthropic-version", HeaderValue::from_static(version));
        Client::new().send(request).await.unwrap().rest().await;
        let head = heads.lock().unwrap().clone();
        let sent: Vec<_> = head.lines().filter(|line| line.starts_with("anthropic-version:")).collect();
        assert_eq!(sent, ["anthropic-version: 2023-06-01"], "{version}");
    }
}

fn headers(dialect: Dialect) -> BTreeMap<String, Entry> {
    let table = table(&format!("crates/dialects/src/{dialect}")).remove("header").unwrap();
    let known = instances(dialect.name()).remove("header").unwrap();
    assert!(table.keys().eq(known.keys()), "{dialect}");
    table
}

/// An upstream, a proxy in front of it, and the heads of the requests that the upstream gets, in lower case.
async fn asking(dialect: Dialect) -> (Upstream, Proxy, Arc<Mutex<String>>) {
    let heads = Arc::new(Mutex::new(String::new()));
    let keep = heads.clone();
    let server = Upstream::start(move |mut exchange: Exchange| {
        keep.lock().unwrap().push_str(&exchange.head.to_ascii_lowercase());
        async move {
            exchange.whole("400 Bad Request", "content-type: application/json\r\n", "{}").await;
            exchange
        }
    })
    .await;
    let mut setup = Setup::new(server.address);
    setup.upstream.options = UpstreamDialect::try_from(dialect).unwrap();
    (server, setup.start().await, heads)
}

fn request(proxy: &Proxy, path: &str, body: &Value) -> Request<Full<Bytes>> {
    let mut request = chat_request(proxy, body.to_string());
    *request.uri_mut() = proxy.url(path).parse().unwrap();
    request
}
