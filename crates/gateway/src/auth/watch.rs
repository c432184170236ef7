//! [`Watch`]: a thread that checks the file of keys and saves the usage of clients, both of which may block on the
//! disk.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::Shared;
use crate::stamp::unix_time;

const INTERVAL: Duration = Duration::from_secs(2);

/// Dropping it ends the thread once everything is saved.
#[derive(Debug)]
pub(super) struct Watch {
    /// Dropping this sender ends the thread. Nothing is sent through it.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let work = move || {
            while stopped.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                shared.tick(unix_time());
            }
            shared.ledger.save(unix_time());
        };
        let thread = thread::Builder::new().name("toolwire-keys".into()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // An error means that the thread panicked, so it has ended too.
            let _ = thread.join();
        }
    }
}
