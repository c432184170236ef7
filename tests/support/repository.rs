//! The repository, whichever crate of it a test belongs to.

use std::path::Path;

/// Its root: the folder with `Cargo.lock`.
pub(crate) fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("Cargo.lock").is_file()).expect("a crate inside the repository")
}
