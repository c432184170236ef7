//! [`Runtime`]: the thread on which hosted tools run.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    thread,
};

use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};

/// A thread with its own runtime, so that hosted tools cannot delay streams. Dropping it cancels everything that runs
/// on it.
#[derive(Debug)]
pub struct Runtime {
    handle: runtime::Handle,
    thread: Mutex<Option<RunningThread>>,
}

#[derive(Debug)]
struct RunningThread {
    /// Dropping the sender ends the thread.
    wanted: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Runtime {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (wanted, unwanted) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("toolwire-tools".into()).spawn(move || {
            // An error means that the sender was dropped.
            let _ = runtime.block_on(unwanted);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, thread: Mutex::new(Some(RunningThread { wanted, thread })) })
    }

    /// Cancels everything on the runtime, and waits for it to end, so that programs are killed and values written
    /// before the process ends. Work that is spawned later never starts.
    pub(crate) fn stop(&self) {
        let running = self.thread.lock().take();
        let Some(RunningThread { wanted, thread }) = running else { return };
        drop(wanted);
        if thread.thread().id() != thread::current().id() {
            // An error means that the thread has panicked.
            let _ = thread.join();
        }
    }

    /// The runtime of the current test.
    #[cfg(test)]
    pub(crate) fn here() -> Self {
        Self { handle: runtime::Handle::current(), thread: Mutex::new(None) }
    }

    /// Runs `work` on the runtime. Dropping the returned task cancels it. The output is `None` if `work` panics or the
    /// runtime ends first.
    pub fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(self.handle.spawn(work))
    }

    /// Runs `work` on the runtime, at most until the runtime ends.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    pub(super) fn tasks(&self) -> Tasks {
        Tasks { handle: self.handle.clone(), running: Mutex::new(Some(JoinSet::new())) }
    }
}

/// Tasks that are cancelled together.
#[derive(Debug)]
pub(super) struct Tasks {
    handle: runtime::Handle,
    /// `None` after they were cancelled.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    /// Runs `work` until it ends or the group is cancelled. Does nothing if the group was already cancelled.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock();
        let Some(running) = &mut *running else { return };
        while running.try_join_next().is_some() {}
        running.spawn_on(work, &self.handle);
    }

    /// Cancels the tasks. Not done on drop, because a running task may own this handle.
    pub(super) fn end(&self) {
        drop(self.running.lock().take());
    }
}

#[derive(Debug)]
pub struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
