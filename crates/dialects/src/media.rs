//! Converts images and files between the representations of the dialects: `data:` URLs, and base64 with or
//! without a type.

use std::borrow::Cow;

/// The MIME type and the base64 data of a `data:` URL. `None` for any other URL.
pub(super) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mime = head.strip_suffix(";base64")?;
    // Leave out parameters such as the character set.
    Some((mime.split(';').next().unwrap_or(mime), data))
}

/// Normalises a MIME type: lower case, no parameters, and `image/jpeg` instead of `image/jpg`, which some
/// APIs reject.
pub(super) fn plain_mime(mime: &str) -> Cow<'_, str> {
    let plain = mime.split(';').next().unwrap_or(mime).trim();
    let is = |name: &str| plain.eq_ignore_ascii_case(name);
    if is("image/jpg") || is("image/pjpeg") {
        Cow::Borrowed("image/jpeg")
    } else if is("image/x-png") {
        Cow::Borrowed("image/png")
    } else if plain.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(plain.to_ascii_lowercase())
    } else {
        Cow::Borrowed(plain)
    }
}

/// Decodes base64 text in either alphabet. `None` if `data` is not base64 or does not contain text.
pub(super) fn decoded_text(data: &str) -> Option<String> {
    String::from_utf8(decoded(data)?).ok()
}

/// Decodes base64 in either alphabet. `None` if `data` is not base64.
fn decoded(data: &str) -> Option<Vec<u8>> {
    let digits = data.trim_ascii().trim_end_matches('=').bytes().filter(|byte| !byte.is_ascii_whitespace());
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(data.len() / 4 * 3), 0_u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}

/// Encodes bytes as base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let value = group.iter().fold(0_u32, |value, byte| (value << 8) | u32::from(*byte));
        let value = value << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = usize::try_from((value >> (18 - 6 * place)) & 63).unwrap_or(0);
            let digit = DIGITS.get(digit).copied().filter(|_| place <= group.len());
            text.push(char::from(digit.unwrap_or(b'=')));
        }
    }
    text
}

/// The base64 of the bytes in `data`, followed by those in `more`. Most pieces are whole groups, and need not be
/// decoded.
#[cfg(feature = "bedrock")]
pub(super) fn joined_base64(mut data: String, more: &str) -> String {
    if data.len().is_multiple_of(4) && !data.ends_with('=') {
        data.push_str(more);
        return data;
    }
    // Only the last group is incomplete.
    let whole = data.trim_end_matches('=').len() / 4 * 4;
    let bytes = decoded(data.get(whole..).unwrap_or_default()).zip(decoded(more));
    match bytes {
        Some((mut last, more)) => {
            last.extend(more);
            data.truncate(whole);
            data + &base64(&last)
        }
        None => data + more,
    }
}

/// Whether servers cannot load this URL, because it is a file on the client's machine or a `data:` URL that
/// is not base64-encoded.
pub(super) fn is_local(url: &str) -> bool {
    let scheme = url.split(':').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("file") || (scheme.eq_ignore_ascii_case("data") && data_url(url).is_none())
}

/// The MIME type of an image or a PDF, judging by the first bytes of its base64. Empty for other data.
pub(super) fn mime_of_base64(data: &str) -> &'static str {
    const KNOWN: [(&str, &str); 5] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
        ("JVBERi0", "application/pdf"),
    ];
    KNOWN.iter().find(|(start, _)| data.starts_with(start)).map_or("", |(_, mime)| mime)
}

/// The MIME type of an image or file, judging by the file extension in its URL. `None` if the extension is
/// unknown.
pub(super) fn mime_of_url(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    mime_of_name(path)
}

/// The MIME type of a file, judging by its extension. `None` if the extension is unknown.
pub(super) fn mime_of_name(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "heic" => "image/heic",
        "pdf" => "application/pdf",
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "xml" => "application/xml",
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
    fn base64_of_either_alphabet_is_decoded_as_text() {
        let text = "é~?>\u{fffd}";
        for data in ["w6l-Pz7vv70", "w6l+Pz7vv70=", " w6l+\nPz7vv70= "] {
            assert_eq!(decoded_text(data).as_deref(), Some(text), "{data}");
        }
        assert_eq!(decoded_text("NDI=").as_deref(), Some("42"));
        assert_eq!((decoded_text("*"), decoded_text("/w==")), (None, None));
        assert_eq!(decoded_text("").as_deref(), Some(""));
    }

    #[cfg(feature = "bedrock")]
    #[test]
    fn pieces_of_base64_are_joined_by_their_bytes() {
        for bytes in [&b"abcdefgh"[..], b"\xff\x00\x01", b""] {
            for cut in 0..=bytes.len() {
                let (one, two) = bytes.split_at(cut);
                assert_eq!(joined_base64(base64(one), &base64(two)), base64(bytes), "{cut}");
            }
        }
        assert_eq!(joined_base64("YQ==".to_owned(), "*"), "YQ==*");
    }

    #[test]
    fn types_are_written_in_one_form() {
        let plain = ["image/JPG", "Image/PNG", "text/plain; charset=utf-8", "image/webp"].map(plain_mime);
        assert_eq!(plain, ["image/jpeg", "image/png", "text/plain", "image/webp"]);
        assert_eq!(["image/x-png", "image/pjpeg"].map(plain_mime), ["image/png", "image/jpeg"]);
    }

    #[test]
    fn types_are_recognised_by_content_and_by_ending() {
        assert_eq!((mime_of_base64("iVBORw0KGgoAAA"), mime_of_base64("AAAA")), ("image/png", ""));
        assert_eq!(mime_of_url("https://x/a.JPG?size=2#f"), Some("image/jpeg"));
        assert_eq!((mime_of_url("https://x.com/a"), mime_of_url("")), (None, None));
    }
}
