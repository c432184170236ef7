//! Whose turn it is on a thread.

use std::{pin::pin, task::Context};

/// Wakes the task again, after all others that are ready, and after the sockets have been looked at: a task that wakes
/// itself is run some sixty times before that.
pub(super) fn yield_now(cx: &mut Context<'_>) {
    // The runtime keeps the waker, not the future.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}
