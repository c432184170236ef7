//! [`Command`]: a command for the server that has its keys. [`Failure`]: why a command has no answer.

use redis::{Cmd, ErrorKind, Pipeline, RedisError, Script, ScriptInvocation, ServerErrorKind};

use super::{super::StoreError, slots::Slot};

/// A command whose keys are all in the same slot.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) slot: Slot,
    pub(super) command: Cmd,
    pub(super) script: Option<&'static Script>,
}

impl Command {
    /// Creates a command such as `GET` from its name, its key and further arguments.
    pub(super) fn new(name: &str, key: &[u8], arguments: impl FnOnce(&mut Cmd)) -> Self {
        let mut command = redis::cmd(name);
        command.arg(key);
        arguments(&mut command);
        Self { slot: Slot::of(key), command, script: None }
    }

    /// Creates a command that runs a script. All keys of the script must be in the slot of `key`.
    pub(super) fn script(script: &'static Script, key: &str, invocation: &ScriptInvocation<'_>) -> Self {
        let mut commands = Pipeline::new();
        commands.invoke_script(invocation);
        let command = commands.cmd_iter().next().cloned().unwrap_or_default();
        Self { slot: Slot::of(key.as_bytes()), command, script: Some(script) }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Failure {
    /// The command did not run: the server is unreachable, rejects it, or does not have the keys at the moment.
    #[error(transparent)]
    Refused(ServerError),
    /// The command may have run: the connection broke, or the answer did not arrive in time.
    #[error(transparent)]
    Unknown(ServerError),
    /// The command cannot run with the value that the key has.
    #[error(transparent)]
    Unfit(ServerError),
}

/// What went wrong with a server.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ServerError {
    #[error("the server is away")]
    Away,
    #[error("its keys are on their way between servers")]
    KeysMoving,
    #[error("there is no answer")]
    NoAnswer,
    #[error("an answer is missing")]
    AnswerMissing,
    #[error("it knows of no slots")]
    NoSlots,
    #[error(
        "it is one server of a cluster, which has only some of the keys ({0}); \"redis+cluster://…\" names a cluster"
    )]
    OneOfCluster(#[source] RedisError),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl From<Failure> for ServerError {
    fn from(failure: Failure) -> Self {
        let (Failure::Refused(error) | Failure::Unknown(error) | Failure::Unfit(error)) = failure;
        error
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        Self::new(ServerError::from(failure))
    }
}

/// The error that a server returned for a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    /// Another server has the slot.
    Moved,
    /// The slot is being moved. The server at this address already has the keys.
    Ask(String),
    /// Some of the keys are being moved.
    TryAgain,
    /// The server does not know the script yet.
    NoScript,
    /// The key holds a value of a different type.
    Unfit,
    /// The server does not accept such commands at the moment.
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
            // Either a script added to a value that is not a number, or an older server reports the error of a command
            // in a script as text.
            ServerErrorKind::ResponseError => {
                let detail = error.detail().unwrap_or_default();
                let is_unfit = ["WRONGTYPE", "not an integer"].iter().any(|words| detail.contains(words));
                if is_unfit { Self::Unfit } else { Self::Refused }
            }
            _ => Self::Refused,
        }
    }
}
