//! Tests what clients see of calls to the tools of an MCP server.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    soon,
    upstream::{Exchange, Upstream},
};

use super::script::{call, end, text};

/// A server whose tool `fail` reports a failure and whose tool `die` exits the process.
const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params") or {}
    if method == "tools/call" and params["name"] == "die":
        os._exit(1)
    result = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("fail", "die")]},
        "tools/call": {"content": [{"type": "text", "text": "no such file"}], "isError": True},
    }.get(method)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result or {}}), flush=True)
"#;

/// A model that calls the tool named in the user's message, if it has that tool, and then repeats the result.
async fn upstream() -> Upstream {
    Upstream::start(|exchange: Exchange| async move {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let stream = match messages.last().unwrap()["role"].as_str() {
            Some("tool") => text(messages.last().unwrap()["content"].as_str().unwrap()) + &end("stop"),
            _ if body["tools"].is_null() => text("not yet") + &end("stop"),
            _ => {
                call(0, "c0", &format!("s__{}", messages[0]["content"].as_str().unwrap()), "{}")
                    + &end("tool_calls")
            }
        };
        exchange.stream(stream).await
    })
    .await
}

async fn proxy(upstream: &Upstream, folder: &Path, visibility: &str) -> Proxy {
    let script = folder.join("server.py");
    fs::write(&script, SERVER).unwrap();
    let mut setup = Setup::new(upstream.address);
    setup.execution = format!(
        "[execution]\nvisibility = \"{visibility}\"\n[[providers]]\nname = \"s\"\nkind = \"mcp\"\nprotocol = \"initialize\"\n\
         command = [\"python3\", {:?}]\n",
        script.display().to_string()
    );
    setup.start().await
}

/// Waits until the server has started, then returns the message that answers a request for a call to `name`.
async fn message(proxy: &Proxy, name: &str) -> Value {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": name}]}).to_string();
    let asked = async {
        loop {
            let mut response = Client::new().chat(proxy, request.clone()).await.json().await;
            let message = response["choices"][0]["message"].take();
            if message["content"] != "not yet" {
                return message;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the tools of the server", asked).await
}

#[tokio::test]
async fn failed_call_is_a_result_for_the_model_and_an_error_for_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = upstream().await;
    for (name, code, said) in [("fail", "provider_error", "no such file"), ("die", "provider_error", "")] {
        for visibility in ["off", "reasoning", "items"] {
            let proxy = proxy(&upstream, folder.path(), visibility).await;
            let message = message(&proxy, name).await;
            let result: Value = serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
            assert_eq!((&result["ok"], &result["tool"]), (&json!(false), &json!(format!("s__{name}"))));
            assert_eq!(result["error"]["code"], code, "{result}");
            assert!(result["error"]["message"].as_str().unwrap().contains(said), "{result}");
            let shown = &message["tool_results"];
            match visibility {
                "items" => {
                    assert_eq!(shown.as_array().unwrap().len(), 1, "{message}");
                    assert_eq!(shown[0]["name"], format!("s__{name}"), "{message}");
                    assert_eq!(
                        (&shown[0]["is_error"], &shown[0]["content"]),
                        (&json!(true), &message["content"])
                    );
                }
                _ => assert!(shown.is_null(), "{message}"),
            }
            assert!(message["tool_calls"].is_null(), "{message}");
            let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
            assert_eq!(reasoning.is_empty(), visibility != "reasoning", "{message}");
            assert!(!reasoning.contains('{'), "{reasoning}");
        }
    }
}
