//! [`Unfinished`]: a frame whose JSON comes over several `data` lines.

use std::mem;

use crate::wire::json::{MAX_DEPTH, Progress, Scanner};

/// A frame that came over several `data` lines, as far as it has come.
#[derive(Debug)]
pub(super) struct Unfinished {
    text: String,
    scanner: Scanner,
}

/// What a line made of an [`Unfinished`] frame.
pub(super) enum Joined<'l> {
    /// It goes on.
    More,
    /// It is complete; the second is the rest of the line.
    Value(String, &'l str),
    /// It is no JSON object.
    Broken,
}

impl Unfinished {
    /// No frame yet.
    pub(super) fn new() -> Self {
        Self { text: String::new(), scanner: Scanner::new(MAX_DEPTH) }
    }

    /// No frame is open.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The bytes so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Forgets it.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.scanner = Scanner::new(MAX_DEPTH);
    }

    /// Takes the next line, or what is left of it.
    pub(super) fn push<'l>(&mut self, line: &'l str) -> Joined<'l> {
        let line = if self.is_empty() {
            let line = line.trim_ascii_start();
            if !line.starts_with('{') {
                return Joined::Broken;
            }
            line
        } else {
            // The line end between the two, which a string cannot hold.
            self.text.push('\n');
            if self.scanner.push(b"\n").1 == Progress::Invalid {
                self.clear();
                return Joined::Broken;
            }
            line
        };
        let (taken, progress) = self.scanner.push(line.as_bytes());
        let (taken, rest) = line.split_at_checked(taken).unwrap_or((line, ""));
        self.text.push_str(taken);
        match progress {
            Progress::More => Joined::More,
            Progress::End => {
                let text = mem::take(&mut self.text);
                self.clear();
                Joined::Value(text, rest)
            }
            _ => {
                self.clear();
                Joined::Broken
            }
        }
    }
}
