//! [`Child`]: a mock or proxy that the bench runs as a child process.
//!
//! Each has its own process, so that the proxy's CPU time and memory can be measured.

use std::{
    env,
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write},
    process::{self, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long a child may take to print its address.
const START: Duration = Duration::from_secs(20);

/// A server process, killed on drop.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    pub(super) address: String,
}

impl Child {
    /// Runs this executable with `arguments`, listening on a free port and with `input` on stdin, and waits until it
    /// listens. The child does not inherit `TOOLWIRE_*` variables.
    pub(super) fn start<A>(arguments: impl IntoIterator<Item = A>, input: &str) -> io::Result<Self>
    where
        A: AsRef<OsStr>,
    {
        let mut command = Command::new(env::current_exe()?);
        let settings = env::vars_os().map(|(name, _)| name);
        let settings = settings.filter(|name| name.as_encoded_bytes().starts_with(b"TOOLWIRE_"));
        settings.for_each(|name| _ = command.env_remove(name));
        command.args(arguments).args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let (ears, said) = (process.stdin.take(), process.stderr.take());
        let mut child = Self { process, address: String::new() };
        if let Some(mut ears) = ears {
            ears.write_all(input.as_bytes())?;
        }
        let (tell, told) = mpsc::channel();
        // Keep reading stderr: if the pipe filled up, the child would block.
        thread::spawn(move || {
            for line in said.into_iter().flat_map(|said| BufReader::new(said).lines()).map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut said = Vec::new();
        while let Ok(line) = told.recv_timeout(START) {
            if let Some(address) = address(&line) {
                child.address = address.to_owned();
                return Ok(child);
            }
            said.push(line);
        }
        Err(io::Error::other(format!("the toolwire process did not start: {}", said.join("\n"))))
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Extracts the scheme, host and port from a line of a server's announcement.
fn address(line: &str) -> Option<&str> {
    const SCHEME: &str = "http://";
    let found = line.get(line.find(SCHEME)?..)?;
    let end = found.get(SCHEME.len()..)?.find(['/', ',', ' ', '"', ';']).map(|end| end + SCHEME.len());
    found.get(..end.unwrap_or(found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_tells_the_address() {
        for (line, told) in [
            ("listening on http://127.0.0.1:8788/v1", Some("http://127.0.0.1:8788")),
            ("toolwire 0.1.0 listens on http://127.0.0.1:81, http://[::1]:82", Some("http://127.0.0.1:81")),
            ("listens on http://[::1]:82", Some("http://[::1]:82")),
            ("nothing", None),
        ] {
            assert_eq!(address(line), told);
        }
    }
}
