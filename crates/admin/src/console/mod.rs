//! The console: the web page at `/console/`, embedded in the program. See docs/console.md.
//!
//! The page is a document and the files that it loads. The files' path contains a hash of all of them, so browsers may
//! cache them forever and never mix two versions. The document is small and is fetched each time. All its URLs are
//! relative, so the page works behind any path prefix.

use std::{
    io::Write,
    sync::{LazyLock, OnceLock},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

use toolwire_pipeline::wire::digest::Digest;

#[derive(Debug, Clone)]
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Bytes,
    /// Whether browsers may cache the file forever.
    pub(crate) is_immutable: bool,
    pub(crate) is_compressed: bool,
}

const DOCUMENT: &str = include_str!("page/index.html");

/// Placeholder for the hash in the document.
const PLACEHOLDER: &str = "{{version}}";

/// The files that the document loads. `bundle/` is built from the modules and style sheets in `page/`; see
/// clients/README.md.
const FILES: &[(&str, &[u8])] = &[
    ("boot.js", include_bytes!("bundle/boot.js")),
    ("icon.svg", include_bytes!("page/icon.svg")),
    ("main.css", include_bytes!("bundle/main.css")),
    ("main.js", include_bytes!("bundle/main.js")),
];

/// Path prefix of the files, followed by their hash.
const FOLDER: &str = "v/";

/// The hash of all files, and the document with this hash filled in.
static PAGE: LazyLock<(String, Bytes)> = LazyLock::new(|| {
    let all: Vec<u8> = FILES.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let version = format!("{:08x}", Digest::of_bytes(&all).short());
    let document = DOCUMENT.replace(PLACEHOLDER, &version);
    (version, document.into())
});

/// Compressed files, each filled in when it is first requested.
static COMPRESSED: [OnceLock<Option<Bytes>>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// Returns the file at `path` below `/console/`, compressed with gzip if `accepts_gzip`. `None` if there is no such
/// file, or if `path` names another version of it.
pub(crate) fn find(path: &str, accepts_gzip: bool) -> Option<Asset> {
    let (version, document) = &*PAGE;
    if path.is_empty() {
        let content_type = content_type("html");
        return Some(Asset {
            content_type,
            bytes: document.clone(),
            is_immutable: false,
            is_compressed: false,
        });
    }
    let name = path.strip_prefix(FOLDER)?.strip_prefix(version.as_str())?.strip_prefix('/')?;
    let ((_, bytes), compressed) = FILES.iter().zip(&COMPRESSED).find(|((known, _), _)| *known == name)?;
    let (_, extension) = name.rsplit_once('.')?;
    let compressed = accepts_gzip.then(|| compressed.get_or_init(|| gzip(bytes)).clone()).flatten();
    Some(Asset {
        content_type: content_type(extension),
        is_compressed: compressed.is_some(),
        bytes: compressed.unwrap_or(Bytes::from_static(bytes)),
        is_immutable: true,
    })
}

fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    Some(encoder.finish().ok()?.into())
}

fn content_type(extension: &str) -> &'static str {
    match extension {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
