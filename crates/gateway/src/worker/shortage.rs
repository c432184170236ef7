//! [`Shortage`]: makes room on a thread when file descriptors run out.
//!
//! Each connection takes a file descriptor, even if its client has no key and never sends a request. When few
//! descriptors are left, the older half of the connections that wait for a request is closed, so that connections
//! waiting to be accepted get their turn. Some descriptors are reserved for upstreams, since each response needs one.

use std::{
    io,
    os::fd::AsRawFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use pin_project::pin_project;
use prometheus_client::metrics::counter::Counter;
use rustix::process::{Resource, getrlimit};
use tokio::{
    net::TcpStream,
    sync::{Notify, futures::OwnedNotified},
    time::Instant,
};

use super::{super::drain::SignalFuture, bounds::GOODBYE};

/// How long to wait after a failed `accept`, and after asking connections to close: longer than connections take to
/// close.
pub(super) const PAUSE: Duration = GOODBYE.saturating_add(Duration::from_millis(50));

/// Minimum interval between log lines about connections that cannot be accepted.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// 1/`RESERVE` of the descriptors is reserved for upstreams and files.
const RESERVE: u64 = 8;

/// Detects when descriptors run out, and asks the thread's connections to close.
#[derive(Debug)]
pub(super) struct Shortage {
    /// The first descriptor of the reserve. The system always assigns the lowest free descriptor, so all lower ones are
    /// in use when this one is assigned.
    reserve: Option<u64>,
    next: u64,
    leaving: Arc<Leaving>,
    logged: Option<Instant>,
    /// Number of failures that have not been logged.
    failures: u64,
    shortages: Counter,
}

#[derive(Debug, Default)]
struct Leaving {
    /// Connections with a lower number should close.
    below: AtomicU64,
    changed: Arc<Notify>,
}

impl Shortage {
    /// `shortages` counts each time that descriptors run out.
    pub(super) fn new(shortages: Counter) -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        Self { shortages, ..Self::of_limit(limit) }
    }

    fn of_limit(limit: Option<u64>) -> Self {
        let reserve = limit.map(|limit| limit - limit / RESERVE);
        Self {
            reserve,
            next: 0,
            leaving: Arc::default(),
            logged: None,
            failures: 0,
            shortages: Counter::default(),
        }
    }

    /// Counts a connection that is about to be served. `drain` becomes ready when the server stops.
    pub(super) fn accepted(&mut self, drain: SignalFuture) -> Leave {
        let number = self.next;
        self.next += 1;
        let notified = Arc::clone(&self.leaving.changed).notified_owned();
        Leave { drain, number, leaving: Arc::clone(&self.leaving), notified }
    }

    /// Returns how long to wait after accepting `stream` before accepting the next connection. `None` while there are
    /// enough descriptors.
    pub(super) fn after(&mut self, stream: &TcpStream) -> Option<Duration> {
        let reserve = self.reserve?;
        let descriptor = u64::try_from(stream.as_raw_fd()).ok()?;
        (descriptor >= reserve && self.make_room()).then(|| {
            self.shortages.inc();
            self.log(None);
            PAUSE
        })
    }

    pub(super) fn failed(&mut self, error: &io::Error) {
        self.failures += 1;
        if is_of_descriptors(error) {
            self.shortages.inc();
            self.make_room();
        }
        self.log(Some(error));
    }

    /// Of the connections that have not been asked to close yet, asks the older half. Returns `false` if none were
    /// asked.
    fn make_room(&mut self) -> bool {
        let below = self.leaving.below.load(Ordering::Relaxed);
        let half = (self.next - below) / 2;
        if half > 0 {
            self.leaving.below.store(below + half, Ordering::Release);
            self.leaving.changed.notify_waiters();
        }
        half > 0
    }

    fn log(&mut self, error: Option<&io::Error>) {
        let now = Instant::now();
        if self.logged.is_some_and(|logged| now - logged < LOG_EVERY) {
            return;
        }
        self.logged = Some(now);
        let failures = std::mem::take(&mut self.failures);
        match error {
            Some(error) if is_of_descriptors(error) => tracing::warn!(
                %error, failures, "connections cannot be accepted; closing those that wait for a request. Raise the limit of open files (`ulimit -Hn`, `LimitNOFILE=`)"
            ),
            Some(error) => tracing::warn!(%error, failures, "connections cannot be accepted"),
            None => tracing::warn!(
                "few file descriptors are left; closing connections that wait for a request. Raise the limit of open files (`ulimit -Hn`, `LimitNOFILE=`)"
            ),
        }
    }
}

/// Whether the process or the system has run out of descriptors: `EMFILE` or `ENFILE`.
fn is_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::MFILE, Errno::NFILE].contains(&errno))
}

/// Ready when a connection should close after its open responses, because the server stops or descriptors run out.
#[derive(Debug)]
#[pin_project]
pub(super) struct Leave {
    #[pin]
    drain: SignalFuture,
    number: u64,
    leaving: Arc<Leaving>,
    #[pin]
    notified: OwnedNotified,
}

impl Future for Leave {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if this.drain.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // Checked after the registration, so that no change in between is missed.
        while *this.number >= this.leaving.below.load(Ordering::Acquire) {
            if this.notified.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.notified.set(Arc::clone(&this.leaving.changed).notified_owned());
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::{super::super::drain::Drain, *};

    /// Returns the numbers of the connections that should close.
    fn leaving(all: &mut [Pin<Box<Leave>>]) -> Vec<usize> {
        let ready = |leave: &mut Pin<Box<Leave>>| leave.as_mut().now_or_never().is_some();
        all.iter_mut().enumerate().filter_map(|(number, leave)| ready(leave).then_some(number)).collect()
    }

    #[tokio::test]
    async fn older_half_leaves_each_time_and_the_newest_stays() {
        let (drain, mut shortage) = (Drain::default(), Shortage::of_limit(None));
        let mut all: Vec<_> = (0..8).map(|_| Box::pin(shortage.accepted(drain.when_begun()))).collect();
        let error = io::Error::from(rustix::io::Errno::MFILE);
        for expected in [0, 4, 6, 7, 7] {
            assert_eq!(leaving(&mut all), (0..expected).collect::<Vec<_>>());
            shortage.failed(&error);
        }
        drain.begin();
        assert_eq!(leaving(&mut all).len(), 8);
    }

    #[tokio::test]
    async fn connection_that_waits_is_woken() {
        let (drain, mut shortage) = (Drain::default(), Shortage::of_limit(None));
        let mut waiting = tokio::task::JoinSet::from_iter([shortage.accepted(drain.when_begun())]);
        let _second = shortage.accepted(drain.when_begun());
        tokio::task::yield_now().await;
        shortage.failed(&io::Error::from(rustix::io::Errno::NFILE));
        assert!(waiting.join_next().await.is_some());
    }

    #[tokio::test]
    async fn other_failures_close_nothing() {
        let (drain, mut shortage) = (Drain::default(), Shortage::of_limit(None));
        let mut all: Vec<_> = (0..8).map(|_| Box::pin(shortage.accepted(drain.when_begun()))).collect();
        shortage.failed(&io::ErrorKind::ConnectionAborted.into());
        assert_eq!(leaving(&mut all), [0; 0]);
    }
}
