//! Raises the limit of open files: each stream needs one socket, or two in a proxy.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard limit, for this process and its children. The usual soft limit of 1,024
/// protects programs that use `select`, which toolwire does not.
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
