//! [`Program`]: a program that runs for a provider, and [`Process`], one that is running.
//!
//! A program is started without a shell, in an environment that has only the variables that the settings name. It is the leader of
//! a process group of its own, and the whole group is killed when its [`Process`] is dropped. So neither a cancelled call nor a
//! program that starts others leaves anything behind.

use std::{collections::BTreeMap, io, process::Stdio};

use secrecy::ExposeSecret;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use toolwire_pipeline::settings::{Field, Key, Settings, TableText, names_secret};

/// How a program is started.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Names of variables that it gets from toolwire's environment.
    environment: Vec<String>,
    /// Variables with their values.
    pub(crate) env: BTreeMap<String, TableText>,
    /// The folder in which it runs.
    working_dir: Option<String>,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            environment: ["PATH", "HOME", "LANG"].map(str::to_owned).into(),
            env: BTreeMap::new(),
            working_dir: None,
        }
    }
}

impl Program {
    /// The keys. `command` says what the key of that name means.
    pub(crate) fn settings(&mut self, keys: &mut dyn Settings, command: Key) {
        keys.key(command.file_only(), Field::Texts(&mut self.command));
        keys.key(
            Key::new("environment", "variables that the program gets from toolwire's environment")
                .file_only(),
            Field::Texts(&mut self.environment),
        );
        keys.key(
            Key::new("env", "further variables; secrets as `\"env:NAME\"` or `\"file:PATH\"`")
                .or(" ")
                .file_only(),
            Field::TextTable(&mut self.env, names_secret),
        );
        keys.key(
            Key::new("working_dir", "the folder in which the program runs")
                .or("that of toolwire")
                .file_only(),
            Field::OptionalText(&mut self.working_dir),
        );
    }

    /// The values that the program gets and that must not be seen elsewhere.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.env.values().filter_map(TableText::as_secret).map(ExposeSecret::expose_secret)
    }

    /// Starts it with `arguments` in place of those of the settings.
    ///
    /// # Errors
    /// If the system refuses.
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

/// A program that was started. Dropping `group` or `child` ends it.
#[derive(Debug)]
pub(crate) struct Process {
    /// It, and all that it has started.
    pub(crate) group: Group,
    /// It.
    pub(crate) child: Child,
    /// Its input.
    pub(crate) stdin: ChildStdin,
    /// Its output.
    pub(crate) stdout: ChildStdout,
    /// Its messages.
    pub(crate) stderr: ChildStderr,
}

/// A process group. It is killed on drop.
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

    /// Kills all its processes. This can be done while or immediately after waiting for the leader: as long as a process of the
    /// group lives, its id is not given to another group.
    pub(crate) fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader.take() {
            // An error means that no process of the group is left.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
