//! [`SessionError`]: why a session cannot be read, written, refreshed or ended.

use std::{error::Error, io, path::PathBuf};

pub(super) type AnyError = Box<dyn Error + Send + Sync>;

/// Why a session cannot be read, written, refreshed or ended. The message may name files but contains no secrets.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The session's file or its lock file cannot be used. The first field is a verb.
    #[error("cannot {0} {path}: {2}", path = .1.display())]
    File(&'static str, PathBuf, #[source] io::Error),
    /// Another process is refreshing the session.
    #[error("another process has locked {} for too long", .0.display())]
    Locked(PathBuf),
    /// The file cannot be read, or does not contain a session.
    #[error("the session in {path}: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] AnyError),
    /// There is neither a file nor a configured session.
    #[error("there is no session; log in and write it to {}", .0.display())]
    Missing(PathBuf),
    /// The session has new tokens that could not be written to the file.
    #[error("the new tokens could not be written, and the old ones are spent: log in again")]
    Unsaved,
    #[error("logged out: {0}; log in, and write the new session")]
    LoggedOut(#[source] AnyError),
    #[error(transparent)]
    NotRefreshed(AnyError),
}
