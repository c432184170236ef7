//! The event stream of the WHATWG: bytes in any cut in; lines, then frames out.
//!
//! [`Lines`] finds line ends, and nothing else; [`Frames`] reads the lines of the standard into frames; a reader of an
//! upstream that bends the standard takes [`Lines`] and [`parse_line`] and does the rest its own way.
//!
//! What lies whole in one input is handed over where it lies; only what was cut apart is copied, once. The search for
//! a line's end never looks at kept bytes again, so the work is linear however small the pieces are.

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

/// Splits bytes into lines: LF, CR and CRLF end one, also where CR and LF come apart.
///
/// A CR ends its line at once, without waiting whether an LF follows. One byte order mark at the start is dropped.
#[derive(Debug)]
pub struct Lines {
    max_line: usize,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    /// `partial` was a whole line and has been handed over.
    spent: bool,
    /// Bytes of the byte order mark seen; all of them once the question is settled.
    bom: usize,
    /// The last line ended with CR: an LF that comes now belongs to it.
    after_cr: bool,
    closed: bool,
}

/// A complete line.
enum Found<'i> {
    /// Lying whole in the input.
    Whole(&'i [u8]),
    /// Put together in [`Lines::partial`]. Only the first line of an input can be.
    Joined,
}

impl Lines {
    /// A splitter that refuses lines of more than `max_line` bytes (their end not counted).
    pub fn new(max_line: usize) -> Self {
        Self { max_line, partial: Vec::new(), spent: false, bom: 0, after_cr: false, closed: false }
    }

    /// Calls `on` with each line that `bytes` complete, without its end. When `on` breaks, the rest of the stream is
    /// ignored.
    ///
    /// # Errors
    /// A line longer than the limit; the lines before it have been handed over, the rest of the stream is ignored.
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

    /// The stream has ended: calls `on` with the last line, if it is not empty and no line end closed it.
    pub fn finish(&mut self, mut on: impl FnMut(&[u8]) -> ControlFlow<()>) {
        if let Some(line) = self.last() {
            let _ = on(line);
        }
    }

    /// What of `bytes` is to be read: nothing after the end, and no byte order mark.
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

    /// The next line, taken off `rest`. Without one, `rest` is kept for the next input.
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
            // Every other line is blank: no search for its end.
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

    /// The line that the end of the stream ends.
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

/// What a line of an event stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// The end of an event.
    Blank,
    /// `: …`: what follows the colon and one optional space.
    Comment(&'a [u8]),
    /// `name: value`.
    Field {
        /// What stands before the first colon.
        name: &'a [u8],
        /// What stands behind it and one optional space; empty if there is no colon.
        value: &'a [u8],
    },
}

/// Reads one line, given without its end.
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

/// What a stream says, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An event, ended by a blank line.
    Event(Message<'a>),
    /// A comment; the standard ignores them, upstreams say with them that they are alive.
    Comment(&'a [u8]),
    /// How long to wait before connecting anew, in milliseconds.
    Retry(u64),
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type; empty means `message`.
    pub event: &'a [u8],
    /// Its data lines, joined with LF. Not checked to be UTF-8.
    pub data: &'a [u8],
    /// The last event id: of this event or the last one before it that had one. `None`: none had.
    pub id: Option<&'a [u8]>,
}

/// Reads the frames of a stream as the WHATWG's standard has it.
///
/// An event without a data line is none. An id with a NUL and a `retry` that is not made of digits are ignored, and so
/// are fields of other names.
#[derive(Debug)]
pub struct Frames {
    lines: Lines,
    max_frame: usize,
    block: Block,
}

/// The event that is being read.
#[derive(Debug, Default)]
struct Block {
    event: Vec<u8>,
    /// Data lines that had to be copied, joined; meaningless without `has_data`.
    data: Vec<u8>,
    has_data: bool,
    /// Outlives the event.
    id: Option<Vec<u8>>,
    /// Bytes of the event's field lines.
    size: usize,
}

impl Frames {
    /// A reader that refuses events of more than `max_frame` bytes, which are those of all its fields' lines, their
    /// ends not counted, and comments longer than that.
    pub fn new(max_frame: usize) -> Self {
        Self { lines: Lines::new(max_frame), max_frame, block: Block::default() }
    }

    /// Calls `on` with each frame that `bytes` complete. When `on` breaks, the rest of the stream is ignored.
    ///
    /// # Errors
    /// A frame larger than the limit; the frames before it have been handed over, the rest of the stream is ignored.
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

    /// The stream has ended: calls `on` with what no line end and no blank line ended. The standard drops it; a reader
    /// that must not lose an upstream's last words asks for it.
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
    /// Takes a line of the event. A first data line stays where it lies, in `whole`, until it is certain whether it is
    /// the only one.
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

    /// Copies a data line, since its event goes on behind the input it lies in, or has a second line.
    fn keep(&mut self, data: Option<&[u8]>) {
        let Some(data) = data else { return };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(data);
    }

    /// The event has ended.
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

/// A number written in ASCII digits alone.
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
    fn frames_are_those_of_the_standard_however_the_stream_is_cut() {
        let whole = frames(&[STREAM]);
        assert_eq!(whole, [":hi", "a 1 -", r" 2\n 7", "retry 30", ":", r" 3\xc3\xa9 7", " 4 7"]);
        for at in 0..=STREAM.len() {
            assert_eq!(frames(&[&STREAM[..at], &STREAM[at..]]), whole, "cut at {at}");
        }
        assert_eq!(frames(&STREAM.chunks(1).collect::<Vec<_>>()), whole);
    }
}
