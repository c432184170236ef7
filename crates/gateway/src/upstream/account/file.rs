//! [`SessionFile`]: a file with a session, which several processes may share.
//!
//! A refresh token is valid only once, so two processes must not use the same one. To refresh a session, a process
//! locks a second file in the same folder, reads the session again, and refreshes it only if it has not changed.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::error::{AnyError, SessionError};
use toolwire_net::private;
use toolwire_pipeline::dialect::Session;

/// Maximum size of a session file in bytes. A session takes less than 1 KiB.
const MAX_FILE: u64 = 64 << 10;

/// Maximum number of symbolic links to follow, as in Linux.
const MAX_LINKS: usize = 40;

/// How long to wait for the lock: longer than a refresh takes.
const LOCK_LIMIT: Duration = Duration::from_secs(60);

/// Interval between attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub(super) struct SessionFile(PathBuf);

impl SessionFile {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Takes the lock that prevents other processes from refreshing the session, and holds it until the result is
    /// dropped.
    ///
    /// # Errors
    /// If another process does not release the lock, or if the lock file cannot be opened.
    pub(super) fn lock(&self) -> Result<File, SessionError> {
        let path = self.place().with_added_extension("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let cannot = |error| SessionError::File("lock", path.clone(), error);
        let file = options.open(&path).map_err(cannot)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_LIMIT => thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(SessionError::Locked(path));
                }
            }
        }
    }

    /// Reads the session. `None` if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or does not contain a session.
    pub(super) fn read(&self) -> Result<Option<Session>, SessionError> {
        let wrong = |error: AnyError| SessionError::Unreadable(self.0.clone(), error);
        match self.text() {
            Ok(text) => Session::parse(&text).map(Some).map_err(|error| wrong(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error.into())),
        }
    }

    /// Whether other users can read the file.
    pub(super) fn is_exposed(&self) -> bool {
        #[cfg(unix)]
        return fs::metadata(&self.0)
            .is_ok_and(|found| std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o077 != 0);
        #[cfg(not(unix))]
        false
    }

    /// Replaces the session, and waits until it is on disk.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&self, session: &Session) -> Result<(), SessionError> {
        let text = session.to_file(&self.text().unwrap_or_default());
        let written = private::replace_on_disk(&self.place(), &text);
        written.map_err(|error| SessionError::File("write", self.0.clone(), error))
    }

    /// Removes the session.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(super) fn remove(&self) -> Result<(), SessionError> {
        match fs::remove_file(self.place()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionError::File("remove", self.0.clone(), error))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the session's actual file: if the configured path is a link, its target. The link thus stays
    /// in place, and processes that reach the file by other paths use the same lock and see the new tokens.
    fn place(&self) -> PathBuf {
        let mut place = self.0.clone();
        for _ in 0..MAX_LINKS {
            let Ok(target) = fs::read_link(&place) else { break };
            place = place.parent().map(|folder| folder.join(&target)).unwrap_or(target);
        }
        place
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        // Opening a pipe would wait for a writer.
        if !fs::metadata(&self.0)?.is_file() {
            return Err(wrong("it is not a regular file"));
        }
        let mut text = Vec::new();
        File::open(&self.0)?.take(MAX_FILE + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_FILE {
            return Err(wrong("it is larger than a session is"));
        }
        Ok(text)
    }
}
