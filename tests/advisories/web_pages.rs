//! Tests that web pages which a user has opened do not reach a toolwire on the same machine, whose clients need no key.

use std::{fs, path::Path};

use serde_json::{Value, json};
use toolwire::config::Origins;

use crate::{
    clients::ask,
    program::{Server, run, toolwire},
    script::{self, call, end, text},
    support::{
        proxy::{Proxy, Setup},
        raw::Raw,
        upstream::{Upstream, at_once},
        websocket::{Received, WebSocket, handshake, refused},
    },
};

/// A hosted tool that leaves a mark when it runs.
fn marking(mark: &Path) -> String {
    format!(
        "[execution]\n[[providers]]\nname = \"mark\"\nkind = \"command\"\ncommand = [\"touch\", {:?}]\n",
        mark.display().to_string()
    )
}

/// Headers of a page whose host name leads to this machine (DNS rebinding), and of other pages.
const FOREIGN: [(&str, &str); 5] = [
    ("evil.example:8787", ""),
    ("evil.example:8787", "origin: http://evil.example:8787\r\nsec-fetch-site: same-origin\r\n"),
    ("localhost.evil.example", "sec-fetch-site: none\r\n"),
    ("localhost:8787", "origin: https://evil.example\r\nsec-fetch-site: cross-site\r\n"),
    ("0.0.0.0:8787", "origin: http://0.0.0.0:8787\r\nsec-fetch-site: same-origin\r\n"),
];

/// CVE-2025-66414 (MCP TypeScript SDK), CVE-2025-66416 (MCP Python SDK), CVE-2026-34742 (MCP Go SDK), CVE-2026-35568
/// (MCP Java SDK), CVE-2026-42559 (MCP Rust SDK), CVE-2026-11624 (MCP Toolbox): a page could call the tools of a local
/// MCP server after its host name had been made to resolve to this machine.
#[tokio::test]
async fn page_does_not_call_tools_over_mcp() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let upstream = Upstream::start(at_once).await;
    let setup = Setup { execution: marking(&mark), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mark"}}).to_string();
    let accept = "accept: application/json, text/event-stream\r\n";
    for (host, headers) in FOREIGN {
        let headers = format!("{accept}{headers}");
        assert_eq!(
            ask(&proxy, ("POST", "/mcp"), (host, &headers), &call).await.status,
            403,
            "{host} {headers}"
        );
    }
    assert!(!mark.exists());
    assert_eq!(ask(&proxy, ("POST", "/mcp"), ("localhost:8787", accept), &call).await.status, 200);
    assert!(mark.exists());
}

/// Sends a body with this type as a browser does for a page of this machine's own origin, or of another one.
async fn simple(proxy: &Proxy, origin: &str, kind: &str, body: &str) -> u16 {
    let mut client = Raw::connect(proxy).await;
    let length = body.len();
    let headers =
        format!("host: localhost\r\norigin: {origin}\r\ncontent-type: {kind}\r\ncontent-length: {length}");
    client.send(format!("POST /v1/chat/completions HTTP/1.1\r\n{headers}\r\n\r\n{body}")).await;
    client.response().await.status
}

/// CVE-2025-49596 (MCP Inspector): a request that browsers send without asking started commands.
#[tokio::test]
async fn request_without_a_preflight_runs_no_tool() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let streams = [call(0, "c", "mark", "{}") + &end("tool_calls"), text("Done.") + &end("stop")];
    let (upstream, asked) = script::upstream(streams).await;
    let setup = Setup { execution: marking(&mark), ..Setup::new(upstream.address) };
    let proxy = setup.start().await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        assert_eq!(simple(&proxy, "https://evil.example", kind, &body).await, 403, "{kind}");
        assert_eq!(simple(&proxy, "http://localhost", kind, &body).await, 415, "{kind}");
    }
    for target in
        ["/v1/chat/completions?model=m", "/mcp?transportType=stdio&command=touch", "/sse?command=touch"]
    {
        let headers = "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n";
        assert_eq!(ask(&proxy, ("GET", target), ("localhost", headers), "").await.status, 403, "{target}");
    }
    assert_eq!((asked.lock().unwrap().len(), mark.exists()), (0, false));
    assert_eq!(simple(&proxy, "http://localhost", "application/json", &body).await, 200);
    assert!(mark.exists());
}

/// CVE-2025-52882 (Claude Code), CVE-2026-59950 (MCP Python SDK): a page could open a WebSocket, for which browsers do
/// not ask, and use it like the user.
#[tokio::test]
async fn page_does_not_open_a_websocket() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    for (host, headers) in FOREIGN {
        let head = handshake("/v1/responses", headers).replace("host: localhost", &format!("host: {host}"));
        assert_eq!(refused(&proxy, &head).await.status, 403, "{host} {headers}");
    }
    let null = handshake("/v1/responses", "origin: null\r\n");
    assert_eq!(refused(&proxy, &null).await.status, 403);
    let mut socket = WebSocket::connect(&proxy, "").await;
    socket.create(json!({"input": "hi"})).await;
    assert!(matches!(socket.next().await, Received::Text(_)));
}

/// CVE-2026-27482 (Ray): the check of requests by browsers left out `DELETE`.
#[tokio::test]
async fn page_does_not_delete_anything() {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let body = json!({"model": "m", "input": "hi"}).to_string();
    let made = ask(&proxy, ("POST", "/v1/responses"), ("localhost", ""), &body).await;
    let made: Value = serde_json::from_str(&made.body).unwrap();
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    for (host, headers) in FOREIGN {
        for method in ["DELETE", "PUT", "PATCH", "QUERY", "GET", "HEAD"] {
            let mut client = Raw::connect(&proxy).await;
            client.send(format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n")).await;
            let response = client.response_without_body().await;
            assert_eq!(response.status, 403, "{method} {host} {headers}");
        }
    }
    assert_eq!(ask(&proxy, ("GET", &path), ("localhost", ""), "").await.status, 200);
    assert_eq!(ask(&proxy, ("DELETE", &path), ("localhost", ""), "").await.status, 200);
}

/// CVE-2025-34291 (Langflow): pages of all origins were allowed to send requests with the user's cookies.
#[tokio::test]
async fn no_page_may_use_the_cookies_of_the_user() {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup { execution: "[admin]\n".to_owned(), ..Setup::new(upstream.address) };
    setup.cors_origins = Origins::parse(&["*"]).unwrap();
    let proxy = setup.start().await;
    let asking = "access-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n";
    for origin in ["https://evil.example", "null", "http://localhost:3000", "http://localhost.evil.example"] {
        let page = format!("origin: {origin}\r\nsec-fetch-site: cross-site\r\ncookie: toolwire_x=1\r\n");
        for path in ["/v1/models", "/admin/tools", "/admin/session", "/console/api/chat"] {
            for (method, more) in [("OPTIONS", asking), ("GET", "")] {
                let response = ask(&proxy, (method, path), ("localhost", &format!("{page}{more}")), "").await;
                assert_eq!(
                    response.header("access-control-allow-credentials"),
                    None,
                    "{method} {path} {origin}"
                );
                let is_open = path.starts_with("/v1/");
                let allowed = response.header("access-control-allow-origin");
                assert!(is_open || allowed.is_none(), "{method} {path} {origin}: {allowed:?}");
                assert!(!response.body.contains("csrf\":"), "{}", response.body);
            }
        }
    }
    let models = ask(&proxy, ("GET", "/v1/models"), ("localhost", "origin: https://a.example\r\n"), "").await;
    assert_eq!(models.header("access-control-allow-origin"), Some("*"), "the setting allows this");
}

/// CVE-2026-7482 (Ollama), CVE-2026-23744 (MCPJam Inspector): a server without keys was open to the whole network.
#[test]
fn without_keys_only_this_machine_is_served() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let serve = ["serve", "http://127.0.0.1:9/v1", "--listen", listen];
        let (status, _, stderr) = run(&mut toolwire(&serve));
        assert_ne!(status, 0, "{listen}");
        assert!(stderr.contains("loopback"), "{listen}: {stderr}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolwire.toml");
    let text = "listen = [\"127.0.0.1:0\", \"0.0.0.0:0\"]\nstore = \"off\"\napi_keys = [\"key-of-a-client-1\"]\n\
                [[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://localhost:9/v1\"\n[[models]]\nname = \"*\"\n";
    fs::write(&file, text).unwrap();
    let server = Server::start(&mut toolwire(&["serve", "--config", &file.display().to_string()]));
    assert!(!server.address.is_empty());
}
