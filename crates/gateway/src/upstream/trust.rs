//! [`Trust`]: whether connections to an upstream may be reused.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

/// How long each request gets a new connection after the upstream has sent unsolicited bytes.
pub(super) const WITHOUT_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Whether connections to an upstream may be reused. All threads share it.
///
/// An upstream that has sent unsolicited bytes may do so again just when a request is written, and the bytes would be
/// read as the response to that request. Its connections are therefore not reused for [`WITHOUT_KEEP_ALIVE`].
#[derive(Debug)]
pub(super) struct Trust {
    upstream: String,
    lost_until: Mutex<Option<Instant>>,
    unsolicited: Counter,
}

impl Trust {
    pub(super) fn new(upstream: String, unsolicited: Counter) -> Self {
        Self { upstream, lost_until: Mutex::default(), unsolicited }
    }

    /// Whether connections may be reused.
    pub(super) fn holds(&self) -> bool {
        let lost_until = *self.lost_until.lock();
        lost_until.is_none_or(|until| until <= Instant::now())
    }

    /// Suspends the reuse of connections because the upstream has sent unsolicited bytes.
    pub(super) fn lose(&self) {
        let until = Instant::now() + WITHOUT_KEEP_ALIVE;
        *self.lost_until.lock() = Some(until);
        self.unsolicited.inc();
        tracing::warn!(
            upstream = self.upstream,
            "sent bytes that no request asked for; its connections are not kept for {WITHOUT_KEEP_ALIVE:?}"
        );
    }
}
