//! [`Drain`]: how a server stops.
//!
//! Three steps: no new requests, and connections without an open answer are closed; open answers go on until the
//! deadline; what is still open shortly before it is *cut*, which means that it ends with an error that says so. Signals are the usual reason: [`terminated`].

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

use crate::failure::{Failure, Kind};

/// How far a server has stopped. Shared by its threads and their requests.
#[derive(Debug, Default)]
pub(super) struct Drain {
    begun: Signal,
    cut: Signal,
}

/// What a request is told that comes, or is not whole, when the server stops.
pub(super) fn refusal() -> Failure {
    Failure::new(Kind::Draining, "toolwire is being stopped").with_retry_after("1")
}

/// Something that happens once.
#[derive(Debug, Default)]
struct Signal {
    given: AtomicBool,
    waiting: Arc<Notify>,
}

impl Drain {
    /// No new requests.
    pub(super) fn begin(&self) {
        let _ = self.begun.give();
    }

    /// Open answers end now.
    pub(super) fn cut(&self) {
        // Each thread cuts its own; one of them says it for all.
        if self.cut.give() {
            tracing::warn!("open answers are cut off");
        }
    }

    /// Whether new requests are still taken.
    pub(super) fn is_serving(&self) -> bool {
        !self.begun.is_given()
    }

    /// Becomes ready with [`Drain::begin`].
    pub(super) fn when_begun(&self) -> SignalFuture {
        self.begun.when_given()
    }

    /// Becomes ready with [`Drain::cut`].
    pub(super) fn when_cut(&self) -> SignalFuture {
        self.cut.when_given()
    }
}

impl Signal {
    /// Gives the signal; `true` for the first time.
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
        // Looked at after asking to be notified: a signal in between is seen one way or the other.
        SignalFuture { notified, already: self.is_given() }
    }
}

/// A step of a [`Drain`] that is waited for.
#[derive(Debug)]
#[pin_project]
pub(super) struct SignalFuture {
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

/// Hears SIGTERM and SIGINT from now on; what it gives is ready when `times` of them have come. Called inside a
/// runtime.
///
/// # Errors
/// If the signals cannot be listened for.
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
    async fn a_cut_is_seen_by_those_before_and_after_it() {
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
