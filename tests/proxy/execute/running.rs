//! Tests what clients of each dialect see of a hosted call while it runs: what it does, how far it is, and for how long.

use std::{fs, path::Path};

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Duration, sleep},
};

use super::script::{Asked, call, end, text, upstream};
use crate::support::{
    client::{Client, Reply},
    proxy::{Proxy, Setup},
    soon,
    upstream::Upstream,
};

/// A server whose tool `job` reports once a second how far it is, until the file `done` exists.
const SERVER: &str = r#"
import json, os, sys, time
def write(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params") or {}
    if method == "tools/call":
        token = params["_meta"]["progressToken"]
        while not os.path.exists(sys.argv[1]):
            report = {"progressToken": token, "progress": 1, "total": 4, "message": "Indexing"}
            write({"method": "notifications/progress", "params": report})
            time.sleep(1)
    result = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "job", "title": "Job", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "the result"}]},
    }.get(method)
    if "id" in message:
        write({"id": message["id"], "result": result or {}})
"#;

/// The path and the body of a streamed request, where the stream has the lines about running calls, and whether items show
/// that a call runs.
type Running = (&'static str, Value, &'static str, bool);

/// A request of each dialect.
fn requests() -> Vec<Running> {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let asked = json!({"model": "m", "stream": true, "max_tokens": 99, "messages": messages});
    let thinking = json!({"includeThoughts": true});
    let gemini =
        json!({"contents": [{"parts": [{"text": "hi"}]}], "generationConfig": {"thinkingConfig": thinking}});
    let interaction = json!({"model": "m", "stream": true, "input": "hi", "generation_config": {"thinking_summaries": "auto"}});
    vec![
        ("/v1/chat/completions", asked.clone(), "\"reasoning_content\":", false),
        (
            "/v1/responses",
            json!({"model": "m", "stream": true, "input": "hi"}),
            "response.reasoning_summary_text.delta",
            true,
        ),
        ("/v1/messages", asked.clone(), "thinking_delta", true),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini, "\"thought\":true", true),
        ("/v1beta/interactions", interaction, "thought", false),
        ("/api/chat", asked, "\"thinking\":", false),
    ]
}

async fn proxy(folder: &Path, visibility: &str) -> (Proxy, Asked, Upstream) {
    let script = folder.join("server.py");
    fs::write(&script, SERVER).unwrap();
    let (upstream, asked) =
        upstream([call(0, "c0", "s__job", "{}") + &end("tool_calls"), text("It is done.") + &end("stop")])
            .await;
    let mut setup = Setup::new(upstream.address);
    let command = json!(["python3", script, folder.join("done")]);
    setup.execution = format!(
        "[execution]\nvisibility = \"{visibility}\"\n[[providers]]\nname = \"s\"\nkind = \"mcp\"\nprotocol = \"initialize\"\n\
         command = {command}\n[[tools]]\nname = \"s__job\"\nprogress = \"Working on it\"\n"
    );
    (setup.start().await, asked, upstream)
}

/// Waits until the tool is known.
async fn ready(proxy: &Proxy) {
    let listed = async {
        loop {
            let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
            let request = Request::post(proxy.url("/mcp"))
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream");
            let request = request.body(Full::new(list.into())).unwrap();
            if Client::new().send(request).await.unwrap().rest().await.contains("s__job") {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the tools of the server", listed).await;
}

async fn asked(proxy: &Proxy, path: &str, body: &Value) -> Reply {
    let request = Request::post(proxy.url(path)).header("content-type", "application/json");
    Client::new().send(request.body(Full::new(body.to_string().into())).unwrap()).await.unwrap()
}

/// What a client that asks for the call sees, until a report that is not the first one and from there on.
async fn shown((path, body, place, has_items): Running, visibility: &'static str) {
    let what = format!("{path} {visibility}");
    let folder = tempfile::tempdir().unwrap();
    let (proxy, requests, _upstream) = proxy(folder.path(), visibility).await;
    ready(&proxy).await;
    let mut reply = asked(&proxy, path, &body).await;
    let mut read = match (visibility, has_items) {
        ("items", true) => reply.until("job").await,
        ("items", false) => String::new(),
        _ => reply.until("Working on it\\n").await,
    };
    read += &reply.until("Job: 25%, Indexing (").await;
    assert_eq!(requests.lock().unwrap().len(), 1, "{what}: the call runs");
    fs::write(folder.path().join("done"), "").unwrap();
    read += &reply.rest().await;
    let mut lines = read.lines().filter(|line| line.contains("Indexing ("));
    assert!(lines.any(|line| line.contains(place)) && read.contains("It is done."), "{what}: {read}");
    assert_eq!(read.contains("the result"), visibility == "items", "{what}: {read}");
}

#[tokio::test]
async fn running_call_shows_what_it_does_how_far_it_is_and_for_how_long() {
    for visibility in ["reasoning", "items"] {
        let shown: JoinSet<_> = requests().into_iter().map(|request| shown(request, visibility)).collect();
        shown.join_all().await;
    }
}

/// What a client reads that asks for the call while calls are hidden.
async fn hidden(path: &'static str, body: Value) {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, requests, _upstream) = proxy(folder.path(), "off").await;
    ready(&proxy).await;
    // The status is sent with the first content.
    let reading = async { asked(&proxy, path, &body).await.rest().await };
    let ending = async {
        while requests.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        sleep(Duration::from_millis(1200)).await;
        fs::write(folder.path().join("done"), "").unwrap();
    };
    let (read, ()) = tokio::join!(reading, soon("the call", ending));
    let is_hidden = !read.contains("Working") && !read.contains("Indexing");
    assert!(read.contains("It is done.") && is_hidden, "{path}: {read}");
}

#[tokio::test]
async fn hidden_call_shows_nothing_while_it_runs() {
    let hidden: JoinSet<_> = requests().into_iter().map(|(path, body, ..)| hidden(path, body)).collect();
    hidden.join_all().await;
}
