//! Tests what the admin API returns and changes.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Ask, KEY, TOOLS, WITH_KEY, proxy};
use crate::support::{
    proxy::{Proxy, Setup},
    soon,
    upstream::{Upstream, at_once},
};

async fn get(proxy: &Proxy, path: &str) -> Value {
    let (status, body) = Ask::new(proxy, "GET", path).key(KEY).answer().await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn act(proxy: &Proxy, method: &str, path: &str, body: Value) -> (u16, Value) {
    Ask::new(proxy, method, path).key(KEY).json(&body).answer().await
}

#[tokio::test]
async fn tools_are_listed_switched_and_run_by_hand() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let list = get(&proxy, "/admin/tools").await;
    let echo = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!((&echo["provider"], &echo["enabled"]), (&json!("echo"), &json!(true)));
    assert_eq!(echo["parameters"]["properties"]["text"]["type"], "string");
    assert_eq!(list["providers"][0]["kind"], "command");

    let run = "/admin/tools/echo/run";
    let (status, ran) = act(&proxy, "POST", run, json!({"input": {"text": "hello"}})).await;
    assert_eq!((status, &ran["ok"], &ran["result"]), (200, &json!(true), &json!({"text": "hello"})));
    assert_eq!(act(&proxy, "POST", run, json!({"input": 5})).await.0, 400);
    assert_eq!(act(&proxy, "POST", "/admin/tools/none/run", json!({})).await.0, 404);

    assert_eq!(act(&proxy, "PATCH", "/admin/tools/echo", json!({"enabled": false})).await.0, 200);
    let list = get(&proxy, "/admin/tools").await;
    let echo = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["enabled"], false);
    assert_eq!(act(&proxy, "POST", run, json!({})).await.0, 404, "a tool that is off does not run");
    assert_eq!(act(&proxy, "PATCH", "/admin/tools/echo", json!({"enabled": true})).await.0, 200);
    assert_eq!(act(&proxy, "POST", run, json!({})).await.0, 200);
    for (path, body, status) in [
        ("/admin/tools/none", json!({"enabled": true}), 404),
        ("/admin/tools/echo", json!({"enabled": "yes"}), 400),
        ("/admin/tools/echo", json!({}), 400),
    ] {
        assert_eq!(act(&proxy, "PATCH", path, body).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn tools_have_figures_of_their_calls() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    for (input, ok) in
        [(json!({"text": "a"}), true), (json!({"text": 5}), false), (json!({"text": "b"}), true)]
    {
        let (_, ran) = act(&proxy, "POST", "/admin/tools/echo/run", json!({"input": input})).await;
        assert_eq!(ran["ok"], ok, "{ran}");
    }
    let list = get(&proxy, "/admin/tools").await;
    let figures = |name: &str| {
        let tools = list["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["figures"].clone()
    };
    let echo = figures("echo");
    assert_eq!(
        (&echo["calls"], &echo["failed"], &echo["cached"]),
        (&json!(3), &json!(1), &json!(0)),
        "{echo}"
    );
    assert!(echo["p50_ms"].is_u64(), "{echo}");
    assert_eq!(figures("careful"), json!({"calls": 0, "failed": 0, "cached": 0, "p50_ms": null}));
}

#[tokio::test]
async fn bodies_are_limited_and_must_be_json() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let ask = || Ask::new(&proxy, "POST", "/admin/tools/echo/run").key(KEY);
    let (status, error) = ask().body("application/json", "x".repeat((1 << 20) + 1)).answer().await;
    assert_eq!((status, &error["error"]["code"]), (413, &json!("too_large")));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("1048576 bytes") && !message.contains("max_body"), "{message}");
    let deep = "[".repeat(100_000);
    for wrong in ["{", "[]", "nothing", "{\"input\":{}}x", &deep] {
        let (status, error) = ask().body("application/json", wrong.to_owned()).answer().await;
        assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_request")));
    }
    let exact = json!({"input": {"text": ""}}).to_string();
    let exact =
        exact.replace("\"text\":\"\"", &format!("\"text\":\"{}\"", "x".repeat((1 << 20) - exact.len())));
    assert_eq!(exact.len(), 1 << 20);
    assert_eq!(ask().body("application/json", exact).answer().await.0, 200);
}

#[tokio::test]
async fn providers_without_server_have_nothing_to_test_or_restart() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    assert_eq!(act(&proxy, "POST", "/admin/providers/echo/test", json!({})).await.0, 409);
    assert_eq!(act(&proxy, "POST", "/admin/providers/echo/restart", json!({})).await.0, 409);
    assert_eq!(get(&proxy, "/admin/providers/echo/log").await["lines"], json!([]));
    for path in ["/admin/providers/none/test", "/admin/providers/none/restart"] {
        assert_eq!(act(&proxy, "POST", path, json!({})).await.0, 404);
    }
    assert_eq!(Ask::new(&proxy, "GET", "/admin/providers/none/log").key(KEY).send().await.status(), 404);
}

#[tokio::test]
async fn without_the_stage_lists_are_empty_and_changes_say_why() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    assert_eq!(get(&proxy, "/admin/tools").await["tools"], json!([]));
    assert_eq!(get(&proxy, "/admin/permissions").await["questions"], json!([]));
    let (status, error) = act(&proxy, "POST", "/admin/permissions/allow_all", json!({})).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("no_hosted_tools")));
}

/// Calls `careful`, which asks a question before it runs. Returns the pending call and the question.
async fn question(proxy: &Proxy) -> (JoinSet<(u16, Value)>, Value) {
    let run = Ask::new(proxy, "POST", "/admin/tools/careful/run").key(KEY).json(&json!({"input": {"n": 1}}));
    let mut call = JoinSet::new();
    call.spawn(run.answer());
    let asked = async {
        loop {
            let list = get(proxy, "/admin/permissions").await;
            if let Some(question) = list["questions"].as_array().and_then(|questions| questions.first()) {
                return question.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let asked = soon("a question", asked).await;
    (call, asked)
}

#[tokio::test]
async fn question_is_answered_once_and_remembered() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let _feed = Ask::new(&proxy, "GET", "/admin/events").key(KEY).send().await;
    let (mut call, asked) = question(&proxy).await;
    assert_eq!((&asked["tool"], &asked["params"]), (&json!("careful"), &json!({"n": 1})));
    let path = format!("/admin/permissions/{}", asked["request_id"].as_str().unwrap());
    assert_eq!(act(&proxy, "POST", &path, json!({})).await.0, 400);
    assert_eq!(act(&proxy, "POST", &path, json!({"granted": true, "scope": "all"})).await.0, 400);
    assert_eq!(act(&proxy, "POST", &path, json!({"granted": true, "scope": "domain"})).await.0, 400);
    let (status, extended) = act(&proxy, "POST", &format!("{path}/extend"), json!({})).await;
    assert_eq!(status, 200);
    assert!(extended["expires_at"].as_u64() >= asked["expires_at"].as_u64());
    let (status, settled) = act(&proxy, "POST", &path, json!({"granted": true, "remember": true})).await;
    assert_eq!((status, &settled["granted"]), (200, &json!(true)));
    assert_eq!(call.join_next().await.unwrap().unwrap().1["ok"], true);
    let (status, late) = act(&proxy, "POST", &path, json!({"granted": false})).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("already_answered")));
    assert_eq!(late["error"]["winner"]["granted"], true);
    assert_eq!(act(&proxy, "POST", &format!("{path}/extend"), json!({})).await.0, 404);
    assert_eq!(act(&proxy, "POST", "/admin/permissions/perm_none", json!({"granted": true})).await.0, 404);

    let (_, again) = act(&proxy, "POST", "/admin/tools/careful/run", json!({})).await;
    assert_eq!(again["ok"], true, "the rule is remembered");
    let rules = get(&proxy, "/admin/permissions").await["rules"].clone();
    assert_eq!((&rules[0]["tool"], &rules[0]["scope"]), (&json!("careful"), &json!("global")));
    let rule = format!("/admin/permissions/rules/{}", rules[0]["id"].as_str().unwrap());
    assert_eq!(Ask::new(&proxy, "DELETE", &rule).key(KEY).send().await.status(), 204);
    assert_eq!(Ask::new(&proxy, "DELETE", &rule).key(KEY).send().await.status(), 404);
    let (mut call, asked) = question(&proxy).await;
    let path = format!("/admin/permissions/{}", asked["request_id"].as_str().unwrap());
    act(&proxy, "POST", &path, json!({"granted": false})).await;
    let (_, denied) = call.join_next().await.unwrap().unwrap();
    assert_eq!(
        (&denied["ok"], &denied["result"]["error"]["code"]),
        (&json!(false), &json!("permission_denied"))
    );
}

#[tokio::test]
async fn automatic_approval_and_rules_for_all_tools() {
    let (_upstream, proxy) = proxy(&format!("{TOOLS}{WITH_KEY}")).await;
    let ran = async || act(&proxy, "POST", "/admin/tools/careful/run", json!({})).await.1["ok"].clone();
    assert_eq!(ran().await, false, "nobody could be asked");
    let switch = "/admin/permissions/auto_approve";
    assert_eq!(act(&proxy, "PUT", switch, json!({"enabled": 1})).await.0, 400);
    assert_eq!(act(&proxy, "PUT", switch, json!({"enabled": true})).await.0, 200);
    assert_eq!(get(&proxy, "/admin/permissions").await["auto_approve"], true);
    assert_eq!(ran().await, true);
    assert_eq!(act(&proxy, "PUT", switch, json!({"enabled": false})).await.0, 200);
    assert_eq!(ran().await, false);
    assert_eq!(act(&proxy, "POST", "/admin/permissions/allow_all", json!({})).await.0, 200);
    assert_eq!(ran().await, true);
}

#[tokio::test]
async fn settings_show_no_secret() {
    let upstream = Upstream::start(at_once).await;
    let registered = "[[providers]]\nname = \"p\"\nkind = \"http\"\nkeys = [\"registration-key\"]\n";
    let mut setup =
        Setup { execution: format!("[execution]\n{registered}{WITH_KEY}"), ..Setup::new(upstream.address) };
    setup.keys = vec!["key-of-a-client"];
    let proxy = setup.start().await;
    for path in ["/admin/settings", "/admin/tools", "/admin/session"] {
        let text = get(&proxy, path).await.to_string();
        for secret in ["registration-key", KEY, "key-of-a-client", "upstream-key"] {
            assert!(!text.contains(secret), "{path}: {text}");
        }
    }
    let list = get(&proxy, "/admin/settings").await;
    let setting = |path: &str| {
        let mut settings = list["settings"].as_array().unwrap().iter();
        settings.find(|setting| setting["path"] == path).unwrap_or_else(|| panic!("{path}: {list}")).clone()
    };
    assert_eq!(setting("providers.p.keys")["set"], true);
    assert_eq!(
        setting("providers.p.lease"),
        json!({
            "path": "providers.p.lease", "value": "60s", "default": "60s", "source": "default",
            "about": "how long a registration lasts unless it is renewed",
        })
    );
    assert_eq!(setting("admin.api_keys")["source"], "file");
}

/// An MCP server on stdio whose tool `pid` returns the ID of its process.
const MCP_SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {
        "initialize": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]},
    }.get(message["method"])
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result or {}}), flush=True)
"#;

#[tokio::test]
async fn restart_replaces_the_process_of_an_mcp_server() {
    let folder = tempfile::TempDir::new().unwrap();
    let script = folder.path().join("server.py");
    std::fs::write(&script, MCP_SERVER).unwrap();
    let stage = format!(
        "[execution]\n[[providers]]\nname = \"s\"\nkind = \"mcp\"\nprotocol = \"initialize\"\n\
         command = [\"python3\", {:?}]\n{WITH_KEY}",
        script.display().to_string()
    );
    let (_upstream, proxy) = proxy(&stage).await;
    // Returns the ID of the process that answers. While no process is running, the tool does not exist, so this
    // retries.
    let pid = async || loop {
        let (status, ran) = act(&proxy, "POST", "/admin/tools/s__pid/run", json!({})).await;
        if status == 200 && ran["ok"] == true {
            return ran["result"].to_string();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    let first = soon("a first process", pid()).await;
    assert_eq!(act(&proxy, "POST", "/admin/providers/s/restart", json!({})).await.0, 200);
    let other = async {
        loop {
            let now = pid().await;
            if now != first {
                return now;
            }
        }
    };
    soon("another process", other).await;
    let old = first.trim_matches('"').to_owned();
    let gone = async {
        while std::path::Path::new(&format!("/proc/{old}/stat")).exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    soon("the end of the first process", gone).await;
}

#[tokio::test]
async fn server_without_a_bench_says_so() {
    let (_upstream, proxy) = proxy(WITH_KEY).await;
    for method in ["GET", "POST", "DELETE"] {
        let (status, error) = Ask::new(&proxy, method, "/admin/bench").key(KEY).answer().await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("no_bench")), "{method}: {error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("toolwire serve"), "{error}");
    }
}
