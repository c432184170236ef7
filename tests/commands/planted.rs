//! Checks that the admin API never reveals a secret.
//!
//! A different secret is planted in every place where the program may hold one. The upstream and the tool servers echo
//! everything that they receive, and tools also print everything that they know. The test then searches the API's
//! output, the event feed, fixtures, the log, metrics and the audit file for the secrets.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle, sleep},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::toolwire;

/// The prefix of every secret.
const MARK: &str = "planted-";

/// Environment variables that hold a secret; the secret contains the variable's name in lower case.
const VARIABLES: [&str; 9] =
    ["CLIENT", "TEAM", "ADMIN", "TENANT", "SERPER", "MCP", "MCP_HTTP", "COMMAND", "REGISTRATION"];

const CLIENT: &str = "planted-client-variable";
const ADMIN: &str = "planted-admin-variable";

/// The configuration. `ECHO` is replaced with the address of the echo servers, and `FOLDER` with the configuration's
/// folder.
const CONFIG: &str = r#"
listen = "127.0.0.1:0"
state_dir = "FOLDER/state"
api_keys = ["env:CLIENT", "planted-client-in-the-file"]
[[keys]]
name = "team-a"
key = "env:TEAM"
[admin]
api_keys = ["env:ADMIN"]
capture = "redacted"
[[upstreams]]
name = "up"
dialect = "chat"
base_url = "http://ECHO/v1"
api_key = "file:FOLDER/upstream.key"
[upstreams.headers]
x-auth-token = "Token planted-header-behind-a-scheme"
x-tenant = "env:TENANT"
[[upstreams]]
name = "proxied"
dialect = "chat"
base_url = "http://upstream.invalid/v1"
proxy = "http://user:planted-proxy-password@ECHO"
[[upstreams]]
name = "lumo"
dialect = "lumo"
base_url = "http://ECHO/lumo"
[upstreams.lumo]
session = "FOLDER/session.json"
[[upstreams]]
name = "own"
dialect = "lumo"
base_url = "http://ECHO/lumo"
[upstreams.lumo]
credentials = "client"
[[models]]
name = "proxied"
upstream = "proxied"
[[models]]
name = "lumo"
upstream = "lumo"
[[models]]
name = "own"
upstream = "own"
[[models]]
name = "*"
upstream = "up"
[execution]
audit = "FOLDER/audit.jsonl"
[[providers]]
name = "serper"
kind = "serper"
api_key = "env:SERPER"
base_url = "http://ECHO"
scrape_url = "http://ECHO"
[[providers]]
name = "local"
kind = "mcp"
protocol = "initialize"
command = ["python3", "FOLDER/server.py"]
[providers.env]
TOKEN_OF_THE_SERVER = "env:MCP"
SERVICE_KEY = "planted-variable-in-the-file"
[[providers]]
name = "remote"
kind = "mcp"
url = "http://ECHO/mcp"
api_key = "env:MCP_HTTP"
headers = { x-api-key = "planted-header-of-the-server" }
[[providers]]
name = "show"
kind = "command"
command = ["sh", "-c", "cat; env; env >&2"]
env = { MY_SECRET = "env:COMMAND" }
parameters = { type = "object", properties = { text = { type = "string" } } }
[[providers]]
name = "draw"
kind = "images"
engine = "openai"
base_url = "http://ECHO/v1"
model = "painter"
api_key = "planted-key-of-the-painter"
[[providers]]
name = "programs"
kind = "http"
keys = ["env:REGISTRATION"]
allow_private = true
[telemetry]
endpoint = "http://ECHO/otlp"
headers = { x-api-key = "planted-header-of-the-collector" }
"#;

/// An MCP server that leaks its environment in every possible way.
const SERVER: &str = r#"
import json, os, sys
known = "; ".join(f"{name}={value}" for name, value in os.environ.items())
print("started with " + known, file=sys.stderr, flush=True)
schema = {"type": "object", "properties": {"text": {"type": "string", "description": known}}}
for line in sys.stdin:
    message = json.loads(line)
    result = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
            "instructions": known,
        },
        "tools/list": {"tools": [{"name": "tell", "title": known[:200], "description": known, "inputSchema": schema}]},
        "tools/call": {"content": [{"type": "text", "text": known + json.dumps(message.get("params"))}]},
    }.get(message["method"])
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result or {}}), flush=True)
"#;

/// Starts a server that echoes each request in its response. Returns its address.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || drop(repeat(socket)));
        }
    });
    address
}

fn repeat(mut socket: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let length =
        head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = text(body);
    let (status, kind, answer) = answer(&head, &body);
    let length = answer.len();
    write!(
        socket,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
    )
}

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";

fn answer(head: &str, body: &str) -> (&'static str, &'static str, String) {
    let said = format!("{head}{body}");
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let refusal =
        json!({"error": {"message": said, "type": "t", "code": "invalid_api_key"}, "message": said})
            .to_string();
    let tokens = json!({
        "Code": 1000, "UID": "u", "ExpiresIn": 43_200, "AccessToken": "planted-access-token-2",
        "RefreshToken": "planted-refresh-token-2",
    });
    match (path, asked["model"].as_str()) {
        ("/lumo/auth/refresh", _) => ("200 OK", JSON, tokens.to_string()),
        (path, _) if path.starts_with("/lumo/") && said.contains("planted-access-token-1") => {
            ("401 Unauthorized", JSON, refusal)
        }
        (path, _) if path.starts_with("/lumo/") => ("200 OK", SSE, stream(pieces(&said), "stop")),
        (path, _) if path.ends_with("/search") => {
            let results = json!([{"title": said, "link": "https://a.example/", "snippet": said}]);
            ("200 OK", JSON, json!({"organic": results}).to_string())
        }
        (path, Some(model)) if path.ends_with("/chat/completions") => match model {
            "refused" => ("401 Unauthorized", JSON, refusal),
            "broken" => ("200 OK", SSE, stream(pieces(&said), "").replace("data: [DONE]\n\n", "")),
            "call" => match called(&asked, &said) {
                Some(call) => ("200 OK", SSE, stream(vec![call], "tool_calls")),
                None => ("200 OK", SSE, stream(pieces(&said), "stop")),
            },
            _ => ("200 OK", SSE, stream(pieces(&said), "stop")),
        },
        _ => ("403 Forbidden", JSON, refusal),
    }
}

/// Returns a call to the hosted tool that the user's message names, with the complete text as its argument.
fn called(asked: &Value, said: &str) -> Option<Value> {
    let last = asked["messages"].as_array()?.last()?;
    let name = last["content"].as_str().filter(|_| last["role"] == "user")?;
    let arguments =
        json!({"text": said, "query": said, "prompt": said, "url": "https://a.example/"}).to_string();
    Some(
        json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]}),
    )
}

/// Splits the text into pieces of seven characters, which is how a model would stream it.
fn pieces(text: &str) -> Vec<Value> {
    let characters: Vec<_> = text.chars().collect();
    characters.chunks(7).map(|piece| json!({"content": piece.iter().collect::<String>()})).collect()
}

fn stream(deltas: Vec<Value>, finish: &str) -> String {
    let event = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!(
            "data: {}\n\n",
            json!({"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
        )
    };
    let text: String = deltas.into_iter().map(|delta| event(delta, Value::Null)).collect();
    let end = if finish.is_empty() { String::new() } else { event(json!({}), finish.into()) };
    text + &end + "data: [DONE]\n\n"
}

/// The running program and all of its output.
struct Planted {
    child: Child,
    address: String,
    folder: TempDir,
    /// Each piece of output with its source.
    heard: Vec<(String, String)>,
    made: Vec<String>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Planted {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        let config = CONFIG.replace("ECHO", &echo()).replace("FOLDER", &folder.path().display().to_string());
        fs::write(path("toolwire.toml"), config).unwrap();
        fs::write(path("server.py"), SERVER).unwrap();
        fs::write(path("upstream.key"), "planted-key-in-a-file-of-its-own\n").unwrap();
        let session = json!({
            "uid": "u", "access_token": "planted-access-token-1", "refresh_token": "planted-refresh-token-1",
            "expires_at": 4_000_000_000_u64,
        });
        fs::write(path("session.json"), session.to_string()).unwrap();
        let log = path("log");
        let mut command = toolwire(&["serve", "--log-level", "info,toolwire=debug", "--config"]);
        command.arg(path("toolwire.toml")).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        for name in VARIABLES {
            command.env(name, format!("{MARK}{}-variable", name.to_lowercase().replace('_', "-")));
        }
        let child = command.spawn().unwrap();
        let mut planted = Self { child, address: String::new(), folder, heard: Vec::new(), made: Vec::new() };
        planted.address = planted.place(&log);
        planted
    }

    fn place(&mut self, log: &Path) -> String {
        loop {
            let said = fs::read_to_string(log).unwrap();
            if let Some((_, address)) = said.split_once("://127.0.0.1:") {
                let port: String = address.chars().take_while(char::is_ascii_digit).collect();
                return format!("127.0.0.1:{port}");
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "{said}");
            sleep(Duration::from_millis(20));
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &Value) -> (String, String) {
        said(&send(&self.address, method, path, headers, body))
    }

    /// Sends a request to the admin API and keeps the response for the search.
    fn admin(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let (head, body) = self.ask(method, path, &bearer(ADMIN), body);
        let value = serde_json::from_str(&body).unwrap_or_default();
        self.heard.push((format!("{method} {path}"), head + &body));
        value
    }

    /// Sends a client's request and ignores the outcome.
    fn request(&self, path: &str, body: &Value) {
        self.ask("POST", path, &bearer(CLIENT), body);
    }

    /// Returns all planted secrets and all generated ones.
    fn secrets(&self) -> BTreeSet<String> {
        let mut given = String::from(include_str!("planted.rs")) + &self.made.join(" ");
        for name in VARIABLES {
            given += &format!(" {MARK}{}-variable", name.to_lowercase().replace('_', "-"));
        }
        let is_of_word = |char: char| char.is_ascii_alphanumeric() || char == '-';
        let words = given.split(|char| !is_of_word(char));
        let mut secrets: BTreeSet<_> = words
            .filter(|word| word.len() > MARK.len() && word.starts_with(MARK))
            .map(str::to_owned)
            .collect();
        secrets.extend(self.made.iter().cloned());
        secrets
    }
}

fn bearer(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

/// Sends a request on a new connection, which the server closes after the response.
fn send(address: &str, method: &str, path: &str, headers: &str, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    write!(
        socket,
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: {JSON}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    socket
}

/// Converts the bytes to text. Trace exports are binary, so invalid UTF-8 is escaped.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
}

fn said(mut socket: &TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    // A server that is shutting down may reset the connection.
    let _ = socket.read_to_end(&mut bytes);
    let text = text(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

/// Sends client requests to every model and calls every tool.
fn clients_ask(planted: &Planted) {
    // People paste keys into prompts, even keys that are configured here.
    let prompt = "planted-key-of-the-painter planted-variable-in-the-file planted-admin-variable planted-team-variable";
    for model in ["repeated", "refused", "broken", "proxied", "lumo", "lumo"] {
        for stream in [true, false] {
            let messages = json!([{"role": "user", "content": prompt}]);
            planted.request(
                "/v1/chat/completions",
                &json!({"model": model, "stream": stream, "messages": messages}),
            );
        }
        let messages = json!([{"role": "user", "content": prompt}]);
        planted.request(
            "/v1/messages",
            &json!({"model": model, "stream": true, "max_tokens": 9, "messages": messages}),
        );
        planted.request("/v1/responses", &json!({"model": model, "stream": true, "input": prompt}));
    }
    for tool in ["show", "local__tell", "web_search", "scrape", "generate_images", "clock_now"] {
        let messages = json!([{"role": "user", "content": tool}]);
        planted
            .request("/v1/chat/completions", &json!({"model": "call", "stream": true, "messages": messages}));
    }
    // A client may bring the session of its own account.
    let own = "authorization: Bearer planted-token-of-an-own-account\r\nx-pm-uid: own\r\nx-api-key: planted-client-variable\r\n";
    let messages = json!([{"role": "user", "content": "hi"}]);
    planted.ask(
        "POST",
        "/v1/chat/completions",
        own,
        &json!({"model": "own", "stream": true, "messages": messages}),
    );
}

/// Sends keys in the wrong places, and sends invalid keys.
fn keys_are_misplaced(planted: &mut Planted) {
    for (path, headers) in [
        ("/v1/models?key=planted-client-variable&api_key=planted-key-in-a-url", String::new()),
        ("/admin/tools?key=planted-admin-variable", String::new()),
        ("/admin/tools", bearer("planted-key-that-is-wrong")),
        ("/v1/models", bearer("planted-key-that-is-wrong")),
        ("/admin/session", "cookie: toolwire_0=planted-cookie-that-is-wrong\r\n".to_owned()),
    ] {
        let (head, body) = planted.ask("GET", path, &headers, &Value::Null);
        planted.heard.push((format!("the answer to {path}"), head + &body));
    }
    for body in [json!({"key": "planted-key-that-is-wrong"}), json!({"code": "planted-code-that-is-wrong"})] {
        let (head, body) = planted.ask("POST", "/admin/session", "", &body);
        planted.heard.push(("the answer to a wrong key".to_owned(), head + &body));
    }
    // Only the page that signed in may receive the session's own token and cookie.
    let (head, body) = planted.ask("POST", "/admin/session", "", &json!({"key": ADMIN}));
    let cookie = head.split_once("toolwire_").and_then(|(_, rest)| rest.split([';', '=']).nth(1)).unwrap();
    let session: Value = serde_json::from_str(&body).unwrap();
    let csrf = session["csrf"].as_str().unwrap();
    planted.made.extend([cookie.to_owned(), csrf.to_owned()]);
    planted.ask(
        "GET",
        "/admin/tools",
        &format!(
            "cookie: {}={cookie}\r\n",
            head.split_once("toolwire_").unwrap().1.split('=').next().unwrap()
        ),
        &Value::Null,
    );
}

fn program_registers(planted: &mut Planted, echo: &str) {
    let register = |planted: &mut Planted, url: &str| {
        let tools = json!([{"name": "clock.now", "label": "Time", "description": "The time.", "parameters": {"type": "object"}}]);
        let body = json!({"id": "clock", "label": "Clock", "callback_url": url, "token": "planted-token-of-a-program", "tools": tools});
        let (head, body) =
            planted.ask("POST", "/v1/providers", &bearer("planted-registration-variable"), &body);
        planted.heard.push(("the answer to a registration".to_owned(), head + &body));
    };
    register(planted, &format!("http://user:planted-password-of-a-program@{echo}/called"));
    register(planted, &format!("http://{echo}/called?token=planted-query-of-a-program"));
}

fn admin_does_everything(planted: &mut Planted) {
    let input =
        json!({"text": "x", "query": "planted-team-variable", "prompt": "x", "url": "https://a.example/"});
    for tool in ["show", "local__tell", "web_search", "scrape", "generate_images", "clock_now"] {
        planted.admin("POST", &format!("/admin/tools/{tool}/run"), &json!({"input": input}));
    }
    for provider in ["serper", "local", "remote", "show", "draw", "programs"] {
        for body in [json!({}), json!({"api_key": "planted-key-that-is-tested"})] {
            planted.admin("POST", &format!("/admin/providers/{provider}/test"), &body);
        }
        planted.admin("GET", &format!("/admin/providers/{provider}/log"), &Value::Null);
        planted.admin("POST", &format!("/admin/providers/{provider}/restart"), &json!({}));
    }
    for patch in [
        json!({"providers.serper.api_key": "planted-key-that-is-saved"}),
        json!({"providers.serper.api_key": "planted-key\nof-two-lines", "providers.serper.max_results": "x"}),
        json!({"providers.serper.api_key": ["planted-key-in-an-array"]}),
    ] {
        planted.admin("PATCH", "/admin/settings", &patch);
    }
    for body in [json!({"upstream": "up", "model": "refused", "streams": 1, "tokens": 5})] {
        let mut state = planted.admin("POST", "/admin/bench", &body);
        while state["state"] == "running" {
            sleep(Duration::from_millis(50));
            state = planted.admin("GET", "/admin/bench", &Value::Null);
        }
    }
    planted.admin("POST", "/admin/reload", &json!({}));
    for path in [
        "session",
        "tools",
        "permissions",
        "settings",
        "formats",
        "keys",
        "streams",
        "reload",
        "metrics",
        "metrics?by=key",
        "metrics?by=upstream",
    ] {
        planted.admin("GET", &format!("/admin/{path}"), &Value::Null);
    }
    for (model, accept) in
        [("refused", SSE), ("broken", JSON), ("call", SSE), ("proxied", SSE), ("lumo", JSON)]
    {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "local__tell"}]});
        let headers = format!("{}accept: {accept}\r\n", bearer(ADMIN));
        let (head, body) = planted.ask("POST", "/console/api/chat", &headers, &body);
        planted.heard.push((format!("a chat with {model}"), head + &body));
    }
}

fn exchanges_are_read(planted: &mut Planted) -> usize {
    let listed = planted.admin("GET", "/admin/exchanges?limit=500", &Value::Null);
    let exchanges = listed["exchanges"].as_array().unwrap();
    for exchange in exchanges {
        let id = exchange["id"].as_str().unwrap();
        for view in ["", "/events", "/fixture"] {
            planted.admin("GET", &format!("/admin/exchanges/{id}{view}"), &Value::Null);
        }
    }
    exchanges.len()
}

fn feed(address: &str) -> JoinHandle<String> {
    let socket = send(address, "GET", "/admin/events", &bearer(ADMIN), &Value::Null);
    let mut first = [0; 512];
    // Reads the head and the comment that opens the stream.
    let read = (&socket).read(&mut first).unwrap();
    assert!(str::from_utf8(&first[..read]).unwrap().contains(" 200 "));
    thread::spawn(move || said(&socket).0)
}

#[test]
fn no_planted_secret_leaves_over_the_admin_api() {
    let mut planted = Planted::start();
    let feed = feed(&planted.address);
    // The MCP server starts in the background.
    while planted.admin("GET", "/admin/tools", &Value::Null).to_string().matches("local__tell").count() == 0 {
        sleep(Duration::from_millis(50));
    }
    let echo = fs::read_to_string(planted.file("toolwire.toml")).unwrap();
    let echo = echo.split_once("base_url = \"http://").unwrap().1.split('/').next().unwrap().to_owned();
    program_registers(&mut planted, &echo);
    clients_ask(&planted);
    keys_are_misplaced(&mut planted);
    admin_does_everything(&mut planted);
    let exchanges = exchanges_are_read(&mut planted);
    assert!(exchanges > 30, "{exchanges}");
    let (_, metrics) = planted.ask("GET", "/metrics", "", &Value::Null);
    planted.heard.push(("/metrics".to_owned(), metrics));

    let pid = planted.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    planted.child.wait().unwrap();
    let feed = feed.join().unwrap();
    assert!(feed.contains("event: tool_result") && feed.contains("event: message_update"), "{feed}");
    planted.heard.push(("the feed".to_owned(), feed));
    for file in ["log", "audit.jsonl"] {
        let text = fs::read_to_string(planted.file(file)).unwrap();
        planted.heard.push((file.to_owned(), text));
    }
    let secrets = planted.secrets();
    let mut leaks = Vec::new();
    for (place, text) in &planted.heard {
        for secret in secrets.iter().filter(|secret| text.contains(secret.as_str())) {
            let at = text.find(secret.as_str()).unwrap();
            let around =
                text.get(text.floor_char_boundary(at.saturating_sub(100))..at + secret.len()).unwrap();
            leaks.push(format!("{place} has {secret}: {around}"));
        }
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
