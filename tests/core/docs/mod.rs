//! Checks that whatever documents, comments and fixtures refer to exists (CONTRIBUTING.md#citations).

mod citations;
mod http1;
mod links;
mod page;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use crate::support::repository::root;

/// Folders with third-party files, build output or generated data.
const SKIPPED: &[&str] = &["target", "node_modules", "corpus", "artifacts", "coverage", ".git", ".venv"];

/// Returns the path, relative to the root, and the text of each file below `folder` that has one of the
/// `extensions`.
fn files(folder: &str, extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(&root().join(folder), extensions, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, extensions: &[&str], found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let is_skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
        if kind.is_dir() && !is_skipped {
            collect(&path, extensions, found);
        } else if kind.is_file() && extensions.iter().any(|it| path.extension() == Some(OsStr::new(it))) {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
        }
    }
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
