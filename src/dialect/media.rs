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
    fn types_are_recognised_by_content() {
        assert_eq!((mime_of_base64("iVBORw0KGgoAAA"), mime_of_base64("AAAA")), ("image/png", ""));
    }
}
