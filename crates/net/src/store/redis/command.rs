//! [`Command`]: what is asked of the server that has a key, and [`Failure`]: why it has not answered.

use std::fmt;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, Script, ScriptInvocation, ServerErrorKind};

use super::{super::StoreError, slots::Slot};

/// A command for keys that are all in one slot.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) slot: Slot,
    pub(super) command: Cmd,
    /// The script that it runs.
    pub(super) script: Option<&'static Script>,
}

impl Command {
    /// A command such as `GET`, with its key and further arguments.
    pub(super) fn new(name: &str, key: &[u8], arguments: impl FnOnce(&mut Cmd)) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        arguments(&mut command);
        Self { slot: Slot::of(key), command, script: None }
    }

    /// Runs a script whose keys are in the slot of `key`.
    pub(super) fn script(script: &'static Script, key: &str, invocation: &ScriptInvocation<'_>) -> Self {
        let mut commands = Pipeline::new();
        commands.invoke_script(invocation);
        let command = commands.cmd_iter().next().cloned().unwrap_or_default();
        Self { slot: Slot::of(key.as_bytes()), command, script: Some(script) }
    }
}

/// Why there is no answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It has not run: the server is away, refuses it, or does not have the keys now.
    Refused(String),
    /// It may have run: the connection broke, or the answer did not come in time.
    Unknown(String),
    /// It cannot run as long as the key holds what it does.
    Unfit(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(reason) | Self::Unknown(reason) | Self::Unfit(reason)) = self;
        f.write_str(reason)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::new(failure.to_string())
    }
}

/// What the error means that a server answers to a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    /// Another server has the slot.
    Moved,
    /// The slot is on its way to the server of this address, which has the keys already.
    Ask(String),
    /// Some of the keys are on their way.
    TryAgain,
    /// It must be given the script.
    NoScript,
    /// The key holds something else.
    Unfit,
    /// The server takes none of these commands now.
    Refused,
}

impl Complaint {
    pub(super) fn of(error: &RedisError) -> Self {
        let ErrorKind::Server(kind) = error.kind() else {
            return if error.code() == Some("WRONGTYPE") { Self::Unfit } else { Self::Refused };
        };
        match kind {
            ServerErrorKind::Moved => Self::Moved,
            ServerErrorKind::Ask => {
                error.redirect_node().map_or(Self::Refused, |(node, _)| Self::Ask(node.to_owned()))
            }
            ServerErrorKind::TryAgain => Self::TryAgain,
            ServerErrorKind::NoScript => Self::NoScript,
            // Scripts add to a number that is none, or older servers put the error of a script's command into a text.
            ServerErrorKind::ResponseError => {
                let detail = error.detail().unwrap_or_default();
                let is_unfit = ["WRONGTYPE", "not an integer"].iter().any(|words| detail.contains(words));
                if is_unfit { Self::Unfit } else { Self::Refused }
            }
            _ => Self::Refused,
        }
    }
}
