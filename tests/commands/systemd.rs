//! Tests `serve` under systemd: socket activation and notifications. A Python script plays the role of systemd.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::support::{Server, toolwire};

/// Opens a socket and starts the program with it. For each line on stdin, stops the program and starts it again.
const LAUNCHER: &str = r#"
import os, signal, socket, sys
program, config = sys.argv[1:3]
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(4096)
def start():
    pid = os.fork()
    if pid == 0:
        os.dup2(listener.fileno(), 3)
        os.set_inheritable(3, True)
        variables = dict(os.environ, LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="http")
        os.execve(program, [program, "serve", "--config", config], variables)
    return pid
pid = start()
print(listener.getsockname()[1], flush=True)
for _ in sys.stdin:
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    print("stopped", status, flush=True)
    pid = start()
os.kill(pid, signal.SIGKILL)
"#;

struct Launcher {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Launcher {
    fn start(config: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_toolwire");
        let mut child = Command::new("python3")
            .args(["-c", LAUNCHER, program, config])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut launcher = Self { child, input, output, address: String::new() };
        launcher.address = format!("127.0.0.1:{}", launcher.line());
        launcher
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn restart(&mut self) -> String {
        self.input.as_mut().unwrap().write_all(b"restart\n").unwrap();
        self.line()
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // The launcher stops the program at the end of its input.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

fn file(folder: &TempDir) -> String {
    let file = folder.path().join("toolwire.toml");
    // This address must not be used: binding to it would fail. The program has to use the socket passed by systemd.
    let text = "listen = \"127.0.0.1:1\"\nstore = \"off\"\nthreads = 2\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
        base_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"m\"\n";
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn ask(address: &str) -> Result<String, ErrorKind> {
    let asked = || {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut reply = String::new();
        socket.read_to_string(&mut reply)?;
        Ok(reply.lines().next().unwrap_or_default().to_owned())
    };
    asked().map_err(|error: std::io::Error| error.kind())
}

#[test]
fn restart_with_an_inherited_socket_loses_no_connection() {
    let folder = TempDir::new().unwrap();
    let mut launcher = Launcher::start(&file(&folder));
    let address = launcher.address.clone();
    assert_eq!(ask(&address).as_deref(), Ok("HTTP/1.1 200 OK"));
    let (is_over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = || {
        let mut others = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            match ask(&address) {
                Ok(line) if line == "HTTP/1.1 200 OK" => _ = answers.fetch_add(1, Ordering::SeqCst),
                other => others.push(other),
            }
        }
        others
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        // The clients run until `is_over` is set, so an assertion that fails before that would hang the test.
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(launcher.restart());
            // The previous process cannot have left 50 answers in flight. So once 50 more have arrived, the new process
            // is serving and can be stopped in turn.
            let stopped_at = answers.load(Ordering::SeqCst);
            let deadline = Instant::now() + Duration::from_secs(120);
            while answers.load(Ordering::SeqCst) < stopped_at + 50 && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
        }
        is_over.store(true, Ordering::SeqCst);
        for client in clients {
            assert_eq!(client.join().unwrap(), [], "all requests are answered");
        }
        assert_eq!(statuses, ["stopped 0"; 3]);
    });
}

#[test]
fn inherited_socket_of_another_kind_is_refused() {
    let folder = TempDir::new().unwrap();
    let datagrams = LAUNCHER.replace("socket.socket()", "socket.socket(type=socket.SOCK_DGRAM)");
    let datagrams =
        datagrams.replace("listener.listen(4096)\n", "").replace("for _ in sys.stdin:", "if False:");
    let datagrams = datagrams.replace(
        "os.kill(pid, signal.SIGKILL)",
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    );
    let mut command = Command::new("python3");
    command.args(["-c", &datagrams, env!("CARGO_BIN_EXE_toolwire"), &file(&folder)]);
    let (status, _, stderr) = crate::support::run(command.stdin(Stdio::null()));
    assert_eq!(status, 1);
    assert!(stderr.contains("inherited socket 0 is not a TCP socket"), "{stderr}");
}

fn message(socket: &UnixDatagram, begin: &str) -> String {
    loop {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).unwrap();
        let message = String::from_utf8(bytes[..length].to_vec()).unwrap();
        if message.starts_with(begin) {
            return message;
        }
    }
}

#[test]
fn systemd_is_notified() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let text = fs::read_to_string(file(&folder)).unwrap();
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, text.replace("127.0.0.1:1\"\nstore", "127.0.0.1:0\"\nstore")).unwrap();
    let mut command = toolwire(&["serve", "--config", &file.display().to_string()]);
    // Nothing reads the messages while the server shuts down, so the long watchdog interval keeps their number
    // small.
    let server = Server::start(command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "4000000"));
    assert!(message(&socket, "READY=1\n").contains("STATUS="));
    message(&socket, "WATCHDOG=1");
    message(&socket, "WATCHDOG=1");
    let pid = server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let reloading = message(&socket, "RELOADING=1\n");
    let at = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(at.parse::<u64>().unwrap() > 0);
    assert!(message(&socket, "READY=1\n").contains("configuration 2"));
    let (status, _) = server.stop();
    assert_eq!(status, Some(0));
    assert!(message(&socket, "STOPPING=1\n").contains("EXTEND_TIMEOUT_USEC=30000000\n"));
}
