//! [`Program`]: how to start a program for a provider. [`Process`]: a running program.
//!
//! A program is started without a shell, with only the environment variables that the settings name. It leads its own
//! process group, which is killed when its [`Process`] is dropped. So no processes remain after a call is cancelled,
//! even if the program has started others.

use std::{collections::BTreeMap, io, process::Stdio};

use secrecy::ExposeSecret;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use toolwire_pipeline::settings::{Settings, TableText};

/// Settings for starting a program.
#[derive(Debug, Clone, Settings)]
pub(crate) struct Program {
    /// The program and its arguments. Each kind of provider describes the key.
    #[setting(skip)]
    pub(crate) command: Vec<String>,
    /// variables that the program gets from toolwire's environment
    #[setting(default = ["PATH", "HOME", "LANG"].map(str::to_owned).into(), file_only)]
    environment: Vec<String>,
    /// further variables; secrets as `"env:NAME"` or `"file:PATH"`
    #[setting(or = " ", file_only)]
    pub(crate) env: BTreeMap<String, TableText>,
    /// the folder in which the program runs
    #[setting(or = "that of toolwire", file_only)]
    working_dir: Option<String>,
}

impl Program {
    /// The secrets that are passed to the program. They must not appear anywhere else.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.env.values().filter_map(TableText::as_secret).map(ExposeSecret::expose_secret)
    }

    /// Starts the program with `arguments` in place of the configured ones.
    ///
    /// # Errors
    /// The system cannot start the program.
    pub(crate) fn spawn<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> io::Result<Process> {
        let program = self.command.first().ok_or(io::ErrorKind::NotFound)?;
        let is_named = |name: &std::ffi::OsStr| self.environment.iter().any(|own| **own == *name);
        let inherited = std::env::vars_os().filter(|(name, _)| is_named(name));
        let own = self.env.iter().map(|(name, value)| (name, value.expose_secret()));
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(inherited)
            .envs(own)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        if let Some(folder) = &self.working_dir {
            command.current_dir(folder);
        }
        let mut child = command.spawn()?;
        let group = Group::of(&child);
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Process { group, child, stdin, stdout, stderr }),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// A running program. Dropping it kills the program.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) group: Group,
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// A process group, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
    #[cfg(unix)]
    fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        Self { leader }
    }

    #[cfg(not(unix))]
    fn of(_: &Child) -> Self {
        Self {}
    }

    /// Kills all processes in the group. Safe even if the leader was already waited for: the group's id is not reused
    /// while one of its processes is alive.
    pub(crate) fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader.take() {
            // An error means that no process is left in the group.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
