//! [`Trust`]: decides whether connections to an upstream may be kept.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

/// Time for which every request to an upstream that has sent unsolicited bytes gets a new connection.
pub(super) const WITHOUT_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Whether connections to an upstream may be kept. All threads share it.
///
/// An upstream that sends bytes that no request asked for may do so again just as a request is written, and the bytes
/// would be read as the response to that request. So its connections are not kept for the next [`WITHOUT_KEEP_ALIVE`].
#[derive(Debug)]
pub(super) struct Trust {
    /// The upstream's name.
    upstream: String,
    lost_until: Mutex<Option<Instant>>,
    /// Counts connections with unsolicited bytes.
    unsolicited: Counter,
}

impl Trust {
    /// Trust in `upstream`, initially intact.
    pub(super) fn new(upstream: String, unsolicited: Counter) -> Self {
        Self { upstream, lost_until: Mutex::default(), unsolicited }
    }

    /// Whether connections may be kept.
    pub(super) fn holds(&self) -> bool {
        let lost_until = *self.lost_until.lock();
        lost_until.is_none_or(|until| until <= Instant::now())
    }

    /// Stops trusting the upstream for a while, because it has sent bytes that no request asked for.
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
