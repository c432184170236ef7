//! The limit of open files: a stream needs one socket, and two through a proxy.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's soft limit of open files to the hard limit, also for its children. The usual soft limit of
/// 1,024 exists for programs that use `select`.
pub(super) fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // If the limit cannot be raised, connections beyond it fail with an error that says so.
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => {
            tracing::debug!(before = limit.current, now = limit.maximum, "raised the limit of open files")
        }
        Err(error) => tracing::debug!(before = limit.current, %error, "cannot raise the limit of open files"),
    }
}
