//! What outlives a request: values under keys that belong to a client, for a limited time; and the limits that clients share.
//!
//! ```text
//! put ─▶ Memory ─▶ the store's thread ─▶ Disk (one file), or a server
//! get ─▶ Memory, else the same
//! ```
//!
//! A value can be read as soon as it has been put; the thread writes it later, so no response waits for a disk or a server. What is in
//! memory is what is not written yet: while that fails, it is tried again, in the order of the values, until newer ones displace them.
//! Nothing is created on disk before the first value is put.
//!
//! `Stores` says where values are: in files on this machine, or on a Redis or Valkey server, which several instances share. Each
//! kind of state has its `Space` there, and only a server has `SharedLimits` and `SharedText`.
//!
//! All functions of a [`Store`] block, some on the disk or the network: async code calls those from a thread for blocking work.

mod address;
mod checked;
mod disk;
mod memory;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "without servers, nobody makes or reads these"))]
mod shared_limits;
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "without servers, nobody makes or reads these"))]
mod shared_text;
mod spaces;
mod writing;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;

#[cfg(feature = "redis")]
pub(crate) use self::address::{Node, Sentinels};
pub use self::{
    address::StoreAddress,
    shared_limits::{Admission, Asked, Demand, Lease, Refusal, SharedLimits, Spent, Verdict},
    shared_text::{Revised, Revision, SharedText},
    spaces::{Space, Stores},
};
use self::{disk::Disk, memory::Memory};

/// Whether this build can keep state on a Redis or Valkey server.
pub const HAS_REDIS: bool = cfg!(feature = "redis");

/// Keeps values. Another implementation can keep them on another machine.
pub trait Store: fmt::Debug + Send + Sync {
    /// The value under `key`, if it was put before and has not expired at `now`, in seconds of Unix time.
    ///
    /// # Errors
    /// The store cannot be read, so that it is not known whether there is a value.
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError>;

    /// The same for several keys, in their order.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn get_all(&self, keys: &[Key], now: u64) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().map(|key| self.get(key, now)).collect()
    }

    /// Whether other instances put values, too.
    fn is_shared(&self) -> bool {
        false
    }

    /// Keeps a value from `now` on. Never blocks on the disk or the network.
    fn put(&self, key: Key, value: Bytes, now: u64);

    /// Removes the value under `key`. Returns whether there was one at `now`.
    ///
    /// # Errors
    /// The value may still be there.
    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError>;
}

/// A key: its owner, whose values nobody else can name, and an id of any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    bytes: Box<[u8]>,
}

impl Key {
    /// The key `id` of this owner.
    pub fn new(owner: Owner, id: &str) -> Self {
        Self { bytes: [owner.0.as_slice(), id.as_bytes()].concat().into() }
    }
}

/// Whose a value is: the digest of the key that the client showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub [u8; 32]);

impl Owner {
    /// The owner with this key.
    pub fn of_key(key: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, key);
        Self(digest.as_ref().try_into().unwrap_or_default())
    }
}

/// Why the store cannot be used.
#[derive(Debug, Clone)]
pub struct StoreError {
    reason: String,
    trouble: Trouble,
}

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The store has failed, and may work the next time.
    Failed,
    /// There is a file, but this process cannot open it. It has written nothing to it.
    Unusable,
    /// Another process has the file.
    Busy,
}

impl StoreError {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), trouble: Trouble::Failed }
    }

    /// Whether there is a file that cannot be opened, so that values are in memory only.
    pub fn is_unusable(&self) -> bool {
        self.trouble == Trouble::Unusable
    }

    /// Whether another process has the file.
    pub fn is_busy(&self) -> bool {
        self.trouble == Trouble::Busy
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for StoreError {}

/// Where and how much is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The folder of the file. `None`: values are kept in memory only.
    pub folder: Option<PathBuf>,
    /// Bytes of all values. Beyond, the oldest are removed.
    pub max_bytes: usize,
    /// How long a value is kept.
    pub ttl: Duration,
}

/// Called with the number of values that could not be written.
pub type OnFailure = Box<dyn Fn(u64) + Send + Sync>;

/// The store on this machine.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// The thread that writes, and how it learns of new values. `None` until there are any.
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    /// Dropping it ends the thread.
    wake: mpsc::SyncSender<()>,
    thread: JoinHandle<()>,
}

struct Shared {
    settings: StoreSettings,
    /// Values that are not on disk yet, or cannot be.
    memory: Mutex<Memory>,
    disk: Mutex<Disk>,
    on_failure: OnFailure,
}

impl EmbeddedStore {
    /// A store with these settings. It does not look at the disk yet.
    pub fn new(settings: StoreSettings, on_failure: OnFailure) -> Self {
        Self::in_file(settings, Space::Responses.file(), on_failure)
    }

    /// The same in a file of this name. A file has one store at a time. If there is one, the thread begins to read it.
    pub(crate) fn in_file(settings: StoreSettings, file: &str, on_failure: OnFailure) -> Self {
        let memory = Mutex::new(Memory::new(settings.max_bytes.min(MAX_MEMORY)));
        let disk = Disk::new(settings.folder.as_ref().map(|folder| folder.join(file)), settings.max_bytes);
        let exists = disk.exists();
        let shared = Shared { settings, memory, disk: Mutex::new(disk), on_failure };
        let store = Self { shared: Arc::new(shared), writer: Mutex::new(None) };
        if exists {
            store.wake();
        }
        store
    }

    /// Tells the thread that there is something to write; starts it if there is none.
    fn wake(&self) {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            let (wake, woken) = mpsc::sync_channel(1);
            let shared = Arc::clone(&self.shared);
            let started = thread::Builder::new()
                .name("toolwire-store".into())
                .spawn(move || writing::run(&shared, &woken));
            match started {
                Ok(thread) => *writer = Some(Writer { wake, thread }),
                Err(error) => {
                    tracing::error!(%error, "the store has no thread; values are kept in memory only")
                }
            }
        }
        if let Some(writer) = &*writer {
            // Fails if it is to be woken already, or has panicked. The value stays in memory.
            let _ = writer.wake.try_send(());
        }
    }
}

/// Bytes of values that wait to be written, or that cannot be.
const MAX_MEMORY: usize = 64 << 20;

impl Store for EmbeddedStore {
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError> {
        // Its own statement, so that the memory is not locked while the disk is read.
        let found = lock(&self.shared.memory).get(key, now);
        match found {
            Some(value) => Ok(Some(value)),
            None => lock(&self.shared.disk).get(&key.bytes, now),
        }
    }

    fn put(&self, key: Key, value: Bytes, now: u64) {
        let expires = now.saturating_add(self.shared.settings.ttl.as_secs());
        let lost = lock(&self.shared.memory).put(key, value, expires);
        self.shared.lost(lost);
        if self.shared.settings.folder.is_some() {
            self.wake();
        }
    }

    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError> {
        let in_memory = lock(&self.shared.memory).remove(key, now);
        // The thread holds the disk from when it looks at the memory until the value is written, so this removes it then.
        match lock(&self.shared.disk).remove(&key.bytes, now) {
            Ok(on_disk) => Ok(in_memory || on_disk),
            // Nothing of this process is in that file.
            Err(error) if in_memory && error.trouble != Trouble::Failed => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Shared {
    fn lost(&self, count: u64) {
        if count > 0 {
            (self.on_failure)(count);
        }
    }
}

/// The state behind a lock is whole between any two statements, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until everything is written.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(Writer { wake, thread }) = lock(&self.writer).take() {
            drop(wake);
            // An error means that the thread panicked, and so has ended.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
