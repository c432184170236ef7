//! Percent-encoding in paths, queries and variables.

/// Decodes percent-encoding. `None` if the result is not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = tail.split_at_checked(2).filter(|_| first == b'%');
        let decoded = escaped.and_then(|(digits, after)| Some((hex(digits)?, after)));
        let (byte, after) = decoded.unwrap_or((first, tail));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u8::from_str_radix(digits, 16).ok()
}
