//! [`UnfinishedFrame`]: a frame whose JSON spans several `data` lines.

use std::mem;

use crate::wire::json::{MAX_DEPTH, Progress, Scanner};

/// The part of such a frame that has been received so far.
#[derive(Debug)]
pub(super) struct UnfinishedFrame {
    text: String,
    scanner: Scanner,
}

pub(super) enum Joined<'l> {
    More,
    /// The frame is complete. The second field is the remaining part of the line.
    Value(String, &'l str),
    Broken,
}

impl UnfinishedFrame {
    pub(super) fn new() -> Self {
        Self { text: String::new(), scanner: Scanner::new(MAX_DEPTH) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.scanner = Scanner::new(MAX_DEPTH);
    }

    pub(super) fn push<'l>(&mut self, line: &'l str) -> Joined<'l> {
        let line = if self.is_empty() {
            let line = line.trim_ascii_start();
            if !line.starts_with('{') {
                return Joined::Broken;
            }
            line
        } else {
            // The line break between two lines, which cannot be inside a string.
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
