//! The WHATWG event stream format: bytes, split anywhere, become lines and then frames.
//!
//! [`Lines`] only finds line ends. [`Frames`] turns the lines of a standard stream into frames. A reader for
//! an upstream that deviates from the standard uses [`Lines`] and [`parse_line`] and does the rest itself.
//!
//! Data that is contiguous in one input is passed on in place; only data split across several inputs is
//! copied, once.
//! The search for a line's end never rescans kept bytes, so the work is linear for pieces of any size.

use std::{error, fmt, mem, ops::ControlFlow};

use memchr::{memchr, memchr2};

/// U+FEFF in UTF-8: allowed once, at the very start.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A line or frame is longer than the reader's limit. Nothing after it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized {
    /// The limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame of the stream is larger than {} bytes", self.limit)
    }
}

impl error::Error for Oversized {}

/// Splits bytes into lines, which end with LF, CR or CRLF, even if CR and LF arrive separately.
///
/// A CR ends its line at once, without waiting to see whether an LF follows. One byte order mark at the start
/// is dropped.
#[derive(Debug)]
pub struct Lines {
    max_line: usize,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    /// `partial` was a complete line and has been passed on.
    spent: bool,
    /// Number of bytes of the byte order mark seen so far; its full length once it has been found or ruled
    /// out.
    bom: usize,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    closed: bool,
}

/// A complete line.
enum Found<'i> {
    /// Contiguous in the input.
    Whole(&'i [u8]),
    /// Assembled in [`Lines::partial`]. Only the first line of an input can be this.
    Joined,
}

impl Lines {
    /// A splitter that rejects lines of more than `max_line` bytes, excluding line ends.
    pub fn new(max_line: usize) -> Self {
        Self { max_line, partial: Vec::new(), spent: false, bom: 0, after_cr: false, closed: false }
    }

    /// Calls `on` with each line that `bytes` complete, without its line end. When `on` breaks, the rest of
    /// the stream is ignored.
    ///
    /// # Errors
    /// A line is longer than the limit. The lines before it have been passed on, the rest of the stream is
    /// ignored.
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

    /// Ends the stream: calls `on` with the last line if it is not empty and has no line end.
    pub fn finish(&mut self, mut on: impl FnMut(&[u8]) -> ControlFlow<()>) {
        if let Some(line) = self.last() {
            let _ = on(line);
        }
    }

    /// The part of `bytes` that is to be read: without a byte order mark, and empty after the stream has
    /// ended.
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

    /// Removes the next line from `rest`. If there is none, `rest` is kept for the next input.
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
            // Every other line is blank and needs no search for its end.
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

    /// The last line, if the stream ended without a line end.
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
    /// `: …`: the text after the colon and one optional space.
    Comment(&'a [u8]),
    /// `name: value`.
    Field {
        /// The text before the first colon.
        name: &'a [u8],
        /// The text after the colon and one optional space; empty if there is no colon.
        value: &'a [u8],
    },
}

/// Parses one line, given without its line end.
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

/// The items of a stream, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An event, ended by a blank line.
    Event(Message<'a>),
    /// A comment. The standard ignores comments; upstreams send them as keep-alives.
    Comment(&'a [u8]),
    /// The time to wait before reconnecting, in milliseconds.
    Retry(u64),
}

/// One event of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The event's type; empty means `message`.
    pub event: &'a [u8],
    /// The event's data lines, joined with LF. Not checked to be UTF-8.
    pub data: &'a [u8],
    /// The last event id, from this event or from the last earlier event that had one. `None` if there was
    /// none.
    pub id: Option<&'a [u8]>,
}

/// Reads the frames of a stream as the WHATWG standard defines them.
///
/// An event without a data line is ignored. So are an id with a NUL, a `retry` that does not consist of
/// digits, and fields with other names.
#[derive(Debug)]
pub struct Frames {
    lines: Lines,
    max_frame: usize,
    block: Block,
}

/// The event being read.
#[derive(Debug, Default)]
struct Block {
    event: Vec<u8>,
    /// Data lines that had to be copied, joined; meaningless without `has_data`.
    data: Vec<u8>,
    has_data: bool,
    /// Kept for later events.
    id: Option<Vec<u8>>,
    /// Total bytes of the event's field lines.
    size: usize,
}

impl Frames {
    /// A reader that rejects events of more than `max_frame` bytes, counting all field lines without line
    /// ends, and comments longer than that.
    pub fn new(max_frame: usize) -> Self {
        Self { lines: Lines::new(max_frame), max_frame, block: Block::default() }
    }

    /// Calls `on` with each frame that `bytes` complete. When `on` breaks, the rest of the stream is ignored.
    ///
    /// # Errors
    /// A frame is larger than the limit. The frames before it have been passed on, the rest of the stream is
    /// ignored.
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

    /// Ends the stream: calls `on` with data that is not followed by a line end or blank line. The standard
    /// drops such data; a reader that must not lose the end of an upstream's stream calls this.
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
    /// Reads a line of the event. A first data line stays in place, in `whole`, until it is known whether it
    /// is the only one.
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

    /// Copies a data line because its event continues after this input or has a second line.
    #[inline]
    fn keep(&mut self, data: Option<&[u8]>) {
        let Some(data) = data else { return };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(data);
    }

    /// Ends the event.
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

/// A number written only in ASCII digits.
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
