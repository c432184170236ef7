//! The WHATWG event stream format: bytes, split anywhere, become lines and then frames.
//!
//! [`Lines`] only finds line endings. [`Frames`] turns the lines of a standard stream into frames. For an upstream that
//! deviates from the standard, a reader can build on [`Lines`] and [`parse_line`] instead.
//!
//! Data that is contiguous in the input is passed on in place. Data that is split across inputs is copied once.
//! Bytes are never searched twice for a line ending, so the work is linear for pieces of any size.

use std::{mem, ops::ControlFlow};

use memchr::{memchr, memchr2};

/// U+FEFF in UTF-8, which may only occur at the start of a stream.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A line or frame exceeds the limit. Nothing after it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of the stream is larger than {limit} bytes")]
pub struct Oversized {
    /// The limit in bytes.
    pub limit: usize,
}

/// Splits bytes into lines, which end with LF, CR or CRLF, even if CR and LF arrive separately.
///
/// A CR ends its line at once, without waiting for a possible LF. One byte order mark at the start is dropped.
#[derive(Debug)]
pub struct Lines {
    max_line: usize,
    /// The start of a line whose end has not arrived.
    partial: Vec<u8>,
    /// Whether `partial` was a complete line that has been passed on.
    spent: bool,
    /// How many bytes of the byte order mark have been seen. The full length once it has been found or ruled out.
    bom: usize,
    /// Whether the last line ended with CR, so that a following LF belongs to it.
    after_cr: bool,
    closed: bool,
}

enum Found<'i> {
    /// Contiguous in the input.
    Whole(&'i [u8]),
    /// Assembled in [`Lines::partial`], which only happens for the first line of an input.
    Joined,
}

impl Lines {
    /// Creates a splitter that rejects lines longer than `max_line` bytes, not counting line endings.
    pub fn new(max_line: usize) -> Self {
        Self { max_line, partial: Vec::new(), spent: false, bom: 0, after_cr: false, closed: false }
    }

    /// Calls `on` with each line that `bytes` complete, without its line ending. If `on` breaks, the remaining
    /// stream is ignored.
    ///
    /// # Errors
    /// A line exceeds the limit. The lines before it have been passed on, and the remaining stream is ignored.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Oversized> {
        let mut rest = self.open(bytes);
        while let Some(found) = self.next(&mut rest)? {
            let line = match found {
                Found::Whole(line) => line,
                Found::Joined => &self.partial,
            };
            if on(line).is_break() {
                self.closed = true;
                break;
            }
        }
        Ok(())
    }

    /// Ends the stream. Calls `on` with the last line if it is not empty and has no line ending.
    pub fn finish(&mut self, mut on: impl FnMut(&[u8]) -> ControlFlow<()>) {
        if let Some(line) = self.last() {
            let _ = on(line);
        }
    }

    /// Returns the part of `bytes` to read: without a byte order mark, and nothing once the stream has ended.
    #[inline]
    fn open<'i>(&mut self, bytes: &'i [u8]) -> &'i [u8] {
        let mut rest = if self.closed { &[] } else { bytes };
        while let (Some(mark), Some((first, tail))) = (BOM.get(self.bom), rest.split_first()) {
            if first != mark {
                self.partial.extend(BOM.iter().take(self.bom));
                self.bom = BOM.len();
                break;
            }
            self.bom += 1;
            rest = tail;
        }
        rest
    }

    /// Takes the next line from `rest`. If there is no complete line, stores `rest` for the next input.
    #[inline]
    fn next<'i>(&mut self, rest: &mut &'i [u8]) -> Result<Option<Found<'i>>, Oversized> {
        if mem::take(&mut self.spent) {
            self.partial.clear();
        }
        if self.after_cr
            && let Some((first, tail)) = rest.split_first()
        {
            self.after_cr = false;
            if *first == b'\n' {
                *rest = tail;
            }
        }
        let end = match rest {
            // Every other line is blank, so this often avoids a search.
            [b'\n' | b'\r', ..] => 0,
            _ => memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
        };
        let (line, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        if line.len() > self.max_line.saturating_sub(self.partial.len()) {
            self.closed = true;
            return Err(Oversized { limit: self.max_line });
        }
        let Some((end, tail)) = tail.split_first() else {
            self.partial.extend_from_slice(line);
            *rest = tail;
            return Ok(None);
        };
        *rest = tail;
        self.after_cr = *end == b'\r';
        if self.partial.is_empty() {
            return Ok(Some(Found::Whole(line)));
        }
        self.partial.extend_from_slice(line);
        self.spent = true;
        Ok(Some(Found::Joined))
    }

    /// Returns the last line if the stream ended without a line ending.
    fn last(&mut self) -> Option<&[u8]> {
        if mem::take(&mut self.spent) {
            self.partial.clear();
        }
        if self.bom < BOM.len() {
            self.partial.extend(BOM.iter().take(self.bom));
        }
        let open = !mem::replace(&mut self.closed, true);
        (open && !self.partial.is_empty()).then_some(&self.partial)
    }
}

/// The kinds of lines in an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// The end of an event.
    Blank,
    /// The text after the colon of `: …`, without one leading space.
    Comment(&'a [u8]),
    /// `name: value`.
    Field {
        /// The text before the first colon.
        name: &'a [u8],
        /// The text after the colon, without one leading space. Empty if there is no colon.
        value: &'a [u8],
    },
}

/// Parses a line, which must not include its line ending.
pub fn parse_line(line: &[u8]) -> Line<'_> {
    if line.is_empty() {
        return Line::Blank;
    }
    let (name, value) = match line.strip_prefix(b"data:") {
        Some(value) => (b"data".as_slice(), value),
        None => {
            let colon = memchr(b':', line).unwrap_or(line.len());
            let (name, value) = line.split_at_checked(colon).unwrap_or((line, &[]));
            (name, value.strip_prefix(b":").unwrap_or(value))
        }
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    if name.is_empty() { Line::Comment(value) } else { Line::Field { name, value } }
}

/// An item of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An event that was ended by a blank line.
    Event(Message<'a>),
    /// A comment. The standard ignores comments, but upstreams send them as keep-alives.
    Comment(&'a [u8]),
    /// How long to wait before reconnecting, in milliseconds.
    Retry(u64),
}

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The type of the event. Empty means `message`.
    pub event: &'a [u8],
    /// The data lines of the event, joined with LF. They need not be UTF-8.
    pub data: &'a [u8],
    /// The last event ID of this or an earlier event, if any.
    pub id: Option<&'a [u8]>,
}

/// Reads the frames of a stream as the WHATWG standard defines them.
///
/// Ignores events without data lines, IDs that contain NUL, `retry` values that are not only digits, and unknown
/// fields.
#[derive(Debug)]
pub struct Frames {
    lines: Lines,
    max_frame: usize,
    block: Block,
}

#[derive(Debug, Default)]
struct Block {
    event: Vec<u8>,
    /// The joined data lines that had to be copied. Only valid if `has_data` is set.
    data: Vec<u8>,
    has_data: bool,
    /// The last event ID, which also applies to later events.
    id: Option<Vec<u8>>,
    /// The total size of the event's field lines in bytes.
    size: usize,
}

impl Frames {
    /// Creates a reader that rejects events and comments of more than `max_frame` bytes. The size of an event is
    /// that of all its field lines without line endings.
    pub fn new(max_frame: usize) -> Self {
        Self { lines: Lines::new(max_frame), max_frame, block: Block::default() }
    }

    /// Calls `on` with each frame that `bytes` complete. If `on` breaks, the remaining stream is ignored.
    ///
    /// # Errors
    /// A frame exceeds the limit. The frames before it have been passed on, and the remaining stream is ignored.
    pub fn push<'i>(
        &mut self,
        bytes: &'i [u8],
        mut on: impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> Result<(), Oversized> {
        let limit = self.max_frame;
        let mut rest = self.lines.open(bytes);
        let mut whole: Option<&'i [u8]> = None;
        while let Some(found) = self.lines.next(&mut rest).map_err(|_| Oversized { limit })? {
            let flow = match found {
                Found::Whole(line) => self.block.line(line, &mut whole, &mut on),
                Found::Joined => {
                    let mut joined = None;
                    let flow = self.block.line(&self.lines.partial, &mut joined, &mut on);
                    self.block.keep(joined);
                    flow
                }
            };
            if flow.is_break() {
                self.lines.closed = true;
                break;
            }
            self.lines.max_line = limit.saturating_sub(self.block.size);
        }
        self.block.keep(whole);
        Ok(())
    }

    /// Ends the stream. Calls `on` with data that was not followed by a line ending or a blank line. The standard
    /// drops such data, so this is for readers that must not lose the end of an upstream's stream.
    pub fn finish(&mut self, mut on: impl FnMut(Frame<'_>) -> ControlFlow<()>) {
        if self.lines.closed {
            return;
        }
        if let Some(line) = self.lines.last() {
            let mut last = None;
            if self.block.line(line, &mut last, &mut on).is_break() {
                return;
            }
            self.block.keep(last);
        }
        let _ = self.block.dispatch(None, &mut on);
    }
}

impl Block {
    /// Reads a line of the event. The first data line stays in place, in `whole`, until another one follows.
    fn line<'l>(
        &mut self,
        line: &'l [u8],
        whole: &mut Option<&'l [u8]>,
        on: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (name, value) = match parse_line(line) {
            Line::Blank => return self.dispatch(whole.take(), on),
            Line::Comment(text) => return on(Frame::Comment(text)),
            Line::Field { name, value } => (name, value),
        };
        self.size += line.len();
        match name {
            b"data" if !self.has_data && whole.is_none() => *whole = Some(value),
            b"data" => {
                self.keep(whole.take());
                self.keep(Some(value));
            }
            b"event" => replace(&mut self.event, value),
            b"id" if memchr(0, value).is_none() => replace(self.id.get_or_insert_default(), value),
            b"retry" => {
                if let Some(milliseconds) = digits(value) {
                    return on(Frame::Retry(milliseconds));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Copies a data line, because its event continues after this input or has another data line.
    #[inline]
    fn keep(&mut self, data: Option<&[u8]>) {
        let Some(data) = data else { return };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(data);
    }

    fn dispatch(
        &mut self,
        whole: Option<&[u8]>,
        on: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let data = whole.or(self.has_data.then_some(&self.data));
        let flow = data.map_or(ControlFlow::Continue(()), |data| {
            on(Frame::Event(Message { event: &self.event, data, id: self.id.as_deref() }))
        });
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        self.size = 0;
        flow
    }
}

fn replace(kept: &mut Vec<u8>, value: &[u8]) {
    kept.clear();
    kept.extend_from_slice(value);
}

fn digits(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = "\u{feff}: hi\r\nevent: a\rdata: 1\r\n\r\ndata:2\ndata\nid:7\n\nretry: 30\nretry: x\n:\nevent: b\n\nid: n\0\ndata: 3é\r\rdata: 4"
        .as_bytes();

    fn told(frame: Frame<'_>) -> String {
        match frame {
            Frame::Event(Message { event, data, id }) => {
                format!(
                    "{} {} {}",
                    event.escape_ascii(),
                    data.escape_ascii(),
                    id.unwrap_or(b"-").escape_ascii()
                )
            }
            Frame::Comment(text) => format!(":{}", text.escape_ascii()),
            Frame::Retry(wait) => format!("retry {wait}"),
        }
    }

    fn frames(pieces: &[&[u8]]) -> Vec<String> {
        let mut all = Vec::new();
        let mut frames = Frames::new(100);
        for piece in pieces {
            frames
                .push(piece, |frame| {
                    all.push(told(frame));
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
        frames.finish(|frame| {
            all.push(told(frame));
            ControlFlow::Continue(())
        });
        all
    }

    #[test]
    fn frames_match_the_standard_wherever_the_stream_is_cut() {
        let whole = frames(&[STREAM]);
        assert_eq!(whole, [":hi", "a 1 -", r" 2\n 7", "retry 30", ":", r" 3\xc3\xa9 7", " 4 7"]);
        for at in 0..=STREAM.len() {
            assert_eq!(frames(&[&STREAM[..at], &STREAM[at..]]), whole, "cut at {at}");
        }
        assert_eq!(frames(&STREAM.chunks(1).collect::<Vec<_>>()), whole);
    }
}
