//! [`RedisServer`]: values and limits on a Redis or Valkey server.
//!
//! ```text
//! put ─▶ Memory ─▶ writer ─────────▶                ┌─▶ link for values ─┐
//! get ─▶ Memory, else ─────────────▶ `Servers` ─▶ `Server`               ├─▶ server
//! admit, settle ─▶ queue of settlements ─▶          └─▶ link for limits ─┘
//! ```
//!
//! Each server has two connections, so that large values do not delay limits. The connections are used on a thread of
//! their own. After any failure the server counts as away: nothing waits for it until a test write succeeds, which is
//! tried every half second. Values and settlements that could not be sent wait until then, up to a limit. In a cluster,
//! this applies to each server separately, and to the keys that it has.
//!
//! A command whose connection broke may have run. Writing a value again is harmless; the settlement scripts recognise a
//! repetition.

mod command;
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
    Asked, OnChange, OnFailure, Reach, SharedLimits, SharedText, Space, Store, StoreAddress, StoreError,
};

/// Maximum time for which the end of the process waits for unwritten values and settlements.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// State on a server or a cluster.
pub struct RedisServer {
    address: StoreAddress,
    inner: Arc<Inner>,
    handle: runtime::Handle,
    thread: Mutex<Option<Running>>,
}

struct Running {
    /// Dropping this sender ends the thread.
    wanted: watch::Sender<()>,
    thread: thread::JoinHandle<()>,
}

/// State that the tasks share.
struct Inner {
    servers: Servers,
    outage: Arc<Outage>,
    pending: Pending,
    settlements: Settlements,
}

impl RedisServer {
    /// Connects to a server or a cluster, which need not answer yet.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(super) fn new(address: StoreAddress, on_change: OnChange) -> io::Result<Self> {
        if address.uses_tls() {
            // redis-rs uses the process's default provider. An error means that one is already installed.
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

    /// A store for one kind of state.
    pub(super) fn store(
        self: &Arc<Self>,
        space: Space,
        ttl: Duration,
        on_failure: OnFailure,
    ) -> Arc<dyn Store> {
        Arc::new(Values::new(Arc::clone(self), space, ttl, on_failure))
    }

    /// The limits for clients.
    pub(super) fn limits(self: &Arc<Self>) -> Arc<dyn SharedLimits> {
        Arc::clone(self) as _
    }

    /// The text with this name.
    pub(super) fn text(self: &Arc<Self>, name: &str) -> Arc<dyn SharedText> {
        Arc::new(Text::new(Arc::clone(self), name))
    }

    /// Runs `work` on the server's thread and returns its result. The work ends early if its result is no longer
    /// awaited.
    fn asked<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Asked<Result<T, StoreError>> {
        let (give, take) = oneshot::channel();
        self.handle.spawn(async move {
            // An error means that the result is no longer awaited.
            let _ = give.send(work.await);
        });
        Box::pin(
            async move { take.await.unwrap_or_else(|_| Err(StoreError::new("the store has been closed"))) },
        )
    }
}

/// Runs the background tasks until `stop`, then writes the values and settlements that remain.
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

/// Converts an answer to the expected type.
fn read<T: FromRedisValue>(answer: Value) -> Result<T, StoreError> {
    from_redis_value(answer).map_err(StoreError::new)
}

/// Waits until everything that can be written is written.
impl Drop for RedisServer {
    fn drop(&mut self) {
        let running = self.thread.lock().take();
        if let Some(Running { wanted, thread }) = running {
            drop(wanted);
            // An error means that the thread panicked, and so has ended.
            let _ = thread.join();
        }
    }
}

crate::wire::debug_fields!(RedisServer { address });

#[cfg(test)]
mod tests;
