//! Finds the root of the repository from any crate.

use std::path::Path;

/// The root of the repository, which is the closest folder with a `Cargo.lock`.
pub(crate) fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find(|folder| folder.join("Cargo.lock").is_file()).expect("a crate inside the repository")
}
