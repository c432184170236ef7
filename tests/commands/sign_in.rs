//! Tests signing in to the admin API with the code that `serve` prints on a terminal.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, terminal, toolwire};

const CONFIG: &str = "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
    base_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"m\"\n[admin]\napi_keys = [\"an-admin-key\"]\n";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, method: &str, headers: &str, body: &str) -> (String, Value) {
    let mut socket = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head =
        format!("{method} /admin/session HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    write!(socket, "{head}content-length: {length}\r\n{headers}\r\n{body}").unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap())
}

#[test]
fn person_at_a_terminal_signs_in_with_the_code_once() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, CONFIG).unwrap();
    let (person, program) = terminal();
    let mut command = toolwire(&["serve", "--config"]);
    let serving = command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(program));
    let _running = Running(serving.spawn().unwrap());
    drop(command);
    let lines = BufReader::new(person).lines().map_while(Result::ok);
    let link = lines.take(50).find(|line| line.contains("/console/#/login?code=")).unwrap();
    let (place, code) = link.split_once("http://").unwrap().1.split_once("/console/#/login?code=").unwrap();
    let code: String = code.chars().take_while(char::is_ascii_alphanumeric).collect();
    assert!(code.len() >= 16, "{link}");

    let signed_in = |cookie: &str| ask(place, "GET", cookie, "").1["signed_in"].clone();
    assert_eq!(signed_in(""), false);
    let body = format!("{{\"code\":\"{code}\"}}");
    let (head, session) = ask(place, "POST", "", &body);
    assert!(head.lines().next().unwrap().contains(" 200 "), "{head}");
    assert_eq!(session["signed_in"], true);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    assert_eq!(signed_in(&format!("cookie: {cookie}\r\n")), true);

    let (head, error) = ask(place, "POST", "", &body);
    assert!(head.contains(" 401 "), "{head}");
    assert!(!error.to_string().contains(&code), "{error}");
}

#[test]
fn log_in_a_file_has_no_code() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, CONFIG).unwrap();
    let server = Server::start(toolwire(&["serve", "--config"]).arg(&file));
    let start = server.start.clone();
    let (_, rest) = server.stop();
    assert!(!start.contains("code=") && !rest.contains("code="), "{start}{rest}");
}
