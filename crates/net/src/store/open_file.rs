//! [`OpenFile`]: values in a redb file.
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
    path::Path,
};

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition};

use super::checked_file::CheckedFile;
#[cfg(test)]
use super::disk::Faults;

const VALUES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("values");
const AGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ages");
const FORMAT: TableDefinition<'_, &str, u64> = TableDefinition::new("format");

/// The format version of the tables and values. Files with a higher version are not modified.
const VERSION: u64 = 1;

/// Size of redb's cache in bytes. The operating system caches the file as well.
pub(super) const CACHE: usize = if cfg!(test) { 64 << 10 } else { 2 << 20 };

/// Estimated overhead of a value in bytes. Counting it also limits the number of values.
const OVERHEAD: u64 = 256;

pub(super) struct OpenFile {
    database: Database,
    /// Total size of all values.
    bytes: u64,
    next: u64,
}

/// The error for a file of a newer version. The file is neither read nor replaced, since a newer program can use it.
fn newer(version: u64) -> io::Error {
    let what = format!(
        "it was written by a newer version of toolwire (format {version}, this one knows {VERSION}); update toolwire, or move the file away"
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

impl OpenFile {
    /// Reads the whole file, so that damage is detected before it is used.
    pub(super) fn new(file: &Path, #[cfg(test)] faults: &Faults) -> Result<Self, redb::Error> {
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
        Self::from_backend(backend)
    }

    /// Opens the file without changing it.
    pub(super) fn unchanged(file: &Path) -> Result<Self, redb::Error> {
        if !fs::metadata(file)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is not a regular file").into());
        }
        // Locking a file requires that it may be written.
        let opened = fs::OpenOptions::new().read(true).write(true).open(file)?;
        Self::from_backend(CheckedFile::unchanged(opened)?)
    }

    fn from_backend(backend: CheckedFile) -> Result<Self, redb::Error> {
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

    /// The size of redb's cache in bytes, at most [`CACHE`].
    pub(super) fn cached(&self) -> usize {
        self.database.cache_stats().used_bytes()
    }

    pub(super) fn get(&self, key: &[u8], now: u64) -> Result<Option<Bytes>, redb::Error> {
        let reading = self.database.begin_read()?;
        let values = reading.open_table(VALUES)?;
        let found = values.get(key)?;
        let value = found.as_ref().map(|found| Value::read(found.value()));
        Ok(value.filter(|value| value.expires > now).map(|value| Bytes::copy_from_slice(value.bytes)))
    }

    pub(super) fn put<'v>(
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

    pub(super) fn remove(&mut self, key: &[u8], now: u64) -> Result<bool, redb::Error> {
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

/// The state of a store's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    Missing,
    /// The file is complete. Contains its size in bytes.
    Whole(u64),
    /// A running server uses the file.
    InUse,
    /// Why the file would be replaced by a fresh one.
    Damaged(String),
    /// Why the file cannot be used.
    Unusable(String),
}

/// Returns the state of the file. Changes nothing, but reads the whole file.
pub fn examine(file: &Path) -> FileState {
    let len = match fs::metadata(file) {
        Ok(found) if found.is_file() && found.len() == 0 => {
            return FileState::Damaged("it is empty".to_owned());
        }
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return FileState::Missing,
        Err(error) => return FileState::Unusable(error.to_string()),
    };
    match contained(|| OpenFile::unchanged(file)) {
        Ok(_) => FileState::Whole(len),
        Err(redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch) => FileState::InUse,
        Err(error) if is_damage(&error) => FileState::Damaged(error.to_string()),
        Err(error) => FileState::Unusable(error.to_string()),
    }
}

/// Whether the file is damaged.
pub(super) fn is_damage(error: &redb::Error) -> bool {
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

/// Calls `act`, and treats a panic as damage to the file: redb documents that it may panic on damaged files.
pub(super) fn contained<T>(act: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    panic::catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(redb::Error::Corrupted("its contents contradict each other".to_owned())))
}
