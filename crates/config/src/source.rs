//! [`Source`]: the text of a configuration, and the flags and saved settings that override it.

use std::{
    fs,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
};

use strum::VariantArray;

use super::problem::{Place, Problem, Problems, Severity, UNREADABLE_FILE};
use toolwire_pipeline::wire::digest::Digest;

/// The text and path of a configuration file. Offsets past its end represent flags, and offsets after those represent
/// saved settings, so that the same code reads and reports values from all three.
#[derive(Clone, Default)]
pub(super) struct Source {
    path: Option<PathBuf>,
    text: String,
    /// Whether the program generated the text, in which case locations in it mean nothing to users.
    is_made: bool,
    /// The file with the saved settings, and their paths.
    overlay: (PathBuf, Vec<String>),
    content: Option<Digest>,
}

/// A flag that overrides settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub(super) enum Flag {
    Listen,
    ClientKey,
    Upstream,
    Dialect,
    ApiKey,
    Tools,
    ChatTemplate,
    Detect,
    ServerCalls,
}

impl Flag {
    /// The flag as it is typed, and its environment variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Listen => "--listen (TOOLWIRE_LISTEN)",
            Self::ClientKey => "--client-key (TOOLWIRE_CLIENT_KEY)",
            Self::Upstream => "--upstream (TOOLWIRE_UPSTREAM)",
            Self::Dialect => "--dialect (TOOLWIRE_DIALECT)",
            Self::ApiKey => "--api-key (TOOLWIRE_UPSTREAM_KEY)",
            Self::Tools => "--tools (TOOLWIRE_TOOLS)",
            Self::ChatTemplate => "--chat-template (TOOLWIRE_CHAT_TEMPLATE)",
            Self::Detect => "--detect (TOOLWIRE_DETECT)",
            Self::ServerCalls => "--server-calls (TOOLWIRE_SERVER_CALLS)",
        }
    }
}

/// In bytes.
const MAX_FILE: u64 = 8 << 20;

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read or is too large.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other("it is larger than 8 MiB"));
    }
    Ok(bytes)
}

// Leaves out the text, which may contain secrets.
toolwire_pipeline::wire::debug_fields!(Source { path });

impl Source {
    /// Reads the file. Without a path, the text is empty.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, Problems> {
        let Some(path) = path else { return Ok(Self::default()) };
        let failed =
            |place, message| Err(Problems(vec![Problem { severity: Severity::Error, place, message }]));
        let bytes = match read_file(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("{UNREADABLE_FILE} {}: {error}", path.display());
                return failed(Place::Nowhere, message);
            }
        };
        let content = Some(Digest::of_bytes(&bytes));
        let (text, valid) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = error.as_bytes().get(..valid).and_then(|bytes| std::str::from_utf8(bytes).ok());
                (text.unwrap_or_default().to_owned(), Some(valid))
            }
        };
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let source = Self { path: Some(path.to_owned()), text, content, ..Self::default() };
        match valid {
            Some(valid) => failed(source.place(valid), "not UTF-8".to_owned()),
            None => Ok(source),
        }
    }

    /// Creates a source for generated text. Paths in it are relative to the folder of the file `beside`, if given.
    pub(super) fn made(beside: Option<&Path>, text: String) -> Self {
        Self { path: beside.map(Path::to_owned), text, is_made: true, ..Self::default() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn has_file(&self) -> bool {
        self.path.is_some()
    }

    pub(super) fn file(&self) -> Option<(&Path, Digest)> {
        self.path.as_deref().zip(self.content)
    }

    /// The span that represents `flag`.
    pub(super) fn flag(&self, flag: Flag) -> Range<usize> {
        let offset = self.text.len() + 1 + flag as usize;
        offset..offset
    }

    /// Adds the file with the saved settings, and the paths of these settings.
    pub(super) fn with_overlay(&self, file: PathBuf, paths: Vec<String>) -> Self {
        Self { overlay: (file, paths), ..self.clone() }
    }

    /// The span that represents the saved setting `number`.
    pub(super) fn overlaid(&self, number: usize) -> Range<usize> {
        let offset = self.text.len() + 1 + Flag::VARIANTS.len() + number;
        offset..offset
    }

    /// Whether `offset` represents a saved setting.
    pub(super) fn is_overlay(&self, offset: usize) -> bool {
        offset > self.text.len() + Flag::VARIANTS.len()
    }

    /// Whether `offset` represents a flag or a saved setting.
    pub(super) fn is_outside(&self, offset: usize) -> bool {
        offset > self.text.len()
    }

    /// The location that `offset` refers to.
    pub(super) fn place(&self, offset: usize) -> Place {
        if let Some(index) = offset.checked_sub(self.text.len() + 1) {
            if let Some(flag) = Flag::VARIANTS.get(index) {
                return Place::Flag(flag.name());
            }
            let (file, paths) = &self.overlay;
            return match paths.get(index - Flag::VARIANTS.len()) {
                Some(setting) => {
                    Place::Overlay { path: file.display().to_string(), setting: setting.clone() }
                }
                None => Place::Nowhere,
            };
        }
        if self.is_made {
            return Place::Nowhere;
        }
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place::File {
            path: self.path.as_deref().unwrap_or(Path::new("")).display().to_string(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |text| text.chars().count()) + 1,
        }
    }

    /// Resolves the path `written`. A path in the file is relative to the file's folder; any other is relative to the
    /// working directory.
    pub(super) fn resolve(&self, written: &str, offset: usize) -> PathBuf {
        let beside = self.path.as_deref().and_then(Path::parent).filter(|_| !self.is_outside(offset));
        beside.unwrap_or(Path::new("")).join(written)
    }
}
