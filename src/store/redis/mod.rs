//! [`RedisServer`]: values and limits on a Redis or Valkey server.
//!
//! ```text
//! put ─▶ Memory ─▶ writer ─────────▶ link for values ─┐
//! get ─▶ Memory, else ─────────────▶                  ├─▶ server
//! admit, settle ─▶ queue of settlements ─▶ link for limits ─┘
//! ```
//!
//! There are two connections, so that large values do not delay limits. They are used on a thread of their own. After any failure the
//! server counts as away: nothing waits for it until a write, which is tried every half second, succeeds. Values and settlements
//! that could not be sent wait for that, up to a limit.
//!
//! A command whose connection broke may have run. Writes of values can be repeated; settlements recognise a repetition.

mod limits;
mod link;
mod text;
mod values;

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    sync::{Notify, oneshot, watch},
    time::{sleep, timeout},
};

pub(super) use self::text::Text;
use self::{
    limits::Settlements,
    link::Link,
    values::{Pending, Values},
};
use super::{OnFailure, Space, StoreAddress, StoreError, shared_limits::Asked};

/// How long an answer about limits may take. A request waits for it.
const LIMITS_TIMEOUT: Duration = Duration::from_millis(500);

/// How long an answer with values may take.
const VALUES_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a server that is away is tried again.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How long the end of the process waits for what has not been written.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// Told of what happens to the server, for logs and metrics.
pub(crate) type OnChange = Box<dyn Fn(Reach) + Send + Sync>;

/// Whether the server can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It answers.
    There,
    /// It does not.
    Away,
}

/// See the module.
pub(crate) struct RedisServer {
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
    values: Link,
    limits: Link,
    reach: Arc<ReachState>,
    pending: Pending,
    settlements: Settlements,
}

/// Whether the server can be used, as all tasks know it.
struct ReachState {
    state: watch::Sender<Reach>,
    lost: Notify,
    on_change: OnChange,
}

impl ReachState {
    fn is_away(&self) -> bool {
        *self.state.borrow() == Reach::Away
    }

    /// Something failed, which is `error`.
    fn failed(&self, error: &dyn fmt::Display) {
        // The log says why before the first request is refused for it.
        let why = || tracing::error!(%error, "the store cannot be used; it is tried again until it answers");
        self.becomes(Reach::Away, why);
        self.lost.notify_one();
    }

    fn answered(&self) {
        self.becomes(Reach::There, || tracing::info!("the store can be used again"));
    }

    /// Calls `tell` if that is new, and only then lets others know.
    fn becomes(&self, reach: Reach, tell: impl FnOnce()) {
        let is_new = self.state.send_if_modified(|before| {
            let is_new = *before != reach;
            if is_new {
                tell();
                *before = reach;
            }
            is_new
        });
        if is_new {
            (self.on_change)(reach);
        }
    }

    /// Waits until the server can be used.
    async fn there(&self) {
        // An error means that the sender is gone, which `self` owns.
        let _ = self.state.subscribe().wait_for(|reach| *reach == Reach::There).await;
    }
}

impl RedisServer {
    /// A server, which need not answer yet.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn new(address: StoreAddress, on_change: OnChange) -> io::Result<Self> {
        if address.uses_tls() {
            // redis-rs takes the process's provider. An error means that there is one.
            let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let reach =
            Arc::new(ReachState { state: watch::Sender::new(Reach::There), lost: Notify::new(), on_change });
        let link = |limit| {
            let _here = handle.enter();
            Link::new(&address, limit, Arc::clone(&reach))
        };
        let (pending, settlements) = (Pending::default(), Settlements::default());
        let (values, limits) = (link(VALUES_TIMEOUT)?, link(LIMITS_TIMEOUT)?);
        let inner = Arc::new(Inner { values, limits, reach, pending, settlements });
        let (wanted, stop) = watch::channel(());
        let shared = Arc::clone(&inner);
        let thread = thread::Builder::new().name("toolwire-redis".into()).spawn(move || {
            runtime.block_on(serve(shared, stop));
            runtime.shutdown_background();
        })?;
        Ok(Self { address, inner, handle, thread: Mutex::new(Some(Running { wanted, thread })) })
    }

    /// The values of a kind of state.
    pub(super) fn space(self: &Arc<Self>, space: Space, ttl: Duration, on_failure: OnFailure) -> Values {
        Values::new(Arc::clone(self), space, ttl, on_failure)
    }

    /// What `work` gives on the thread of the server. It also ends if nobody waits for it any more.
    fn asked<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Asked<Result<T, StoreError>> {
        let (give, take) = oneshot::channel();
        self.handle.spawn(async move {
            // An error means that nobody waits.
            let _ = give.send(work.await);
        });
        Box::pin(
            async move { take.await.unwrap_or_else(|_| Err(StoreError("the store has been closed".into()))) },
        )
    }
}

/// Does what is done in the background until `stop`, and then writes what is left.
async fn serve(inner: Arc<Inner>, mut stop: watch::Receiver<()>) {
    // A server that is away at the start is reported then, not with the first request.
    inner.reach.lost.notify_one();
    let work = async {
        tokio::join!(probe(&inner), values::write(&inner), limits::settle(&inner));
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

/// Tries a server that is away until it takes writes. One that is loading its file answers, but takes none.
async fn probe(inner: &Inner) {
    loop {
        inner.reach.lost.notified().await;
        while inner.values.probe().await.and(inner.limits.probe().await).is_err() {
            sleep(PROBE_INTERVAL).await;
        }
        inner.reach.answered();
    }
}

/// Bytes as text for keys, which people read.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until what can be written is written.
impl Drop for RedisServer {
    fn drop(&mut self) {
        let running = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { wanted, thread }) = running {
            drop(wanted);
            // An error means that the thread panicked, and so has ended.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
