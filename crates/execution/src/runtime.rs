//! [`Runtime`]: the thread on which hosted tools run.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
    thread,
};

use tokio::{
    runtime,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};

/// A thread with a runtime of its own, so that what a provider does cannot delay streams. Dropping it cancels everything on it.
#[derive(Debug)]
pub struct Runtime {
    handle: runtime::Handle,
    thread: Mutex<Option<RunningThread>>,
}

#[derive(Debug)]
struct RunningThread {
    /// Dropping it ends the thread.
    wanted: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Runtime {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
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

    /// Cancels everything on it, and waits until that is gone: programs are killed and values are on disk when the process ends.
    /// Work that is given to it later does not begin.
    pub(crate) fn stop(&self) {
        let running = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(RunningThread { wanted, thread }) = running else { return };
        drop(wanted);
        if thread.thread().id() != thread::current().id() {
            // An error means that the thread panicked, so it has ended too.
            let _ = thread.join();
        }
    }

    /// The runtime of the test that calls this.
    #[cfg(test)]
    pub(crate) fn here() -> Self {
        Self { handle: runtime::Handle::current(), thread: Mutex::new(None) }
    }

    /// Runs `work` there. Dropping what is returned cancels it. `None`: it panicked, or the runtime has ended.
    pub fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(self.handle.spawn(work))
    }

    /// Runs `work` there until it ends, or the runtime does.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// A place for work there that ends together.
    pub(super) fn tasks(&self) -> Tasks {
        Tasks { handle: self.handle.clone(), running: Mutex::new(Some(JoinSet::new())) }
    }
}

/// Work on a runtime that ends together.
#[derive(Debug)]
pub(super) struct Tasks {
    handle: runtime::Handle,
    /// `None`: they have ended.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    /// Runs `work` until it ends, or all do. After that it does not begin.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = &mut *running else { return };
        while running.try_join_next().is_some() {}
        running.spawn_on(work, &self.handle);
    }

    /// Cancels them. What runs may hold these tasks, so nobody ends them by letting go of them.
    pub(super) fn end(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Work on the runtime.
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
