//! A `toolwire serve` that a bench starts, and that stops with the bench.

#![allow(unreachable_pub, reason = "each bench has it as a module of its own")]

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
};

pub struct Serve {
    pub child: Child,
    pub address: SocketAddr,
}

impl Serve {
    /// Starts the server on a free port. `config` is the text of its configuration.
    pub fn start(config: &str) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("toolwire.toml");
        fs::write(&file, config)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
        command.args(["serve", "--config"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut said = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            if said.read_line(&mut line)? == 0 {
                return Err("toolwire ended before it listened".into());
            }
            if let Some((_, address)) = line.split_once("listens on http://") {
                break address.trim().parse()?;
            }
        };
        // The log must be read, or the server would block.
        thread::spawn(move || said.lines().for_each(drop));
        Ok(Self { child, address })
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
