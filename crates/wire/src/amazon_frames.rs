//! Amazon's event stream encoding (`application/vnd.amazon.eventstream`): bytes, split anywhere, become frames.
//!
//! ```text
//! total length │ headers' length │ CRC-32 of both │ headers │ payload │ CRC-32 of all before it
//! ```
//!
//! All numbers are big-endian, and lengths and checksums have four bytes. A frame that is contiguous in the input is
//! passed on in place. A frame that is split across inputs is copied once.

use std::{mem, ops::ControlFlow, str};

/// Size of the two lengths and their checksum.
const PRELUDE: usize = 12;

/// Size of the checksum at the end of a frame.
const CHECKSUM: usize = 4;

/// Maximum size of a frame's headers (Amazon's documentation of the encoding).
const MAX_HEADERS: usize = 128 << 10;

/// Why a stream cannot be read. Nothing after it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A frame exceeds the limit.
    #[error("a frame of the stream is larger than {limit} bytes")]
    Oversized {
        /// The limit in bytes.
        limit: usize,
    },
    /// The lengths of a frame do not fit together.
    #[error("a frame of the stream has impossible lengths")]
    Lengths,
    /// A checksum is wrong.
    #[error("a frame of the stream has a wrong checksum, so it was changed on its way")]
    Checksum,
    /// The headers of a frame are malformed.
    #[error("a frame of the stream has malformed headers")]
    Headers,
}

/// One frame of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    headers: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

/// Splits bytes into frames, and checks their checksums.
#[derive(Debug)]
pub struct Frames {
    max_frame: usize,
    /// The start of a frame whose end has not arrived.
    partial: Vec<u8>,
    /// The total length of that frame, if its prelude has arrived.
    length: Option<usize>,
    is_closed: bool,
}

impl Frames {
    /// Creates a splitter that rejects frames longer than `max_frame` bytes.
    pub fn new(max_frame: usize) -> Self {
        Self { max_frame, partial: Vec::new(), length: None, is_closed: false }
    }

    /// Whether the stream has ended inside a frame.
    pub fn is_inside(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Calls `on` with each frame that `bytes` complete. If `on` breaks, the remaining stream is ignored.
    ///
    /// # Errors
    /// A frame is invalid. The frames before it have been passed on, and the remaining stream is ignored.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> Result<(), Defect> {
        let mut rest = if self.is_closed { &[] } else { bytes };
        let result = loop {
            match self.next(&mut rest, &mut on) {
                Ok(ControlFlow::Continue(true)) => {}
                Ok(ControlFlow::Continue(false)) => return Ok(()),
                Ok(ControlFlow::Break(())) => break Ok(()),
                Err(defect) => break Err(defect),
            }
        };
        self.is_closed = true;
        result
    }

    /// Reads the next frame from `rest`. Returns whether there was a complete one; if not, `rest` is stored.
    fn next(
        &mut self,
        rest: &mut &[u8],
        on: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<(), bool>, Defect> {
        if self.partial.is_empty() {
            if let Some(prelude) = rest.first_chunk::<PRELUDE>() {
                let length = length(prelude, self.max_frame)?;
                if let Some((frame, tail)) = rest.split_at_checked(length) {
                    *rest = tail;
                    return Ok(on(Frame::read(frame)?).map_continue(|()| true));
                }
                self.length = Some(length);
            }
        } else if self.length.is_none() {
            self.store(rest, PRELUDE);
            if let Some(prelude) = self.partial.first_chunk::<PRELUDE>() {
                self.length = Some(length(prelude, self.max_frame)?);
            }
        }
        let Some(length) = self.length else {
            self.store(rest, PRELUDE);
            return Ok(ControlFlow::Continue(false));
        };
        self.store(rest, length);
        if self.partial.len() < length {
            return Ok(ControlFlow::Continue(false));
        }
        self.length = None;
        let frame = mem::take(&mut self.partial);
        let flow = on(Frame::read(&frame)?);
        self.partial = frame;
        self.partial.clear();
        Ok(flow.map_continue(|()| true))
    }

    /// Moves bytes from `rest` to the stored ones until there are `length`.
    fn store(&mut self, rest: &mut &[u8], length: usize) {
        let missing = length.saturating_sub(self.partial.len()).min(rest.len());
        if let Some((taken, tail)) = rest.split_at_checked(missing) {
            self.partial.extend_from_slice(taken);
            *rest = tail;
        }
    }
}

/// The total length of the frame that starts with `prelude`.
fn length(prelude: &[u8; PRELUDE], max_frame: usize) -> Result<usize, Defect> {
    let [total, headers, checksum] = numbers(prelude);
    let lengths = prelude.get(..8).unwrap_or_default();
    if crc32fast::hash(lengths) != checksum {
        return Err(Defect::Checksum);
    }
    let size = |number: u32| usize::try_from(number).map_err(|_too_large| Defect::Lengths);
    let (total, headers) = (size(total)?, size(headers)?);
    if headers > MAX_HEADERS || headers.checked_add(PRELUDE + CHECKSUM).is_none_or(|least| total < least) {
        return Err(Defect::Lengths);
    }
    if total > max_frame { Err(Defect::Oversized { limit: max_frame }) } else { Ok(total) }
}

fn numbers(prelude: &[u8; PRELUDE]) -> [u32; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *prelude;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_be_bytes)
}

impl<'a> Frame<'a> {
    /// Reads a complete frame, whose prelude has been checked.
    fn read(frame: &'a [u8]) -> Result<Self, Defect> {
        let (checked, checksum) = frame.split_last_chunk::<CHECKSUM>().ok_or(Defect::Lengths)?;
        if crc32fast::hash(checked) != u32::from_be_bytes(*checksum) {
            return Err(Defect::Checksum);
        }
        let (prelude, content) = checked.split_first_chunk::<PRELUDE>().ok_or(Defect::Lengths)?;
        let [_, length, _] = numbers(prelude);
        let length = usize::try_from(length).map_err(|_too_large| Defect::Lengths)?;
        let (headers, payload) = content.split_at_checked(length).ok_or(Defect::Lengths)?;
        let mut rest = headers;
        while !rest.is_empty() {
            header(&mut rest).ok_or(Defect::Headers)?;
        }
        Ok(Self { headers, payload })
    }

    /// The first header with this name, if it is a string.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.headers;
        loop {
            let (found, value) = header(&mut rest)?;
            if found == name.as_bytes() {
                return value;
            }
        }
    }
}

/// Takes a header from `rest`: its name and, if it is a string, its value. `None` if `rest` does not begin with a
/// header.
fn header<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a str>)> {
    const STRING: u8 = 7;
    let length = take(rest, 1)?.first()?;
    let name = take(rest, usize::from(*length)).filter(|name| !name.is_empty())?;
    let kind = *take(rest, 1)?.first()?;
    let length = match kind {
        // True and false.
        0 | 1 => 0,
        // Numbers of 1, 2, 4 and 8 bytes, times, and UUIDs.
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        // Bytes and strings.
        6 | STRING => usize::from(u16::from_be_bytes(*take(rest, 2)?.first_chunk()?)),
        _ => return None,
    };
    let value = take(rest, length)?;
    if kind == STRING { Some((name, Some(str::from_utf8(value).ok()?))) } else { Some((name, None)) }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with these bytes as headers and payload.
    fn encoded(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let total = u32::try_from(PRELUDE + headers.len() + payload.len() + CHECKSUM).unwrap();
        let mut frame = total.to_be_bytes().to_vec();
        frame.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame.extend([headers, payload].concat());
        frame.extend(crc32fast::hash(&frame).to_be_bytes());
        frame
    }

    fn string(name: &str, value: &str) -> Vec<u8> {
        let mut header = vec![u8::try_from(name.len()).unwrap()];
        header.extend(name.as_bytes());
        header.push(7);
        header.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        header.extend(value.as_bytes());
        header
    }

    type Seen = (Vec<(Option<String>, Vec<u8>)>, Option<Defect>, bool);

    fn read<'p>(pieces: impl Iterator<Item = &'p [u8]>, limit: usize) -> Seen {
        let (mut frames, mut seen, mut defect) = (Frames::new(limit), Vec::new(), None);
        for piece in pieces {
            let result = frames.push(piece, |frame| {
                seen.push((frame.header("name").map(str::to_owned), frame.payload.to_vec()));
                ControlFlow::Continue(())
            });
            defect = defect.or(result.err());
        }
        (seen, defect, defect.is_none() && frames.is_inside())
    }

    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        ("[a-z]{0,9}", prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(value, payload)| encoded(&string("name", &value), &payload))
    }

    proptest! {
        /// What is read does not depend on the split, whether the stream is intact, truncated or damaged.
        #[test]
        fn frames_do_not_depend_on_the_split(
            frames in prop::collection::vec(any_frame(), 0..5),
            sizes in prop::collection::vec(1_usize..40, 1..8),
            damage in prop::option::of((any::<prop::sample::Index>(), 1_u8..)),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = frames.concat();
            if let Some((place, mask)) = damage.filter(|_| !bytes.is_empty()) {
                let place = place.index(bytes.len());
                bytes[place] ^= mask;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            let whole = read(std::iter::once(&bytes[..]), 4096);
            let single = read(bytes.chunks(1), 4096);
            let mut rest = &bytes[..];
            let mut sizes = sizes.iter().cycle();
            let pieces = std::iter::from_fn(|| {
                let (piece, tail) = rest.split_at(rest.len().min(*sizes.next()?));
                rest = tail;
                (!piece.is_empty()).then_some(piece)
            });
            prop_assert_eq!(&read(pieces, 4096), &whole);
            prop_assert_eq!(&single, &whole);
            // A single damaged byte is always noticed, unless the stream ends before the checksum.
            if damage.is_some() && cut.is_none() && !bytes.is_empty() {
                prop_assert!(whole.1.is_some() || whole.2, "{:?}", whole);
            }
            if damage.is_none() && cut.is_none() {
                prop_assert_eq!(whole.0.len(), frames.len());
                prop_assert_eq!((whole.1, whole.2), (None, false));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(bytes.chunks(3), 100);
            let framed = encoded(&bytes, b"");
            let _ = read(std::iter::once(&framed[..]), 4096);
        }
    }

    #[test]
    fn lengths_are_checked_before_anything_is_stored() {
        let prelude = |total: u32, headers: u32| {
            let mut bytes = [total.to_be_bytes(), headers.to_be_bytes()].concat();
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            bytes
        };
        let least = u32::try_from(PRELUDE + CHECKSUM).unwrap();
        for (total, headers, defect) in [
            (least - 1, 0, Some(Defect::Lengths)),
            (least, 0, None),
            (least, 1, Some(Defect::Lengths)),
            (0, u32::MAX, Some(Defect::Lengths)),
            (1000, 0, None),
            (1001, 0, Some(Defect::Oversized { limit: 1000 })),
            (u32::MAX, 0, Some(Defect::Oversized { limit: 1000 })),
        ] {
            assert_eq!(read(prelude(total, headers).chunks(5), 1000).1, defect, "{total} {headers}");
        }
    }

    #[test]
    fn headers_of_all_kinds_are_skipped_to_the_wanted_one() {
        let mut headers = Vec::new();
        for (kind, length) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
            headers.extend([1, b'x', kind]);
            headers.extend(vec![0; length]);
        }
        headers.extend([1, b'x', 6, 0, 2, 0xff, 0xff]);
        headers.extend(string("name", "found"));
        let (seen, defect, _) = read(std::iter::once(&encoded(&headers, b"{}")[..]), 4096);
        assert_eq!((seen, defect), (vec![(Some("found".to_owned()), b"{}".to_vec())], None));
        for headers in
            [&[0, 0][..], &[1, b'x', 10], &[1, b'x', 7, 0, 2, b'a'], &[1, b'x', 7, 0, 1, 0xff], &[9]]
        {
            let (seen, defect, _) = read(std::iter::once(&encoded(headers, b"")[..]), 4096);
            assert_eq!((seen.len(), defect), (0, Some(Defect::Headers)), "{headers:?}");
        }
    }
}
