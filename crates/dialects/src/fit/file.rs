//! [`File`]: a file or a recording, for upstreams whose API accepts such files.

use serde_json::Value;

use crate::{
    Dialect,
    conversation::{Part, Received},
};

/// A file or a recording in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The file's name; may be empty.
    pub name: String,
    /// The MIME type in lower case. It ends with `/*` if only the family is known; empty if nothing is known.
    pub mime: String,
    /// Where the contents are.
    pub source: Source,
}

/// Where a file's contents are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the part itself, as base64.
    Data(String),
    /// At this URL, which is not a data URL.
    Url(String),
    /// Stored on the servers of an API, under an id.
    Id {
        /// The id.
        id: String,
        /// The dialect of the API. OpenAI's two APIs share their files.
        owner: Dialect,
    },
}

impl File {
    /// The data as a `data:` URL.
    pub(crate) fn data_url(&self) -> Option<String> {
        match &self.source {
            Source::Data(data) => Some(format!("data:{};base64,{data}", self.mime)),
            Source::Url(_) | Source::Id { .. } => None,
        }
    }

    /// The URL, if servers can load it.
    pub(crate) fn http_url(&self) -> Option<&str> {
        match &self.source {
            Source::Url(url) if is_http(url) => Some(url),
            _ => None,
        }
    }

    /// The name. For APIs that require a name, a file without one is named after its kind: `file.pdf`.
    pub(crate) fn name_or_kind(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let kind =
            self.mime.rsplit('/').next().filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        kind.filter(|kind| !kind.is_empty()).map_or_else(|| "file".to_owned(), |kind| format!("file.{kind}"))
    }

    /// The data as a recording in OpenAI's APIs, which accept two formats.
    pub(crate) fn recording(&self) -> Option<Value> {
        let Source::Data(data) = &self.source else { return None };
        let format = match self.mime.as_str() {
            "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
            "audio/mpeg" | "audio/mp3" => "mp3",
            _ => return None,
        };
        Some(serde_json::json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
    }

    /// A description of the file, to be used in a text.
    pub(super) fn described(&self) -> String {
        let what = match self.mime.split_once('/') {
            Some(("application", "pdf")) => "a PDF",
            Some(("image", _)) => "an image",
            Some(("audio", _)) => "a recording",
            Some(("video", _)) => "a video",
            _ => "a file",
        };
        let name = match (&self.source, self.name.as_str()) {
            (Source::Url(place) | Source::Id { id: place, .. }, "") => place,
            (_, name) => name,
        };
        if name.is_empty() { what.to_owned() } else { format!("{what}, {}", super::clip(name)) }
    }
}

/// Whether servers can load the contents of the URL.
pub(crate) fn is_http(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

/// A part in the form of `dialect`.
pub(crate) fn part_of(dialect: Dialect, value: Value) -> Part {
    Part::Other(Received::new(dialect.name(), value))
}
