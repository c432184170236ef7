//! [`block_on`]: runs the asynchronous part of a command.

use std::io;

use tokio::runtime::Builder;

/// Runs `work` on a new runtime. Returns without waiting for tasks that are still running, such as a DNS lookup.
pub(super) fn block_on<T>(mut runtime: Builder, work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = runtime.enable_all().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}
