//! State that outlives a request: values that are kept for a limited time under keys that belong to a client, and
//! the limits that clients share.
//!
//! ```text
//! put ─▶ Memory ─▶ the store's thread ─▶ Disk (one file), or a server
//! get ─▶ Memory, else the same
//! ```
//!
//! A value can be read as soon as it has been put; the thread writes it later, so no response waits for a disk or a
//! server. The memory holds the values that are not written yet. If writing fails, it is tried again in the order of
//! the values, until newer values displace them. Nothing is created on disk before the first value is put.
//!
//! `Stores` says where values are kept: in files on this machine, or on a Redis or Valkey server that several
//! instances share. Each kind of state has its own `Space` there. Only a server has `SharedLimits` and
//! `SharedText`.
//!
//! The functions of a [`Store`] that read or remove values may block on the disk or the network: async code calls
//! them on a thread for blocking work.

mod address;
mod checked_file;
mod disk;
mod memory;
#[cfg_attr(not(feature = "redis"), path = "no_redis.rs")]
mod redis;
mod shared_limits;
mod shared_text;
mod spaces;
mod writing;

use std::{
    error::Error,
    fmt,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

pub use self::{
    address::{Node, Sentinels, StoreAddress},
    redis::RedisServer,
    shared_limits::{Admission, Asked, Demand, Lease, Refusal, SharedLimits, Spent, Verdict},
    shared_text::{Revised, Revision, SharedText},
    spaces::{OnChange, Reach, Space, Stores},
};
use self::{disk::Disk, memory::Memory};

/// Whether this build can keep state on a Redis or Valkey server.
pub const HAS_REDIS: bool = cfg!(feature = "redis");

/// Stores values. Other implementations can store them on another machine.
pub trait Store: fmt::Debug + Send + Sync {
    /// Returns the value under `key`, if it has been put and has not expired at `now`, in seconds of Unix time.
    ///
    /// # Errors
    /// If the store cannot be read, so that it is unknown whether there is a value.
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError>;

    /// Returns the values under several keys, in the order of the keys.
    ///
    /// # Errors
    /// As for [`Store::get`].
    fn get_all(&self, keys: &[Key], now: u64) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().map(|key| self.get(key, now)).collect()
    }

    /// Whether other instances also put values into the store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Keeps a value from `now` on. Never blocks on the disk or the network.
    fn put(&self, key: Key, value: Bytes, now: u64);

    /// Removes the value under `key`. Returns whether it existed at `now`.
    ///
    /// # Errors
    /// If the removal failed; the value may still exist.
    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError>;
}

/// A key: its owner, whose values no one else can name, and an id of arbitrary bytes.
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

/// The owner of a value: the digest of the client's API key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub [u8; 32]);

impl Owner {
    /// The owner of this API key.
    pub fn of_key(key: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, key);
        Self(digest.as_ref().try_into().unwrap_or_default())
    }
}

/// The reason why the store cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{reason}", file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default())]
pub struct StoreError {
    /// The file that the store uses, if the file is the problem.
    file: Option<PathBuf>,
    #[source]
    reason: Arc<dyn Error + Send + Sync>,
    trouble: Trouble,
}

/// The kind of problem with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The store has failed, but may work next time.
    Failed,
    /// The file exists, but this process cannot open it and has written nothing to it.
    Unusable,
    /// Another process uses the file.
    Busy,
}

impl StoreError {
    /// An error with this reason, an error or a message.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { file: None, reason: reason.into().into(), trouble: Trouble::Failed }
    }

    /// Whether the file exists but cannot be opened. Values are then kept in memory only.
    pub fn is_unusable(&self) -> bool {
        self.trouble == Trouble::Unusable
    }

    /// Whether another process uses the file.
    pub fn is_busy(&self) -> bool {
        self.trouble == Trouble::Busy
    }
}

/// The location and limits of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The folder of the file. `None` if values are kept in memory only.
    pub folder: Option<PathBuf>,
    /// Maximum total bytes of all values. If they exceed it, the oldest are removed.
    pub max_bytes: usize,
    /// Time for which a value is kept.
    pub ttl: Duration,
}

/// Called with the number of values that could not be written.
pub type OnFailure = Box<dyn Fn(u64) + Send + Sync>;

/// The store on this machine.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// The thread that writes, with the channel that wakes it. `None` until a value is put.
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    /// Dropping this sender ends the thread.
    wake: mpsc::SyncSender<()>,
    thread: JoinHandle<()>,
}

struct Shared {
    settings: StoreSettings,
    /// Values that are not on disk yet, or cannot be written.
    memory: Mutex<Memory>,
    disk: Mutex<Disk>,
    on_failure: OnFailure,
}

impl EmbeddedStore {
    /// Creates a store with these settings. Does not look at the disk yet.
    pub fn new(settings: StoreSettings, on_failure: OnFailure) -> Self {
        Self::in_file(settings, Space::Responses.file(), on_failure)
    }

    /// Creates a store in the file with this name. Only one store may use a file at a time. If the file exists, the
    /// thread starts to read it.
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

    /// Notifies the thread that there is something to write. Starts the thread if necessary.
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
            // Fails if the thread is already going to wake, or has panicked. The value stays in memory.
            let _ = writer.wake.try_send(());
        }
    }
}

/// Maximum bytes of values that wait to be written or cannot be written.
const MAX_MEMORY: usize = 64 << 20;

impl Store for EmbeddedStore {
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError> {
        // This is a separate statement, so that the memory is not locked while the disk is read.
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
        // The thread locks the disk before it takes values from memory, and until they are written. So a value that the
        // thread has taken is already on disk here.
        match lock(&self.shared.disk).remove(&key.bytes, now) {
            Ok(on_disk) => Ok(in_memory || on_disk),
            // That file contains no value of this process.
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

/// The state that a lock protects is consistent between any two statements, so a panic elsewhere does not corrupt it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
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
