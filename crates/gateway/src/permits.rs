//! [`Queue`]: limits how many requests to an upstream are open, and how many are waiting.
//!
//! A [`Permit`] lives as long as the response's body, not just its handler: a stream counts until its last byte.
//!
//! While requests wait, no client gets more than its share. A slot that becomes free goes to the client that holds the
//! fewest slots, and if too many requests wait, a request from the client with the most slots and waiting requests is
//! refused. If a client does not read its response while others wait for the slot ([`Permit::is_wanted`]), the response
//! ends: the upstream is still working on it, so the slot cannot be given to another request in the meantime.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{sync::oneshot, time::timeout};

use toolwire_config::QueueLimits;
use toolwire_net::store::Owner;
use toolwire_pipeline::failure::{Failure, Kind};

/// Seconds after which a refused client may retry.
const RETRY_AFTER: &str = "1";

/// How long a client that does not read may hold a slot for which others wait. The time is shorter if the waiting
/// requests would time out sooner.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lower limit of [`PATIENCE`] when it is shortened.
const MIN_PATIENCE: Duration = Duration::from_millis(100);

/// A client that requests slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum Claimant {
    /// toolwire itself.
    #[default]
    Own,
    /// The client with this key or name.
    Key(Owner),
    /// A client without a key, by address.
    Peer(IpAddr),
}

/// Permission for one open request to an upstream, returned on drop.
#[derive(Debug)]
pub(super) struct Permit {
    queue: Arc<Queue>,
    claimant: Claimant,
}

/// The slots of an upstream, and the queue for them.
#[derive(Debug)]
pub(super) struct Queue {
    line: Mutex<Line>,
    limits: QueueLimits,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Line {
    /// Number of slots that are taken. While requests wait, all slots are taken.
    taken: usize,
    holders: HashMap<Claimant, usize>,
    /// Waiting requests in order of arrival.
    waiting: VecDeque<Waiter>,
    /// The number of the next waiting request.
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    claimant: Claimant,
    granted: oneshot::Sender<Permit>,
}

impl Queue {
    /// Creates an empty queue. `gauge` shows the number of waiting requests.
    pub(super) fn new(limits: QueueLimits, gauge: Gauge) -> Self {
        Self { line: Mutex::default(), limits, gauge }
    }

    /// Takes a permit, if necessary after waiting. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`Kind::RateLimit`] if the queue is full or the wait times out.
    pub(super) async fn enter(self: &Arc<Self>, claimant: Claimant) -> Result<Permit, Failure> {
        self.admit(claimant, self.limits.max_waiting).await
    }

    /// Like [`Queue::enter`], but for another hop of a response in progress: the request waits like any other, but is
    /// not refused when the queue is full.
    ///
    /// # Errors
    /// [`Kind::RateLimit`] if the wait times out.
    pub(super) async fn enter_again(self: &Arc<Self>, claimant: Claimant) -> Result<Permit, Failure> {
        self.admit(claimant, usize::MAX).await
    }

    /// Whether any request waits for a slot.
    pub(super) fn is_waited_in(&self) -> bool {
        !self.line.lock().waiting.is_empty()
    }

    /// How long a client that does not read may hold a slot for which others wait. Short enough that the waiting
    /// requests have not timed out by then.
    pub(super) fn patience(&self) -> Duration {
        PATIENCE.min(self.limits.wait_timeout / 2).max(MIN_PATIENCE)
    }

    async fn admit(self: &Arc<Self>, claimant: Claimant, max_waiting: usize) -> Result<Permit, Failure> {
        let (granted, permit) = oneshot::channel();
        let waiting = {
            let mut line = self.line.lock();
            if line.taken < self.limits.max_concurrent {
                line.take(claimant);
                return Ok(self.permit(claimant));
            }
            if line.waiting.len() >= max_waiting && !line.displace_for(claimant) {
                return Err(self.full(line.waiting.len()));
            }
            let number = line.next;
            line.next += 1;
            line.waiting.push_back(Waiter { number, claimant, granted });
            Waiting::new(self, number)
        };
        let entered = timeout(self.limits.wait_timeout, permit).await;
        drop(waiting);
        match entered {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_displaced)) => Err(self.full(self.line.lock().waiting.len())),
            Err(_elapsed) => Err(busy(format!(
                "all {} places at the upstream stayed taken for {:?}",
                self.limits.max_concurrent, self.limits.wait_timeout
            ))),
        }
    }

    fn full(&self, waiting: usize) -> Failure {
        let places = self.limits.max_concurrent;
        busy(format!("all {places} places at the upstream are taken and {waiting} requests wait"))
    }

    fn permit(self: &Arc<Self>, claimant: Claimant) -> Permit {
        Permit { queue: Arc::clone(self), claimant }
    }
}

impl Line {
    fn take(&mut self, claimant: Claimant) {
        self.taken += 1;
        *self.holders.entry(claimant).or_default() += 1;
    }

    fn give_back(&mut self, claimant: Claimant) {
        self.taken -= 1;
        if let Some(held) = self.holders.get_mut(&claimant) {
            *held -= 1;
            if *held == 0 {
                self.holders.remove(&claimant);
            }
        }
    }

    fn held_by(&self, claimant: Claimant) -> usize {
        self.holders.get(&claimant).copied().unwrap_or(0)
    }

    /// Removes and returns the next waiting request, which takes a slot: the first one from the client that holds the
    /// fewest slots.
    fn next(&mut self) -> Option<Waiter> {
        let held = |(at, waiter): (usize, &Waiter)| (self.held_by(waiter.claimant), at);
        let (_, at) = self.waiting.iter().enumerate().map(held).min()?;
        let next = self.waiting.remove(at)?;
        self.take(next.claimant);
        Some(next)
    }

    /// Refuses the newest waiting request from the client with the most slots and waiting requests, provided that this
    /// client has at least two more than `claimant`.
    fn displace_for(&mut self, claimant: Claimant) -> bool {
        let mut claims = self.holders.clone();
        for waiter in &self.waiting {
            *claims.entry(waiter.claimant).or_default() += 1;
        }
        let claims = |of: Claimant| claims.get(&of).copied().unwrap_or(0);
        let most = self.waiting.iter().enumerate().max_by_key(|(_, waiter)| claims(waiter.claimant));
        let Some((at, _)) = most.filter(|(_, waiter)| claims(waiter.claimant) > claims(claimant) + 1) else {
            return false;
        };
        self.waiting.remove(at);
        true
    }
}

impl Permit {
    /// Whether any request waits for a slot.
    pub(super) fn is_wanted(&self) -> bool {
        self.queue.is_waited_in()
    }

    /// See [`Queue::patience`].
    pub(super) fn patience(&self) -> Duration {
        self.queue.patience()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let next = {
            let mut line = self.queue.line.lock();
            line.give_back(self.claimant);
            line.next()
        };
        if let Some(Waiter { claimant, granted, .. }) = next {
            // Fails if the waiting request has been dropped. The permit is then dropped here, which returns it.
            drop(granted.send(self.queue.permit(claimant)));
        }
    }
}

fn busy(message: String) -> Failure {
    Failure::new(Kind::RateLimit, message).with_retry_after(RETRY_AFTER).unasked()
}

/// Counts a request as waiting until dropped.
struct Waiting<'a> {
    queue: &'a Queue,
    number: u64,
}

impl<'a> Waiting<'a> {
    fn new(queue: &'a Queue, number: u64) -> Self {
        queue.gauge.inc();
        Self { queue, number }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.gauge.dec();
        let left = {
            let mut line = self.queue.line.lock();
            let at = line.waiting.iter().position(|waiter| waiter.number == self.number);
            at.and_then(|at| line.waiting.remove(at))
        };
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, pin_mut};

    use super::*;

    const A: Claimant = Claimant::Key(Owner([1; 32]));
    const B: Claimant = Claimant::Key(Owner([2; 32]));

    fn queue(max_concurrent: usize, max_waiting: usize) -> Arc<Queue> {
        let limits = QueueLimits { max_concurrent, max_waiting, wait_timeout: Duration::from_secs(1) };
        Arc::new(Queue::new(limits, Gauge::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_request_gets_the_permit_that_is_given_back() {
        let queue = queue(1, 1);
        let first = queue.enter(A).await.unwrap();
        assert!(!first.is_wanted());
        let second = queue.enter(A);
        pin_mut!(second);
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(queue.gauge.get(), 1);
        assert!(first.is_wanted());
        drop(first);
        let second = second.await.unwrap();
        assert_eq!((queue.gauge.get(), second.is_wanted()), (0, false));
        drop(second);
        let line = queue.line.lock();
        assert_eq!((line.taken, line.holders.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_refuses_at_once_and_keeps_its_count() {
        let queue = queue(1, 1);
        let first = queue.enter(A).await.unwrap();
        {
            let second = queue.enter(A);
            pin_mut!(second);
            assert!((&mut second).now_or_never().is_none());
            let refused = queue.enter(A).now_or_never().unwrap().unwrap_err();
            assert_eq!((refused.status(), refused.retry_after()), (429, Some(RETRY_AFTER)));
        }
        assert!(!first.is_wanted(), "a dropped future still counts as waiting");
        assert_eq!(queue.gauge.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_times_out() {
        let queue = queue(1, 1);
        let first = queue.enter(A).await.unwrap();
        assert_eq!(queue.enter(B).await.unwrap_err().kind(), Kind::RateLimit);
        drop(first);
        queue.enter(B).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn permit_of_a_request_that_has_left_goes_to_the_next_one() {
        let queue = queue(1, 2);
        let first = queue.enter(A).await.unwrap();
        let mut second = Box::pin(queue.enter(A));
        let mut third = Box::pin(queue.enter(A));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        // The permit has been granted, but its future is never polled again.
        drop(second);
        third.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn free_place_goes_to_the_client_that_holds_the_fewest() {
        let queue = queue(2, 8);
        let (first, _second) = (queue.enter(A).await.unwrap(), queue.enter(A).await.unwrap());
        let mut of_a = Box::pin(queue.enter(A));
        let mut of_b = Box::pin(queue.enter(B));
        assert!((&mut of_a).now_or_never().is_none() && (&mut of_b).now_or_never().is_none());
        drop(first);
        assert!((&mut of_a).now_or_never().is_none());
        of_b.now_or_never().unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_makes_room_for_a_client_with_less() {
        let queue = queue(1, 2);
        let first = queue.enter(A).await.unwrap();
        let mut older = Box::pin(queue.enter(A));
        let mut newer = Box::pin(queue.enter(A));
        assert!((&mut older).now_or_never().is_none() && (&mut newer).now_or_never().is_none());
        let mut of_b = Box::pin(queue.enter(B));
        assert!((&mut of_b).now_or_never().is_none());
        assert_eq!(newer.now_or_never().unwrap().unwrap_err().kind(), Kind::RateLimit);
        let another = queue.enter(B).now_or_never().unwrap().unwrap_err();
        assert_eq!(another.kind(), Kind::RateLimit, "it would have as many as the other");
        drop(first);
        drop(older.now_or_never().unwrap().unwrap());
        of_b.now_or_never().unwrap().unwrap();
    }
}
