//! [`Trust`]: whether an upstream may keep its connections.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

/// How long an upstream that has sent unsolicited bytes gets a new connection for every request.
pub(super) const WITHOUT_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Whether an upstream may keep its connections; for all threads.
///
/// An upstream that sends bytes when nobody has asked for anything may do so again, just when a request is written; they
/// would be read as the answer to that request. So it loses keep-alive for [`WITHOUT_KEEP_ALIVE`].
#[derive(Debug)]
pub(super) struct Trust {
    /// The upstream's name.
    upstream: String,
    lost_until: Mutex<Option<Instant>>,
    /// Connections with unsolicited bytes.
    unsolicited: Counter,
}

impl Trust {
    /// Trust in `upstream`, which has not been lost.
    pub(super) fn new(upstream: String, unsolicited: Counter) -> Self {
        Self { upstream, lost_until: Mutex::default(), unsolicited }
    }

    /// Whether connections may be used again.
    pub(super) fn holds(&self) -> bool {
        let lost_until = *self.lost_until.lock().unwrap_or_else(PoisonError::into_inner);
        lost_until.is_none_or(|until| until <= Instant::now())
    }

    /// The upstream has sent bytes that no request had asked for.
    pub(super) fn lose(&self) {
        let until = Instant::now() + WITHOUT_KEEP_ALIVE;
        *self.lost_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.unsolicited.inc();
        tracing::warn!(
            upstream = self.upstream,
            "sent bytes that no request had asked for: its connections are not kept for {WITHOUT_KEEP_ALIVE:?}"
        );
    }
}
