//! [`Queue`]: how many requests an upstream has open, and how many wait for their turn.
//!
//! A [`Permit`] lives as long as the answer's body, not as its handler: a stream counts until its last byte.

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

/// Seconds after which a refused client may come again.
const RETRY_AFTER: &str = "1";

/// A place at an upstream; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _place: OwnedSemaphorePermit,
}

/// The places of one upstream and the line before them. First come, first served.
#[derive(Debug)]
pub(super) struct Queue {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    limits: QueueLimits,
    gauge: Gauge,
}

impl Queue {
    /// An empty line; `gauge` shows how many wait.
    pub(super) fn new(limits: QueueLimits, gauge: Gauge) -> Self {
        let places = Arc::new(Semaphore::new(limits.max_concurrent.min(Semaphore::MAX_PERMITS)));
        Self { places, waiting: AtomicUsize::new(0), limits, gauge }
    }

    /// Takes a place, at once or after waiting. Dropping the future leaves the line.
    ///
    /// # Errors
    /// [`Kind::RateLimit`] if the line is full, or the place does not come in time.
    pub(super) async fn enter(&self) -> Result<Permit, Failure> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Permit { _place: place });
        }
        let _waiting = self.line_up()?;
        match timeout(self.limits.wait_timeout, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(Permit { _place: place }),
            Ok(Err(_closed)) => Err(Failure::new(Kind::Internal, "the upstream's line was closed")),
            Err(_elapsed) => Err(busy(format!(
                "all {} places at the upstream stayed taken for {:?}",
                self.limits.max_concurrent, self.limits.wait_timeout
            ))),
        }
    }

    fn line_up(&self) -> Result<Waiting<'_>, Failure> {
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
    Failure::new(Kind::RateLimit, message).with_retry_after(RETRY_AFTER)
}

/// Counted as waiting until dropped.
struct Waiting<'a> {
    line: &'a Queue,
    ahead: usize,
}

impl<'a> Waiting<'a> {
    fn new(line: &'a Queue) -> Self {
        line.gauge.inc();
        Self { line, ahead: line.waiting.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.line.gauge.dec();
        self.line.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{FutureExt, pin_mut};

    use super::*;

    fn line(max_concurrent: usize, max_waiting: usize) -> Queue {
        let limits = QueueLimits { max_concurrent, max_waiting, wait_timeout: Duration::from_secs(1) };
        Queue::new(limits, Gauge::default())
    }

    #[tokio::test(start_paused = true)]
    async fn waits_then_enters_when_a_place_is_given_back() {
        let line = line(1, 1);
        let first = line.enter().await.unwrap();
        let second = line.enter();
        pin_mut!(second);
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(line.gauge.get(), 1);
        drop(first);
        second.await.unwrap();
        assert_eq!(line.gauge.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_line_refuses_at_once_and_keeps_its_count() {
        let line = line(1, 1);
        let _first = line.enter().await.unwrap();
        {
            let second = line.enter();
            pin_mut!(second);
            assert!((&mut second).now_or_never().is_none());
            let refused = line.enter().now_or_never().unwrap().unwrap_err();
            assert_eq!((refused.status(), refused.retry_after()), (429, Some(RETRY_AFTER)));
        }
        assert_eq!(line.waiting.load(Ordering::Relaxed), 0, "whoever leaves the line is not counted");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_an_end() {
        let line = line(1, 1);
        let _first = line.enter().await.unwrap();
        assert_eq!(line.enter().await.unwrap_err().kind(), Kind::RateLimit);
    }
}
