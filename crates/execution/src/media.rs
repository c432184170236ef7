//! [`MediaFile`]: an image, a recording or a document that a tool returns.
//!
//! The type of a file is always taken from its first bytes, never from what the tool says. Files are passed on as they
//! are: nothing is decoded beyond the first bytes.

mod encoded_text;
mod keep;

use std::sync::Arc;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use serde_json::json;

pub(crate) use self::{
    encoded_text::without_base64,
    keep::{kept, shown},
};
use crate::files::image_type;
use toolwire_pipeline::conversation::{Part, ToolMedia};

/// Maximum size of a file that models get, in bytes of base64: the limit of Anthropic's API for an image.
const MAX_FILE: usize = 5 << 20;

/// Maximum size of all files in a response together, in bytes of base64. Google's API accepts requests of 20 MB.
pub(crate) const MAX_FILES: usize = 12 << 20;

/// Maximum number of files in a response.
pub(crate) const MAX_COUNT: usize = 20;

/// Decodes base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A file of a known type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaFile {
    mime: &'static str,
    /// In the standard alphabet, with padding.
    base64: Arc<str>,
}

impl MediaFile {
    /// Reads a file. `None` if models do not take such files, or if it is too large.
    pub(crate) fn read(base64: &str) -> Option<Self> {
        if base64.len() > MAX_FILE / 64 * 66 {
            return None;
        }
        let joined: String;
        let digits = match base64.contains(|char: char| char.is_ascii_whitespace()) {
            true => {
                joined = base64.split_ascii_whitespace().collect();
                &joined
            }
            false => base64,
        };
        let bytes = LENIENT.decode(digits).ok()?;
        let mime = mime_of(&bytes).filter(|mime| is_taken(mime))?;
        let base64 = BASE64_STANDARD.encode(&bytes);
        (base64.len() <= MAX_FILE).then(|| Self { mime, base64: base64.into() })
    }

    /// Its size in requests, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.base64.len()
    }

    /// Its type and its base64.
    #[cfg(feature = "mcp")]
    pub(crate) fn parts(&self) -> (&'static str, &str) {
        (self.mime, &self.base64)
    }

    pub(crate) fn is_image(&self) -> bool {
        self.mime.starts_with("image/")
    }

    /// The file as text, such as `[image/png, 270 KB]`.
    pub(crate) fn described(&self) -> String {
        described(self.mime, self.base64.len() / 4 * 3)
    }

    /// The file as an image of a request.
    pub(crate) fn image(&self) -> Part {
        Part::Image { url: format!("data:{};base64,{}", self.mime, self.base64), detail: None }
    }

    /// The file as a part of a tool's result.
    pub(crate) fn part(&self) -> Part {
        let (mime, data) = (self.mime, &*self.base64);
        let kind = mime.split('/').next().unwrap_or_default();
        let kind = if matches!(kind, "image" | "audio" | "video") { kind } else { "document" };
        ToolMedia::part(json!({"type": kind, "mimeType": mime, "data": data}))
    }
}

/// Text that stands for a file of `bytes` bytes.
pub(crate) fn described(mime: &str, bytes: usize) -> String {
    format!("[{mime}, {}]", size(bytes))
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", (bytes + 500) / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

/// The type of a file, by its first bytes. `None` if it is unknown.
pub(crate) fn mime_of(bytes: &[u8]) -> Option<&'static str> {
    const OTHERS: [(usize, &[u8], &str); 11] = [
        (0, b"GIF87a", "image/gif"),
        (0, b"GIF89a", "image/gif"),
        (8, b"WAVE", "audio/wav"),
        (0, b"%PDF-", "application/pdf"),
        (0, b"ID3", "audio/mpeg"),
        (0, b"\xff\xfb", "audio/mpeg"),
        (0, b"OggS", "audio/ogg"),
        (0, b"fLaC", "audio/flac"),
        (4, b"ftyp", "video/mp4"),
        (0, b"PK\x03\x04", "application/zip"),
        (0, b"\x1f\x8b\x08", "application/gzip"),
    ];
    let found = || {
        OTHERS.iter().find(|(at, magic, _)| {
            bytes.get(*at..).is_some_and(|bytes| bytes.starts_with(magic))
                && (*at != 8 || bytes.starts_with(b"RIFF"))
        })
    };
    image_type(bytes).or_else(|| found().map(|(_, _, mime)| *mime))
}

/// Whether there are models that take files of this type.
fn is_taken(mime: &str) -> bool {
    mime.starts_with("image/") || mime.starts_with("audio/") || mime == "application/pdf"
}

/// Whether `text` is short and has no other characters than MIME types, so that it can be shown to the model.
pub(crate) fn is_mime(text: &str) -> bool {
    let is_legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'+' | b'-' | b'_');
    !text.is_empty() && text.len() <= 64 && text.bytes().all(is_legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_is_what_the_first_bytes_say() {
        let read = |bytes: &[u8]| MediaFile::read(&BASE64_STANDARD.encode(bytes)).map(|file| file.mime);
        assert_eq!(read(b"\x89PNG\r\n\x1a\nabc"), Some("image/png"));
        assert_eq!(read(b"RIFF\x24\x00\x00\x00WEBPVP8 "), Some("image/webp"));
        assert_eq!(read(b"RIFF\x24\x00\x00\x00WAVEfmt "), Some("audio/wav"));
        assert_eq!(read(b"%PDF-1.7"), Some("application/pdf"));
        for other in [
            &b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>1</script></svg>"[..],
            b"<html>\x89PNG\r\n\x1a\n",
            b"PK\x03\x04 an archive",
            b"\x1f\x8b\x08 an archive",
            b"RIFF\x24\x00\x00\x00AVI LIST",
            b"xxxxxxxxWEBP",
            b"GIF",
            b"",
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
        assert_eq!(MediaFile::read("no base64!"), None);
    }

    #[test]
    fn base64_is_written_in_its_usual_form() {
        let form = |text: &str| MediaFile::read(text).map(|file| file.base64.to_string());
        for given in ["iVBORw0KGgphYg==", "iVBORw0KGgphYg", "iVBORw0K\r\nGgphYg==\n"] {
            assert_eq!(form(given).as_deref(), Some("iVBORw0KGgphYg=="), "{given}");
        }
    }

    #[test]
    fn files_are_limited_by_what_is_sent() {
        let png = |bytes: usize| {
            let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
            png.resize(bytes, 7);
            MediaFile::read(&BASE64_STANDARD.encode(png)).map(|file| file.size())
        };
        assert_eq!(png(MAX_FILE / 4 * 3), Some(MAX_FILE));
        assert_eq!(png(MAX_FILE / 4 * 3 + 1), None);
        assert_eq!(png(MAX_FILE), None);
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1 KB"),
            (269_900, "270 KB"),
            (1_000_000, "1.0 MB"),
            (12_345_678, "12.3 MB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
