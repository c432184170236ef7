//! Runs a Redis or Valkey server, or a cluster of them, on free local ports.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The names under which the program may be installed.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The pause between two polls of a starting server, and the maximum number of polls.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: usize = 1000;

/// A running server, which is killed when the test ends. Acknowledged writes are saved in its folder.
pub(crate) struct RedisServer {
    program: &'static str,
    child: Child,
    port: u16,
    options: Vec<String>,
    folder: tempfile::TempDir,
}

impl RedisServer {
    /// Starts a server. Returns `None` if the program is not installed, so that the test is skipped; on CI, it must
    /// be installed.
    ///
    /// # Errors
    /// The server does not start.
    pub(crate) fn start() -> io::Result<Option<Self>> {
        Self::start_with(&[])
    }

    /// Starts a server with additional command-line options.
    ///
    /// # Errors
    /// See [`RedisServer::start`].
    pub(crate) fn start_with(options: &[&str]) -> io::Result<Option<Self>> {
        let is_there = |program: &&&str| {
            let version = Command::new(**program).arg("--version").stdout(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        let Some(program) = PROGRAMS.iter().find(is_there) else {
            if std::env::var_os("CI").is_some() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "CI needs redis-server"));
            }
            eprintln!("skipped: there is no redis-server on this machine");
            return Ok(None);
        };
        let (port, folder) = (free_port()?, tempfile::tempdir()?);
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        let child = run(program, port, &options, folder.path())?;
        Ok(Some(Self { program, child, port, options, folder }))
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sends a command whose arguments need no quoting. Returns an empty string if there is no answer.
    pub(crate) fn said(&self, command: &str) -> String {
        said(self.port, command).unwrap_or_default()
    }

    /// Kills the server with SIGKILL, so that it cannot finish anything.
    ///
    /// # Errors
    /// The server cannot be killed.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Restarts the server with the data that it has saved.
    ///
    /// # Errors
    /// The server does not start.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.child = run(self.program, self.port, &self.options, self.folder.path())?;
        Ok(())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // The test may already have killed the server.
        let _ = self.kill();
    }
}

/// Sends the server on `port` a command whose arguments need no quoting, and returns its answer.
///
/// # Errors
/// The server does not answer.
pub(crate) fn said(port: u16, command: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(socket, "{command}\r\n")?;
    // At the end of the input, the server answers and closes the connection.
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).map(|_| answer)
}

/// The number of hash slots in a cluster.
const SLOTS: usize = 1 << 14;

/// A cluster that spreads the slots evenly over its primary servers.
pub(crate) struct RedisCluster {
    pub(crate) servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster of `primaries` primary servers and one more server without slots. Returns `None` under the
    /// same condition as [`RedisServer::start`].
    ///
    /// # Errors
    /// The cluster does not start.
    pub(crate) fn start(primaries: usize) -> io::Result<Option<Self>> {
        let mut servers = Vec::new();
        for _ in 0..=primaries {
            let Some(server) = start_of_cluster()? else { return Ok(None) };
            servers.push(server);
        }
        let cluster = Self { servers };
        for (number, server) in cluster.servers.iter().enumerate() {
            let (first, end) = (SLOTS * number / primaries, SLOTS * (number + 1) / primaries);
            if number < primaries {
                expect_ok(server, &format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1))?;
            }
            expect_ok(server, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1))?;
        }
        let Some((first, others)) = cluster.servers.split_first() else { return Ok(None) };
        for other in others {
            expect_ok(first, &format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, bus_of(other)))?;
        }
        for server in &cluster.servers {
            // A node's line ends with `connected` and, if it has any, its slots.
            let count = |nodes: &str, state: &str| nodes.lines().filter(|line| line.contains(state)).count();
            cluster.until(server, |nodes| {
                count(nodes, " connected") > primaries && count(nodes, " connected ") >= primaries
            })?;
        }
        Ok(Some(cluster))
    }

    /// Returns a URL that lists two of the servers.
    pub(crate) fn url(&self) -> String {
        let hosts = self.servers.iter().take(2).map(|server| format!("127.0.0.1:{}", server.port));
        format!("redis+cluster://{}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Waits until the server reports that the cluster works and `is_so` accepts its `CLUSTER NODES` output.
    ///
    /// # Errors
    /// The output is not accepted in time.
    pub(crate) fn until(&self, server: &RedisServer, is_so: impl Fn(&str) -> bool) -> io::Result<()> {
        for _ in 0..PAUSES {
            let nodes = server.said("CLUSTER NODES");
            if server.said("CLUSTER INFO").contains("cluster_state:ok") && is_so(&nodes) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, server.said("CLUSTER NODES")))
    }
}

/// Sends a command that must be answered with `OK`.
///
/// # Errors
/// The answer is something else.
pub(crate) fn expect_ok(server: &RedisServer, command: &str) -> io::Result<()> {
    let answer = server.said(command);
    let refused = || io::Error::other(format!("{command}: {answer}"));
    if answer.starts_with("+OK") { Ok(()) } else { Err(refused()) }
}

fn start_of_cluster() -> io::Result<Option<RedisServer>> {
    let bus = free_port()?.to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
    let bus = ["--cluster-port", &bus, "--cluster-require-full-coverage", "no"];
    RedisServer::start_with(&[options, bus].concat())
}

/// The port on which the server talks to other servers of the cluster.
fn bus_of(server: &RedisServer) -> &str {
    let at = server.options.iter().position(|option| option == "--cluster-port");
    at.and_then(|at| server.options.get(at + 1)).map_or("", String::as_str)
}

/// Returns a free local port.
///
/// # Errors
/// There is no free port.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn run(program: &str, port: u16, options: &[String], folder: &Path) -> io::Result<Child> {
    let port = port.to_string();
    let arguments = [
        "--bind",
        "127.0.0.1",
        "--port",
        &port,
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    let mut command = Command::new(program);
    command
        .args(arguments)
        .args(options)
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn()?;
    for _ in 0..PAUSES {
        if answers(&port).unwrap_or(false) {
            return Ok(child);
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "redis-server does not answer"))
}

fn answers(port: &str) -> io::Result<bool> {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    socket.read_exact(&mut answer)?;
    Ok(&answer == b"+PONG")
}
