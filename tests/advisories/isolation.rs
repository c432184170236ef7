//! Tests that what belongs to one connection or client does not reach another one, at the endpoint for MCP clients.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, header};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::{
    clients::{ALICE, BOB, TABLES},
    script,
    support::{
        client::{Client, Reply},
        proxy::Proxy,
        upstream::{Upstream, at_once},
    },
};

/// A proxy with hosted tools. `search` repeats its arguments, and is denied to bob.
async fn proxy() -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let mut setup = script::setup(&upstream, "");
    let deny = format!("[[permissions]]\npermission = \"deny\"\ntool = \"search\"\nkey = \"{BOB}\"\n");
    setup.execution.push_str(&format!("{deny}{TABLES}"));
    let proxy = setup.start().await;
    (upstream, proxy)
}

async fn send(client: &Client, proxy: &Proxy, headers: &[(&'static str, &str)], message: &Value) -> Reply {
    let mut request = Request::post(proxy.url("/mcp"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request.body(Full::new(Bytes::from(message.to_string()))).unwrap()).await.unwrap()
}

fn search(id: usize, query: &str) -> Value {
    let params = json!({"name": "search", "arguments": {"query": query}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// CVE-2026-25536 (MCP TypeScript SDK): clients with equal message ids got each other's results.
#[tokio::test]
async fn equal_ids_of_several_clients_are_not_confused() {
    let (_upstream, proxy) = proxy().await;
    let key = format!("Bearer {ALICE}");
    let (key, shared) = (key.as_str(), Client::http2());
    let asked = (0..24).map(|number| {
        // Half of them share a connection.
        let client = if number % 2 == 0 { shared.clone() } else { Client::new() };
        let (proxy, query) = (&proxy, format!("of client {number}."));
        async move {
            let text = send(&client, proxy, &[("authorization", key)], &search(7, &query)).await.rest().await;
            (query, text)
        }
    });
    for (query, text) in join_all(asked).await {
        assert!(text.contains(&query), "{query}: {text}");
        assert_eq!(text.matches("of client").count(), 1, "{query}: {text}");
    }
}

/// CVE-2026-52869 (MCP Python SDK), CVE-2026-33946 (MCP Ruby SDK): whoever knew the id of a session acted for its
/// client or received its messages.
#[tokio::test]
async fn id_of_a_session_is_not_an_authorization() {
    let (_upstream, proxy) = proxy().await;
    let client = Client::new();
    let (alice, bob) = (format!("Bearer {ALICE}"), format!("Bearer {BOB}"));
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
    }});
    let reply = send(&client, &proxy, &[("authorization", &alice)], &begin).await;
    assert_eq!(reply.status(), 200);
    let session = reply.header("mcp-session-id").unwrap_or("1").to_owned();
    let called = async |headers: &[(&'static str, &str)]| {
        let reply = send(&client, &proxy, headers, &search(2, "rain")).await;
        (reply.status().as_u16(), reply.rest().await.contains("found "))
    };
    assert_eq!(called(&[("authorization", &alice), ("mcp-session-id", &session)]).await, (200, true));
    assert_eq!(called(&[("authorization", &bob), ("mcp-session-id", &session)]).await, (200, false));
    assert_eq!(called(&[("mcp-session-id", &session)]).await, (401, false));
    for method in ["GET", "DELETE"] {
        let request = Request::builder().method(method).uri(proxy.url("/mcp"));
        let request = request.header("authorization", &bob).header("mcp-session-id", &session);
        let reply = client.send(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(reply.status(), 405, "{method}");
    }
}
