//! Tracks whether servers can be used: the [`ReachState`] of a server, and the [`Outage`] of all servers.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{OnChange, Reach};

/// Whether any server is unreachable.
pub(super) struct Outage {
    /// Number of unreachable servers.
    away: Mutex<usize>,
    on_change: OnChange,
    /// Notified when a server becomes unreachable.
    pub(super) begun: Notify,
    /// Incremented when a server becomes reachable again.
    ended: watch::Sender<u64>,
}

impl Outage {
    pub(super) fn new(on_change: OnChange) -> Self {
        Self { away: Mutex::default(), on_change, begun: Notify::new(), ended: watch::Sender::new(0) }
    }

    pub(super) fn lasts(&self) -> bool {
        *self.away.lock() > 0
    }

    /// Returns a receiver that is notified each time a server becomes reachable again.
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
            // Called with the lock held, so that changes are reported in order.
            (self.on_change)(reach);
        }
        drop(away);
        match reach {
            Reach::Away => self.begun.notify_one(),
            Reach::There => self.ended.send_modify(|count| *count = count.wrapping_add(1)),
        }
    }
}

/// Whether a server can be used. All tasks share this.
pub(super) struct ReachState {
    /// The server's name in the log.
    server: String,
    state: Mutex<Reach>,
    /// Notified when the server has failed, or before its first use.
    pub(super) lost: Notify,
    outage: Arc<Outage>,
}

impl ReachState {
    /// The state of a server that has not been used yet.
    pub(super) fn new(server: String, outage: Arc<Outage>) -> Self {
        Self { server, state: Mutex::new(Reach::There), lost: Notify::new(), outage }
    }

    pub(super) fn is_away(&self) -> bool {
        *self.state.lock() == Reach::Away
    }

    pub(super) fn failed(&self, error: &dyn fmt::Display) {
        let server = &self.server;
        // Logged before any request is refused for this reason.
        let why = || tracing::error!(server, %error, "the store cannot be used; it is tried again until it answers");
        self.becomes(Reach::Away, why);
        self.lost.notify_one();
    }

    pub(super) fn answered(&self) {
        let server = &self.server;
        self.becomes(Reach::There, || tracing::info!(server, "the store can be used again"));
    }

    /// If the state changes, calls `tell` before other tasks can see the new state.
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

/// A server that is no longer used does not count as unreachable.
impl Drop for ReachState {
    fn drop(&mut self) {
        if self.is_away() {
            self.outage.changed(Reach::There);
        }
    }
}
