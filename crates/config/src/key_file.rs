//! [`KeyFile`]: the keys made by `toolwire keys`. They are stored as digests, in a separate file in the state folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use toml::de::DeTable;

use super::{
    ClientKey, Problems,
    client_keys::read,
    source::Source,
    table::{Context, Table},
};

const FILE: &str = "keys.toml";

/// The key file, and the version of it that was read last.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    seen: Option<Version>,
    /// A version that was found but may still be incomplete.
    unsettled: Option<Version>,
}

/// Identifies a version of the file. `toolwire keys` always replaces the whole file, but an editor may write it in
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Missing,
    Found { modified: Option<SystemTime>, len: u64, inode: u64 },
}

impl KeyFile {
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join(FILE), seen: None, unsettled: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys. A missing file counts as empty.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn read(&self) -> Result<Vec<ClientKey>, Problems> {
        match self.version() {
            Version::Missing => Ok(Vec::new()),
            Version::Found { .. } => keys_of(&Source::read(Some(&self.path))?),
        }
    }

    /// Reads the keys if the file has changed since the last call; the first call always reads it. A missing file, or
    /// one that may be incomplete, is accepted only if the next call finds it again, because a half-written file is
    /// often valid but lacks keys.
    ///
    /// # Errors
    /// All mistakes in the file, once per version.
    pub fn changed(&mut self) -> Option<Result<Vec<ClientKey>, Problems>> {
        let version = self.version();
        let unsettled = self.unsettled.take();
        if self.seen == Some(version) {
            return None;
        }
        let may_be_unfinished = self.seen.is_some_and(|seen| version.may_be_unfinished_after(seen));
        if (may_be_unfinished || unsettled.is_some()) && unsettled != Some(version) {
            self.unsettled = Some(version);
            return None;
        }
        self.seen = Some(version);
        Some(self.read())
    }

    fn version(&self) -> Version {
        match fs::metadata(&self.path) {
            Ok(found) => {
                #[cfg(unix)]
                let inode = std::os::unix::fs::MetadataExt::ino(&found);
                #[cfg(not(unix))]
                let inode = 0;
                Version::Found { modified: found.modified().ok(), len: found.len(), inode }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Version::Missing,
            // Reading the file will fail, too, and report the reason.
            Err(_) => Version::Found { modified: None, len: 0, inode: 0 },
        }
    }
}

impl Version {
    /// Whether this version may be incomplete, because the file is being written in place, or was deleted and is about
    /// to be created again.
    fn may_be_unfinished_after(self, seen: Self) -> bool {
        match (seen, self) {
            (Self::Found { inode: before, .. }, Self::Found { inode, .. }) => before == inode,
            (Self::Found { .. }, Self::Missing) => true,
            (Self::Missing, _) => false,
        }
    }
}

fn keys_of(source: &Source) -> Result<Vec<ClientKey>, Problems> {
    let (root, syntax) = DeTable::parse_recoverable(source.text());
    let environment = |name: &str| std::env::var(name).ok();
    let context = Context {
        source,
        files: Default::default(),
        findings: Default::default(),
        environment: &environment,
    };
    for error in syntax {
        context.findings.syntax(error.span(), error.message());
    }
    let keys = Table::root(root.get_ref(), &context, |table| read(table, true));
    let (problems, failed) = context.findings.into_problems(source);
    if failed { Err(Problems(problems)) } else { Ok(keys) }
}

mod edit {
    use std::{error::Error, fs::OpenOptions, io};

    use toml::{Table, Value};

    use super::{ClientKey, KeyFile};
    use toolwire_net::private;

    const HEAD: &str = "# Written by `toolwire keys`. It has digests of keys, no keys.\n\n";

    impl KeyFile {
        /// Changes the keys while holding a lock, then replaces the file unless `change` fails.
        ///
        /// # Errors
        /// The file contains mistakes or cannot be written, or `change` fails.
        pub fn edit<T>(
            &self,
            change: impl FnOnce(&mut Vec<ClientKey>) -> Result<T, Box<dyn Error>>,
        ) -> Result<T, Box<dyn Error>> {
            let folder = self.path.parent().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            private::create_dir_all(folder)?;
            // A separate lock file, since the key file itself is replaced. Closing it releases the lock.
            let lock = OpenOptions::new().create(true).append(true).open(self.path.with_extension("lock"))?;
            lock.lock()?;
            let mut keys = self.read()?;
            let made = change(&mut keys)?;
            let entries = keys.iter().map(|key| Value::Table(key.written())).collect();
            let table = Table::from_iter([("keys".to_owned(), Value::Array(entries))]);
            private::replace_on_disk(&self.path, (HEAD.to_owned() + &toml::to_string(&table)?).as_bytes())?;
            Ok(made)
        }
    }
}
