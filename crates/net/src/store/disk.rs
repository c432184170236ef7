//! [`Disk`]: a store's file, which is opened when it is needed, and replaced if it is damaged.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{
    StoreError, Trouble,
    file_report::FileReport,
    open_file::{OpenFile, contained, is_damage},
};

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
    report: FileReport,
    /// The last error that was logged.
    logged: Option<String>,
    #[cfg(test)]
    pub(super) faults: Faults,
}

enum State {
    /// Not opened yet, or closed after an error, because redb then refuses all operations until the file is opened
    /// again.
    Closed,
    Open(Box<OpenFile>),
    /// The file cannot be opened. `until` is the time of the next attempt.
    Unusable {
        why: StoreError,
        until: Option<Instant>,
        /// The values in the file, if only writing is impossible.
        readable: Option<Box<OpenFile>>,
    },
}

impl Disk {
    pub(super) fn new(file: Option<PathBuf>, max_bytes: usize, report: FileReport) -> Self {
        let max_bytes = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        Self {
            file,
            max_bytes,
            state: State::Closed,
            report,
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

    /// The size of redb's cache in bytes.
    pub(super) fn cached(&self) -> usize {
        match &self.state {
            State::Open(open) => open.cached(),
            State::Unusable { readable, .. } => readable.as_ref().map_or(0, |open| open.cached()),
            State::Closed => 0,
        }
    }

    /// Returns the value of `key`. Does not create the file.
    pub(super) fn get(&mut self, key: &[u8], now: u64) -> Result<Option<Bytes>, StoreError> {
        let failed = match self.act(Self::existing, |open, _| open.get(key, now)) {
            Ok(found) => return Ok(found.flatten()),
            Err(failed) => failed,
        };
        let State::Unusable { readable: Some(open), .. } = &self.state else { return Err(failed) };
        contained(|| open.get(key, now)).map_err(|_| failed)
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
        open: impl Fn(&mut Self) -> Result<Option<&mut OpenFile>, StoreError>,
        act: impl Fn(&mut OpenFile, u64) -> Result<T, redb::Error>,
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
                    set_aside(file, &error, &self.report)
                        .map_err(redb::Error::from)
                        .map_err(StoreError::new)?;
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
    fn existing(&mut self) -> Result<Option<&mut OpenFile>, StoreError> {
        match self.state {
            State::Closed if !self.exists() => Ok(None),
            _ => self.open(),
        }
    }

    /// The open file, which is created if necessary. `None` if values are only kept in memory.
    fn open(&mut self) -> Result<Option<&mut OpenFile>, StoreError> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        match &self.state {
            State::Unusable { why, until, .. } if until.is_none_or(|until| Instant::now() < until) => {
                return Err(why.clone());
            }
            State::Open(_) => {}
            State::Closed | State::Unusable { .. } => self.try_to_open(&file),
        }
        match &mut self.state {
            State::Open(open) => Ok(Some(open)),
            State::Unusable { why, .. } => Err(why.clone()),
            State::Closed => Ok(None),
        }
    }

    fn try_to_open(&mut self, file: &Path) {
        let begun = Instant::now();
        // First closes the file if it is only read, because it is locked meanwhile.
        self.state = State::Closed;
        let opened = open_or_replace(
            file,
            &self.report,
            #[cfg(test)]
            &self.faults,
        );
        self.state = match opened {
            Ok(open) => {
                if self.logged.take().is_some() {
                    tracing::info!(path = %file.display(), "the store can be used again");
                }
                State::Open(Box::new(open))
            }
            Err(error) => {
                // This version will never be able to read the file.
                let is_final =
                    matches!(&error, redb::Error::Io(error) if error.kind() == io::ErrorKind::Unsupported);
                let readable = is_unwritable(&error).then(|| contained(|| OpenFile::unchanged(file)).ok());
                let until = (!is_final).then(|| Instant::now() + pause_after(begun.elapsed()));
                State::Unusable {
                    why: self.unusable(error),
                    until,
                    readable: readable.flatten().map(Box::new),
                }
            }
        };
    }

    /// Converts the error, and logs it unless it was the last one logged.
    fn unusable(&mut self, error: redb::Error) -> StoreError {
        use redb::Error::{DatabaseAlreadyOpen, LockProtocolMismatch};
        let (trouble, why) = match error {
            DatabaseAlreadyOpen | LockProtocolMismatch => (
                Trouble::Busy,
                StoreError::new("another process uses it; two servers must not share a `state_dir`"),
            ),
            redb::Error::Io(error) if is_for_others(&error) => {
                (Trouble::Unusable, StoreError::new(redb::Error::Io(error)))
            }
            error => (Trouble::Failed, StoreError::new(error)),
        };
        let reason = why.to_string();
        if self.logged.as_ref() != Some(&reason) {
            let path = self.file.as_deref().unwrap_or(Path::new("")).display();
            let remedy = why.remedy();
            tracing::error!(%path, error = reason, "the store cannot be used; values are kept in memory only{remedy}");
        }
        self.logged = Some(reason);
        StoreError { file: self.file.clone(), trouble, ..why }
    }
}

impl StoreError {
    /// What helps against the error, to be appended to a message about it. Empty if unknown.
    pub(super) fn remedy(&self) -> &'static str {
        match self.reason.downcast_ref() {
            Some(error) if is_unwritable(error) => "; free space on this disk, or make it writable",
            Some(redb::Error::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                "; let this user read and write the file"
            }
            _ => "",
        }
    }
}

/// Whether a file cannot be written at the moment, although it may be readable.
fn is_unwritable(error: &redb::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let redb::Error::Io(error) = error else { return false };
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
}

/// Whether the error means that the path holds something that this program cannot have created or cannot use. A full
/// disk, for example, does not mean that.
fn is_for_others(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | IsADirectory | NotADirectory | Unsupported)
}

/// Opens or creates the file. If it is damaged, moves it out of the way and creates a new one.
fn open_or_replace(
    file: &Path,
    report: &FileReport,
    #[cfg(test)] faults: &Faults,
) -> Result<OpenFile, redb::Error> {
    if let Some(folder) = file.parent() {
        make_private_folder(folder)?;
    }
    let is_empty = match fs::symlink_metadata(file) {
        Ok(found) => found.is_file() && found.len() == 0,
        Err(_) => false,
    };
    if is_empty {
        // Files get their content before anything is stored in them, so this one has lost it.
        tracing::error!(path = %file.display(), "the store is empty: what was stored in it is lost");
        report.damaged();
    }
    let open = || {
        create_whole(file, || {
            contained(|| {
                OpenFile::new(
                    file,
                    #[cfg(test)]
                    faults,
                )
            })
        })
    };
    match open() {
        Err(error) if is_damage(&error) => {
            set_aside(file, &error, report)?;
            open()
        }
        opened => opened,
    }
}

/// Calls `create`, and removes the file if it is new but could not be completed. Otherwise it would be found damaged when
/// it is opened again.
fn create_whole<T>(file: &Path, create: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    let found = fs::symlink_metadata(file);
    let is_new = match &found {
        Ok(found) => found.is_file() && found.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    create().inspect_err(|error| {
        if is_new && !matches!(error, redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch) {
            // If this fails, the file is set aside later.
            let _ = fs::remove_file(file);
        }
    })
}

/// Maximum number of damaged files that are retained.
const MAX_ASIDE: usize = 1000;

/// Renames a damaged file, so that a new one can be created. Never overwrites a file.
fn set_aside(file: &Path, error: &redb::Error, report: &FileReport) -> io::Result<()> {
    let damaged = file.with_added_extension("damaged");
    let numbered = (2..=MAX_ASIDE).map(|number| damaged.with_added_extension(number.to_string()));
    let is_free = |path: &PathBuf| matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let free = std::iter::once(damaged.clone()).chain(numbered).find(is_free);
    let aside =
        free.ok_or_else(|| io::Error::other("it is damaged, and too many damaged files were kept"))?;
    let (path, aside_path) = (file.display(), aside.display());
    tracing::error!(
        %path, %error, set_aside = %aside_path,
        "the store is damaged; beginning a fresh one. A copy from before the damage can be put in its place while toolwire is stopped"
    );
    report.damaged();
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
