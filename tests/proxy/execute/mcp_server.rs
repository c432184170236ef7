//! Tests `POST /mcp`, where clients of the Model Context Protocol find the hosted tools.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::script::setup;
use crate::support::{
    client::{Client, Reply},
    proxy::{Proxy, Setup},
    upstream::{Exchange, Upstream},
};

async fn hosting(settings: &str) -> Setup {
    let upstream = Upstream::start(|exchange: Exchange| async move { exchange.stream("").await }).await;
    setup(&upstream, settings)
}

async fn send(proxy: &Proxy, key: &str, message: &Value) -> Reply {
    let request = Request::post(proxy.url("/mcp"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(header::AUTHORIZATION, format!("Bearer {key}"))
        .body(Full::new(Bytes::from(message.to_string())));
    Client::new().send(request.unwrap()).await.unwrap()
}

/// Sends a request and returns the message that answers it.
async fn asked(proxy: &Proxy, key: &str, method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let text = send(proxy, key, &message).await.rest().await;
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_else(|| panic!("{text}"));
    let answer: Value = serde_json::from_str(data).unwrap();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
    answer
}

async fn called(proxy: &Proxy, key: &str, name: &str, arguments: &Value) -> Value {
    asked(proxy, key, "tools/call", &json!({"name": name, "arguments": arguments})).await
}

async fn listed(proxy: &Proxy, key: &str) -> Vec<String> {
    let answer = asked(proxy, key, "tools/list", &json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn hosted_tools_are_an_mcp_server() {
    let proxy = hosting("").await.start().await;
    for (wanted, given) in
        [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")]
    {
        let client = json!({"name": "c", "version": "1"});
        let params = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": client});
        let answer = asked(&proxy, "", "initialize", &params).await;
        let result = &answer["result"];
        assert_eq!(
            (&result["protocolVersion"], &result["serverInfo"]["name"]),
            (&json!(given), &json!("toolwire"))
        );
    }
    assert_eq!(listed(&proxy, "").await, ["search", "slow", "broken"]);
    let search = called(&proxy, "", "search", &json!({"query": "rain"})).await;
    assert_eq!(search["result"]["content"], json!([{"type": "text", "text": "found {\"query\":\"rain\"}"}]));
    assert_eq!(search["result"]["isError"], false);
    for (name, arguments, code) in
        [("broken", json!({}), "provider_error"), ("search", json!({"query": 1}), "invalid_arguments")]
    {
        let answer = called(&proxy, "", name, &arguments).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(serde_json::from_str::<Value>(text).unwrap()["error"]["code"], code, "{text}");
    }
    assert_eq!(called(&proxy, "", "other", &json!({})).await["error"]["code"], -32602);
    assert_eq!(asked(&proxy, "", "resources/list", &json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn files_of_tools_reach_mcp_clients() {
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let answer = json!({"content": [{"type": "text", "text": "seen"}, {"type": "image", "data": png}]});
    let mut setup = hosting("").await;
    setup.execution.push_str(&format!(
        "[[providers]]\nname = \"look\"\nkind = \"command\"\ncommand = [\"echo\", '{answer}']\n"
    ));
    let proxy = setup.start().await;
    let seen = called(&proxy, "", "look", &json!({})).await;
    let content = seen["result"]["content"].as_array().unwrap();
    assert!(content[0]["text"].as_str().unwrap().starts_with("seen"), "{seen}");
    assert_eq!(content[1], json!({"type": "image", "data": png, "mimeType": "image/png"}));
    assert_eq!(content.len(), 2);
}

#[tokio::test]
async fn notifications_and_wrong_messages_have_no_result() {
    let proxy = hosting("").await.start().await;
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(&proxy, "", &told).await.status(), StatusCode::ACCEPTED);
    for wrong in
        [json!([]), json!({"jsonrpc": "2.0", "id": 1}), json!("x"), json!({"id": {}, "method": "ping"})]
    {
        let reply = send(&proxy, "", &wrong).await;
        assert!(reply.status().is_client_error(), "{wrong} {}", reply.status());
    }
    let get = Client::new().get(&proxy, "/mcp").await;
    assert_eq!((get.status(), get.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn keys_and_permissions_hold_for_mcp_clients() {
    let rules = "[[permissions]]\npermission = \"deny\"\ntool = \"search\"\nkey = \"two\"\n\
        [[tools]]\nname = \"broken\"\npermission = \"deny\"\n[[tools]]\nname = \"slow\"\ninjection = \"off\"\n";
    let mut setup = hosting("").await;
    setup.execution.push_str(rules);
    setup.keys = vec!["one", "two"];
    let proxy = setup.start().await;
    assert_eq!(listed(&proxy, "one").await, ["search"]);
    assert_eq!(listed(&proxy, "two").await, Vec::<String>::new());
    assert_eq!(called(&proxy, "one", "search", &json!({})).await["result"]["isError"], false);
    for (key, name) in [("two", "search"), ("one", "broken"), ("one", "slow")] {
        assert_eq!(called(&proxy, key, name, &json!({})).await["error"]["code"], -32602, "{key} {name}");
    }
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    assert_eq!(send(&proxy, "three", &list).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn call_of_a_client_that_is_gone_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, ended) = (folder.path().join("begun"), folder.path().join("ended"));
    let mut setup = hosting("").await;
    setup.execution.push_str(&format!(
        "[[providers]]\nname = \"files\"\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"touch {}; sleep 1; touch {}\"]\n",
        begun.display(),
        ended.display()
    ));
    let proxy = setup.start().await;
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "files"}});
    let reply = send(&proxy, "", &message).await;
    while !begun.exists() {
        sleep(Duration::from_millis(10)).await;
    }
    drop(reply);
    sleep(Duration::from_millis(1500)).await;
    assert!(!ended.exists(), "the program went on");
}

#[tokio::test]
async fn path_is_unknown_without_hosted_tools() {
    let mut setup = hosting("").await;
    setup.execution = String::new();
    let proxy = setup.start().await;
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    assert_eq!(send(&proxy, "", &list).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn key_without_a_login_of_its_own_learns_what_to_run() {
    let server = "[[providers]]\nname = \"crm\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\noauth_login_per = \"key\"\n";
    let key = |name: &str| format!("[[keys]]\nname = \"{name}\"\nkey = \"key-of-{name}\"\n");
    let mut setup = hosting("").await;
    setup.execution.push_str(&format!("{server}{}{}", key("alice"), key("Alice")));
    setup.keys = vec!["nameless"];
    let proxy = setup.start().await;
    for (shown, expected) in [
        (
            "key-of-alice",
            "The tools of `crm` are missing: the client key `alice` must log in with `toolwire mcp login crm --key alice`.",
        ),
        (
            "key-of-Alice",
            "The tools of `crm` are missing: the client key `Alice` must log in with `toolwire mcp login crm --key Alice`.",
        ),
        (
            "nameless",
            "The tools of `crm` are missing: each client key has a login of its own, so the request needs a key that has a name.",
        ),
    ] {
        assert_eq!(listed(&proxy, shown).await, ["search", "slow", "broken"]);
        let client = json!({"name": "c", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let begun = asked(&proxy, shown, "initialize", &params).await;
        assert_eq!(begun["result"]["instructions"], expected);
        let refused = called(&proxy, shown, "crm__add_note", &json!({})).await;
        assert_eq!(refused["result"]["content"][0]["text"], expected);
        assert_eq!(refused["result"]["isError"], true);
        let unknown = called(&proxy, shown, "crmx__add_note", &json!({})).await;
        assert_eq!(unknown["error"]["message"], "there is no tool \"crmx__add_note\"");
    }
}
