//! What the heads of HTTP/1.1 messages have in common, a client's response as much as an upstream's request.

use bytes::BufMut;
use http::{HeaderMap, HeaderName};

/// Writes one line of a head.
pub(super) fn put_line(head: &mut impl BufMut, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.put_slice(part);
    }
}

/// Writes a line for each of `headers`.
pub(super) fn put_lines(head: &mut impl BufMut, headers: &HeaderMap) {
    for (name, value) in headers {
        put_line(head, name.as_str().as_bytes(), value.as_bytes());
    }
}

/// The words of a list that may stand in several headers. Empty ones are none (RFC 9110, section 5.6.1).
pub(super) fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let lists = headers.get_all(name).into_iter();
    let words = lists.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    words.map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
}

/// Whether the list has this word, in any case.
pub(super) fn says(headers: &HeaderMap, name: &HeaderName, word: &[u8]) -> bool {
    words(headers, name).any(|said| said.eq_ignore_ascii_case(word))
}
