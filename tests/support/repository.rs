//! Finds the repository, whichever of its crates a test belongs to.

use std::path::Path;

/// The root of the repository: the folder with `Cargo.lock`.
pub(crate) fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("Cargo.lock").is_file()).expect("a crate inside the repository")
}
