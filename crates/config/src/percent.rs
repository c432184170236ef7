//! Percent-encoding in paths, queries and variables.

use percent_encoding::percent_decode_str;

/// Decodes percent-encoding. Returns `None` if the result is not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}
