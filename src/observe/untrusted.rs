//! Text from outside, made fit for a log line or a terminal.
//!
//! Clients and upstreams choose model names, paths, error codes and messages. Written as it is, such text can begin a
//! line of its own, move a terminal's cursor, or fill a disk. Whoever writes it for people to read does so through
//! this module: characters that are not visible are escaped, and long texts are clipped.

use std::{borrow::Cow, fmt};

/// Bytes of one value in a log line. Beyond: cut off, with a mark that says how much is missing.
pub(crate) const MAX_VALUE: usize = 256;

/// Whether a terminal or a line reader could take `char` for something else than a visible character: control
/// characters (C0, DEL, C1), line and paragraph separators, and characters that reorder or hide text.
pub(crate) fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` with unprintable characters escaped as Rust writes them: `\r`, `\n`, `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|char| put(&mut out, char));
    Cow::Owned(out)
}

/// The first `max` bytes of `text` at a character's border; if there is more, a mark behind them says how much.
pub(crate) fn clipped(text: &str, max: usize) -> Cow<'_, str> {
    let (kept, rest) = text.split_at_checked(text.floor_char_boundary(max)).unwrap_or((text, ""));
    match rest.len() {
        0 => Cow::Borrowed(kept),
        more => Cow::Owned(format!("{kept}{}", Mark(more))),
    }
}

/// Stands for bytes that were cut off.
struct Mark(usize);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "… [{} bytes more]", self.0)
    }
}

/// Writes at most [`MAX_VALUE`] bytes to the end of a text.
pub(super) struct Cleaner<'t> {
    text: &'t mut String,
    /// For a text that nobody escapes later.
    escapes: bool,
    room: usize,
    /// Bytes that were left out.
    missing: usize,
}

impl<'t> Cleaner<'t> {
    /// Writes behind `text`, and escapes unprintable characters.
    pub(super) fn escaping(text: &'t mut String) -> Self {
        Self { text, escapes: true, room: MAX_VALUE, missing: 0 }
    }

    /// Writes behind `text`, which is escaped later.
    pub(super) fn clipping(text: &'t mut String) -> Self {
        Self { escapes: false, ..Self::escaping(text) }
    }

    /// The value is over: marks what is missing.
    ///
    /// # Errors
    /// None that the text's own writer does not have.
    pub(super) fn finish(self) -> fmt::Result {
        match self.missing {
            0 => Ok(()),
            missing => fmt::Write::write_fmt(self.text, format_args!("{}", Mark(missing))),
        }
    }
}

impl fmt::Write for Cleaner<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~');
        if self.missing == 0 && text.len() <= self.room && text.bytes().all(is_plain) {
            self.room -= text.len();
            self.text.push_str(text);
            return Ok(());
        }
        for char in text.chars() {
            let before = self.text.len();
            match self.missing {
                0 if self.escapes => put(self.text, char),
                0 => self.text.push(char),
                _ => {}
            }
            match self.room.checked_sub(self.text.len() - before) {
                Some(room) if self.missing == 0 => self.room = room,
                _ => {
                    self.text.truncate(before);
                    self.missing += char.len_utf8();
                }
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
    use std::fmt::Write;

    use super::*;

    fn cleaned(pieces: &[&str]) -> String {
        let mut text = String::new();
        let mut cleaner = Cleaner::escaping(&mut text);
        pieces.iter().for_each(|piece| cleaner.write_str(piece).unwrap());
        cleaner.finish().unwrap();
        text
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
        assert_eq!(clipped(&exact, MAX_VALUE), exact);
        assert_eq!(cleaned(&[&exact]), exact);
        assert_eq!(clipped(&format!("{exact}é"), MAX_VALUE), format!("{exact}… [2 bytes more]"));
        assert_eq!(cleaned(&[&exact, "é", "x"]), format!("{exact}… [3 bytes more]"));
        assert_eq!(clipped("aéb", 2), "a… [3 bytes more]");
        assert_eq!(clipped("", 0), "");
        let escapes = cleaned(&[&"\u{1b}".repeat(60_000)]);
        assert!(escapes.len() < MAX_VALUE + 32, "{escapes}");
        assert!(escapes.ends_with(" bytes more]"), "{escapes}");
    }
}
