//! Markdown fences: openers that may begin a container of calls, and fences that are not searched.

use crate::format::Python;

/// The opener of a fence, which is held while it is being read.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    tick: u8,
    count: usize,
    info: String,
    /// Whether the info string is complete.
    info_ended: bool,
}

/// The result of reading a byte of an opener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    More,
    /// This opens a fence with calls. The byte is white space or the first byte of the content.
    Calls,
    /// This opens another kind of fence. What remains of the line is its info string.
    Foreign,
    None,
}

impl Opener {
    pub(super) fn new(tick: u8) -> Self {
        Self { tick, count: 1, info: String::new(), info_ended: false }
    }

    pub(super) fn fence(&self) -> Fence {
        Fence { tick: self.tick, count: self.count, code: None }
    }

    pub(super) fn info(&self) -> &str {
        &self.info
    }

    /// Reads a byte. `infos` are the info strings of fences with calls.
    pub(super) fn feed(&mut self, byte: u8, infos: &[&str]) -> Opening {
        let counting = self.info.is_empty() && !self.info_ended;
        if byte == self.tick && counting {
            self.count += 1;
            return Opening::More;
        }
        if self.count < 3 {
            return Opening::None;
        }
        let accepted = !infos.is_empty() && (self.info.is_empty() || infos.contains(&self.info.as_str()));
        match byte {
            b'`' if self.tick == b'`' => Opening::None,
            b'{' | b'[' | b'\n' if accepted => Opening::Calls,
            b' ' | b'\t' | b'\r' if accepted || self.info_ended => {
                self.info_ended = !self.info.is_empty();
                Opening::More
            }
            _ if self.info_ended => Opening::Foreign,
            _ => {
                self.info.push(char::from(byte.to_ascii_lowercase()));
                let may_go_on = byte.is_ascii() && infos.iter().any(|info| info.starts_with(&self.info));
                if may_go_on { Opening::More } else { Opening::Foreign }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) tick: u8,
    pub(super) count: usize,
    /// The Python syntax of calls, if the fence may contain code.
    pub(super) code: Option<&'static Python>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// In the info string of the opener. If it contains a backtick, this is not a fence.
    Info,
    /// After nothing but white space.
    Indent,
    Ticks(usize),
    /// After enough ticks for a closer, followed only by white space.
    Closing,
    Other,
}

/// The content of a fence that is not searched.
#[derive(Debug, Clone)]
pub(super) struct Foreign {
    fence: Fence,
    line: Line,
}

/// How far a fence that is not searched extends in a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The complete piece is inside.
    More,
    /// The fence ends after this many bytes, and ordinary text follows.
    Ends(usize),
}

impl Foreign {
    /// Starts inside the opener's info string.
    pub(super) fn in_info(fence: Fence) -> Self {
        Self { fence, line: Line::Info }
    }

    /// Starts inside the fence, after the text `before`.
    pub(super) fn in_body(fence: Fence, before: &str) -> Self {
        let line = before.rsplit('\n').next().unwrap_or_default();
        let blank = before.contains('\n') && line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        Self { fence, line: if blank { Line::Indent } else { Line::Other } }
    }

    /// Whether `text` can end neither the fence nor a line.
    pub(super) fn passes(&self, text: &str) -> bool {
        self.line == Line::Other && !text.contains('\n')
    }

    pub(super) fn feed(&mut self, text: &str) -> Reach {
        let mut at = 0;
        while let Some(&byte) = text.as_bytes().get(at) {
            if self.line == Line::Other {
                // Searched as bytes, since `at` may be inside a multi-byte character.
                let rest = text.as_bytes().get(at..).unwrap_or_default();
                let Some(end) = memchr::memchr(b'\n', rest) else { return Reach::More };
                at += end + 1;
                self.line = Line::Indent;
                continue;
            }
            let closed = matches!(self.line, Line::Closing)
                || matches!(self.line, Line::Ticks(count) if count >= self.fence.count);
            match (self.line, byte) {
                (_, b'\n') if closed => return Reach::Ends(at),
                (_, b'\n') => self.line = Line::Indent,
                (Line::Info, b'`') if self.fence.tick == b'`' => return Reach::Ends(at),
                (Line::Info, _) => {}
                (Line::Indent, b' ' | b'\t' | b'\r') => {}
                (Line::Ticks(_) | Line::Closing, b' ' | b'\t' | b'\r') if closed => self.line = Line::Closing,
                (Line::Indent, tick) if tick == self.fence.tick => self.line = Line::Ticks(1),
                (Line::Ticks(count), tick) if tick == self.fence.tick => self.line = Line::Ticks(count + 1),
                _ => self.line = Line::Other,
            }
            at += 1;
        }
        Reach::More
    }
}
