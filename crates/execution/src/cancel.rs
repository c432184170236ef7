//! [`Cancels`]: lets people cancel a running call without ending its response.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The calls that are running, by exchange and id. There are at most as many as may run at the same time.
#[derive(Debug, Default)]
pub struct Cancels(Mutex<HashMap<(String, String), Arc<Notify>>>);

impl Cancels {
    /// Cancels a call. Returns whether it was running.
    pub fn cancel(&self, exchange: &str, id: &str) -> bool {
        let calls = self.0.lock();
        let call = calls.get(&(exchange.to_owned(), id.to_owned()));
        call.map(|call| call.notify_one()).is_some()
    }

    /// Lets people cancel the call until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>, exchange: &str, id: &str) -> Cancellable {
        let key = (exchange.to_owned(), id.to_owned());
        let cancelled = Arc::<Notify>::default();
        // Of several calls with the same id, the last one can be cancelled.
        self.0.lock().insert(key.clone(), Arc::clone(&cancelled));
        Cancellable { all: Arc::clone(self), key, cancelled }
    }
}

/// A running call that people can cancel.
#[derive(Debug)]
pub(super) struct Cancellable {
    all: Arc<Cancels>,
    key: (String, String),
    cancelled: Arc<Notify>,
}

impl Cancellable {
    /// Waits until the call is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        let mut calls = self.all.0.lock();
        if calls.get(&self.key).is_some_and(|call| Arc::ptr_eq(call, &self.cancelled)) {
            calls.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn call_can_be_cancelled_only_while_it_runs() {
        let calls = Arc::<Cancels>::default();
        assert!(!calls.cancel("ex_1", "a"));
        let (call, other) = (calls.begin("ex_1", "a"), calls.begin("ex_2", "a"));
        assert!(calls.cancel("ex_1", "a"), "it need not wait for that yet");
        call.cancelled().await;
        let again = calls.begin("ex_1", "a");
        drop(call);
        assert!(calls.cancel("ex_1", "a"), "the later call of this id");
        again.cancelled().await;
        drop((again, other));
        assert!(!calls.cancel("ex_1", "a") && !calls.cancel("ex_2", "a"));
        assert!(calls.0.lock().is_empty());
    }
}
