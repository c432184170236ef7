//! [`Disk`]: values in a redb file.
//!
//! | table | key | value |
//! |---|---|---|
//! | `values` | the key's bytes | number, expiry time, the value |
//! | `ages` | number | size of the value, the key's bytes |
//! | `format` | `version` | [`VERSION`]; files without an entry have version 1 |
//!
//! Numbers and times are eight bytes, big-endian.
//!
//! Files of older versions must stay readable. Before changing the format, add files that the current version wrote to
//! `fixtures/upgrade`. If older versions cannot read the new files, increase [`VERSION`].

use std::{
    fs, io,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition};

use super::{StoreError, Trouble, checked_file::CheckedFile};

const VALUES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("values");
const AGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ages");
const FORMAT: TableDefinition<'_, &str, u64> = TableDefinition::new("format");

/// The format version of the tables and values. Files with a higher version are not modified.
const VERSION: u64 = 1;

/// Size of redb's cache in bytes. The operating system caches the file as well.
const CACHE: usize = if cfg!(test) { 64 << 10 } else { 8 << 20 };

/// Estimated overhead of a value in bytes. Counting it also limits the number of values.
const OVERHEAD: u64 = 256;

/// Minimum time before an unusable file is opened again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Returns how long to wait before the next attempt to open a file. An attempt may take a long time, because it reads
/// the whole file. With these pauses, attempts take up only about a tenth of the time.
pub(super) fn pause_after(attempt: Duration) -> Duration {
    (attempt * 10).clamp(RETRY, RETRY * 60)
}

pub(super) struct Disk {
    file: Option<PathBuf>,
    max_bytes: u64,
    state: State,
    /// The last error that was logged.
    logged: Option<String>,
    #[cfg(test)]
    pub(super) faults: Faults,
}

enum State {
    /// Not opened yet, or closed after an error, because redb then refuses all operations until the file is opened
    /// again.
    Closed,
    Open(Box<Open>),
    /// The file cannot be opened. `until` is the time of the next attempt.
    Unusable {
        why: StoreError,
        until: Option<Instant>,
    },
}

struct Open {
    database: Database,
    /// Total size of all values.
    bytes: u64,
    next: u64,
}

impl Disk {
    pub(super) fn new(file: Option<PathBuf>, max_bytes: usize) -> Self {
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        Self {
            file,
            max_bytes,
            state: State::Closed,
            logged: None,
            #[cfg(test)]
            faults: Faults::default(),
        }
    }

    /// Whether the file exists, or may exist.
    pub(super) fn exists(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !matches!(file.try_exists(), Ok(false)))
    }

    /// Opens the file if it exists, so that the first request does not have to wait for that.
    pub(super) fn prepare(&mut self) {
        // Errors were logged.
        let _ = self.existing();
    }

    /// Lets the next operation try to open the file again, regardless of when the last attempt failed.
    pub(super) fn try_again(&mut self) {
        if matches!(self.state, State::Unusable { until: Some(_), .. }) {
            self.state = State::Closed;
        }
    }

    /// Returns the value of `key`. Does not create the file.
    pub(super) fn get(&mut self, key: &[u8], now: u64) -> Result<Option<Bytes>, StoreError> {
        let found = self.act(Self::existing, |open, _| open.get(key, now))?;
        Ok(found.flatten())
    }

    /// Writes all of these values with their expiry times, or none of them. Removes the values that have expired at
    /// `now`.
    pub(super) fn put<'v>(
        &mut self,
        values: impl Iterator<Item = (&'v [u8], u64, &'v [u8])> + Clone,
        now: u64,
    ) -> Result<(), StoreError> {
        self.act(Self::open, |open, max_bytes| open.put(values.clone(), max_bytes, now)).map(|_| ())
    }

    /// Removes the value of `key`. Returns whether there was one.
    pub(super) fn remove(&mut self, key: &[u8], now: u64) -> Result<bool, StoreError> {
        let removed = self.act(Self::existing, |open, _| open.remove(key, now))?;
        Ok(removed.unwrap_or(false))
    }

    /// Calls `act` with the open file and its size limit. Returns `None` if there is no file. If the file turns out to
    /// be damaged, it is moved out of the way, and `act` is called again with the next file.
    fn act<T>(
        &mut self,
        open: impl Fn(&mut Self) -> Result<Option<&mut Open>, StoreError>,
        act: impl Fn(&mut Open, u64) -> Result<T, redb::Error>,
    ) -> Result<Option<T>, StoreError> {
        let max_bytes = self.max_bytes;
        let mut once_more = true;
        loop {
            let Some(opened) = open(self)? else { return Ok(None) };
            let error = match contained(|| act(opened, max_bytes)) {
                Ok(done) => return Ok(Some(done)),
                Err(error) => error,
            };
            self.close();
            match &self.file {
                Some(file) if once_more && is_damage(&error) => {
                    once_more = false;
                    set_aside(file, &error).map_err(redb::Error::from).map_err(StoreError::new)?;
                }
                file => return Err(StoreError { file: file.clone(), ..StoreError::new(error) }),
            }
        }
    }

    fn close(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Closed);
        // Closing the file writes what can still be written. An error here has the same cause as the earlier one.
        let _ = contained(|| {
            drop(state);
            Ok(())
        });
    }

    /// The open file, if it exists.
    fn existing(&mut self) -> Result<Option<&mut Open>, StoreError> {
        match self.state {
            State::Closed if !self.exists() => Ok(None),
            _ => self.open(),
        }
    }

    /// The open file, which is created if necessary. `None` if values are only kept in memory.
    fn open(&mut self) -> Result<Option<&mut Open>, StoreError> {
        let Some(file) = &self.file else { return Ok(None) };
        match &self.state {
            State::Unusable { why, until } if until.is_none_or(|until| Instant::now() < until) => {
                return Err(why.clone());
            }
            State::Open(_) => {}
            State::Closed | State::Unusable { .. } => {
                let begun = Instant::now();
                let opened = open_or_replace(
                    file,
                    #[cfg(test)]
                    &self.faults,
                );
                let took = begun.elapsed();
                self.state = match opened {
                    Ok(open) => {
                        if self.logged.take().is_some() {
                            tracing::info!(path = %file.display(), "the store can be used again");
                        }
                        State::Open(Box::new(open))
                    }
                    Err(error) => {
                        // This version will never be able to read the file.
                        let is_final = matches!(&error, redb::Error::Io(error) if error.kind() == io::ErrorKind::Unsupported);
                        let until = (!is_final).then(|| Instant::now() + pause_after(took));
                        State::Unusable { why: self.unusable(error), until }
                    }
                };
            }
        }
        match &mut self.state {
            State::Open(open) => Ok(Some(open)),
            State::Unusable { why, .. } => Err(why.clone()),
            State::Closed => Ok(None),
        }
    }

    /// Converts the error, and logs it unless it was the last one logged.
    fn unusable(&mut self, error: redb::Error) -> StoreError {
        use redb::Error::{DatabaseAlreadyOpen, LockProtocolMismatch};
        let (trouble, why) = match error {
            DatabaseAlreadyOpen | LockProtocolMismatch => (
                Trouble::Busy,
                StoreError::new("another process uses it; two servers must not share a `state_dir`"),
            ),
            redb::Error::Io(error) if is_for_others(&error) => (Trouble::Unusable, StoreError::new(error)),
            error => (Trouble::Failed, StoreError::new(error)),
        };
        let reason = why.to_string();
        if self.logged.as_ref() != Some(&reason) {
            let path = self.file.as_deref().unwrap_or(Path::new("")).display();
            tracing::error!(%path, error = reason, "the store cannot be used; values are kept in memory only");
        }
        self.logged = Some(reason);
        StoreError { file: self.file.clone(), trouble, ..why }
    }
}

/// Whether the error means that the path holds something that this program cannot have created or cannot use. A full
/// disk, for example, does not mean that.
fn is_for_others(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | IsADirectory | NotADirectory | Unsupported)
}

/// Calls `act`, and treats a panic as damage to the file: redb documents that it may panic on damaged files.
fn contained<T>(act: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    panic::catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(redb::Error::Corrupted("its contents contradict each other".to_owned())))
}

/// Opens or creates the file. If it is damaged, moves it out of the way and creates a new one.
fn open_or_replace(file: &Path, #[cfg(test)] faults: &Faults) -> Result<Open, redb::Error> {
    if let Some(folder) = file.parent() {
        make_private_folder(folder)?;
    }
    let open = || {
        contained(|| {
            Open::new(
                file,
                #[cfg(test)]
                faults,
            )
        })
    };
    match open() {
        Err(error) if is_damage(&error) => {
            set_aside(file, &error)?;
            open()
        }
        opened => opened,
    }
}

/// Maximum number of damaged files that are retained.
const MAX_ASIDE: usize = 1000;

/// Renames a damaged file, so that a new one can be created. Never overwrites a file.
fn set_aside(file: &Path, error: &redb::Error) -> io::Result<()> {
    let damaged = file.with_added_extension("damaged");
    let numbered = (2..=MAX_ASIDE).map(|number| damaged.with_added_extension(number.to_string()));
    let is_free = |path: &PathBuf| matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let free = std::iter::once(damaged.clone()).chain(numbered).find(is_free);
    let aside =
        free.ok_or_else(|| io::Error::other("it is damaged, and too many damaged files were kept"))?;
    let (path, aside_path) = (file.display(), aside.display());
    tracing::error!(%path, %error, set_aside = %aside_path, "the store is damaged; beginning a fresh one");
    fs::rename(file, &aside)
}

/// Creates a folder that only this user can read, because it will contain conversations.
fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        redb::Error::Io(error) => {
            matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
        }
        redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TableDoesNotExist(_) => true,
        _ => false,
    }
}

/// The error for a file of a newer version. The file is neither read nor replaced, since a newer program can use it.
fn newer(version: u64) -> io::Error {
    let what = format!(
        "it was written by a newer version of toolwire (format {version}, this one knows {VERSION}); update toolwire, or move the file away"
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

impl Open {
    /// Reads the whole file, so that damage is detected before it is used.
    fn new(file: &Path, #[cfg(test)] faults: &Faults) -> Result<Self, redb::Error> {
        // Opening a pipe has side effects and may block.
        if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is not a regular file").into());
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        #[cfg_attr(not(test), expect(unused_mut, reason = "only tests add faults"))]
        let mut backend = CheckedFile::new(options.open(file)?)?;
        #[cfg(test)]
        {
            backend.faults = faults.clone();
        }
        let database = Database::builder()
            .set_cache_size(CACHE)
            .set_check_integrity_on_open(true)
            .create_with_backend(backend)?;
        let writing = database.begin_write()?;
        let (mut bytes, mut next) = (0_u64, 0);
        {
            let mut format = writing.open_table(FORMAT)?;
            let found = format.get("version")?.map_or(VERSION, |version| version.value());
            if found > VERSION {
                return Err(newer(found).into());
            }
            format.insert("version", VERSION)?;
            writing.open_table(VALUES)?;
            let ages = writing.open_table(AGES)?;
            for entry in ages.iter()? {
                let (number, age) = entry?;
                bytes = bytes.saturating_add(Age::read(age.value()).size);
                next = number.value().saturating_add(1);
            }
        }
        writing.commit()?;
        Ok(Self { database, bytes, next })
    }

    fn get(&self, key: &[u8], now: u64) -> Result<Option<Bytes>, redb::Error> {
        let reading = self.database.begin_read()?;
        let values = reading.open_table(VALUES)?;
        let found = values.get(key)?;
        let value = found.as_ref().map(|found| Value::read(found.value()));
        Ok(value.filter(|value| value.expires > now).map(|value| Bytes::copy_from_slice(value.bytes)))
    }

    fn put<'v>(
        &mut self,
        new: impl Iterator<Item = (&'v [u8], u64, &'v [u8])>,
        max_bytes: u64,
        now: u64,
    ) -> Result<(), redb::Error> {
        let writing = self.database.begin_write()?;
        let (mut bytes, mut next) = (self.bytes, self.next);
        {
            let mut values = writing.open_table(VALUES)?;
            let mut ages = writing.open_table(AGES)?;
            for (key, expires, value) in new {
                bytes = bytes.saturating_sub(take(&mut values, &mut ages, key)?.map_or(0, |old| old.size));
                let size =
                    u64::try_from(key.len() + value.len()).unwrap_or(u64::MAX).saturating_add(OVERHEAD);
                ages.insert(next, [&size.to_be_bytes(), key].concat().as_slice())?;
                let head = [next.to_be_bytes(), expires.to_be_bytes()].concat();
                values.insert(key, [&head, value].concat().as_slice())?;
                (bytes, next) = (bytes.saturating_add(size), next + 1);
            }
            while let Some((number, age)) = oldest(&ages)? {
                let age = Age::read(&age);
                let has_expired = |value: &[u8]| Value::read(value).expires <= now;
                if bytes <= max_bytes && !values.get(age.key)?.is_none_or(|value| has_expired(value.value()))
                {
                    break;
                }
                values.remove(age.key)?;
                ages.remove(number)?;
                bytes = bytes.saturating_sub(age.size);
            }
        }
        writing.commit()?;
        (self.bytes, self.next) = (bytes, next);
        Ok(())
    }

    fn remove(&mut self, key: &[u8], now: u64) -> Result<bool, redb::Error> {
        let writing = self.database.begin_write()?;
        let removed = {
            let mut values = writing.open_table(VALUES)?;
            let mut ages = writing.open_table(AGES)?;
            take(&mut values, &mut ages, key)?
        };
        writing.commit()?;
        self.bytes = self.bytes.saturating_sub(removed.as_ref().map_or(0, |removed| removed.size));
        Ok(removed.is_some_and(|removed| removed.expires > now))
    }
}

/// The oldest value's number and its entry in `ages`.
fn oldest(ages: &Table<'_, u64, &'static [u8]>) -> Result<Option<(u64, Vec<u8>)>, StorageError> {
    let first = ages.first()?;
    Ok(first.map(|(number, age)| (number.value(), age.value().to_vec())))
}

struct Removed {
    size: u64,
    expires: u64,
}

fn take(
    values: &mut Table<'_, &'static [u8], &'static [u8]>,
    ages: &mut Table<'_, u64, &'static [u8]>,
    key: &[u8],
) -> Result<Option<Removed>, StorageError> {
    let Some(old) = values.remove(key)? else { return Ok(None) };
    let Value { number, expires, .. } = Value::read(old.value());
    drop(old);
    let age = ages.remove(number)?;
    let size = age.map_or(0, |age| Age::read(age.value()).size);
    Ok(Some(Removed { size, expires }))
}

struct Value<'b> {
    number: u64,
    expires: u64,
    bytes: &'b [u8],
}

impl<'b> Value<'b> {
    fn read(bytes: &'b [u8]) -> Self {
        let (number, rest) = word(bytes);
        let (expires, bytes) = word(rest);
        Self { number, expires, bytes }
    }
}

struct Age<'b> {
    size: u64,
    key: &'b [u8],
}

impl<'b> Age<'b> {
    fn read(bytes: &'b [u8]) -> Self {
        let (size, key) = word(bytes);
        Self { size, key }
    }
}

/// Splits off the eight-byte number at the start.
fn word(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk() {
        Some((word, rest)) => (u64::from_be_bytes(*word), rest),
        None => (0, bytes),
    }
}

#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub(super) struct Faults(std::sync::Arc<std::sync::atomic::AtomicBool>);

#[cfg(test)]
impl Faults {
    pub(super) fn set_full(&self, is_full: bool) {
        self.0.store(is_full, std::sync::atomic::Ordering::Release);
    }

    pub(super) fn write(&self) -> io::Result<()> {
        if self.0.load(std::sync::atomic::Ordering::Acquire) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn grow(&self, before: u64, now: u64) -> io::Result<()> {
        if now > before { self.write() } else { Ok(()) }
    }
}
