//! Makes text from outside safe to display in a log or on a terminal.
//!
//! Model names, paths, error codes and messages come from clients and upstreams. Unmodified, they could start a new log
//! line, move a terminal's cursor, or fill a disk. This module escapes invisible characters and clips long text.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

/// Maximum size of a value in a log line, in bytes. Text beyond it is replaced with a marker that gives its length.
pub const MAX_VALUE: usize = 256;

/// Whether a terminal or a line-based reader might not show `char` as a visible character: control characters (C0, DEL,
/// C1), line and paragraph separators, and characters that reorder or hide text.
pub fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes unprintable characters as in Rust: `\r`, `\n`, `\u{1b}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|char| put(&mut out, char));
    Cow::Owned(out)
}

/// Formats `value` as JSON on one line, with unprintable characters escaped.
pub fn printable_json(value: &serde_json::Value) -> String {
    let json = value.to_string();
    if !json.contains(is_unprintable) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    // Writing to a string cannot fail.
    let _ = write_printable(&mut out, &json);
    out
}

/// Writes `json` with unprintable characters escaped. They occur only in its strings.
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

/// Returns at most the first `max` bytes of `text`, cut between characters. A marker states how many bytes were cut
/// off.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    let (kept, rest) = text.split_at_checked(text.floor_char_boundary(max)).unwrap_or((text, ""));
    match rest.len() {
        0 => Cow::Borrowed(kept),
        more => Cow::Owned(format!("{kept}{}", Mark(more))),
    }
}

/// The marker in place of the bytes that were cut off.
struct Mark(usize);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… [{} bytes more]", self.0)
    }
}

/// Returns the `Debug` form of `value`, escaped and clipped to [`MAX_VALUE`] bytes. Never holds more than that in
/// memory.
pub fn cleaned(value: &dyn fmt::Debug) -> String {
    let mut cleaner = Cleaner { text: String::new(), missing: 0 };
    // Writing to a string cannot fail. If the `Debug` implementation fails, its output up to that point is used.
    let _ = write!(cleaner, "{value:?}");
    match cleaner.missing {
        0 => cleaner.text,
        missing => format!("{}{}", cleaner.text, Mark(missing)),
    }
}

/// A writer that escapes and retains the first [`MAX_VALUE`] bytes written to it.
struct Cleaner {
    text: String,
    missing: usize,
}

impl Write for Cleaner {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if is_plain && self.missing == 0 && self.text.len() + text.len() <= MAX_VALUE {
            self.text.push_str(text);
            return Ok(());
        }
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

    /// Writes each string separately.
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
