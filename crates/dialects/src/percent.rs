//! Percent-encoding in paths, queries and cookies.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// `text` as a part of a path segment or a query value.
pub(crate) fn in_url(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}
