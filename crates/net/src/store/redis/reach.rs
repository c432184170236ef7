//! Whether servers can be used: the [`ReachState`] of each server, and the [`Outage`] of all servers together.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{OnChange, Reach};

/// The state of all servers together: whether any of them is away.
pub(super) struct Outage {
    /// Number of servers that are away.
    away: Mutex<usize>,
    on_change: OnChange,
    /// Notified when another server is away.
    pub(super) begun: Notify,
    /// Number of times that a server came back.
    ended: watch::Sender<u64>,
}

impl Outage {
    pub(super) fn new(on_change: OnChange) -> Self {
        Self { away: Mutex::default(), on_change, begun: Notify::new(), ended: watch::Sender::new(0) }
    }

    /// Whether any server is away.
    pub(super) fn lasts(&self) -> bool {
        *self.away.lock() > 0
    }

    /// Returns a receiver that changes whenever a server has come back.
    pub(super) fn ends(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    fn changed(&self, reach: Reach) {
        let mut away = self.away.lock();
        let before = *away;
        *away = match reach {
            Reach::Away => before.saturating_add(1),
            Reach::There => before.saturating_sub(1),
        };
        if (before == 0) != (*away == 0) {
            // The lock is held, so that changes are reported in order.
            (self.on_change)(reach);
        }
        drop(away);
        match reach {
            Reach::Away => self.begun.notify_one(),
            Reach::There => self.ended.send_modify(|count| *count = count.wrapping_add(1)),
        }
    }
}

/// Whether one server can be used. All tasks share this.
pub(super) struct ReachState {
    /// Name of the server in the log.
    server: String,
    state: Mutex<Reach>,
    /// Notified when the server has failed, or has not been asked yet.
    pub(super) lost: Notify,
    outage: Arc<Outage>,
}

impl ReachState {
    /// State of a server that has not been asked yet.
    pub(super) fn new(server: String, outage: Arc<Outage>) -> Self {
        Self { server, state: Mutex::new(Reach::There), lost: Notify::new(), outage }
    }

    pub(super) fn is_away(&self) -> bool {
        *self.state.lock() == Reach::Away
    }

    /// Records the failure `error`.
    pub(super) fn failed(&self, error: &dyn fmt::Display) {
        let server = &self.server;
        // The log shows the reason before any request is refused because of it.
        let why = || tracing::error!(server, %error, "the store cannot be used; it is tried again until it answers");
        self.becomes(Reach::Away, why);
        self.lost.notify_one();
    }

    pub(super) fn answered(&self) {
        let server = &self.server;
        self.becomes(Reach::There, || tracing::info!(server, "the store can be used again"));
    }

    /// Calls `tell` if the state is new, and only then makes it visible to other tasks.
    fn becomes(&self, reach: Reach, tell: impl FnOnce()) {
        let mut state = self.state.lock();
        if *state != reach {
            tell();
            *state = reach;
            drop(state);
            self.outage.changed(reach);
        }
    }
}

/// A server that is no longer asked does not count as away.
impl Drop for ReachState {
    fn drop(&mut self) {
        if self.is_away() {
            self.outage.changed(Reach::There);
        }
    }
}
