//! Tests that `serve` reloads its configuration on SIGHUP and when its file, or a file named in it, has changed.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::symlink,
    path::PathBuf,
    process::Command,
    sync::mpsc,
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, ask, toolwire};

fn text(model: &str, upstream: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nstore = \"off\"\nthreads = 2\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
         base_url = \"http://{upstream}/v1\"\napi_key = \"file:key\"\n[[models]]\nname = \"{model}\"\n"
    )
}

struct Desk {
    folder: TempDir,
    server: Server,
}

impl Desk {
    fn new(model: &str, upstream: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("key"), "secret-of-the-upstream").unwrap();
        fs::write(folder.path().join("toolwire.toml"), text(model, upstream)).unwrap();
        let file = folder.path().join("toolwire.toml").display().to_string();
        let server = Server::start(&mut toolwire(&["--log-format", "json", "serve", "--config", &file]));
        Self { folder, server }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("toolwire.toml")
    }

    fn hang_up(&self) {
        let pid = self.server.pid().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    fn logged(&mut self, message: &str) -> Value {
        loop {
            let line = self.server.line();
            assert!(!line.is_empty(), "the server has ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["message"] == message {
                return line;
            }
        }
    }

    fn models(&self) -> String {
        String::from_utf8(ask(&self.server, "/v1/models", "", "").1).unwrap()
    }
}

const RELOADED: &str = "the configuration was reloaded";
const REFUSED: &str = "the configuration was not reloaded; the one before stays";

#[test]
fn signal_loads_the_file_and_its_secrets() {
    let mut desk = Desk::new("one", "127.0.0.1:1");
    fs::write(desk.folder.path().join("key"), "another-secret").unwrap();
    desk.hang_up();
    let line = desk.logged(RELOADED);
    assert_eq!((&line["generation"], &line["reason"]), (&2.into(), &"signal".into()), "{line}");
    assert_eq!(line["changed"], serde_json::json!(["upstreams.up.api_key"]));
    assert!(!line.to_string().contains("another-secret"));

    fs::remove_file(desk.folder.path().join("key")).unwrap();
    desk.hang_up();
    let line = desk.logged(REFUSED);
    assert_eq!((&line["errors"], &line["level"]), (&1.into(), &"ERROR".into()), "{line}");
    assert!(desk.models().contains("\"one\""));
    let (status, rest) = desk.server.stop();
    assert_eq!(status, Some(0), "{rest}");
}

#[test]
fn what_is_not_a_file_changes_nothing_and_holds_nothing_up() {
    for name in ["toolwire.toml", "key"] {
        let mut desk = Desk::new("one", "127.0.0.1:1");
        let file = desk.folder.path().join(name);
        let content = fs::read(&file).unwrap();
        for kind in ["pipe", "folder", "missing", "text"] {
            let _ = fs::remove_file(&file);
            match kind {
                "pipe" => assert!(Command::new("mkfifo").arg(&file).status().unwrap().success()),
                "folder" => fs::create_dir(&file).unwrap(),
                "text" => fs::write(&file, if name == "key" { "" } else { "[[[" }).unwrap(),
                _ => {}
            }
            desk.hang_up();
            let line = desk.logged(REFUSED);
            assert_eq!(line["level"], "ERROR", "{name} {kind}: {line}");
            assert!(desk.models().contains("\"one\""), "{name} {kind}");
            let _ = fs::remove_dir(&file).or_else(|_| fs::remove_file(&file));
            fs::write(&file, &content).unwrap();
            desk.hang_up();
            desk.logged(RELOADED);
        }
        let (status, rest) = desk.server.stop();
        assert_eq!(status, Some(0), "{rest}");
    }
}

#[test]
fn secret_that_is_replaced_in_its_file_holds_without_a_signal() {
    let mut desk = Desk::new("one", "127.0.0.1:1");
    for secret in ["another-secret", "yet-another-secret"] {
        fs::write(desk.folder.path().join("new"), secret).unwrap();
        fs::rename(desk.folder.path().join("new"), desk.folder.path().join("key")).unwrap();
        let line = desk.logged(RELOADED);
        assert_eq!(line["reason"], "a file has changed");
        assert_eq!(line["changed"], serde_json::json!(["upstreams.up.api_key"]));
    }
    // Removing the key file invalidates the configuration; writing it again makes it valid.
    fs::remove_file(desk.folder.path().join("key")).unwrap();
    desk.logged(REFUSED);
    fs::write(desk.folder.path().join("key"), "the-last-secret").unwrap();
    desk.logged(RELOADED);
}

#[test]
fn changed_file_is_loaded_however_it_was_replaced() {
    let mut desk = Desk::new("one", "127.0.0.1:1");
    fs::write(desk.file(), text("two", "127.0.0.1:1")).unwrap();
    let line = desk.logged(RELOADED);
    assert_eq!(line["reason"], "a file has changed");
    assert!(desk.models().contains("\"two\""));

    fs::write(desk.folder.path().join("new"), text("three", "127.0.0.1:1")).unwrap();
    fs::rename(desk.folder.path().join("new"), desk.file()).unwrap();
    desk.logged(RELOADED);
    assert!(desk.models().contains("\"three\""));

    fs::write(desk.file(), "[[upstreams]\n").unwrap();
    desk.logged(REFUSED);
    let folder = desk.folder.path().join("..data");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("toolwire.toml"), text("four", "127.0.0.1:1")).unwrap();
    symlink("..data/toolwire.toml", desk.folder.path().join("link")).unwrap();
    fs::rename(desk.folder.path().join("link"), desk.file()).unwrap();
    desk.logged(RELOADED);
    assert!(desk.models().contains("\"four\""));
}

/// Starts an upstream that begins every response, but only completes it once the sender is dropped.
fn holding() -> (String, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (open, closed) = mpsc::channel::<()>();
    thread::spawn(move || {
        let mut streams = Vec::new();
        listener.set_nonblocking(true).unwrap();
        while closed.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(std::time::Duration::from_millis(5));
                continue;
            };
            stream.set_nonblocking(false).unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            let chunk = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
                \"choices\":[{\"index\":0,\"delta\":{\"content\":\"first\"},\"finish_reason\":null}]}\n\n";
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{chunk}").unwrap();
            streams.push(stream);
        }
        for mut stream in streams {
            let chunk = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
                \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
            stream.write_all(chunk.as_bytes()).unwrap();
        }
    });
    (address, open)
}

fn resources(pid: u32) -> (usize, usize) {
    let count = |of: &str| fs::read_dir(format!("/proc/{pid}/{of}")).unwrap().count();
    (count("fd"), count("task"))
}

#[test]
fn reloads_leave_nothing_behind_while_streams_are_open() {
    const REQUEST: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let (upstream, open) = holding();
    let mut desk = Desk::new("m", &upstream);
    let address = desk.server.address.clone();
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{REQUEST}",
            REQUEST.len()
        )
        .unwrap();
        let mut begin = Vec::new();
        while !begin.windows(5).any(|window| window == b"first") {
            let mut piece = [0; 1024];
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0);
            begin.extend_from_slice(&piece[..read]);
        }
        streams.push(stream);
    }
    let mut before = None;
    for round in 0..30 {
        let name = if round % 2 == 0 { "x" } else { "y" };
        let changed = text("m", &upstream).replace("file:key", &format!("secret-{name}"));
        fs::write(desk.file(), changed).unwrap();
        desk.hang_up();
        desk.logged(RELOADED);
        // The first rounds may still start threads for blocking disk access.
        if round == 5 {
            before = Some(resources(desk.server.pid()));
        }
    }
    let (before, after) = (before.unwrap(), resources(desk.server.pid()));
    assert!(after.0 <= before.0 + 2, "descriptors: {before:?}, {after:?}");
    assert!(after.1 <= before.1 + 2, "threads: {before:?}, {after:?}");
    drop(open);
    for mut stream in streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("[DONE]"), "{rest}");
    }
}
