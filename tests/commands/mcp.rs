//! Tests `toolwire mcp`.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use crate::support::{run, toolwire};

const MODEL: &str = "[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
    [[models]]\nname = \"m\"\nupstream = \"u\"\n";
const TOOL: &str = "[execution]\n[[providers]]\nname = \"echo\"\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"printf 'got '; cat\"]\n\
    description = \"Echoes\"\nparameters = { type = \"object\", properties = { text = { type = \"string\" } } }\n";

/// Starts the server of `configuration`, whose state is kept in `folder`.
fn started(configuration: &str, folder: &Path) -> Child {
    let file = folder.join("toolwire.toml");
    fs::write(&file, format!("state_dir = {:?}\n{configuration}", folder.join("state"))).unwrap();
    let mut command = toolwire(&["mcp", "serve", "--config", file.to_str().unwrap()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn hosted_tools_are_offered_over_stdin_and_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = started(&(MODEL.to_owned() + TOOL), folder.path());
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |messages: &[Value]| {
        messages.iter().for_each(|message| writeln!(input, "{message}").unwrap());
        let answer = output.next().unwrap().unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()["result"].take()
    };
    let client = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let told = ask(&[json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})]);
    assert_eq!(told["serverInfo"]["name"], "toolwire");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    // A notification is not answered.
    let list = ask(&[ready, list]);
    assert_eq!(list["tools"][0]["name"], "echo");
    let params = json!({"name": "echo", "arguments": {"text": "x"}});
    let result = ask(&[json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})]);
    assert_eq!(result["content"][0]["text"], "got {\"text\":\"x\"}");
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// An MCP server with one prompt.
const PROMPTS: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}, "tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": []},
        "prompts/list": {"prompts": [{"name": "greet", "description": "Says\u001b[2J hello", "arguments": [{"name": "who", "required": True}, {"name": "tone"}]}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello\n\u001b[2J" + (params.get("arguments") or {}).get("who", "")}}]},
    }
    reply = {"result": results[method]} if method in results else {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"#;

#[test]
fn prompts_are_listed_and_printed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("server.py"), PROMPTS).unwrap();
    let file = folder.path().join("toolwire.toml");
    let script = folder.path().join("server.py");
    let provider = |name: &str| {
        format!("[[providers]]\nname = {name:?}\nkind = \"mcp\"\ncommand = [\"python3\", {script:?}]\n")
    };
    let configuration = format!("{MODEL}[execution]\n{}{}", provider("one"), provider("two"));
    fs::write(&file, configuration).unwrap();
    let mcp = |words: &[&str]| {
        let words = [&["mcp"], words, &["--config", file.to_str().unwrap()]].concat();
        let (status, output, said) = run(&mut toolwire(&words));
        (status, output, said)
    };
    let (status, output, said) = mcp(&["prompts"]);
    let line = |name: &str| format!("{name} greet who [tone]  Says [2J hello\n");
    assert_eq!((status, output), (0, line("one") + &line("two")), "{said}");
    assert_eq!(mcp(&["prompts", "two"]).1, line("two"));
    let (status, output, said) = mcp(&["prompt", "one", "greet", "who=a=b"]);
    assert_eq!((status, output.as_str()), (0, "Hello\n\\u{1b}[2Ja=b\n"), "{said}");
    for (words, expected, reason) in [
        (&["prompt", "one", "greet"][..], 1, "The argument `who` is missing."),
        (&["prompt", "three", "greet"], 1, "there is no MCP server `three`, but: one, two"),
        (&["prompt", "one", "greet", "who"], 1, "`who` is not KEY=VALUE"),
        (&["prompt", "one"], 2, "<PROMPT>"),
    ] {
        let (status, _, said) = mcp(words);
        assert!(status == expected && said.contains(reason), "{status} {said}");
    }
}

#[test]
fn configuration_without_hosted_tools_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = started(MODEL, folder.path()).wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("no hosted tools") && said.contains("[execution]"), "{said}");
}

/// Runs `toolwire mcp` with these arguments and a configuration with servers that nobody can reach. Returns the status,
/// stdout and stderr.
fn with_servers(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let servers = "[[providers]]\nname = \"far\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\n\
        [[providers]]\nname = \"own\"\nkind = \"mcp\"\ncommand = [\"true\"]\n\
        [[providers]]\nname = \"keyed\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\napi_key = \"a-key-of-tests\"\n\
        [[providers]]\nname = \"each\"\nkind = \"mcp\"\nurl = \"http://127.0.0.1:9/mcp\"\noauth_login_per = \"key\"\n\
        [[keys]]\nname = \"alice\"\nkey = \"a-key-of-alice-1\"\n";
    let file = folder.join("toolwire.toml");
    fs::write(&file, format!("state_dir = {:?}\n{MODEL}{TOOL}{servers}", folder.join("state"))).unwrap();
    let mut command = toolwire(&["mcp"]);
    command.args(arguments).args(["--config", file.to_str().unwrap()]).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn servers_are_listed_with_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let (status, listed, said) = with_servers(folder.path(), &["list", "--json"]);
    assert_eq!(status, Some(0), "{said}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let states: Vec<_> = listed.as_array().unwrap().iter().map(|own| (&own["name"], &own["state"])).collect();
    let expected = [("far", "unreachable"), ("own", "ok"), ("keyed", "ok"), ("each", "per key")]
        .map(|(name, state)| (json!(name), json!(state)));
    assert_eq!(states, expected.iter().map(|(name, state)| (name, state)).collect::<Vec<_>>());
}

#[test]
fn login_needs_a_server_that_may_have_one() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected, words) in [
        ("login far", 1, "far: 127.0.0.1 cannot be reached"),
        ("login own", 2, "no MCP server `own` that may need a login"),
        ("login keyed", 2, "no MCP server `keyed` that may need a login"),
        ("login echo", 2, "no MCP server `echo` that may need a login"),
        ("logout far", 1, "there is no login at `far`"),
        ("login far --key alice", 2, "all clients use one login at `far`"),
        ("login each", 2, "each client key has a login of its own at `each`"),
        ("login each --key alice", 1, "each: 127.0.0.1 cannot be reached"),
        ("login each --key alyce", 2, "no client key `alyce`"),
        ("logout each --key alyce", 1, "there is no login at `each`"),
    ] {
        let (status, stdout, said) = with_servers(folder.path(), &arguments.split(' ').collect::<Vec<_>>());
        assert_eq!((status, stdout.as_str()), (Some(expected), ""), "{arguments:?}: {said}");
        assert!(said.contains(words), "{said}");
    }
}
