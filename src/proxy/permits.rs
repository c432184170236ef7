//! [`Queue`]: limits how many requests an upstream has open, and how many wait.
//!
//! A [`Permit`] lives as long as the response's body, not as long as its handler: a stream counts until its last byte.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    config::QueueLimits,
    failure::{Failure, Kind},
};

/// Seconds after which a refused client may try again.
const RETRY_AFTER: &str = "1";

/// Permission for one open request at an upstream; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _place: OwnedSemaphorePermit,
}

/// The permits of one upstream, and the queue for them, in order of arrival.
#[derive(Debug)]
pub(super) struct Queue {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    limits: QueueLimits,
    gauge: Gauge,
}

impl Queue {
    /// An empty queue. `gauge` shows how many requests wait.
    pub(super) fn new(limits: QueueLimits, gauge: Gauge) -> Self {
        let places = Arc::new(Semaphore::new(limits.max_concurrent.min(Semaphore::MAX_PERMITS)));
        Self { places, waiting: AtomicUsize::new(0), limits, gauge }
    }

    /// Takes a permit, at once or after waiting. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`Kind::RateLimit`] if the queue is full, or no permit is free in time.
    pub(super) async fn enter(&self) -> Result<Permit, Failure> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Permit { _place: place });
        }
        let waiting = self.join()?;
        self.wait(waiting).await
    }

    /// As [`Queue::enter`], for another hop of a response in progress: it waits for its turn like every other request,
    /// but the queue is never too full for it.
    ///
    /// # Errors
    /// [`Kind::RateLimit`] if no permit is free in time.
    pub(super) async fn enter_again(&self) -> Result<Permit, Failure> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Permit { _place: place });
        }
        self.wait(Waiting::new(self)).await
    }

    async fn wait(&self, _waiting: Waiting<'_>) -> Result<Permit, Failure> {
        match timeout(self.limits.wait_timeout, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Permit { _place: place }),
            Ok(Err(_closed)) => Err(Failure::new(Kind::Internal, "the upstream's queue was closed")),
            Err(_elapsed) => Err(busy(format!(
                "all {} places at the upstream stayed taken for {:?}",
                self.limits.max_concurrent, self.limits.wait_timeout
            ))),
        }
    }

    fn join(&self) -> Result<Waiting<'_>, Failure> {
        let waiting = Waiting::new(self);
        if waiting.ahead >= self.limits.max_waiting {
            return Err(busy(format!(
                "all {} places at the upstream are taken and {} requests wait",
                self.limits.max_concurrent, waiting.ahead
            )));
        }
        Ok(waiting)
    }
}

fn busy(message: String) -> Failure {
    Failure::new(Kind::RateLimit, message).with_retry_after(RETRY_AFTER).unasked()
}

/// Counted as waiting until dropped.
struct Waiting<'a> {
    queue: &'a Queue,
    ahead: usize,
}

impl<'a> Waiting<'a> {
    fn new(queue: &'a Queue) -> Self {
        queue.gauge.inc();
        Self { queue, ahead: queue.waiting.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.gauge.dec();
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{FutureExt, pin_mut};

    use super::*;

    fn queue(max_concurrent: usize, max_waiting: usize) -> Queue {
        let limits = QueueLimits { max_concurrent, max_waiting, wait_timeout: Duration::from_secs(1) };
        Queue::new(limits, Gauge::default())
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_request_gets_the_permit_that_is_given_back() {
        let queue = queue(1, 1);
        let first = queue.enter().await.unwrap();
        let second = queue.enter();
        pin_mut!(second);
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(queue.gauge.get(), 1);
        drop(first);
        second.await.unwrap();
        assert_eq!(queue.gauge.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_refuses_at_once_and_keeps_its_count() {
        let queue = queue(1, 1);
        let _first = queue.enter().await.unwrap();
        {
            let second = queue.enter();
            pin_mut!(second);
            assert!((&mut second).now_or_never().is_none());
            let refused = queue.enter().now_or_never().unwrap().unwrap_err();
            assert_eq!((refused.status(), refused.retry_after()), (429, Some(RETRY_AFTER)));
        }
        assert_eq!(queue.waiting.load(Ordering::Relaxed), 0, "a dropped future still counts as waiting");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_times_out() {
        let queue = queue(1, 1);
        let _first = queue.enter().await.unwrap();
        assert_eq!(queue.enter().await.unwrap_err().kind(), Kind::RateLimit);
    }
}
