//! [`without_base64`]: replaces files that stand as base64 in a text.

use std::{borrow::Cow, ops::RangeInclusive};

use super::{described, is_mime, mime_of};
use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use toolwire_pipeline::wire::text::head;

/// Minimum number of digits of a file that no `data:` URL announces.
const MIN_DIGITS: usize = 256;

/// Minimum number of digits in a `data:` URL. Shorter ones cost little.
const MIN_URL_DIGITS: usize = 64;

/// Maximum length of what precedes the digits in a `data:` URL, in bytes.
const MAX_HEAD: usize = 160;

/// The possible lengths of the lines of base64 that is written in lines, in digits.
const LINE: RangeInclusive<usize> = 60..=128;

/// Number of digits that show the type of a file.
const MAGIC_DIGITS: usize = 16;

/// Replaces files in `text`, plain text or JSON, with what they are, such as `[image/png, 270 KB]`: `data:` URLs, and
/// long base64 whose first bytes are those of a known type.
pub(crate) fn without_base64(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(start) = next_digit(bytes, at) {
        let run = Run::at(bytes, start);
        match run.file(text, kept) {
            Some(file) => {
                out.push_str(text.get(kept..file.start).unwrap_or_default());
                out.push_str(&file.shown);
                (kept, at) = (file.end, file.end);
            }
            None => at = run.end.max(start + 1),
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(out)
}

/// Adjacent base64 digits. In JSON, slashes may be escaped.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    digits: usize,
}

/// A file in a text, and what stands for it.
struct EncodedFile {
    start: usize,
    end: usize,
    shown: String,
}

impl Run {
    fn at(bytes: &[u8], start: usize) -> Self {
        let (mut end, mut digits) = (start, 0);
        loop {
            match (bytes.get(end), bytes.get(end + 1)) {
                (Some(byte), _) if is_digit(*byte) => end += 1,
                (Some(b'\\'), Some(b'/')) => end += 2,
                _ => return Self { start, end, digits },
            }
            digits += 1;
        }
    }

    /// The file that begins with this run. `kept` is the end of the previous file.
    fn file(self, text: &str, kept: usize) -> Option<EncodedFile> {
        if self.digits < *LINE.start() {
            return None;
        }
        let bytes = text.as_bytes();
        let url = url_head(text, kept, self.start);
        let first = first_bytes(bytes.get(self.start..self.end)?);
        let known = mime_of(&first);
        let (start, mime) = match url {
            Some((start, claimed)) => {
                (start, known.unwrap_or(if is_mime(claimed) { claimed } else { "data" }))
            }
            None => (self.start, known?),
        };
        let (end, digits) = self.lines(bytes);
        let min_digits = if url.is_some() { MIN_URL_DIGITS } else { MIN_DIGITS };
        (digits >= min_digits).then(|| EncodedFile { start, end, shown: described(mime, digits / 4 * 3) })
    }

    /// The end of the base64 that begins with this run, and its number of digits, including further lines of the same
    /// length.
    fn lines(self, bytes: &[u8]) -> (usize, usize) {
        let (mut last, mut digits) = (self, self.digits);
        loop {
            let padding = bytes.get(last.end..).unwrap_or_default().iter().take_while(|byte| **byte == b'=');
            let padding = padding.take(2).count();
            if padding > 0 || !LINE.contains(&self.digits) || last.digits < self.digits {
                return (last.end + padding, digits + padding);
            }
            let next = line_break(bytes, last.end).map(|start| Self::at(bytes, start));
            match next.filter(|next| (1..=self.digits).contains(&next.digits)) {
                Some(next) => {
                    digits += next.digits;
                    last = next;
                }
                None => return (last.end, digits),
            }
        }
    }
}

/// The next digit that does not belong to an escape sequence such as `\n`.
fn next_digit(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let found = from + bytes.get(from..)?.iter().position(|byte| is_digit(*byte))?;
        let is_escaped = found.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\\');
        if !is_escaped || !matches!(bytes.get(found), Some(b'n' | b'r' | b't' | b'b' | b'f')) {
            return Some(found);
        }
        from = found + 1;
        if bytes.get(from).is_some_and(|byte| is_digit(*byte)) {
            return Some(from);
        }
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// The place behind a line break at `at`, as in text or in JSON.
fn line_break(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let breaks: [&[u8]; 4] = [b"\n", b"\r\n", b"\\n", b"\\r\\n"];
    breaks.iter().find(|written| rest.starts_with(written)).map(|written| at + written.len())
}

/// The start and the type of a `data:` URL whose digits begin at `at`.
fn url_head(text: &str, kept: usize, at: usize) -> Option<(usize, &str)> {
    let before = text.get(kept..at)?;
    let head_end = before.len().checked_sub(";base64,".len())?;
    if !before.get(head_end..)?.eq_ignore_ascii_case(";base64,") {
        return None;
    }
    let mut from = head_end.saturating_sub(MAX_HEAD);
    while !before.is_char_boundary(from) {
        from += 1;
    }
    let colon = from + before.get(from..head_end)?.rfind("data:")?;
    let mime = before.get(colon + "data:".len()..head_end)?;
    Some((kept + colon, head(mime, mime.find(';').unwrap_or(mime.len()))))
}

/// The bytes that the first digits stand for.
fn first_bytes(digits: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = digits.iter().copied().filter(|byte| *byte != b'\\').take(MAGIC_DIGITS).collect();
    let alphabet = match digits.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        true => &URL_SAFE,
        false => &STANDARD,
    };
    let engine = GeneralPurpose::new(alphabet, GeneralPurposeConfig::new());
    engine.decode(digits).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
    use proptest::prelude::*;

    use super::*;

    fn png(bytes: usize) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.extend((png.len()..bytes).map(|place| u8::try_from(place * 7 % 256).unwrap()));
        png
    }

    #[test]
    fn files_become_what_they_are() {
        let data = BASE64_STANDARD.encode(png(3000));
        let shown = "[image/png, 3 KB]";
        let lines = data.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap()).collect::<Vec<_>>();
        let slashes = data.replace('/', "\\/");
        for (text, expected) in [
            (data.clone(), shown.to_owned()),
            (format!("a {data} b"), format!("a {shown} b")),
            (format!("a\n{data}\nb"), format!("a\n{shown}\nb")),
            (format!("{{\"a\":\"x\\n{data}\"}}"), format!("{{\"a\":\"x\\n{shown}\"}}")),
            (format!("[\"{slashes}\"]"), format!("[\"{shown}\"]")),
            (format!("{}\n", lines.join("\n")), format!("{shown}\n")),
            (format!("{{\"a\":\"{}\"}}", lines.join("\\n")), format!("{{\"a\":\"{shown}\"}}")),
            (format!("![x](data:image/png;base64,{data})"), format!("![x]({shown})")),
            (format!("b'{}'", BASE64_URL_SAFE.encode(png(3000))), format!("b'{shown}'")),
            (format!("{data} {data}"), format!("{shown} {shown}")),
            // The first bytes decide, if they are known.
            (format!("data:text/html;x=y;base64,{data}"), shown.to_owned()),
            (
                format!("data:image/svg+xml;base64,{}", BASE64_STANDARD.encode(vec![b'<'; 300])),
                "[image/svg+xml, 300 bytes]".to_owned(),
            ),
            (
                format!("data:<b>;base64,{}", BASE64_STANDARD.encode(vec![b'<'; 300])),
                "[data, 300 bytes]".to_owned(),
            ),
        ] {
            assert_eq!(without_base64(&text), expected, "{text}");
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let words = "word ".repeat(1000);
        let long = "x".repeat(5000);
        let unknown = BASE64_STANDARD.encode(vec![7; 5000]);
        let short = BASE64_STANDARD.encode(png(150));
        for text in ["", "a", "\\", "\\n", "\\n\\n\\nabc", &words, &long, &unknown, &short, "data:;base64,"] {
            assert!(matches!(without_base64(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert_eq!(without_base64("data:image/svg+xml,%3Csvg%3E"), "data:image/svg+xml,%3Csvg%3E");
    }

    proptest! {
        #[test]
        fn only_files_are_replaced(pieces in prop::collection::vec(prop_oneof![
            "[a-z\\\\n\"= ,:;é]{0,40}", Just("data:".to_owned()), Just(";base64,".to_owned()), Just("\\n".to_owned()),
            Just(BASE64_STANDARD.encode(png(60))),
        ], 0..8), size in 200_usize..2000) {
            let plain = pieces.concat();
            let has_url = plain.contains(";base64,");
            if !has_url {
                prop_assert_eq!(&*without_base64(&plain), &plain);
            }
            let data = BASE64_STANDARD.encode(png(size));
            let text = format!("{plain} {data} {plain}");
            let shown = without_base64(&text);
            prop_assert!(!shown.contains(&data));
            let expected = format!("{plain} {} {plain}", described("image/png", data.len() / 4 * 3));
            prop_assert!(has_url || shown == expected);
        }
    }
}
