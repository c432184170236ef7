//! Helpers that run the built program and read fixtures.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    mem,
    net::TcpStream,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use toolwire::{
    dialect::ClientDialect,
    fixture::{Answer, assemble},
};

/// A command that runs the program with these arguments, without settings from the test environment and without the
/// user's stored state, which other processes may be using.
pub(crate) fn toolwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    let inherited = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TOOLWIRE_"));
    inherited.for_each(|(name, _)| _ = command.env_remove(name));
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", std::process::id()));
    command.env("XDG_STATE_HOME", state).args(arguments);
    command
}

pub(crate) fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A running server (`serve`, `mock` or `record`), which is killed when the test ends.
pub(crate) struct Server {
    child: Child,
    /// The address that the server listens on: the first one that it prints to stderr.
    pub(crate) address: String,
    /// What the server wrote to stderr, up to and including the line with the address.
    pub(crate) start: String,
    /// The lines of stderr that follow. A thread keeps reading them, since the server drops lines when its log is not
    /// read.
    lines: Receiver<String>,
}

impl Server {
    /// Starts the command and waits until it prints its address.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (written, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).unwrap() > 0 {
                // Fails once the test has dropped the server.
                let _ = written.send(mem::take(&mut line));
            }
        });
        let mut server = Self { child, address: String::new(), start: String::new(), lines };
        while server.address.is_empty() {
            let line = server.line();
            assert!(!line.is_empty(), "the server has ended: {}", server.start);
            if let Some((_, address)) = line.split_once("://127.0.0.1:") {
                let port: String = address.chars().take_while(char::is_ascii_digit).collect();
                server.address = format!("127.0.0.1:{port}");
            }
            server.start += &line;
        }
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line of stderr, or an empty string at the end.
    pub(crate) fn line(&mut self) -> String {
        self.lines.recv().unwrap_or_default()
    }

    /// Stops the server. Returns its exit status and the unread lines of stderr.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let rest = self.lines.iter().collect();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a terminal. Returns the user's end and the program's end.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program =
        open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    (File::from(person), program)
}

/// Sends a GET, or a POST if `body` is not empty. Returns the status line and headers in lower case, and the body.
pub(crate) fn ask(server: &Server, path: &str, headers: &str, body: &str) -> (String, Vec<u8>) {
    request(server, if body.is_empty() { "GET" } else { "POST" }, path, headers, body)
}

pub(crate) fn request(
    server: &Server,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (String, Vec<u8>) {
    let mut socket = TcpStream::connect(&server.address).unwrap();
    let length = body.len();
    let kind = if headers.contains("content-type") { "" } else { "content-type: application/json\r\n" };
    write!(
        socket,
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\n{kind}content-length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut reply = Vec::new();
    socket.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    (String::from_utf8(reply[..end].to_vec()).unwrap().to_lowercase(), reply[end + 4..].to_vec())
}

/// Assembles a chat stream like a client would, and asserts that it breaks no rule.
pub(crate) fn read_stream(stream: &str) -> Answer {
    let assembled = assemble(ClientDialect::Chat, stream.as_bytes(), true, 200);
    assert_eq!(assembled.faults, Vec::<String>::new());
    assembled.answer
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// Returns the folder of a fixture as a command-line argument.
pub(crate) fn fixture_path(name: &str) -> String {
    fixture(name).display().to_string()
}

pub(crate) fn upstream_bytes(name: &str) -> Vec<u8> {
    fs::read(fixture(name).join("upstream.sse")).unwrap()
}
