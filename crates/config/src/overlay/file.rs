//! The file of an [`Overlay`].

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde_json::error::Category;

use super::Overlay;
use crate::{Place, Problem, Problems, Severity};
use toolwire_net::private;

const FILE: &str = "settings.json";

/// In bytes.
const MAX_FILE: u64 = 2 << 20;

impl Overlay {
    pub fn file(state_dir: &Path) -> PathBuf {
        state_dir.join(FILE)
    }

    /// Reads the overlay in the folder `state_dir`. A missing file counts as empty.
    ///
    /// # Errors
    /// The file cannot be read or is invalid.
    pub(crate) fn read(state_dir: &Path) -> Result<Self, Problems> {
        let file = Self::file(state_dir);
        let failed = |place, message| Problems(vec![Problem { severity: Severity::Error, place, message }]);
        let text = match read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                let file = file.display();
                let message =
                    format!("cannot read the settings that were saved over the admin API, {file}: {error}");
                return Err(failed(Place::Nowhere, message));
            }
        };
        serde_json::from_str(&text).map(Self).map_err(|error| {
            let (line, column) = (error.line().max(1), error.column().max(1));
            let place = Place::File { path: file.display().to_string(), line, column };
            // The error's text may quote a value, which may be secret.
            let reason = match error.classify() {
                Category::Eof => "it ends too early",
                Category::Data => "it is not an object",
                Category::Syntax | Category::Io => "it is not JSON",
            };
            let message =
                format!("cannot understand the settings that were saved over the admin API: {reason}; restore or remove the file");
            failed(place, message)
        })
    }

    /// Replaces the file atomically. Only the current user may read it, since it may contain secrets. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// The file cannot be written. It is then unchanged.
    pub fn write(&self, state_dir: &Path) -> io::Result<()> {
        private::create_dir_all(state_dir)?;
        private::replace_on_disk(&Self::file(state_dir), self.text().as_bytes())
    }

    /// The content of the file. Equal overlays have equal content.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }
}

fn read(file: &Path) -> io::Result<String> {
    if !fs::symlink_metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    fs::File::open(file)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 2 MiB"));
    }
    Ok(text)
}
