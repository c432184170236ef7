//! [`Values`]: values of one kind of state on the server.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use redis::Pipeline;
use tokio::sync::{Mutex as AsyncMutex, Notify};

use super::{
    super::{Key, OnFailure, Space, Store, StoreError, memory::Memory},
    Inner, RedisServer,
};

/// Bytes of values that wait to be written.
const MAX_PENDING: usize = 64 << 20;

/// Bytes of one value. The server and all its clients are busy with a value while it is on its way.
const MAX_VALUE: usize = 32 << 20;

/// Values that are written at once, and their bytes beyond which no more are.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 4 << 20;

/// The values that wait to be written, of all kinds.
pub(super) struct Pending {
    memory: Mutex<Memory>,
    added: Notify,
    /// Held while values are on their way, so that one that is removed is not written afterwards.
    writing: AsyncMutex<()>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            memory: Mutex::new(Memory::new(MAX_PENDING)),
            added: Notify::new(),
            writing: AsyncMutex::default(),
        }
    }
}

impl Pending {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
pub(in crate::store) struct Values {
    server: Arc<RedisServer>,
    space: Space,
    ttl: Duration,
    on_failure: OnFailure,
}

impl Values {
    pub(super) fn new(server: Arc<RedisServer>, space: Space, ttl: Duration, on_failure: OnFailure) -> Self {
        Self { server, space, ttl, on_failure }
    }

    /// The key on the server. Its owner is the part by which a cluster chooses a place.
    fn placed(&self, key: &Key) -> Key {
        const OWNER: usize = 32;
        let (owner, id) = key.bytes.split_at_checked(OWNER).unwrap_or((&key.bytes, &[]));
        let owner = super::hex(owner);
        let head = [self.space.prefix(), "{", &owner, "}:"].concat();
        Key { bytes: [head.as_bytes(), id].concat().into() }
    }

    /// Waits for what `work` gives on the thread of the server.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (give, take) = mpsc::sync_channel(1);
        self.server.handle.spawn(async move {
            // An error means that nobody waits any more.
            let _ = give.send(work.await);
        });
        take.recv().unwrap_or_else(|_| Err(StoreError("the store has been closed".into())))
    }

    /// What waits to be written under these keys.
    fn waiting(&self, keys: &[Key], now: u64) -> Vec<Option<Bytes>> {
        let memory = self.server.inner.pending.memory();
        keys.iter().map(|key| memory.get(key, now)).collect()
    }
}

impl Store for Values {
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError> {
        Ok(self.get_all(std::slice::from_ref(key), now)?.pop().flatten())
    }

    fn get_all(&self, keys: &[Key], now: u64) -> Result<Vec<Option<Bytes>>, StoreError> {
        let keys: Vec<_> = keys.iter().map(|key| self.placed(key)).collect();
        let mut found = self.waiting(&keys, now);
        let missing: Vec<_> =
            (0..keys.len()).filter(|place| matches!(found.get(*place), Some(None))).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let mut commands = Pipeline::new();
        for key in missing.iter().filter_map(|place| keys.get(*place)) {
            commands.cmd("GET").arg(&*key.bytes);
        }
        let inner = Arc::clone(&self.server.inner);
        let read: Vec<Option<Vec<u8>>> = self.wait(async move { inner.values.pipeline(&commands).await })?;
        for (place, value) in missing.into_iter().zip(read) {
            if let Some(found) = found.get_mut(place) {
                *found = value.map(Bytes::from);
            }
        }
        Ok(found)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn put(&self, key: Key, value: Bytes, now: u64) {
        let (key, pending) = (self.placed(&key), &self.server.inner.pending);
        if value.len() > MAX_VALUE {
            tracing::error!(bytes = value.len(), "a value is too large for the store");
            (self.on_failure)(1);
            return;
        }
        let lost = pending.memory().put(key, value, now.saturating_add(self.ttl.as_secs()));
        if lost > 0 {
            (self.on_failure)(lost);
        }
        pending.added.notify_one();
    }

    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError> {
        let (key, inner) = (self.placed(key), Arc::clone(&self.server.inner));
        self.wait(async move {
            let _nothing_is_written = inner.pending.writing.lock().await;
            let was_waiting = inner.pending.memory().remove(&key, now);
            let mut commands = Pipeline::new();
            commands.cmd("DEL").arg(&*key.bytes);
            let (removed,): (u64,) = inner.values.pipeline(&commands).await?;
            Ok(was_waiting || removed > 0)
        })
    }
}

/// Writes values as they are put, until it is dropped.
pub(super) async fn write(inner: &Inner) {
    loop {
        inner.reach.there().await;
        match write_batch(inner).await {
            Written::All => inner.pending.added.notified().await,
            Written::Some => {}
            // Whoever failed has said so.
            Written::Nothing => tokio::task::yield_now().await,
        }
    }
}

/// Writes what is left.
pub(super) async fn write_rest(inner: &Inner) {
    while write_batch(inner).await == Written::Some {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Nothing waits.
    All,
    /// More may wait.
    Some,
    /// The server does not take it.
    Nothing,
}

async fn write_batch(inner: &Inner) -> Written {
    let _writing = inner.pending.writing.lock().await;
    let batch = inner.pending.memory().oldest(BATCH, BATCH_BYTES);
    if batch.is_empty() {
        return Written::All;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut commands = Pipeline::new();
    for (key, entry) in &batch {
        let ttl = entry.expires.saturating_sub(now).max(1);
        commands.cmd("SET").arg(&*key.bytes).arg(&*entry.value).arg("EX").arg(ttl).ignore();
    }
    match inner.values.pipeline::<()>(&commands).await {
        Ok(()) => {
            let mut memory = inner.pending.memory();
            batch.iter().for_each(|(key, entry)| memory.written(key, entry.number));
            Written::Some
        }
        // They stay where they are until the server is there again.
        Err(_) => Written::Nothing,
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values")
            .field("server", &self.server)
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}
