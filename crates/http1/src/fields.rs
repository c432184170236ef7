//! Writes header fields, and parses fields whose value is a list.

use bytes::BufMut;
use http::{HeaderMap, HeaderName};

pub(super) fn put_field(head: &mut impl BufMut, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.put_slice(part);
    }
}

pub(super) fn put_fields(head: &mut impl BufMut, headers: &HeaderMap) {
    for (name, value) in headers {
        put_field(head, name.as_str().as_bytes(), value.as_bytes());
    }
}

/// Returns the items of a list field, which may be spread over several field lines. Empty items are skipped (RFC
/// 9110, section 5.6.1.2).
pub fn list_items<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let lists = headers.get_all(name).into_iter();
    let items = lists.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    items.map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

/// Whether the list contains `item`, ignoring case.
pub fn list_contains(headers: &HeaderMap, name: &HeaderName, item: &[u8]) -> bool {
    list_items(headers, name).any(|listed| listed.eq_ignore_ascii_case(item))
}
