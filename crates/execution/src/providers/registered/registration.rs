//! [`Registration`]: a registered program and the tools that it offers.

use std::{collections::HashMap, mem, sync::Arc};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

use super::{calls::{Callback, Message}, credentials::KeyNumber, description};
use crate::{Output, ToolError, ToolSpec};

#[derive(Debug)]
pub(super) struct Registration {
    pub(super) owner: KeyNumber,
    pub(super) label: String,
    pub(super) callback: Option<Callback>,
    pub(super) tools: Vec<Arc<ToolSpec>>,
    /// Tools that are not offered because other programs use their names. They are offered once the names are free.
    pub(super) refused: Vec<Arc<ToolSpec>>,
    pub(super) expires: Instant,
    /// The open stream on which the program receives calls.
    pub(super) stream: Option<mpsc::Sender<Message>>,
    /// Calls sent on a stream, by id.
    pub(super) waiting: HashMap<String, oneshot::Sender<Result<Output, ToolError>>>,
    /// Dropped together with the registration, which ends its calls.
    pub(super) alive: watch::Sender<()>,
}

impl Registration {
    /// Whether one of its tools has this name, ignoring case and treating `.` as `_`.
    pub(super) fn has(&self, name: &str) -> bool {
        let name = description::plain(name);
        self.tools.iter().any(|tool| description::plain(&tool.name) == name)
    }

    /// Whether the program offers exactly these tools.
    pub(super) fn offers(&self, tools: &[Arc<ToolSpec>]) -> bool {
        let is_same = |(own, other): (&Arc<ToolSpec>, &Arc<ToolSpec>)| {
            own.name == other.name
                && own.label == other.label
                && own.description == other.description
                && own.parameters == other.parameters
                && own.is_idempotent == other.is_idempotent
        };
        self.tools.len() == tools.len() && self.tools.iter().zip(tools).all(is_same)
    }

    /// Returns when the lease ends, or `None` while the stream is open.
    pub(super) fn ends(&self) -> Option<Instant> {
        let is_open = self.stream.as_ref().is_some_and(|stream| !stream.is_closed());
        (!is_open).then_some(self.expires)
    }

    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.ends().is_some_and(|end| end <= now)
    }
}

/// Removes registrations whose leases have ended. Returns their ids.
pub(super) fn remove_expired(entries: &mut HashMap<String, Registration>, now: Instant) -> Vec<String> {
    let expired: Vec<_> =
        entries.iter().filter(|(_, entry)| entry.is_expired(now)).map(|(id, _)| id.clone()).collect();
    entries.retain(|id, _| !expired.contains(id));
    if !expired.is_empty() {
        offer_free(entries);
    }
    expired
}

/// Offers refused tools whose names have become free.
pub(super) fn offer_free(entries: &mut HashMap<String, Registration>) {
    let waiting = entries.iter().filter(|(_, entry)| !entry.refused.is_empty());
    let mut ids: Vec<_> = waiting.map(|(id, _)| id.clone()).collect();
    ids.sort();
    for id in ids {
        let refused = entries.get_mut(&id).map(|entry| mem::take(&mut entry.refused)).unwrap_or_default();
        let is_taken = |tool: &Arc<ToolSpec>| entries.values().any(|entry| entry.has(&tool.name));
        let (taken, free): (Vec<_>, Vec<_>) = refused.into_iter().partition(is_taken);
        if let Some(entry) = entries.get_mut(&id) {
            entry.tools.extend(free);
            entry.refused = taken;
        }
    }
}
