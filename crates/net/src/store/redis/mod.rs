//! [`RedisServer`]: values and limits on a Redis or Valkey server.
//!
//! ```text
//! put ─▶ Memory ─▶ writer ─────────▶                ┌─▶ link for values ─┐
//! get ─▶ Memory, or else ──────────▶ `Servers` ─▶ `Server`               ├─▶ server
//! admit, settle ─▶ queue of settlements ─▶          └─▶ link for limits ─┘
//! ```
//!
//! Each server has two connections, so that large values do not delay limits. A separate thread runs them. After any
//! failure, the server counts as unreachable, and no request waits for it until a test write succeeds. Test writes are
//! sent every half second. In the meantime, values and settlements are queued, up to a limit. In a cluster, this
//! applies to each server and its keys separately.
//!
//! If a connection breaks, its last commands may have run. Writing a value twice is harmless, and the settlement
//! scripts detect repetitions.

mod command;
mod examine;
mod limits;
mod link;
mod reach;
mod server;
mod servers;
mod slots;
mod text;
mod values;

use std::{io, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use redis::{FromRedisValue, Value, from_redis_value};
use tokio::{
    runtime,
    sync::{oneshot, watch},
    time::timeout,
};

use self::{
    limits::Settlements,
    reach::Outage,
    servers::Servers,
    text::Text,
    values::{Pending, Values},
};
use super::{
    Asked, HeldBytes, OnChange, OnFailure, Reach, ServerFacts, SharedLimits, SharedText, Space, Store,
    StoreAddress, StoreError,
};

/// How long the process waits before it exits, for unwritten values and settlements to be sent.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// Stores state on a server or in a cluster.
pub struct RedisServer {
    address: StoreAddress,
    inner: Arc<Inner>,
    handle: runtime::Handle,
    thread: Mutex<Option<Running>>,
}

struct Running {
    /// Dropping it ends the thread.
    wanted: watch::Sender<()>,
    thread: thread::JoinHandle<()>,
}

/// What the tasks share.
struct Inner {
    servers: Servers,
    outage: Arc<Outage>,
    pending: Pending,
    settlements: Settlements,
}

impl RedisServer {
    /// Creates a client for a server or a cluster, which may be unreachable at this point.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(super) fn new(address: StoreAddress, on_change: OnChange) -> io::Result<Self> {
        if address.uses_tls() {
            // redis-rs uses the default provider of the process. An error means that there already is one.
            let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let outage = Arc::new(Outage::new(on_change));
        let servers = Servers::new(&address, Arc::clone(&outage), &handle)?;
        let (pending, settlements) = (Pending::default(), Settlements::default());
        let inner = Arc::new(Inner { servers, outage, pending, settlements });
        let (wanted, stop) = watch::channel(());
        let shared = Arc::clone(&inner);
        let thread = thread::Builder::new().name("toolwire-redis".into()).spawn(move || {
            runtime.block_on(serve(shared, stop));
            runtime.shutdown_background();
        })?;
        Ok(Self { address, inner, handle, thread: Mutex::new(Some(Running { wanted, thread })) })
    }

    /// Asks the server at `address`, or one of a cluster, for its settings. Leaves nothing open.
    ///
    /// # Errors
    /// No server answers.
    pub async fn examine(address: &StoreAddress) -> Result<ServerFacts, StoreError> {
        if address.uses_tls() {
            // See `RedisServer::new`.
            let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        }
        examine::examine(address).await
    }

    pub(super) fn store(
        self: &Arc<Self>,
        space: Space,
        ttl: Duration,
        on_failure: OnFailure,
    ) -> Arc<dyn Store> {
        Arc::new(Values::new(Arc::clone(self), space, ttl, on_failure))
    }

    /// Returns the memory for values that wait to be written.
    pub(super) fn held(&self) -> HeldBytes {
        HeldBytes { values: self.inner.pending.bytes(), pages: 0 }
    }

    pub(super) fn limits(self: &Arc<Self>) -> Arc<dyn SharedLimits> {
        Arc::clone(self) as _
    }

    pub(super) fn text(self: &Arc<Self>, name: &str) -> Arc<dyn SharedText> {
        Arc::new(Text::new(Arc::clone(self), name))
    }

    /// Runs `work` on the server's thread and returns its result. If the returned future is dropped, the work is
    /// cancelled.
    fn asked<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Asked<Result<T, StoreError>> {
        let (give, take) = oneshot::channel();
        self.handle.spawn(async move {
            // An error means that nobody waits for the result.
            let _ = give.send(work.await);
        });
        Box::pin(
            async move { take.await.unwrap_or_else(|_| Err(StoreError::new("the store has been closed"))) },
        )
    }
}

/// Runs the background tasks until `stop`, then writes the remaining values and settlements.
async fn serve(inner: Arc<Inner>, mut stop: watch::Receiver<()>) {
    let work = async {
        tokio::join!(inner.servers.watch(), values::write(&inner), limits::settle(&inner));
    };
    tokio::select! {
        () = work => {}
        // An error means that the store was dropped.
        _ = stop.changed() => {}
    }
    let last = async { tokio::join!(values::write_rest(&inner), limits::settle_rest(&inner)) };
    if timeout(LAST_WRITES, last).await.is_err() {
        tracing::error!("the store did not take what was to be written before the end");
    }
}

fn read<T: FromRedisValue>(answer: Value) -> Result<T, StoreError> {
    from_redis_value(answer).map_err(StoreError::new)
}

/// Waits until everything that can be written has been written.
impl Drop for RedisServer {
    fn drop(&mut self) {
        let running = self.thread.lock().take();
        if let Some(Running { wanted, thread }) = running {
            drop(wanted);
            // An error means that the thread has panicked.
            let _ = thread.join();
        }
    }
}

crate::wire::debug_fields!(RedisServer { address });

#[cfg(test)]
mod tests;
