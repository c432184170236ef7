//! Tests `details` in a tool's answer, which people see in every view but models never see.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::script::{Asked, call, end, text, upstream};
use crate::support::{
    client::{Client, Reply},
    proxy::{Proxy, Setup},
    soon,
    upstream::Upstream,
};

const KEY: &str = "admin-key-of-tests";

/// Text that only occurs in the details.
const MARK: &str = "\"tabId\":777";

/// A name that only occurs in the details, however often they are quoted. The number alone may also stand in a time
/// or an id.
const NAME: &str = "tabId";

/// A tool whose answer has details, an audit file in `folder`, and a model that calls the tool in each of its
/// responses.
async fn start(capture: &str, visibility: &str, folder: &tempfile::TempDir) -> (Proxy, Upstream, Asked) {
    let turn = || [call(0, "call_0", "tab", "{}") + &end("tool_calls"), text("done") + &end("stop")];
    let (upstream, asked) = upstream(turn().into_iter().chain(turn())).await;
    let audit = folder.path().join("audit.jsonl");
    let answer = json!({"content": [{"type": "text", "text": "ok"}], "details": {"tabId": 777}});
    let execution = format!(
        "[admin]\napi_keys = [\"{KEY}\"]\n{capture}\n[execution]\nvisibility = \"{visibility}\"\naudit = {audit:?}\n[[providers]]\nname = \"tab\"\n\
         kind = \"command\"\ncommand = [\"echo\", '{answer}']\ndescription = \"Opens a tab.\"\n"
    );
    let proxy = Setup { execution, ..Setup::new(upstream.address) }.start().await;
    (proxy, upstream, asked)
}

async fn post(proxy: &Proxy, path: &str, body: &Value) -> String {
    let request = Request::post(proxy.url(path))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {KEY}"));
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().rest().await
}

async fn feed(proxy: &Proxy) -> Reply {
    let request = Request::get(proxy.url("/admin/events")).header("authorization", format!("Bearer {KEY}"));
    let mut feed = Client::new().send(request.body(Full::default()).unwrap()).await.unwrap();
    feed.until(": connected\n\n").await;
    feed
}

/// Calls the tool by hand, in the Playground's chat, and in a client's request. Returns all three responses.
async fn calls(proxy: &Proxy) -> [String; 3] {
    let messages = json!([{"role": "user", "content": "Open it."}]);
    let by_hand = post(proxy, "/admin/tools/tab/run", &json!({"input": {}})).await;
    let chat = json!({"model": "m", "client": "chat", "messages": messages});
    let chat = post(proxy, "/console/api/chat", &chat).await;
    let client = post(proxy, "/v1/chat/completions", &json!({"model": "m", "messages": messages})).await;
    assert!(chat.contains("done") && client.contains("done"), "{chat} {client}");
    [by_hand, chat, client]
}

/// Waits until the audit file has the results of `count` calls, and returns the file's content.
async fn audited(folder: &tempfile::TempDir, count: usize) -> String {
    soon("the audit file", async {
        loop {
            let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap_or_default();
            if text.matches("\"tool_result\"").count() >= count {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test]
async fn details_reach_people_and_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, _upstream, asked) = start("capture = \"redacted\"", "off", &folder).await;
    let mut feed = feed(&proxy).await;
    let [by_hand, chat, client] = calls(&proxy).await;
    assert_eq!(serde_json::from_str::<Value>(&by_hand).unwrap()["details"], json!({"tabId": 777}));
    assert_eq!(chat.matches(MARK).count(), 1, "{chat}");
    assert!(!client.contains(NAME), "{client}");
    for _ in 0..3 {
        feed.until(MARK).await;
    }
    assert_eq!(audited(&folder, 3).await.matches(MARK).count(), 3);
    let asked = Value::from(asked.lock().unwrap().clone()).to_string();
    assert!(asked.contains("ok") && !asked.contains(NAME), "{asked}");
}

#[tokio::test]
async fn details_are_kept_nowhere_while_contents_are_not_captured() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, _upstream, _asked) = start("", "off", &folder).await;
    let [by_hand, _, client] = calls(&proxy).await;
    assert!(by_hand.contains(MARK) && !client.contains(NAME), "{by_hand} {client}");
    assert!(!audited(&folder, 3).await.contains(NAME));
}

#[tokio::test]
async fn details_are_members_of_items_that_chat_clients_see() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, _upstream, asked) = start("", "items", &folder).await;
    let [_, _, client] = calls(&proxy).await;
    let response: Value = serde_json::from_str(&client).unwrap();
    let results = &response["choices"][0]["message"]["tool_results"];
    assert_eq!((&results[0]["content"], &results[0]["details"]), (&json!("ok"), &json!({"tabId": 777})));
    assert!(!Value::from(asked.lock().unwrap().clone()).to_string().contains(NAME));
}
