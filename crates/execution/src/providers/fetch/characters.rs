//! Turns the bytes of a page into text.

/// The bytes at the start of a page in which its own declaration of the encoding is looked for.
const DECLARED_WITHIN: usize = 1024;

/// The characters 0x80 to 0x9F of Windows-1252, which browsers also use for ISO-8859-1.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Decodes a page. `kind` is its `Content-Type`. Without a declaration, it is UTF-8 if it can be, and else Windows-1252.
///
/// # Errors
/// The name of an encoding that is not known.
pub(super) fn decoded(body: &[u8], kind: &str, is_html: bool) -> Result<String, String> {
    if let Some(rest) = body.strip_prefix(b"\xef\xbb\xbf") {
        return Ok(utf8(rest));
    }
    if let Some(rest) = body.strip_prefix(b"\xff\xfe") {
        return Ok(utf16(rest, u16::from_le_bytes));
    }
    if let Some(rest) = body.strip_prefix(b"\xfe\xff") {
        return Ok(utf16(rest, u16::from_be_bytes));
    }
    let own = || {
        let start = body.get(..body.len().min(DECLARED_WITHIN)).unwrap_or_default();
        is_html.then(|| charset(&latin(start))).flatten()
    };
    let Some(name) = charset(kind).or_else(own) else {
        return Ok(str::from_utf8(body).map_or_else(|_| latin(body), str::to_owned));
    };
    match name.as_str() {
        "utf-8" | "utf8" | "us-ascii" | "ascii" => Ok(utf8(body)),
        "iso-8859-1" | "iso8859-1" | "latin1" | "windows-1252" | "cp1252" => Ok(latin(body)),
        // A page in UTF-16 could not declare it in a way that is read here.
        _ if str::from_utf8(body).is_ok_and(|text| !text.contains('\0')) => Ok(utf8(body)),
        _ => Err(name),
    }
}

/// The value behind `charset=`, in lower case.
fn charset(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, rest) = lower.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = rest.find(|char: char| !(char.is_ascii_alphanumeric() || "-_:.".contains(char))).unwrap_or(rest.len());
    rest.get(..end).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn utf8(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, _) = bytes.as_chunks::<2>();
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
        .map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

fn latin(bytes: &[u8]) -> String {
    let char = |byte: &u8| match byte {
        0x80..=0x9f => WINDOWS.get(usize::from(byte - 0x80)).copied().unwrap_or(char::REPLACEMENT_CHARACTER),
        _ => char::from(*byte),
    };
    bytes.iter().map(char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_in_the_encoding_that_they_declare() {
        for (body, kind, expected) in [
            (&b"caf\xc3\xa9"[..], "text/html", "café"),
            (b"caf\xe9 \x80", "text/html", "café €"),
            (b"caf\xe9", "text/html; charset=ISO-8859-1", "café"),
            (b"caf\xe9", "text/html; charset=\"utf-8\"", "caf\u{fffd}"),
            (b"<meta charset='latin1'>caf\xe9", "text/html", "<meta charset='latin1'>café"),
            (b"\xef\xbb\xbfcaf\xc3\xa9", "text/html; charset=latin1", "café"),
            (b"\xff\xfec\0a\0", "", "ca"),
            (b"\xfe\xff\0c\0a\xff", "", "ca"),
            // The declaration is wrong, but harmless.
            (b"plain", "text/html; charset=shift_jis", "plain"),
            (b"", "", ""),
        ] {
            assert_eq!(decoded(body, kind, true).as_deref(), Ok(expected), "{kind}");
        }
        assert_eq!(decoded(b"\x93\xfa", "text/html; charset=Shift_JIS", true), Err("shift_jis".to_owned()));
    }
}
