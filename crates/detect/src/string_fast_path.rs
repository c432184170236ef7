//! [`StringFastPath`]: sends the inside of an argument string without running the full reader.
//!
//! Most of a long call is the inside of one string, and most pieces of it contain nothing that could end the string
//! or would have to be held. Such pieces are sent at once and do not change the reader's state. All other pieces go
//! through the full reader, which would produce the same output.

use crate::wire::json::escape_str;

/// The notation of the string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringFastPath {
    /// A JSON string in double quotes.
    Json,
    /// A string with other quotes or escapes, or within another string.
    Quotes,
    /// A string between tags, where entities and CDATA may occur. `lines` is set if line endings beside the tags
    /// are not part of the string.
    Tags { lines: bool },
}

impl StringFastPath {
    /// Returns `text` as JSON, or `None` if it needs the full reader. `escaped` is a buffer for text that must be
    /// escaped.
    pub(super) fn take<'t>(self, text: &'t str, escaped: &'t mut String) -> Option<&'t str> {
        let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
        match self {
            Self::Json => is_json(text).then_some(text),
            Self::Quotes => text.bytes().all(|byte| plain(byte) && byte != b'\'').then_some(text),
            Self::Tags { lines } => {
                let mut as_it_is = true;
                for byte in text.bytes() {
                    match byte {
                        b'<' | b'&' | b']' => return None,
                        b'\n' if lines => return None,
                        _ => as_it_is &= plain(byte),
                    }
                }
                if as_it_is {
                    return Some(text);
                }
                escaped.clear();
                escape_str(escaped, text);
                Some(escaped)
            }
        }
    }
}

/// Whether `text` is the inside of a valid JSON string with only complete, single-letter escapes.
fn is_json(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                _ => return false,
            },
            b'"' | 0..0x20 => return false,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Fed, JsonBody};

    #[test]
    fn fast_path_output_equals_full_reader_output() {
        for (text, flows) in [
            ("abc é日😀 '<&]", true),
            (r#"a\n\t\\\"\/"#, true),
            (r"a\", false),
            (r"\u00e9", false),
            (r"\'", false),
            ("a\"", false),
            ("a\nb", false),
        ] {
            for repair in [true, false] {
                let mut body = JsonBody::new(repair, 8);
                body.feed("\"", &mut |_: &str| {});
                assert_eq!(body.flow(), Some(StringFastPath::Json));
                let mut long = String::new();
                let fed = body.feed(text, &mut |piece: &str| long.push_str(piece));
                let mut escaped = String::new();
                let flow = StringFastPath::Json.take(text, &mut escaped);
                assert_eq!(flow.is_some(), flows, "{text}");
                if let Some(piece) = flow {
                    assert_eq!(
                        (piece, fed, body.flow()),
                        (long.as_str(), Fed::More, Some(StringFastPath::Json)),
                        "{text}"
                    );
                }
            }
        }
    }

    #[test]
    fn tag_fast_path_stops_at_possible_markup() {
        let take =
            |lines, text| StringFastPath::Tags { lines }.take(text, &mut String::new()).map(str::to_owned);
        assert_eq!(take(true, "a > b's").as_deref(), Some("a > b's"));
        assert_eq!(take(true, "\"\\\t").as_deref(), Some(r#"\"\\\t"#));
        assert_eq!(take(false, "a\n").as_deref(), Some(r"a\n"));
        for stop in ["<", "&", "]"] {
            assert_eq!(take(false, stop), None);
        }
        assert_eq!(take(true, "a\n"), None);
    }
}
