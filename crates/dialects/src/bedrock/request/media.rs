//! Images, documents, recordings and videos.

use crate::{
    bedrock::upstream::is_s3,
    media::{data_url, mime_of_url, plain_mime},
};

pub(in crate::bedrock) const DOCUMENT: &str = "document";

/// The block and the format for a type of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bedrock) struct FileKind {
    pub(in crate::bedrock) block: &'static str,
    pub(in crate::bedrock) format: &'static str,
}

/// The block and the format for files of this type, if the API accepts them.
pub(in crate::bedrock) fn file_kind(mime: &str) -> Option<FileKind> {
    let (block, format) = match &*plain_mime(mime) {
        "application/pdf" => (DOCUMENT, "pdf"),
        "text/csv" => (DOCUMENT, "csv"),
        "application/msword" => (DOCUMENT, "doc"),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => (DOCUMENT, "docx"),
        "application/vnd.ms-excel" => (DOCUMENT, "xls"),
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => (DOCUMENT, "xlsx"),
        "text/html" => (DOCUMENT, "html"),
        "text/plain" => (DOCUMENT, "txt"),
        "text/markdown" => (DOCUMENT, "md"),
        "audio/mpeg" | "audio/mp3" => ("audio", "mp3"),
        "audio/wav" | "audio/x-wav" | "audio/wave" => ("audio", "wav"),
        "audio/ogg" => ("audio", "ogg"),
        "audio/flac" => ("audio", "flac"),
        "audio/aac" => ("audio", "aac"),
        "audio/mp4" => ("audio", "mp4"),
        "audio/webm" => ("audio", "webm"),
        "video/mp4" => ("video", "mp4"),
        "video/quicktime" => ("video", "mov"),
        "video/webm" => ("video", "webm"),
        "video/x-matroska" => ("video", "mkv"),
        "video/mpeg" => ("video", "mpeg"),
        _ => return None,
    };
    Some(FileKind { block, format })
}

/// Where an image is.
#[derive(Debug, Clone, Copy)]
pub(in crate::bedrock) enum ImageSource<'c> {
    Data(&'c str),
    S3(&'c str),
}

/// The format and the source of an image, if the API accepts it.
pub(in crate::bedrock) fn image(url: &str) -> Option<(&'static str, ImageSource<'_>)> {
    let (mime, source) = match data_url(url) {
        Some((mime, data)) => (plain_mime(mime), ImageSource::Data(data)),
        None if is_s3(url) => (mime_of_url(url)?.into(), ImageSource::S3(url)),
        None => return None,
    };
    let format = match &*mime {
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    };
    Some((format, source))
}

/// Converts the name of a file to one that the API accepts: letters, digits, single spaces, hyphens and brackets.
pub(in crate::bedrock) fn document_name(name: &str) -> String {
    /// The API's maximum length, minus room for a number.
    const LONGEST: usize = 190;
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let mut plain = String::with_capacity(stem.len().min(LONGEST));
    for char in stem.chars().take(LONGEST) {
        let char = match char {
            char if char.is_ascii_alphanumeric() || "-()[]".contains(char) => char,
            '_' | '.' => '-',
            _ => ' ',
        };
        if char != ' ' || !plain.ends_with(' ') {
            plain.push(char);
        }
    }
    let plain = plain.trim();
    if plain.is_empty() { "file".to_owned() } else { plain.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_documents_contain_only_what_the_api_accepts() {
        for (name, plain) in [
            ("report_2026.v2.pdf", "report-2026-v2"),
            ("é  ü.pdf", "file"),
            ("a\n\nb: c.txt", "a b c"),
            ("", "file"),
            (".pdf", "file"),
        ] {
            assert_eq!(document_name(name), plain, "{name}");
        }
        assert_eq!(document_name(&"x".repeat(1000)).len(), 190);
    }
}
