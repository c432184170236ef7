//! State that outlives a request: values that expire, under keys that belong to a client, and limits that instances
//! share.
//!
//! ```text
//! put ─▶ Memory ─▶ the store's thread ─▶ Disk (one file), or a server
//! get ─▶ Memory, or else the same
//! ```
//!
//! A value can be read as soon as it has been put. A thread writes it later, so that no response waits for a disk or a
//! server; until then it is in memory. If writing fails, it is retried, oldest values first, until newer values
//! displace them. Nothing is created on disk before the first value is put.
//!
//! `Stores` selects where values are stored: in files on this machine, or on a Redis or Valkey server that several
//! instances share. Each kind of state has its own `Space` there. `SharedLimits` and `SharedText` exist only on a
//! server.
//!
//! Reading or removing values of a [`Store`] may block on the disk or the network. Async code must call these functions
//! on a thread that may block.

mod address;
mod checked_file;
mod disk;
mod file_report;
mod memory;
mod open_file;
mod overlay;
#[cfg_attr(not(feature = "redis"), path = "no_redis.rs")]
mod redis;
mod server_facts;
mod shared_limits;
mod shared_text;
mod spaces;
mod steady_clock;
mod writing;

use std::{
    error::Error,
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

pub use self::{
    address::{Node, Sentinels, StoreAddress},
    file_report::FileMetrics,
    open_file::{FileState, examine},
    redis::RedisServer,
    server_facts::ServerFacts,
    shared_limits::{Admission, Asked, Demand, Lease, Refusal, SharedLimits, Spent, Verdict},
    shared_text::{Revised, Revision, SharedText},
    spaces::{OnChange, Reach, Space, Stores, examine_files},
};
use self::{disk::Disk, file_report::FileReport, memory::Memory, steady_clock::SteadyClock};

/// Whether this build can store state on a Redis or Valkey server.
pub const HAS_REDIS: bool = cfg!(feature = "redis");

/// A store for values, on this machine or elsewhere.
pub trait Store: fmt::Debug + Send + Sync {
    /// Returns the value of `key`. `None` if there is none, or if it has expired at `now`, which is Unix time in
    /// seconds.
    ///
    /// # Errors
    /// The store cannot be read, so it is unknown whether there is a value.
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError>;

    /// Returns the values of several keys, in the order of the keys.
    ///
    /// # Errors
    /// See [`Store::get`].
    fn get_all(&self, keys: &[Key], now: u64) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().map(|key| self.get(key, now)).collect()
    }

    /// Whether other instances use the same store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Stores a value. `now` is the start of its lifetime. Never blocks on the disk or the network.
    fn put(&self, key: Key, value: Bytes, now: u64);

    /// Removes the value of `key`. Returns whether there was one at `now`.
    ///
    /// # Errors
    /// The removal failed, so the value may still exist.
    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError>;

    /// Returns the memory that the store holds. Does not wait for the disk or the network.
    fn held(&self) -> HeldBytes {
        HeldBytes::default()
    }
}

/// The memory that a store holds, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// Values that are not on the disk or the server, with their keys and an estimated overhead.
    pub values: usize,
    /// Pages of the store's file.
    pub pages: usize,
}

impl std::iter::Sum for HeldBytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            values: sum.values + one.values,
            pages: sum.pages + one.pages,
        })
    }
}

/// A key: an owner and an id of arbitrary bytes. Clients can only name keys of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    bytes: Box<[u8]>,
}

impl Key {
    pub fn new(owner: Owner, id: &str) -> Self {
        Self { bytes: [owner.0.as_slice(), id.as_bytes()].concat().into() }
    }
}

/// The owner of a value, identified by the digest of an API key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub [u8; 32]);

impl Owner {
    pub fn of_key(key: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, key);
        Self(digest.as_ref().try_into().unwrap_or_default())
    }
}

/// Why a store cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{reason}", file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default())]
pub struct StoreError {
    /// The file of the store, if it is the cause.
    file: Option<PathBuf>,
    #[source]
    reason: Arc<dyn Error + Send + Sync>,
    trouble: Trouble,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The operation failed, but the next one may succeed.
    Failed,
    /// The file exists, but this process cannot open it and has not written to it.
    Unusable,
    Busy,
}

impl StoreError {
    /// Creates an error from another error or from a message.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { file: None, reason: reason.into().into(), trouble: Trouble::Failed }
    }

    /// Whether the file exists but cannot be opened. Values are then kept only in memory.
    pub fn is_unusable(&self) -> bool {
        self.trouble == Trouble::Unusable
    }

    pub fn is_busy(&self) -> bool {
        self.trouble == Trouble::Busy
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The folder of the file. `None` keeps values only in memory.
    pub folder: Option<PathBuf>,
    /// Maximum size of all values in bytes. If it is exceeded, the oldest are removed.
    pub max_bytes: usize,
    /// How long a value is stored.
    pub ttl: Duration,
}

/// Values that are not where they should be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStored {
    /// This many values could not be written at the first attempt, and wait in memory.
    Delayed(u64),
    /// This many values are lost.
    Lost(u64),
}

impl NotStored {
    pub fn count(self) -> u64 {
        let (Self::Delayed(count) | Self::Lost(count)) = self;
        count
    }
}

/// Called when values could not be stored.
pub type OnFailure = Box<dyn Fn(NotStored) + Send + Sync>;

/// A store on this machine.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// The thread that writes, and the channel that wakes it. `None` until the first value is put.
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    /// Dropping it ends the thread.
    wake: mpsc::SyncSender<()>,
    thread: JoinHandle<()>,
}

struct Shared {
    settings: StoreSettings,
    /// Values that are not on disk yet, or that cannot be written.
    memory: Mutex<Memory>,
    disk: Mutex<Disk>,
    /// The size of the disk's cache when it was last measured, in bytes.
    pages: AtomicUsize,
    clock: SteadyClock,
    report: FileReport,
    on_failure: OnFailure,
}

impl EmbeddedStore {
    /// Creates a store. Does not access the disk yet. Its values expire as soon as the time that callers give says so.
    pub fn new(settings: StoreSettings, on_failure: OnFailure) -> Self {
        let report = FileReport::new(Space::Responses.file(), FileMetrics::default());
        Self::in_file(settings, report, SteadyClock::without_grace(), on_failure)
    }

    /// Creates a store in the file of this report, which no other store may use. If the file exists, the thread starts
    /// to read it.
    pub(crate) fn in_file(
        settings: StoreSettings,
        report: FileReport,
        clock: SteadyClock,
        on_failure: OnFailure,
    ) -> Self {
        let memory = Mutex::new(Memory::new(settings.max_bytes.min(MAX_MEMORY)));
        let path = settings.folder.as_ref().map(|folder| folder.join(report.file()));
        if path.is_some() {
            report.written();
        }
        let disk = Disk::new(path, settings.max_bytes, report.clone());
        let exists = disk.exists();
        let (disk, pages) = (Mutex::new(disk), AtomicUsize::new(0));
        let shared = Shared { settings, memory, disk, pages, clock, report, on_failure };
        let store = Self { shared: Arc::new(shared), writer: Mutex::new(None) };
        if exists {
            store.wake();
        }
        store
    }

    /// Tells the thread that there is something to write, and starts it if necessary.
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
            // Fails if the thread is about to wake up anyway, or has panicked. Either way, the value stays in memory.
            let _ = writer.wake.try_send(());
        }
    }
}

/// Maximum size in bytes of all values that are not on disk yet or cannot be written.
const MAX_MEMORY: usize = 64 << 20;

impl Store for EmbeddedStore {
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>, StoreError> {
        let now = self.shared.clock.earliest(now);
        // A separate statement, so that the memory is not locked while the disk is read.
        let found = lock(&self.shared.memory).get(key, now);
        match found {
            Some(value) => Ok(Some(value)),
            None => lock(&self.shared.disk).get(&key.bytes, now),
        }
    }

    fn put(&self, key: Key, value: Bytes, now: u64) {
        let begin = self.shared.clock.latest(now);
        let expires = begin.saturating_add(self.shared.settings.ttl.as_secs());
        let lost = lock(&self.shared.memory).put(key, value, expires);
        self.shared.not_stored(NotStored::Lost(lost));
        if self.shared.settings.folder.is_some() {
            self.wake();
        }
    }

    fn remove(&self, key: &Key, now: u64) -> Result<bool, StoreError> {
        let now = self.shared.clock.earliest(now);
        let in_memory = lock(&self.shared.memory).remove(key, now);
        // The thread locks the disk before it takes values from memory, and unlocks it after they are written. So if
        // the thread has taken the value, it is on disk by the time this gets the lock.
        match lock(&self.shared.disk).remove(&key.bytes, now) {
            Ok(on_disk) => Ok(in_memory || on_disk),
            // The file contains no value from this process.
            Err(error) if in_memory && error.trouble != Trouble::Failed => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn held(&self) -> HeldBytes {
        // The thread holds this lock while it writes.
        if let Some(disk) = self.shared.disk.try_lock() {
            self.shared.pages.store(disk.cached(), Ordering::Relaxed);
        }
        let values = lock(&self.shared.memory).bytes();
        HeldBytes { values, pages: self.shared.pages.load(Ordering::Relaxed) }
    }
}

impl Shared {
    fn not_stored(&self, values: NotStored) {
        if values.count() > 0 {
            (self.on_failure)(values);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Waits until all values are written.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(Writer { wake, thread }) = lock(&self.writer).take() {
            drop(wake);
            // An error means that the thread has panicked.
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
