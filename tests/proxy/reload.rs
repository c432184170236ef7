//! Tests reloads of the configuration while requests are in progress.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use toolwire::proxy::{ReloadError, ReloadReason, Reloaded};

use crate::support::{
    client::{Client, Reply, STREAM, chat_request, weather},
    proxy::Proxy,
    soon,
    upstream::{Upstream, answer, at_once, held},
};

/// A proxy started from a configuration file, and the folder with that file and the proxy's state.
struct Desk {
    folder: TempDir,
    proxy: Proxy,
}

fn top(state: &str) -> String {
    format!("listen = \"127.0.0.1:0\"\nthreads = 2\nstate_dir = \"{state}\"\n")
}

/// An upstream and a model, both called `name`.
fn served(name: &str, upstream: SocketAddr) -> String {
    format!(
        "[[upstreams]]\nname = \"{name}\"\ndialect = \"chat\"\nbase_url = \"http://{upstream}/v1\"\n\
         [[models]]\nname = \"{name}\"\nupstream = \"{name}\"\n"
    )
}

const ADMIN: &str = "[admin]\napi_keys = [\"admin-key-of-tests\"]\n";

impl Desk {
    /// Starts a proxy. `above` are keys at the top level of the file.
    fn new(above: &str, tables: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("toolwire.toml");
        fs::write(&file, Self::text(&folder, above, tables)).unwrap();
        let proxy = Proxy::of_file(&file);
        Self { folder, proxy }
    }

    fn text(folder: &TempDir, above: &str, tables: &str) -> String {
        top(&folder.path().join("state").display().to_string()) + above + tables
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("toolwire.toml")
    }

    fn write(&self, above: &str, tables: &str) {
        fs::write(self.file(), Self::text(&self.folder, above, tables)).unwrap();
    }

    async fn reload(&self) -> Result<Reloaded, ReloadError> {
        soon("the reload", self.proxy.reloads.reload(ReloadReason::Signal)).await
    }

    async fn change(&self, tables: &str) -> Reloaded {
        self.write("", tables);
        self.reload().await.unwrap()
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(self.proxy.url(path))
            .header("authorization", "Bearer admin-key-of-tests")
            .header("content-type", "application/json");
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let reply = Client::new().send(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let status = reply.status().as_u16();
        let text = reply.rest().await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn chat(&self, model: &str) -> Reply {
        Client::new().chat(&self.proxy, STREAM.replace("\"m\"", &format!("\"{model}\""))).await
    }

    async fn metrics(&self) -> String {
        Client::new().get(&self.proxy, "/metrics").await.rest().await
    }
}

#[tokio::test]
async fn open_stream_ends_as_it_began_and_new_requests_get_the_new_configuration() {
    let go_on = Arc::new(Notify::new());
    let (slow, quick) = (held(&go_on).await, Upstream::start(at_once).await);
    let desk = Desk::new("api_keys = [\"old-key\"]\n", &served("slow", slow.address));
    let ask = async |model: &str, key: &str| {
        let mut request = crate::support::client::chat_request(&desk.proxy, STREAM.replace("\"m\"", model));
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        Client::new().send(request).await.unwrap()
    };
    let mut open = ask("\"slow\"", "old-key").await;
    open.until("first").await;

    // The model, the upstream and the key of the open request no longer exist.
    desk.write("api_keys = [\"new-key\"]\n", &served("quick", quick.address));
    let reloaded = desk.reload().await.unwrap();
    assert_eq!(reloaded.generation, 2);
    for path in ["api_keys", "models.quick", "models.slow", "upstreams.slow"] {
        assert!(reloaded.changed.iter().any(|changed| changed == path), "{path}: {:?}", reloaded.changed);
    }
    for _ in 0..8 {
        assert_eq!(ask("\"quick\"", "new-key").await.rest().await.matches("hello").count(), 1);
        assert_eq!(ask("\"slow\"", "new-key").await.status(), 404);
        assert_eq!(ask("\"quick\"", "old-key").await.status(), 401);
    }
    go_on.notify_one();
    assert!(open.rest().await.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn invalid_file_changes_nothing_and_is_reported() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address) + ADMIN;
    let desk = Desk::new("", &tables);
    assert!(desk.metrics().await.contains("toolwire_config_last_reload_successful 1\n"));
    let large = format!("# {}\n", "x".repeat(10 << 20));
    for (content, word) in [
        (&b""[..], "upstreams"),
        (b"[[upstreams]\n", "toolwire.toml:1:"),
        (
            b"listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"up\"\ndialcet = \"chat\"\n",
            "toolwire.toml:4:1",
        ),
        (b"a = \"\xff\"\n", "UTF-8"),
        (b"\0\0\0", "toolwire.toml:1:"),
        (large.as_bytes(), "larger than 8 MiB"),
    ] {
        fs::write(desk.file(), content).unwrap();
        let Err(ReloadError::Invalid(problems)) = desk.reload().await else { panic!("{word}") };
        assert!(problems.iter().any(|problem| problem.to_string().contains(word)), "{word}: {problems:?}");
        assert!(desk.chat("m").await.rest().await.contains("hello"));
    }
    fs::remove_file(desk.file()).unwrap();
    assert!(desk.reload().await.unwrap_err().to_string().contains("cannot read"));
    fs::create_dir(desk.file()).unwrap();
    assert!(desk.reload().await.unwrap_err().to_string().contains("not a regular file"));

    let (status, refused) = desk.ask("POST", "/admin/reload", &json!({})).await;
    assert_eq!((status, &refused["error"]["code"]), (422, &json!("invalid_configuration")), "{refused}");
    assert_eq!(refused["error"]["problems"][0]["severity"], "error");
    let (status, shown) = desk.ask("GET", "/admin/reload", &json!({})).await;
    assert_eq!((status, &shown["generation"]), (200, &json!(1)), "{shown}");
    assert!(shown["error"]["problems"][0]["message"].as_str().unwrap().contains("regular file"), "{shown}");
    assert!(desk.metrics().await.contains("toolwire_config_last_reload_successful 0\n"));

    fs::remove_dir(desk.file()).unwrap();
    desk.write("", &tables);
    let (status, said) = desk.ask("POST", "/admin/reload", &json!({})).await;
    assert_eq!((status, said), (200, json!({"generation": 2, "changed": [], "restart_required": []})));
    assert_eq!(desk.ask("GET", "/admin/reload", &json!({})).await.1["error"], Value::Null);
    let metrics = desk.metrics().await;
    for line in [
        "toolwire_config_last_reload_successful 1\n",
        "toolwire_config_generation 2\n",
        "toolwire_config_reloads_total{result=\"ok\"} 1\n",
        "toolwire_config_reloads_total{result=\"failed\"} 9\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn connections_to_upstreams_that_did_not_change_are_kept() {
    let (one, other) = (Upstream::start(at_once).await, Upstream::start(at_once).await);
    let tables = served("one", one.address) + &served("other", other.address);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    let text = |tables: &str| format!("listen = \"127.0.0.1:0\"\nthreads = 1\nstore = \"off\"\n{tables}");
    fs::write(&file, text(&tables)).unwrap();
    let proxy = Proxy::of_file(&file);
    let desk = Desk { folder, proxy };
    for model in ["one", "other"] {
        desk.chat(model).await.rest().await;
    }
    let changed =
        tables.replacen("dialect", "api_key = \"key-of-one\"\ndialect", 1) + "[limits]\nmax_calls = 3\n";
    fs::write(&file, text(&changed)).unwrap();
    desk.reload().await.unwrap();
    for model in ["one", "other"] {
        desk.chat(model).await.rest().await;
    }
    assert_eq!((one.connections(), other.connections()), (2, 1));
}

#[tokio::test]
async fn settings_that_hold_to_the_end_are_named() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address);
    let desk = Desk::new("", &tables);
    let text = fs::read_to_string(desk.file()).unwrap();
    let text = text.replace("127.0.0.1:0", "127.0.0.1:1").replace("threads = 2", "threads = 3");
    fs::write(desk.file(), text + "[limits]\nmax_store = \"1MiB\"\nmax_calls = 3\n").unwrap();
    let reloaded = desk.reload().await.unwrap();
    assert_eq!(reloaded.restart_required, ["limits.max_store", "listen", "threads"]);
    assert_eq!(reloaded.changed, ["limits.max_calls"]);
    assert!(desk.chat("m").await.rest().await.contains("hello"));
    assert_eq!(desk.change(&tables).await.restart_required, [""; 0]);
}

#[tokio::test]
async fn reloads_at_once_happen_one_after_the_other() {
    let upstream = Upstream::start(at_once).await;
    let desk = Desk::new("", &served("m", upstream.address));
    let reload = || desk.reload();
    let (a, b, c, d) = tokio::join!(reload(), reload(), reload(), reload());
    let mut generations = [a, b, c, d].map(|reloaded| reloaded.unwrap().generation);
    generations.sort_unstable();
    assert_eq!(generations, [2, 3, 4, 5]);
}

#[tokio::test]
async fn stopping_server_does_not_reload() {
    let go_on = Arc::new(Notify::new());
    let upstream = held(&go_on).await;
    let mut desk = Desk::new("", &served("m", upstream.address));
    let mut open = desk.chat("m").await;
    open.until("first").await;
    desk.proxy.stop();
    let refused = async {
        while desk.proxy.reloads.reload(ReloadReason::Signal).await != Err(ReloadError::Stopping) {}
    };
    soon("reloads to be refused", refused).await;
    go_on.notify_one();
    assert!(open.rest().await.ends_with("data: [DONE]\n\n"));
    soon("the server to end", desk.proxy.ended()).await;
    assert_eq!(desk.reload().await, Err(ReloadError::Stopping));
}

#[tokio::test]
async fn saved_settings_hold_at_once() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address) + ADMIN + "[execution]\n";
    let desk = Desk::new("", &tables);
    let (status, said) = desk.ask("PATCH", "/admin/settings", &json!({"execution.max_calls": 3})).await;
    assert_eq!((status, &said["restart_required"]), (200, &json!(false)), "{said}");
    assert_eq!(said["settings"][0].get("restart_required"), None);
    assert_eq!(desk.proxy.reloads.reload(ReloadReason::Signal).await.unwrap().generation, 3);

    // Settings are still saved if the configuration file is unreadable.
    fs::write(desk.file(), "[").unwrap();
    let (status, said) = desk.ask("PATCH", "/admin/settings", &json!({"execution.max_calls": 4})).await;
    assert_eq!((status, &said["restart_required"]), (200, &json!(true)), "{said}");
    assert_eq!(desk.change(&tables).await.changed, ["execution.max_calls"]);
    let (_, list) = desk.ask("GET", "/admin/settings", &json!({})).await;
    let setting = list["settings"].as_array().unwrap().iter().find(|it| it["path"] == "execution.max_calls");
    assert_eq!((&setting.unwrap()["value"], setting.unwrap().get("restart_required")), (&json!(4), None));
}

/// A changed `state_dir` is only used after a restart, so the saved settings stay in effect until then.
#[tokio::test]
async fn saved_settings_hold_after_a_change_of_their_folder_and_not_without_the_admin_api() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address) + "[execution]\n";
    let desk = Desk::new("", &format!("{tables}{ADMIN}"));
    assert_eq!(desk.ask("PATCH", "/admin/settings", &json!({"execution.max_calls": 3})).await.0, 200);
    let text = fs::read_to_string(desk.file()).unwrap();
    fs::write(desk.file(), text.replace("/state\"", "/other\"")).unwrap();
    let reloaded = desk.reload().await.unwrap();
    assert_eq!((reloaded.changed, reloaded.restart_required), (vec![], vec!["state_dir".to_owned()]));
    assert_eq!(desk.change(&tables).await.changed, ["admin", "execution.max_calls"]);
}

#[tokio::test]
async fn admin_key_that_is_gone_opens_nothing_and_ends_its_feeds() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address);
    let desk = Desk::new("", &format!("{tables}{ADMIN}"));
    let request =
        Request::get(desk.proxy.url("/admin/events")).header("authorization", "Bearer admin-key-of-tests");
    let mut feed = Client::new().send(request.body(Full::default()).unwrap()).await.unwrap();
    feed.until(": connected\n\n").await;
    desk.change(&format!("{tables}{ADMIN}[limits]\nmax_calls = 3\n")).await;
    feed.until("event: config_loaded\n").await;
    desk.change(&format!("{tables}[admin]\napi_keys = [\"another-admin-key\"]\n")).await;
    assert_eq!(desk.ask("GET", "/admin/reload", &json!({})).await.0, 401);
    feed.rest().await;
    desk.change(&tables).await;
    assert_eq!(desk.ask("GET", "/admin/reload", &json!({})).await.0, 404);
    desk.change(&format!("{tables}{ADMIN}")).await;
    assert_eq!(desk.ask("GET", "/admin/reload", &json!({})).await.1["generation"], 5);
}

/// A hosted tool `search` that waits until the file `go` exists in the folder.
fn tools(folder: &TempDir) -> String {
    let go = folder.path().join("go").display().to_string();
    format!(
        "[[providers]]\nname = \"search\"\nkind = \"command\"\ndescription = \"Searches.\"\n\
         command = [\"sh\", \"-c\", \"cat > {go}-asked; until [ -e {go} ]; do sleep 0.02; done; echo found\"]\n\
         parameters = {{ type = \"object\" }}\n[execution]\nmax_calls = "
    )
}

fn calls(names: &[&str]) -> String {
    let calls = names.iter().enumerate().map(|(index, name)| {
        let call = json!({"index": index, "id": format!("call_{index}_0123456789abcdef"), "type": "function",
            "function": {"name": name, "arguments": "{\"city\":\"Paris\"}"}});
        let choice = json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null});
        format!("data: {}\n\n", json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]}))
    });
    let end = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "up",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    calls.collect::<String>() + &format!("data: {end}\n\ndata: [DONE]\n\n")
}

/// An upstream that calls these tools in its first response.
async fn calling(names: &'static [&'static str]) -> Upstream {
    Upstream::start(move |exchange| async move {
        let has_results = std::str::from_utf8(&exchange.body).unwrap().contains("\"role\":\"tool\"");
        exchange.stream(if has_results { answer() } else { calls(names) }).await
    })
    .await
}

async fn exists(path: PathBuf) {
    while !path.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn hosted_call_outlives_a_change_of_its_stage() {
    let upstream = calling(&["search"]).await;
    let folder = TempDir::new().unwrap();
    let served = served("m", upstream.address);
    let desk = Desk::new("", &format!("{served}{}7\n", tools(&folder)));
    let open = desk.chat("m").await;
    soon("the call", exists(folder.path().join("go-asked"))).await;
    for calls in [8, 9] {
        let reloaded = desk.change(&format!("{served}{}{calls}\n", tools(&folder))).await;
        assert_eq!(reloaded.changed, ["execution.max_calls"]);
    }
    fs::write(folder.path().join("go"), "").unwrap();
    let body = open.rest().await;
    assert!(body.contains("hello") && body.ends_with("data: [DONE]\n\n"), "{body}");
    assert!(desk.chat("m").await.rest().await.contains("hello"), "the new stage runs the tool, too");
    // Without `[execution]`, the tool is unknown.
    desk.change(&served).await;
    assert!(desk.chat("m").await.rest().await.contains("\"search\""));
}

#[tokio::test]
async fn second_half_of_a_mixed_turn_may_come_after_a_change_of_the_stage() {
    let upstream = calling(&["search", "weather"]).await;
    let folder = TempDir::new().unwrap();
    let served = served("m", upstream.address);
    let desk = Desk::new("", &format!("{served}{}7\n", tools(&folder)));
    let asked = weather(json!({}));
    let response = Client::new().chat(&desk.proxy, asked.to_string()).await.json().await;
    let message = &response["choices"][0]["message"];
    assert_eq!(message["tool_calls"].as_array().map(Vec::len), Some(1), "{response}");
    soon("the call", exists(folder.path().join("go-asked"))).await;
    desk.change(&format!("{served}{}8\n", tools(&folder))).await;
    fs::write(folder.path().join("go"), "").unwrap();
    let mut next = asked;
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(message.clone());
    messages
        .push(json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}));
    let response = Client::new().chat(&desk.proxy, next.to_string()).await.json().await;
    assert_eq!(response["choices"][0]["message"]["content"], "hello", "{response}");
}

#[tokio::test]
async fn tool_that_was_switched_off_stays_off() {
    let upstream = Upstream::start(at_once).await;
    let folder = TempDir::new().unwrap();
    let tables = served("m", upstream.address) + ADMIN + &tools(&folder);
    let desk = Desk::new("", &format!("{tables}7\n"));
    assert_eq!(desk.ask("PATCH", "/admin/tools/search", &json!({"enabled": false})).await.0, 200);
    assert_eq!(desk.ask("PUT", "/admin/permissions/auto_approve", &json!({"enabled": true})).await.0, 200);
    desk.change(&format!("{tables}8\n")).await;
    let (_, list) = desk.ask("GET", "/admin/tools", &json!({})).await;
    assert_eq!(
        (&list["tools"][0]["name"], &list["tools"][0]["enabled"]),
        (&json!("search"), &json!(false)),
        "{list}"
    );
    assert_eq!(desk.ask("GET", "/admin/permissions", &json!({})).await.1["auto_approve"], true);
}

#[tokio::test]
async fn programs_stay_registered_unless_their_provider_changes() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address)
        + ADMIN
        + "[[providers]]\nname = \"addons\"\nkind = \"http\"\nkeys = [\"key-of-programs\"]\n[execution]\nmax_calls = ";
    let desk = Desk::new("", &format!("{tables}7\n"));
    let program = async |method: &str, path: &str, body: Value| {
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(desk.proxy.url(path))
            .header("authorization", "Bearer key-of-programs")
            .header("content-type", "application/json");
        Client::new().send(request.body(Full::new(body.to_string().into())).unwrap()).await.unwrap()
    };
    let tools = async || {
        let (_, list) = desk.ask("GET", "/admin/tools", &json!({})).await;
        list["tools"].as_array().map(Vec::len)
    };
    let tool = json!({"name": "open", "description": "Opens.", "parameters": {"type": "object"}});
    let body = json!({"id": "tabs", "label": "Tabs", "tools": [tool]});
    assert_eq!(program("POST", "/v1/providers", body).await.status(), 200);
    let mut calls = program("GET", "/v1/providers/tabs/calls", json!({})).await;
    calls.until(": connected").await;
    desk.change(&format!("{tables}7\n[limits]\nmax_calls = 3\n")).await;
    assert_eq!(tools().await, Some(1), "the program is registered still");

    desk.change(&format!("{tables}8\n")).await;
    assert_eq!(tools().await, Some(1), "another stage has the provider");
    let lease = tables.replace("kind = \"http\"", "kind = \"http\"\nlease = \"50s\"");
    desk.change(&format!("{lease}8\n")).await;
    assert_eq!(tools().await, Some(0));
    // The program's stream ends, which tells it to register again.
    calls.rest().await;
    assert_eq!(program("POST", "/v1/providers/tabs/heartbeat", json!({})).await.status(), 404);
}

/// An MCP server on stdio whose tool returns its process ID.
const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": f"pid {os.getpid()}"}]},
    }.get(message["method"])
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result or {}}), flush=True)
"#;

/// An upstream that calls the tool that the user names, and repeats the result.
async fn obedient() -> Upstream {
    Upstream::start(|exchange| async move {
        let body: Value = serde_json::from_slice(&exchange.body).unwrap();
        let last = body["messages"].as_array().and_then(|messages| messages.last()).unwrap();
        let said = last["content"].as_str().unwrap();
        let stream = if last["role"] == "tool" { answer().replace("hello", said) } else { calls(&[said]) };
        exchange.stream(stream).await
    })
    .await
}

#[tokio::test]
async fn providers_and_results_that_do_not_change_go_on() {
    let upstream = obedient().await;
    let folder = TempDir::new().unwrap();
    let (script, runs) = (folder.path().join("server.py"), folder.path().join("runs"));
    fs::write(&script, SERVER).unwrap();
    let tables = served("m", upstream.address)
        + &format!(
            "[[providers]]\nname = \"s\"\nkind = \"mcp\"\nprotocol = \"initialize\"\nstart_timeout = \"30s\"\n\
             command = [\"python3\", {script:?}]\n\
             [[providers]]\nname = \"count\"\nkind = \"command\"\ndescription = \"Counts.\"\n\
             command = [\"sh\", \"-c\", \"cat > /dev/null; echo >> {runs}; echo run $(wc -l < {runs})\"]\n\
             parameters = {{ type = \"object\" }}\n\
             [[tools]]\nname = \"count\"\ncache_ttl = \"600s\"\n[execution]\nmax_calls = 7\n",
            runs = runs.display()
        );
    let desk = Desk::new("", &tables);
    let result = async |tool: &str| {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": tool}]});
        let reply = Client::new().chat(&desk.proxy, body.to_string()).await.json().await;
        reply["choices"][0]["message"]["content"].as_str().unwrap_or_default().trim().to_owned()
    };
    let pid = async || loop {
        let said = result("s__pid").await;
        if said.starts_with("pid ") {
            return said;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let first = soon("the MCP server", pid()).await;
    assert_eq!([result("count").await, result("count").await], ["run 1", "run 1"]);

    let tables = tables.replace("max_calls = 7", "max_calls = 8");
    desk.change(&tables).await;
    assert_eq!([result("s__pid").await, result("count").await], [first.as_str(), "run 1"]);

    let tables = tables.replace("Counts.", "Counts again.");
    desk.change(&tables).await;
    assert_eq!([result("s__pid").await, result("count").await], [first.as_str(), "run 2"]);

    desk.change(&tables.replace("30s", "31s")).await;
    let second = soon("the next MCP server", pid()).await;
    assert_ne!(first, second);
    assert_eq!(result("count").await, "run 2");
    let process = PathBuf::from("/proc").join(first.trim_start_matches("pid "));
    let gone = async || {
        while process.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    soon("the end of the first one", gone()).await;
}

#[tokio::test]
async fn stored_response_is_continued_after_a_reload() {
    let upstream = Upstream::start(at_once).await;
    let tables = served("m", upstream.address);
    let desk = Desk::new("", &tables);
    let respond = async |body: Value| {
        let request =
            Request::post(desk.proxy.url("/v1/responses")).header("content-type", "application/json");
        Client::new()
            .send(request.body(Full::new(body.to_string().into())).unwrap())
            .await
            .unwrap()
            .json()
            .await
    };
    let first = respond(json!({"model": "m", "input": "hi"})).await;
    desk.change(&format!("{tables}[limits]\nmax_body = \"1MiB\"\n")).await;
    let second = respond(json!({"model": "m", "input": "more", "previous_response_id": first["id"]})).await;
    assert_eq!(second["status"], "completed", "{second}");
}

#[tokio::test]
async fn named_keys_come_go_and_keep_what_is_left_of_their_limits() {
    let upstream = Upstream::start(at_once).await;
    let served = served("m", upstream.address);
    let key = |name: &str, key: &str, limit: &str| {
        format!("[[keys]]\nname = \"{name}\"\nkey = \"{key}\"\n{limit}\n")
    };
    let desk = Desk::new("", &(key("a", "first-key", "requests_per_minute = 3") + &served));
    let ask = async |key: &str| {
        let mut request = chat_request(&desk.proxy, STREAM);
        request.headers_mut().insert("x-api-key", HeaderValue::from_str(key).unwrap());
        let reply = Client::new().send(request).await.unwrap();
        let status = reply.status().as_u16();
        reply.rest().await;
        status
    };
    assert_eq!((ask("first-key").await, ask("other-key").await), (200, 401));
    let second = key("b", "other-key", "") + &key("a", "second-key", "requests_per_minute = 3");
    let reloaded = desk.change(&(second + &served)).await;
    assert!(!reloaded.changed.is_empty() && !format!("{reloaded:?}").contains("-key"), "{reloaded:?}");
    assert_eq!((ask("first-key").await, ask("other-key").await), (401, 200));
    // The client has already used one of its three requests, with its previous key.
    let used = [ask("second-key").await, ask("second-key").await, ask("second-key").await];
    assert_eq!(used, [200, 200, 429]);
    // Without any key, only requests from this machine are served.
    desk.change(&served).await;
    assert_eq!(ask("anything").await, 200);
}

#[tokio::test]
async fn what_is_known_of_failing_targets_outlives_a_reload() {
    let down = Upstream::start(|mut exchange| async move {
        exchange.whole("500 Internal Server Error", "", "").await;
        exchange
    });
    let (down, up) = (down.await, Upstream::start(at_once).await);
    let router = "[[models]]\nname = \"r\"\ntargets = [\"down\", \"up\"]\n";
    let failover = "[failover]\neject_after = 1\neject_for = \"600s\"\n";
    let tables = served("down", down.address) + &served("up", up.address) + router + failover;
    let desk = Desk::new("", &tables);
    assert_eq!(desk.chat("r").await.header("x-toolwire-attempts"), Some("2"));
    desk.change(&(tables + "[limits]\nkeep_alive = \"7s\"\n")).await;
    let reply = desk.chat("r").await;
    assert_eq!(
        (reply.header("x-toolwire-target"), reply.header("x-toolwire-attempts")),
        (Some("up"), Some("1"))
    );
    assert_eq!(down.requests(), 1);
}
