//! Slicing that cannot panic. The offsets come from searches for ASCII bytes, so they are at character boundaries.

/// `text[..at]`, or an empty string if there is no such slice.
#[inline]
pub fn head(text: &str, at: usize) -> &str {
    text.get(..at).unwrap_or_default()
}

/// `text[at..]`, or an empty string if there is no such slice.
#[inline]
pub fn tail(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

/// `text[from..to]`, or an empty string if there is no such slice.
#[inline]
pub fn slice(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}

/// Whether the byte is white space in JSON and Markdown.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Appends to a string that may grow large. Its capacity grows by an eighth rather than doubling.
#[inline]
pub fn append(kept: &mut String, text: &str) {
    if kept.capacity() - kept.len() < text.len() {
        kept.reserve_exact(text.len().max(kept.len() / 8).max(64));
    }
    kept.push_str(text);
}

/// Returns the first character boundary at or after `at`.
pub fn boundary_from(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

/// Returns the last character boundary at or before `at`.
pub fn boundary_upto(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}
