//! Images and files as dialects carry them: `data:` URLs, and base64 with or without a type.

/// The type and the base64 of a `data:` URL; `None` for any other URL.
pub(super) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mime = head.strip_suffix(";base64")?;
    // Parameters, such as a character set, are not part of the type.
    Some((mime.split(';').next().unwrap_or(mime), data))
}

/// The type of an image, by the first bytes of its base64; empty if it is of another kind.
pub(super) fn mime_of_base64(data: &str) -> &'static str {
    const KNOWN: [(&str, &str); 4] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
    ];
    KNOWN.iter().find(|(start, _)| data.starts_with(start)).map_or("", |(_, mime)| mime)
}

/// The type of an image or file, by the ending of its URL's path; `None` if it is not known.
pub(super) fn mime_of_url(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "heic" => "image/heic",
        "pdf" => "application/pdf",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_base64_data_urls_have_data() {
        assert_eq!(data_url("data:image/png;base64,AA=="), Some(("image/png", "AA==")));
        assert_eq!(data_url("data:text/plain;charset=utf-8;base64,AA=="), Some(("text/plain", "AA==")));
        for other in ["https://x/y.png", "data:text/plain,hello", "data:", ""] {
            assert_eq!(data_url(other), None, "{other}");
        }
    }

    #[test]
    fn types_are_recognised_by_content_and_by_ending() {
        assert_eq!((mime_of_base64("iVBORw0KGgoAAA"), mime_of_base64("AAAA")), ("image/png", ""));
        assert_eq!(mime_of_url("https://x/a.JPG?size=2#f"), Some("image/jpeg"));
        assert_eq!((mime_of_url("https://x.com/a"), mime_of_url("")), (None, None));
    }
}
