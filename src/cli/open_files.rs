//! The limit of open files: a stream is a socket at least, and through a proxy it is two.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit of open files as far as it may be raised, for what it starts too. The usual limit of
/// 1,024 is for programs that wait for sockets in ways of old.
pub(super) fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where it cannot be raised, connections beyond it fail and say why.
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(before = limit.current, now = limit.maximum, "open files allowed"),
        Err(error) => tracing::debug!(before = limit.current, %error, "no more open files allowed"),
    }
}
