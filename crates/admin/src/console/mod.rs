//! The console: the web page at `/console/`, embedded in the program. docs/console.md describes it.
//!
//! The page is a document and the files that it loads. The files are at a path that has a hash of all of them, so browsers may keep
//! them forever and never mix two versions. The document is small and always fetched again. It names everything by
//! relative URLs, so that it works behind any prefix.

use std::{
    io::Write,
    sync::{LazyLock, OnceLock},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

use toolwire_pipeline::wire::digest::Digest;

/// A file of the page, compressed if its reader accepts that.
#[derive(Debug, Clone)]
pub(crate) struct Asset {
    /// Its media type.
    pub(crate) content_type: &'static str,
    /// Its content.
    pub(crate) bytes: Bytes,
    /// Whether its URL never has another content.
    pub(crate) is_immutable: bool,
    /// Whether it is compressed by gzip.
    pub(crate) is_compressed: bool,
}

const DOCUMENT: &str = include_str!("page/index.html");

/// What stands in the document for the hash.
const PLACEHOLDER: &str = "{{version}}";

/// What the document loads. `bundle/` is made of the modules and style sheets in `page/`, see clients/README.md.
const FILES: &[(&str, &[u8])] = &[
    ("boot.js", include_bytes!("bundle/boot.js")),
    ("icon.svg", include_bytes!("page/icon.svg")),
    ("main.css", include_bytes!("bundle/main.css")),
    ("main.js", include_bytes!("bundle/main.js")),
];

/// The folder of a version's files.
const FOLDER: &str = "v/";

/// The hash of all files, and the document that names it.
static PAGE: LazyLock<(String, Bytes)> = LazyLock::new(|| {
    let all: Vec<u8> = FILES.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let version = format!("{:08x}", Digest::of_bytes(&all).short());
    let document = DOCUMENT.replace(PLACEHOLDER, &version);
    (version, document.into())
});

/// Each file compressed, once somebody has asked for it.
static COMPRESSED: [OnceLock<Option<Bytes>>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// The file at `path` below `/console/`, by gzip if `accepts_gzip`. `None`: there is no such file, or only another version of it.
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

/// `bytes` compressed. `None`: there is not enough memory.
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
