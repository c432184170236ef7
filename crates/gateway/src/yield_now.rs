//! Yields the thread to other tasks.

use std::{pin::pin, task::Context};

/// Wakes the task again after all other ready tasks have run and the sockets have been polled. A task that wakes itself
/// directly may run about sixty times before that.
pub(super) fn yield_now(cx: &mut Context<'_>) {
    // The runtime keeps the waker, not the future.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}
