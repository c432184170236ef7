//! Tests `toolwire top` on a terminal, without a terminal, and with servers that it cannot read.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    thread,
};

use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, run, terminal, toolwire};

/// A model name, JSON-escaped, with characters that must never reach a terminal.
const HOSTILE: &str = r"x\r\nFAKE\u001b[31m\u009b2J\u202e";

fn silent_upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let waiting: Vec<_> = listener.incoming().take(8).collect();
        drop(waiting);
    });
    address
}

/// Starts a server with an admin key, one client and an upstream that never answers.
fn server(folder: &TempDir) -> Server {
    let config = format!(
        "listen = \"127.0.0.1:0\"\nstate_dir = {:?}\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://{}/v1\"\n\
         [[models]]\nname = \"*\"\n[admin]\napi_keys = [\"an-admin-key\"]\n",
        folder.path(),
        silent_upstream()
    );
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, config).unwrap();
    Server::start(toolwire(&["serve", "--config"]).arg(&file))
}

/// Sends a request and leaves it open, since the upstream does not answer.
fn ask(server: &Server, model: &str) -> TcpStream {
    let body =
        format!(r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"hi"}}]}}"#);
    let mut client = TcpStream::connect(&server.address).unwrap();
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write_all((head + &body).as_bytes()).unwrap();
    client
}

fn top(server: &Server, arguments: &[&str]) -> Command {
    let mut command = toolwire(&["top", "--server"]);
    command.arg(format!("http://{}", server.address)).args(arguments).env("ADMIN", "an-admin-key");
    command
}

/// A `top` that runs on a terminal and is killed when the test ends.
struct OnTerminal {
    person: File,
    /// Keeps the terminal open after the program has exited.
    program: OwnedFd,
    child: Child,
    seen: String,
}

impl OnTerminal {
    fn start(server: &Server) -> Self {
        let (person, program) = terminal();
        tcsetwinsize(&person, Winsize { ws_row: 10, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let side = || Stdio::from(program.try_clone().unwrap());
        let mut command = top(server, &["--admin-key", "env:ADMIN"]);
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        Self { person, program, child, seen: String::new() }
    }

    /// Reads the screen until it shows `text`. Returns everything read since the previous call.
    fn until(&mut self, text: &str) -> String {
        let mut bytes = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.person.read(&mut bytes).unwrap();
            assert!(count > 0, "no {text:?}: {:?}", self.seen);
            // The read may split a character, but the tests only look for ASCII text.
            self.seen.extend(bytes[..count].iter().map(|byte| char::from(*byte)));
        }
        std::mem::take(&mut self.seen)
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.program).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Waits until the program has restored the terminal and exited.
    fn ended(mut self) {
        self.until("\x1b[?25h\x1b[?1049l");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert!(!self.is_raw());
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn terminal_shows_responses_and_is_restored() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    let _asking = [ask(&server, "a-model"), ask(&server, HOSTILE)];
    for end in [b"q".as_slice(), b"\x03", b""] {
        let mut top = OnTerminal::start(&server);
        let screen = top.until("2 waiting)") + &top.until("q: quit");
        assert!(screen.contains("\x1b[?1049h") && screen.contains("a-model"), "{screen:?}");
        assert!(screen.contains("FAKE") && !screen.contains("\nFAKE"), "{screen:?}");
        for hostile in ["\x1b[31m", "\u{9b}", "\u{e2}\u{80}\u{ae}"] {
            assert!(!screen.contains(hostile), "{screen:?}");
        }
        assert!(top.is_raw());
        top.person.write_all(b"s").unwrap();
        top.until("sorted by time to first token");
        if end.is_empty() {
            let pid = top.child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        } else {
            top.person.write_all(end).unwrap();
        }
        top.ended();
    }
}

#[test]
fn server_that_goes_away_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    let mut top = OnTerminal::start(&server);
    top.until("0 responses in progress");
    drop(server);
    top.until("connecting again:");
    top.person.write_all(b"q").unwrap();
    top.ended();
}

#[test]
fn without_a_terminal_there_is_one_table() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    let (status, table, errors) = run(top(&server, &[]).env("TOOLWIRE_ADMIN_KEY", "an-admin-key"));
    assert_eq!((status, errors.as_str()), (0, ""), "{table}");
    assert!(table.contains("0 responses in progress") && table.contains("AGE"), "{table}");
    assert!(!table.contains('\x1b'), "{table:?}");
    let (status, json, _) = run(&mut top(&server, &["--once", "--json", "--admin-key", "an-admin-key"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, &json["count"]), (0, &0.into()));
}

#[test]
fn server_that_cannot_be_read_is_an_error_that_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let server = server(&folder);
    let (status, _, error) = run(&mut top(&server, &["--admin-key", "wrong-secret"]));
    assert!(status == 1 && error.contains("status 401") && error.contains("TOOLWIRE_ADMIN_KEY"), "{error}");
    assert!(!error.contains("wrong-secret"), "{error}");
    let (status, _, error) = run(&mut top(&server, &["--admin-key", "env:NOT_SET"]));
    assert!(status == 2 && error.contains("`NOT_SET` is not set"), "{error}");
    drop(server);

    let file = folder.path().join("plain.toml");
    let text = "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
        base_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"*\"\n";
    fs::write(&file, text).unwrap();
    let server = Server::start(toolwire(&["serve", "--config"]).arg(&file));
    let (status, _, error) = run(&mut top(&server, &[]));
    assert!(status == 1 && error.contains("status 404") && error.contains("[admin]"), "{error}");
    let url = format!("http://{}", server.address);
    drop(server);
    let (status, _, error) = run(toolwire(&["top", "--server", &url]).stdin(Stdio::null()));
    assert!(status == 1 && error.contains(&url), "{error}");
}
