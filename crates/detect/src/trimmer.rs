//! [`Trimmer`]: sends text without the white space around it.
//!
//! Leading white space is dropped, and trailing white space is held until something visible follows. What is held
//! depends only on the text and not on where pieces end.

use super::text::tail;

/// Sends text without the white space around it.
#[derive(Debug)]
pub(super) struct Trimmer {
    /// The white space since the last visible character.
    blank: String,
    max_blank: usize,
    begun: bool,
    /// Whether anything visible was sent, also before [`Trimmer::end`].
    said: bool,
}

impl Trimmer {
    /// White space is sent whenever there are more than `max_blank` bytes of it.
    pub(super) fn new(max_blank: usize) -> Self {
        Self { blank: String::new(), max_blank, begun: false, said: false }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn has_said(&self) -> bool {
        self.said || self.begun
    }

    pub(super) fn held(&self) -> usize {
        self.blank.len()
    }

    /// Adds `text`, and sends everything that need not be held.
    pub(super) fn put(&mut self, text: &str, mut out: impl FnMut(&str)) {
        let text = if self.begun { text } else { text.trim_start() };
        let visible = text.trim_end();
        if !visible.is_empty() {
            if self.blank.is_empty() {
                out(visible);
            } else {
                self.blank.push_str(visible);
                out(&self.blank);
                self.blank.clear();
            }
            self.begun = true;
        }
        hold_blank(&mut self.blank, tail(text, visible.len()), self.max_blank, out);
    }

    /// Ends the text and drops its trailing white space. Another text may follow.
    pub(super) fn end(&mut self) {
        self.blank.clear();
        self.said |= self.begun;
        self.begun = false;
    }

    /// Like [`Trimmer::end`], but what follows continues on a new line.
    pub(super) fn end_line(&mut self) {
        self.end();
        if self.said {
            self.blank.push('\n');
        }
    }
}

/// Holds white space after text. It is sent whenever there are more than `most` bytes of it.
pub(super) fn hold_blank(held: &mut String, blank: &str, most: usize, mut out: impl FnMut(&str)) {
    if held.len() + blank.len() <= most {
        match *blank.as_bytes() {
            [] => {}
            // The common case is a space between two words.
            [byte] => held.push(char::from(byte)),
            _ => held.push_str(blank),
        }
        return;
    }
    for character in blank.chars() {
        held.push(character);
        if held.len() > most {
            out(held);
            held.clear();
        }
    }
}
