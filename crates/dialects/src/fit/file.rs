//! [`File`]: a file or an audio recording, for upstreams whose API accepts them.

use serde_json::Value;

use crate::{
    Dialect,
    conversation::{Part, Received},
};

/// A file or an audio recording in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The file's name. May be empty.
    pub name: String,
    /// The MIME type in lower case. It ends with `/*` if only the family is known, and is empty if nothing is
    /// known.
    pub mime: String,
    /// Where to find the contents.
    pub source: Source,
}

/// Where to find the contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the part itself, encoded as base64.
    Data(String),
    /// At this URL, which is not a data URL.
    Url(String),
    /// On the servers of an API.
    Id {
        /// The file's id.
        id: String,
        /// The dialect of the API. OpenAI's two APIs share their files.
        owner: Dialect,
    },
}

impl File {
    pub(crate) fn data_url(&self) -> Option<String> {
        match &self.source {
            Source::Data(data) => Some(format!("data:{};base64,{data}", self.mime)),
            Source::Url(_) | Source::Id { .. } => None,
        }
    }

    pub(crate) fn http_url(&self) -> Option<&str> {
        match &self.source {
            Source::Url(url) if is_http(url) => Some(url),
            _ => None,
        }
    }

    /// The name. A file without a name is named after its type, as in `file.pdf`, for APIs that require a
    /// name.
    pub(crate) fn name_or_kind(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let kind =
            self.mime.rsplit('/').next().filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        kind.filter(|kind| !kind.is_empty()).map_or_else(|| "file".to_owned(), |kind| format!("file.{kind}"))
    }

    /// The data as an audio part of OpenAI's APIs, which accept two formats.
    pub(crate) fn recording(&self) -> Option<Value> {
        let Source::Data(data) = &self.source else { return None };
        let format = match self.mime.as_str() {
            "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
            "audio/mpeg" | "audio/mp3" => "mp3",
            _ => return None,
        };
        Some(serde_json::json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
    }

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

/// Whether this is an HTTP URL, which servers can load.
pub(crate) fn is_http(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

pub(crate) fn part_of(dialect: Dialect, value: Value) -> Part {
    Part::Other(Received::new(dialect.name(), value))
}
