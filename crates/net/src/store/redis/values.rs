//! [`Values`]: the values of one kind of state on the server.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify},
    time::timeout,
};

use super::{
    super::{
        Key, NotStored, OnFailure, Space, Store, StoreError,
        memory::{Entry, Memory},
    },
    Inner, RedisServer,
    command::Command,
    read,
    server::{Line, PROBE_INTERVAL},
    slots::Slot,
};
use crate::wire::hex;

/// Maximum size in bytes of all values that wait to be written.
const MAX_PENDING: usize = 64 << 20;

/// Maximum size of a value in bytes. While a value is transferred, the server cannot serve other clients.
const MAX_VALUE: usize = 32 << 20;

/// Maximum number of values in a batch. A batch that has reached `BATCH_BYTES` gets no further values.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 4 << 20;

/// The values of all kinds of state that wait to be written.
pub(super) struct Pending {
    memory: Mutex<Memory>,
    added: Notify,
    /// Held while values are sent, so that a value that is removed in the meantime is not written afterwards.
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
    /// The size of the values in bytes, at most [`MAX_PENDING`].
    pub(super) fn bytes(&self) -> usize {
        self.memory.lock().bytes()
    }
}

pub(super) struct Values {
    server: Arc<RedisServer>,
    space: Space,
    ttl: Duration,
    on_failure: OnFailure,
}

impl Space {
    /// The prefix of the space's keys on the server.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Responses => "toolwire:response:",
            Self::Deferred => "toolwire:deferred:",
            Self::TurnStates => "toolwire:turn:",
            Self::Usage | Self::UsageCopy => "toolwire:usage:",
            Self::Results => "toolwire:result:",
        }
    }
}

impl Values {
    pub(super) fn new(server: Arc<RedisServer>, space: Space, ttl: Duration, on_failure: OnFailure) -> Self {
        Self { server, space, ttl, on_failure }
    }

    /// Returns the key on the server. A cluster hashes only the part that identifies the owner.
    fn placed(&self, key: &Key) -> Key {
        const OWNER: usize = 32;
        let (owner, id) = key.bytes.split_at_checked(OWNER).unwrap_or((&key.bytes, &[]));
        let owner = hex::encode(owner);
        let head = [self.space.prefix(), "{", &owner, "}:"].concat();
        Key { bytes: [head.as_bytes(), id].concat().into() }
    }

    /// Runs `work` on the server's thread and blocks until it returns.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (give, take) = mpsc::sync_channel(1);
        self.server.handle.spawn(async move {
            // An error means that nobody waits for the result.
            let _ = give.send(work.await);
        });
        take.recv().unwrap_or_else(|_| Err(StoreError::new("the store has been closed")))
    }

    /// The values of these keys that are still waiting to be written.
    fn waiting(&self, keys: &[Key], now: u64) -> Vec<Option<Bytes>> {
        let memory = self.server.inner.pending.memory.lock();
        keys.iter().map(|key| memory.get(key, now)).collect()
    }
}

/// Reads at most one byte more than the maximum size, in case another program wrote a huge value.
fn bounded_get(key: &Key) -> Command {
    Command::new("GETRANGE", &key.bytes, |command| _ = command.arg(0).arg(MAX_VALUE))
}

/// Checks the result of `bounded_get`. The server returns an empty value for a missing key; empty values are never
/// written.
fn bounded_value(value: Vec<u8>) -> Result<Option<Bytes>, StoreError> {
    match value.len() {
        0 => Ok(None),
        1..=MAX_VALUE => Ok(Some(value.into())),
        _ => Err(StoreError::new(format!("a value on the server has more than {MAX_VALUE} bytes"))),
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
        let wanted = missing.iter().filter_map(|place| keys.get(*place));
        let commands = wanted.map(bounded_get).collect();
        let inner = Arc::clone(&self.server.inner);
        let answers = self.wait(async move { Ok(inner.servers.ask_all(Line::Values, commands).await) })?;
        for (place, answer) in missing.into_iter().zip(answers) {
            if let Some(found) = found.get_mut(place) {
                *found = bounded_value(read(answer?)?)?;
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
            (self.on_failure)(NotStored::Lost(1));
            return;
        }
        let lost = pending.memory.lock().put(key, value, now.saturating_add(self.ttl.as_secs()));
        if lost > 0 {
            (self.on_failure)(NotStored::Lost(lost));
        }
        pending.added.notify_one();
    }

    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError> {
        let (key, inner) = (self.placed(key), Arc::clone(&self.server.inner));
        self.wait(async move {
            let _nothing_is_written = inner.pending.writing.lock().await;
            let was_waiting = inner.pending.memory.lock().remove(&key, now);
            let command = Command::new("DEL", &key.bytes, |_| ());
            let removed: u64 = read(inner.servers.ask(Line::Values, command).await?)?;
            Ok(was_waiting || removed > 0)
        })
    }
}

/// Writes values until it is dropped. Values that a server does not accept are retried after a pause.
pub(super) async fn write(inner: &Inner) {
    loop {
        let added = inner.pending.added.notified();
        match write_rest(inner).await {
            Written::All => added.await,
            // A timeout is not an error: it is time to retry the remaining values.
            Written::Some => _ = timeout(PROBE_INTERVAL, added).await,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    All,
    Some,
}

/// Tries to write all waiting values, oldest first.
pub(super) async fn write_rest(inner: &Inner) -> Written {
    let (mut from, mut written) = (0, Written::All);
    loop {
        let _writing = inner.pending.writing.lock().await;
        let batch = inner.pending.memory.lock().oldest(from, BATCH, BATCH_BYTES);
        let Some((_, newest)) = batch.last() else { return written };
        from = newest.number + 1;
        if write_batch(inner, batch).await == Written::Some {
            written = Written::Some;
        }
    }
}

async fn write_batch(inner: &Inner, mut batch: Vec<(Key, Entry)>) -> Written {
    let count = batch.len();
    batch.retain(|(key, _)| !inner.servers.is_away(Slot::of(&key.bytes)));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let command = |(key, entry): &(Key, Entry)| {
        let ttl = entry.expires.saturating_sub(now).max(1);
        Command::new("SET", &key.bytes, |command| _ = command.arg(&*entry.value).arg("EX").arg(ttl))
    };
    let answers = inner.servers.ask_all(Line::Values, batch.iter().map(command).collect()).await;
    let mut memory = inner.pending.memory.lock();
    let mut written = 0;
    for ((key, entry), _) in batch.iter().zip(answers).filter(|(_, answer)| answer.is_ok()) {
        memory.written(key, entry.number);
        written += 1;
    }
    if written == count { Written::All } else { Written::Some }
}

crate::wire::debug_fields!(Values { server, space });
