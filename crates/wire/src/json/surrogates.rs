//! [`mend_surrogates`]: replaces unpaired surrogates.

use std::borrow::Cow;

use memchr::memchr;

/// Returns the JSON `text` with every unpaired escaped surrogate replaced by U+FFFD.
///
/// The JSON grammar allows unpaired surrogates, but UTF-8 cannot represent them. Clients write them when they cut a
/// text in the middle of a character.
pub fn mend_surrogates(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut mended = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        at += match unit(bytes, at) {
            None => 2,
            Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(text.get(copied..at).unwrap_or_default());
                mended.push_str(r"\ufffd");
                copied = at + 6;
                6
            }
            Some(_) => 6,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(mended)
}

fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_surrogates_are_replaced() {
        for (text, mended) in [
            (r#""a""#, r#""a""#),
            (r#""\ud83d\ude00 \uD83D\uDE00""#, r#""\ud83d\ude00 \uD83D\uDE00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83dx\ude00\ud83d\ud83d\ude00\u00e9""#, r#""\ufffdx\ufffd\ufffd\ud83d\ude00\u00e9""#),
            (r#""\\ud83d\"\\\ud83d""#, r#""\\ud83d\"\\\ufffd""#),
        ] {
            assert_eq!(mend_surrogates(text), mended);
            assert!(serde_json::from_str::<String>(&mend_surrogates(text)).is_ok());
        }
    }
}
