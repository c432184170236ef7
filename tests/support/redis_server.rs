//! A Redis or Valkey server of a test, on a free port of this machine.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The names that the program may have.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// How often a server that starts is asked whether it answers, and how long in all.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: usize = 1000;

/// A running server, which is killed at the end of the test. What it has acknowledged is in its folder.
pub(crate) struct RedisServer {
    program: &'static str,
    child: Child,
    port: u16,
    options: Vec<String>,
    folder: tempfile::TempDir,
}

impl RedisServer {
    /// Starts a server. `None`: there is no program on this machine, and the test is skipped; in CI there must be one.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start() -> io::Result<Option<Self>> {
        Self::start_with(&[])
    }

    /// Starts a server with further options of its command line.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
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

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Kills it at once, without letting it finish anything.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Starts it again, with what it had.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.child = run(self.program, self.port, &self.options, self.folder.path())?;
        Ok(())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.kill();
    }
}

/// A port of this machine that nothing uses.
///
/// # Errors
/// There is none.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts the program, and waits until it answers.
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
