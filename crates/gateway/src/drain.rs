//! [`Drain`]: graceful shutdown of a server.
//!
//! A shutdown has four steps. First, the server only reports that it is not ready, so that load balancers send requests
//! elsewhere. Second, it refuses new requests, and closes connections without an open response. Third, open responses
//! continue until the deadline. Fourth, responses that are still open shortly before the deadline are *cut*: they end
//! with an error that gives the reason. Shutdowns usually start with a signal, see [`terminated`].

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use pin_project::pin_project;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, futures::OwnedNotified},
};

use toolwire_pipeline::failure::{Failure, Kind};

/// The state of a server's shutdown, shared by its threads and requests.
#[derive(Debug, Default)]
pub struct Drain {
    announced: Signal,
    begun: Signal,
    cut: Signal,
}

/// The failure of a request that arrives, or is still incomplete, when the server stops.
pub fn refusal() -> Failure {
    Failure::new(Kind::Draining, "toolwire is shutting down").with_retry_after("1")
}

/// An event that occurs once.
#[derive(Debug, Default)]
struct Signal {
    given: AtomicBool,
    waiting: Arc<Notify>,
}

impl Drain {
    /// Announces the shutdown. The server still serves, but reports that it is not ready.
    pub(super) fn announce(&self) {
        let _ = self.announced.give();
    }

    /// Whether load balancers should send requests.
    pub(super) fn is_ready(&self) -> bool {
        !self.announced.is_given() && self.is_serving()
    }

    /// Starts to refuse new requests.
    pub(super) fn begin(&self) {
        let _ = self.begun.give();
    }

    pub(super) fn cut(&self) {
        // Called by every thread, but logged once.
        if self.cut.give() {
            tracing::warn!("open responses are cut off");
        }
    }

    pub fn is_serving(&self) -> bool {
        !self.begun.is_given()
    }

    /// Becomes ready when [`Drain::begin`] is called.
    pub fn when_begun(&self) -> SignalFuture {
        self.begun.when_given()
    }

    /// Becomes ready when [`Drain::cut`] is called.
    pub fn when_cut(&self) -> SignalFuture {
        self.cut.when_given()
    }
}

impl Signal {
    /// Returns `true` the first time.
    fn give(&self) -> bool {
        let is_first = !self.given.swap(true, Ordering::AcqRel);
        self.waiting.notify_waiters();
        is_first
    }

    fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    fn when_given(&self) -> SignalFuture {
        let notified = Arc::clone(&self.waiting).notified_owned();
        // Checked after the registration, so that no signal in between is missed.
        SignalFuture { notified, already: self.is_given() }
    }
}

/// Waits for a step of a shutdown.
#[derive(Debug)]
#[pin_project]
pub struct SignalFuture {
    #[pin]
    notified: OwnedNotified,
    already: bool,
}

impl Future for SignalFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if *this.already {
            return Poll::Ready(());
        }
        let notified = this.notified.poll(cx);
        *this.already = notified.is_ready();
        notified
    }
}

/// Listens for SIGTERM and SIGINT. The returned future becomes ready after `times` such signals. Must be called inside
/// a runtime.
///
/// # Errors
/// If no listener can be installed.
pub fn terminated(times: usize) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        for _ in 0..times {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn cut_is_seen_by_futures_made_before_and_after_it() {
        let drain = Drain::default();
        let before = drain.when_cut();
        drain.begin();
        assert!(!drain.is_serving());
        assert!(drain.when_cut().now_or_never().is_none());
        drain.cut();
        before.await;
        drain.when_cut().await;
    }
}
