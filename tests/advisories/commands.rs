//! Tests that neither a request, nor the admin API, nor files that lie around can name a program to run.

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    clients::{ADMIN, ALICE, TABLES, answer_as, ask_as},
    hosted::{code, result_of},
    program::{Server, ask, toolwire},
    support::{
        proxy::{Proxy, Setup},
        upstream::{Upstream, at_once},
    },
};

/// Hosted tools of several kinds. None of them may touch `ran` in the folder.
const TOOLS: &str = r#"
[execution]
[[providers]]
name = "calc"
kind = "command"
command = ["echo", "calculated"]
[[providers]]
name = "serper"
kind = "serper"
api_key = "the-key-of-serper"
[[providers]]
name = "far"
kind = "mcp"
url = "http://127.0.0.1:9/mcp"
[[providers]]
name = "clients"
kind = "client_mcp"
servers = ["https://mcp.example/mcp"]
[[providers]]
name = "web"
kind = "fetch"
"#;

async fn proxy(folder: &Path) -> (Upstream, Proxy) {
    let upstream = Upstream::start(at_once).await;
    let mut setup = Setup::new(upstream.address);
    setup.state_dir = Some(folder.join("state"));
    setup.execution = format!("{TABLES}{TOOLS}");
    let proxy = setup.start().await;
    (upstream, proxy)
}

/// CVE-2026-42271, CVE-2026-30623 (LiteLLM), CVE-2026-40933, CVE-2026-56274 (Flowise): a request that described an MCP
/// server to test, to save or to import had its command run.
#[tokio::test]
async fn admin_api_names_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let (_upstream, proxy) = proxy(folder.path()).await;
    let touch = json!(["touch", ran]);
    let settings = ("PATCH", "/admin/settings");
    assert_eq!(answer_as(&proxy, ADMIN, settings, &json!({"execution.max_calls": 3})).await.0, 200);
    for change in [
        json!({"providers.calc.command": touch}),
        json!({"providers": {"calc": {"command": touch}}}),
        json!({"providers.calc.environment": {"LD_PRELOAD": ran}}),
        json!({"providers.calc.folder": "/"}),
        json!({"providers.far.command": touch}),
        json!({"providers.far.url": "http://127.0.0.1:1/mcp"}),
        json!({"providers.new": {"kind": "command", "command": touch}}),
        json!({"providers.calc.kind": "mcp"}),
        json!({"providers.clients.servers": ["http://127.0.0.1:1/"]}),
        json!({"providers.clients.allow_private": true}),
        json!({"providers.web.allow_private": true}),
        json!({"execution.audit": ran}),
        json!({"execution.image_dir": ran}),
        json!({"upstreams.up.base_url": "http://127.0.0.1:1/v1"}),
        json!({"models.m.chat_template": "file:/etc/passwd"}),
    ] {
        let (status, answer) = answer_as(&proxy, ADMIN, settings, &change).await;
        assert!((400..500).contains(&status), "{change}: {status} {answer}");
    }
    let config = json!({"transport": "stdio", "command": "touch", "args": [ran], "env": {}, "api_key": "x"});
    for path in [
        "/admin/providers/calc/test",
        "/admin/providers",
        "/admin/providers/new/test",
        "/mcp-rest/test/connection",
        "/mcp-rest/test/tools/list",
    ] {
        let response = ask_as(&proxy, ADMIN, ("POST", path), &config).await;
        assert!((400..500).contains(&response.status), "{path}: {} {}", response.status, response.body);
    }
    // What is tested is the server in the configuration.
    let (_, tested) = answer_as(&proxy, ADMIN, ("POST", "/admin/providers/far/test"), &config).await;
    assert_eq!(tested["verdict"], "unreachable", "{tested}");
    let run = json!({"input": {}});
    let (status, answer) = answer_as(&proxy, ADMIN, ("POST", "/admin/tools/calc/run"), &run).await;
    assert_eq!((status, answer["ok"].as_bool()), (200, Some(true)), "{answer}");
    assert!(answer.to_string().contains("calculated"), "{answer}");
    assert!(!ran.exists());
}

/// CVE-2026-30623 (LiteLLM): as above, for the servers that a client names in a request to a model.
#[tokio::test]
async fn request_to_a_model_names_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let (_upstream, proxy) = proxy(folder.path()).await;
    let servers = [
        json!({"server_label": "x", "command": "touch", "args": [ran]}),
        json!({"server_label": "x", "server_url": "stdio:touch", "command": "touch", "args": [ran]}),
        json!({"server_label": "x", "server_url": format!("file:///bin/touch?{}", ran.display())}),
        json!({"server_label": "x", "server_url": "https://mcp.example/mcp", "command": ["touch", ran]}),
    ];
    for mut server in servers {
        server["type"] = "mcp".into();
        let body = json!({"model": "m", "input": "hi", "tools": [server]});
        let response = ask_as(&proxy, ALICE, ("POST", "/v1/responses"), &body).await;
        assert!([200, 400].contains(&response.status), "{server}: {} {}", response.status, response.body);
        server["type"] = "stdio".into();
        server["name"] = "x".into();
        let messages = json!([{"role": "user", "content": "hi"}]);
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages, "mcp_servers": [server]});
        let response = ask_as(&proxy, ALICE, ("POST", "/v1/messages"), &body).await;
        assert_eq!(response.status, 400, "{server}: {}", response.body);
    }
    assert!(!ran.exists());
}

/// A tool whose program shows its arguments.
const SHOW: &str = r#"
[[providers]]
name = "show"
kind = "command"
command = ["printf", "[%s]", "{city}", "end"]
parameters = { type = "object", properties = { city = { type = "string" } } }
"#;

/// CVE-2025-53967 (Framelink Figma MCP): an argument was a part of a command for the shell.
#[tokio::test]
async fn argument_of_a_call_does_not_reach_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let touch = format!("touch {}", ran.display());
    for city in [
        "Lyon".to_owned(),
        format!("; {touch}"),
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("x\n{touch}\n"),
        format!("' ; {touch} ; '"),
        format!("\" | {touch} #"),
        "{city} $HOME * ~".to_owned(),
    ] {
        let result = result_of(SHOW, "hi", "show", &json!({"city": city}).to_string()).await;
        assert_eq!(result.trim_end(), format!("[{city}][end]").trim_end(), "{city}");
    }
    assert!(!ran.exists());
}

/// CVE-2025-68144 (mcp-server-git): an argument was taken for an option of the program, which wrote a file.
#[tokio::test]
async fn argument_of_a_call_is_not_an_option() {
    for city in ["--output=/tmp/x", "-v", "-", "--"] {
        let result = result_of(SHOW, "hi", "show", &json!({"city": city}).to_string()).await;
        assert_eq!(code(&result), "invalid_arguments", "{city}: {result}");
    }
    let ended = SHOW.replace("\"{city}\"", "\"--\", \"{city}\"");
    let result = result_of(&ended, "hi", "show", &json!({"city": "--output=x"}).to_string()).await;
    assert_eq!(result, "[--][--output=x][end]");
}

/// Runs the tool `mark` of a server. Returns the status line.
fn marked(server: &Server) -> String {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mark"}});
    let (head, _) = ask(server, "/mcp", "accept: application/json, text/event-stream\r\n", &call.to_string());
    head.lines().next().unwrap().to_owned()
}

/// CVE-2025-59536 (Claude Code), CVE-2025-54135 (Cursor): files in the folder of a project decided what ran when the
/// program was started there.
#[test]
fn files_in_the_current_folder_decide_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let config = format!(
        "listen = \"127.0.0.1:0\"\nstore = \"off\"\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://localhost:9/v1\"\n\
         [[models]]\nname = \"*\"\n[execution]\n[[providers]]\nname = \"mark\"\nkind = \"command\"\ncommand = [\"touch\", {:?}]\n",
        ran.display().to_string()
    );
    let servers = json!({"mcpServers": {"x": {"command": "touch", "args": [ran]}}}).to_string();
    for (name, text) in [
        ("toolwire.toml", &*config),
        (".toolwire.toml", &config),
        ("config.toml", &config),
        (".env", "TOOLWIRE_CONFIG=toolwire.toml\n"),
        ("mcp.json", &servers),
        (".mcp.json", &servers),
        (".cursor/mcp.json", &servers),
        (".claude/settings.json", &servers),
        ("settings.json", r#"{"providers.mark.command":["touch","ran"]}"#),
    ] {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let (top, _) = config.split_once("[execution]").unwrap();
    let other = elsewhere.path().join("other.toml");
    fs::write(&other, top).unwrap();
    let start = |file: &str| Server::start(toolwire(&["serve", "--config", file]).current_dir(folder.path()));
    let server = start(&other.display().to_string());
    assert!(marked(&server).contains(" 404 "));
    assert!(!ran.exists());
    drop(server);
    let server = start("toolwire.toml");
    assert!(marked(&server).contains(" 200 "));
    assert!(ran.exists(), "the file is read if it is named");
}

/// CVE-2025-54135 (Cursor): what a model wrote changed the configuration of its tools.
#[tokio::test]
async fn model_does_not_reach_the_admin_api() {
    let own = json!({"path": "/admin/permissions/auto_approve", "enabled": true}).to_string();
    for name in ["admin", "settings", "permissions", "auto_approve", "add_mcp_server", "show__command"] {
        let result = result_of(SHOW, "hi", name, &own).await;
        assert_eq!(code(&result), "unknown_tool", "{name}: {result}");
    }
}
