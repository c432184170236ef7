//! [`Departures`]: the upstream requests that the gateway has closed because its client left.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Clones share the requests.
#[derive(Debug, Clone, Default)]
pub struct Departures(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    gone: Mutex<HashSet<String>>,
    changed: Notify,
}

/// Part of a response's body. When it is dropped, the gateway has closed the request.
#[derive(Debug)]
pub(super) struct Departure {
    of: Departures,
    key: String,
}

impl Departures {
    pub(super) fn watch(&self, key: String) -> Departure {
        Departure { of: self.clone(), key }
    }

    /// Waits until the gateway has closed the request with this key.
    pub(super) async fn wait(&self, key: &str) {
        loop {
            let changed = self.0.changed.notified();
            if self.0.gone.lock().contains(key) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        self.of.0.gone.lock().insert(std::mem::take(&mut self.key));
        self.of.0.changed.notify_waiters();
    }
}
