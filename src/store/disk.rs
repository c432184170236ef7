//! [`Disk`]: values in one file, with redb.
//!
//! | table | key | value |
//! |---|---|---|
//! | `values` | the key's bytes | number, time of expiry, the value |
//! | `ages` | number | size of the value, the key's bytes |
//! | `format` | `version` | [`VERSION`]; files without it have the first one |
//!
//! Numbers and times are eight bytes, the most significant first.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use redb::{
    Database, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition, backends::FileBackend,
};

use super::StoreError;

const VALUES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("values");
const AGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("ages");
const FORMAT: TableDefinition<'_, &str, u64> = TableDefinition::new("format");

/// The version of these tables and of the values in them. A file with a higher one is left alone.
const VERSION: u64 = 1;

/// Bytes that redb may cache. The file's pages are cached by the system, too.
const CACHE: usize = 8 << 20;

/// Bytes that a value takes beside its own, by estimate. They also limit how many there are.
const OVERHEAD: u64 = 256;

/// The values on disk.
pub(super) struct Disk {
    file: Option<PathBuf>,
    max_bytes: u64,
    state: State,
}

enum State {
    /// Not looked at yet.
    Closed,
    Open(Open),
    /// It cannot be used by this process.
    Unusable(String),
}

struct Open {
    database: Database,
    /// Bytes of all values.
    bytes: u64,
    /// The number of the next value.
    next: u64,
}

impl Disk {
    pub(super) fn new(file: Option<PathBuf>, max_bytes: usize) -> Self {
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        Self { file, max_bytes, state: State::Closed }
    }

    /// The value under `key`. Does not create the file if it does not exist.
    pub(super) fn get(&mut self, key: &[u8], now: u64) -> Result<Option<Bytes>, StoreError> {
        match self.existing()? {
            Some(open) => open.get(key, now).map_err(failed),
            None => Ok(None),
        }
    }

    /// Writes values with their times of expiry, all or none of them, and removes those that have expired at `now`.
    pub(super) fn put<'v>(
        &mut self,
        values: impl Iterator<Item = (&'v [u8], u64, &'v [u8])>,
        now: u64,
    ) -> Result<(), StoreError> {
        let max_bytes = self.max_bytes;
        match self.open()? {
            Some(open) => open.put(values, (max_bytes, now)).map_err(failed),
            None => Ok(()),
        }
    }

    /// Removes the value under `key`. Returns whether there was one.
    pub(super) fn remove(&mut self, key: &[u8], now: u64) -> Result<bool, StoreError> {
        match self.existing()? {
            Some(open) => open.remove(key, now).map_err(failed),
            None => Ok(false),
        }
    }

    /// The open file, if there is one.
    fn existing(&mut self) -> Result<Option<&mut Open>, StoreError> {
        match (&self.state, &self.file) {
            (State::Closed, Some(file)) if !file.exists() => Ok(None),
            // It cannot have been written by this process, and what another one wrote is not this one's to know.
            (State::Unusable(_), _) => Ok(None),
            _ => self.open(),
        }
    }

    /// The open file, which is made if there is none. `None`: values are kept in memory only.
    fn open(&mut self) -> Result<Option<&mut Open>, StoreError> {
        let Some(file) = &self.file else { return Ok(None) };
        if matches!(self.state, State::Closed) {
            self.state = match open_or_replace(file) {
                Ok(open) => State::Open(open),
                Err(error) => {
                    let path = file.display();
                    tracing::error!(%path, %error, "the store cannot be used; values are kept in memory only");
                    State::Unusable(format!("{path}: {error}"))
                }
            };
        }
        match &mut self.state {
            State::Open(open) => Ok(Some(open)),
            State::Unusable(error) => Err(StoreError(error.clone())),
            State::Closed => Ok(None),
        }
    }
}

/// Opens the file or makes it. One that is damaged is set aside, and a fresh one made.
fn open_or_replace(file: &Path) -> Result<Open, redb::Error> {
    if let Some(folder) = file.parent() {
        make_private_folder(folder)?;
    }
    match Open::new(file) {
        Err(error) if is_damage(&error) => {
            let aside = file.with_extension("redb.damaged");
            let (path, aside_path) = (file.display(), aside.display());
            tracing::error!(%path, %error, set_aside = %aside_path, "the store is damaged; beginning a fresh one");
            fs::rename(file, &aside)?;
            Open::new(file)
        }
        opened => opened,
    }
}

/// Conversations are nobody else's to read.
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
        redb::Error::TableTypeMismatch { .. } | redb::Error::TypeDefinitionChanged { .. } => true,
        _ => false,
    }
}

/// Why a file is neither read nor replaced: what is in it may be understood by the program that wrote it.
fn newer(version: u64) -> io::Error {
    let what = format!(
        "it was written by a newer version of toolwire (format {version}, this one knows {VERSION}); update toolwire, or move the file away"
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

fn failed(error: redb::Error) -> StoreError {
    StoreError(error.to_string())
}

impl Open {
    fn new(file: &Path) -> Result<Self, redb::Error> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let database = Database::builder()
            .set_cache_size(CACHE)
            .create_with_backend(FileBackend::new(options.open(file)?)?)?;
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
        (max_bytes, now): (u64, u64),
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

/// The number of the oldest value, and its element of `ages`.
fn oldest(ages: &Table<'_, u64, &'static [u8]>) -> Result<Option<(u64, Vec<u8>)>, StorageError> {
    let first = ages.first()?;
    Ok(first.map(|(number, age)| (number.value(), age.value().to_vec())))
}

/// A value that was removed.
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

/// An element of `values`.
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

/// An element of `ages`.
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

/// The number at the beginning, and the rest.
fn word(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk() {
        Some((word, rest)) => (u64::from_be_bytes(*word), rest),
        None => (0, bytes),
    }
}
