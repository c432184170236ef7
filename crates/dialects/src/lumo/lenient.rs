//! Tolerates bytes that are invalid in and around JSON: byte order marks and control characters.

use std::{borrow::Cow, fmt::Write as _};

const BOM: &[u8] = "\u{feff}".as_bytes();

/// Skips what may precede a frame in `line`: NUL, and byte order marks that come from concatenated files.
pub(super) fn begun(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(BOM).or_else(|| line.strip_prefix(b"\0")) {
        line = rest;
    }
    line
}

/// Repairs a frame that is not valid JSON. Removes byte order marks before it, escapes control characters in
/// strings, and replaces other control characters with white space. Strings cannot contain line breaks, so
/// every line starts outside of a string.
pub(super) fn mended(text: &str) -> Cow<'_, str> {
    let text = text.trim_start_matches(['\u{feff}', '\0']);
    if !text.bytes().any(|byte| byte.is_ascii_control()) {
        return Cow::Borrowed(text);
    }
    let mut mended = String::with_capacity(text.len() + 8);
    let (mut in_string, mut escaped) = (false, false);
    for char in text.chars() {
        match (in_string, char) {
            (true, '\0'..='\u{1f}') => {
                // Writing to a string cannot fail.
                let _ = write!(mended, "\\u{:04x}", u32::from(char));
            }
            (false, '\0'..='\u{1f}') => mended.push(' '),
            _ => mended.push(char),
        }
        in_string ^= char == '"' && !escaped;
        escaped = in_string && char == '\\' && !escaped;
    }
    Cow::Owned(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_in_strings_only() {
        assert_eq!(mended("{\"a\\\"\u{0}\":\t1}\u{0}"), "{\"a\\\"\\u0000\": 1} ");
        assert_eq!(mended("\u{feff}\u{feff}{}"), "{}");
        assert_eq!(begun("\u{feff}\u{0}\u{feff}data: 1".as_bytes()), b"data: 1");
        assert_eq!(begun(b"\xef\xbb"), b"\xef\xbb");
    }
}
