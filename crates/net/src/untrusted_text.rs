//! Makes text from outside safe for a log line or a terminal.
//!
//! Clients and upstreams choose model names, paths, error codes and messages. Written unchanged, such text can
//! start a new log line, move a terminal's cursor, or fill a disk. Code that shows it to people passes it through
//! this module, which escapes invisible characters and clips long texts.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

/// Maximum number of bytes of one value in a log line. The rest is replaced with a mark that says how many bytes are
/// missing.
pub const MAX_VALUE: usize = 256;

/// Whether a terminal or a line reader could treat `char` as anything but a visible character: control
/// characters (C0, DEL, C1), line and paragraph separators, and characters that reorder or hide text.
pub fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns `text` with unprintable characters escaped as in Rust: `\r`, `\n`, `\u{1b}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|char| put(&mut out, char));
    Cow::Owned(out)
}

/// Returns `value` as JSON on one line, with unprintable characters escaped.
pub fn printable_json(value: &serde_json::Value) -> String {
    let json = value.to_string();
    if !json.contains(is_unprintable) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    // Writing into a string cannot fail.
    let _ = write_printable(&mut out, &json);
    out
}

/// Writes `json` with its unprintable characters escaped. They occur only in its strings.
pub fn write_printable(writer: &mut impl Write, json: &str) -> fmt::Result {
    for char in json.chars() {
        if is_unprintable(char) {
            let mut units = [0; 2];
            char.encode_utf16(&mut units).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
        } else {
            writer.write_char(char)?;
        }
    }
    Ok(())
}

/// Returns at most the first `max` bytes of `text`, cut between characters. If there are more, a mark says how many are
/// missing.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    let (kept, rest) = text.split_at_checked(text.floor_char_boundary(max)).unwrap_or((text, ""));
    match rest.len() {
        0 => Cow::Borrowed(kept),
        more => Cow::Owned(format!("{kept}{}", Mark(more))),
    }
}

/// The mark that replaces the bytes that were cut off.
struct Mark(usize);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… [{} bytes more]", self.0)
    }
}

/// Returns the `Debug` form of `value`, escaped and clipped to [`MAX_VALUE`] bytes. The rest is never kept.
pub fn cleaned(value: &dyn fmt::Debug) -> String {
    let mut cleaner = Cleaner { text: String::new(), missing: 0 };
    // Writing to a string cannot fail. A value whose `Debug` implementation fails is shown up to that point.
    let _ = write!(cleaner, "{value:?}");
    match cleaner.missing {
        0 => cleaner.text,
        missing => format!("{}{}", cleaner.text, Mark(missing)),
    }
}

/// A writer that keeps, escaped, the first [`MAX_VALUE`] bytes that are written to it.
struct Cleaner {
    text: String,
    /// Number of bytes that were cut off.
    missing: usize,
}

impl Write for Cleaner {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            let kept = self.text.len();
            if self.missing == 0 {
                put(&mut self.text, char);
            }
            if self.missing > 0 || self.text.len() > MAX_VALUE {
                self.text.truncate(kept);
                self.missing += char.len_utf8();
            }
        }
        Ok(())
    }
}

fn put(out: &mut String, char: char) {
    match char {
        '\t' | '\r' | '\n' => out.extend(char.escape_default()),
        char if is_unprintable(char) => out.extend(char.escape_unicode()),
        char => out.push(char),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes each piece separately.
    struct Pieces<'p>(&'p [&'p str]);

    impl fmt::Debug for Pieces<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.iter().try_for_each(|piece| f.write_str(piece))
        }
    }

    fn cleaned(pieces: &[&str]) -> String {
        super::cleaned(&Pieces(pieces))
    }

    #[test]
    fn unprintable_characters_are_escaped() {
        let hostile = "a\r\nb\u{1b}[31m\u{9b}2J\u{7f}\u{0}\u{2028}\u{2029}\u{202e}\u{200b}\u{feff}\u{e0041}";
        let told = r"a\r\nb\u{1b}[31m\u{9b}2J\u{7f}\u{0}\u{2028}\u{2029}\u{202e}\u{200b}\u{feff}\u{e0041}";
        assert_eq!(escaped(hostile), told);
        assert_eq!(cleaned(&[hostile]), told);
        assert_eq!(cleaned(&["a\r", "\nb"]), r"a\r\nb");
        let plain = "plain, \"quoted\", \\ é 漢字 👩";
        assert!(matches!(escaped(plain), Cow::Borrowed(same) if same == plain));
        assert_eq!(cleaned(&[plain]), plain);
    }

    #[test]
    fn long_text_is_clipped_at_a_character_and_marked() {
        let exact = "é".repeat(MAX_VALUE / 2);
        assert_eq!(clip(&exact, MAX_VALUE), exact);
        assert_eq!(cleaned(&[&exact]), exact);
        assert_eq!(clip(&format!("{exact}é"), MAX_VALUE), format!("{exact}… [2 bytes more]"));
        assert_eq!(cleaned(&[&exact, "é", "x"]), format!("{exact}… [3 bytes more]"));
        assert_eq!(clip("aéb", 2), "a… [3 bytes more]");
        assert_eq!(clip("", 0), "");
        let escapes = cleaned(&[&"\u{1b}".repeat(60_000)]);
        assert!(escapes.len() < MAX_VALUE + 32, "{escapes}");
        assert!(escapes.ends_with(" bytes more]"), "{escapes}");
    }
}
