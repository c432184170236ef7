//! Files and folders that only their owner can read, for conversations and secrets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Creates a folder.
///
/// # Errors
/// The folder already exists or cannot be created.
pub fn create_dir(path: &Path) -> io::Result<()> {
    dir_builder().create(path)
}

pub fn create_dir_all(path: &Path) -> io::Result<()> {
    dir_builder().recursive(true).create(path)
}

/// Creates an empty file.
///
/// # Errors
/// The file already exists or cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Replaces a file atomically: if the process crashes, the file has either its old or its new content.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, |_| Ok(()))
}

/// Like [`replace`], but also survives a crash of the machine: the new content is on disk when this returns. Blocks on
/// the disk.
pub fn replace_on_disk(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, File::sync_all)?;
    // The new name is on disk once the folder is synced. Some systems cannot sync folders, so an error is ignored.
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8], finish: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    // `.new` is appended to the full name, because files that differ only in their extension may be replaced at the
    // same time.
    let fresh = path.with_added_extension("new");
    // A file left by an earlier attempt is removed first, because it might be a link that must not be followed.
    if let Err(error) = fs::remove_file(&fresh)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = create(&fresh)?;
    file.write_all(bytes)?;
    finish(&file)?;
    fs::rename(fresh, path)
}

fn dir_builder() -> DirBuilder {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are Unix's"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_after_the_dot_are_replaced_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["lumo.work", "lumo.home"].map(|name| folder.path().join(name));
        std::thread::scope(|scope| {
            for path in &paths {
                scope.spawn(move || {
                    let own = path.to_string_lossy().into_owned().repeat(200);
                    for _ in 0..200 {
                        replace(path, own.as_bytes()).unwrap();
                        assert_eq!(fs::read_to_string(path).unwrap(), own);
                    }
                });
            }
        });
    }
}
