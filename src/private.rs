//! Files and folders that only their owner can read: they contain private conversations or secrets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Creates a folder.
///
/// # Errors
/// It exists already, or cannot be created.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    dir_builder().create(path)
}

/// Creates a folder and its missing parents.
pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    dir_builder().recursive(true).create(path)
}

/// Creates an empty file.
///
/// # Errors
/// It exists already, or cannot be created.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Replaces a file atomically: if the process ends meanwhile, the old or the new one is there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, |_| Ok(()))
}

/// The same even if the machine stops. Waits for the disk.
pub(crate) fn replace_on_disk(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, File::sync_all)
}

fn put(path: &Path, bytes: &[u8], finish: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let fresh = path.with_extension("new");
    // An earlier attempt may have left it. Nothing is written through a link.
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
