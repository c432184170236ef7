//! [`BodyDecoder`]: removes the framing of a body (RFC 9112, sections 6 and 7), which is delimited by chunks, a length
//! or the end of the connection.
//!
//! [`BodyDecoder::next`] returns the data in place, as slices of the input. Nothing is copied, and only the position in
//! the framing is stored.

/// The maximum size of one chunk's extensions, and of all trailer fields together, in bytes. Both are discarded.
const MAX_OVERHEAD: usize = (16 << 10) - 1;

/// The maximum number of trailer fields.
const MAX_TRAILERS: u8 = 100;

/// The maximum number of digits in a chunk size, including leading zeros. Sixteen digits can represent any `u64`.
const MAX_DIGITS: u8 = 16;

/// The maximum number of digits of a chunk size that is read at once.
const SHORT_SIZE: usize = 8;

/// Decodes a body that arrives in arbitrary pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyDecoder {
    state: State,
    /// How many more bytes of extensions or trailer fields are allowed.
    overhead: usize,
    /// How many more trailer fields are allowed.
    trailers: u8,
}

/// What the decoder expects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Data up to the end of the connection.
    UntilClose,
    /// This many bytes of data, and then the end of the body.
    Length(u64),
    /// A chunk size: its value so far, and the number of digits read.
    Size(u64, u8),
    /// White space after a chunk size.
    SizeBlank(u64),
    /// The extensions of a chunk of this size.
    Extension(u64),
    /// The LF at the end of the chunk-size line.
    SizeLf(u64),
    /// This many bytes of chunk data, and then CR LF.
    Chunk(u64),
    ChunkCr,
    ChunkLf,
    /// The first byte of a trailer field, or the CR of the empty line that ends the body.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    End,
}

/// Why a body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A chunk size is not a hexadecimal number of at most 16 digits.
    #[error("a chunk's size is not a number")]
    Size,
    /// A line or a chunk does not end with CR LF.
    #[error("a chunk or a line of its framing does not end with CR LF")]
    LineEnd,
    /// A chunk extension contains a control character.
    #[error("a chunk extension holds a control character")]
    Extension,
    /// A trailer field is malformed.
    #[error("a trailer field is malformed")]
    Trailer,
    /// A chunk's extensions or the trailer fields take up 16 KiB or more, or there are more than 100 trailer
    /// fields.
    #[error("chunk extensions or trailer fields are too long")]
    Overhead,
    /// The connection was closed before the end of the body.
    #[error("the connection was closed before the end of the body")]
    Incomplete,
}

impl BodyDecoder {
    /// Creates a decoder for a chunked body.
    pub fn chunked() -> Self {
        Self::new(State::Size(0, 0))
    }

    /// Creates a decoder for a body of `length` bytes.
    pub fn of_length(length: u64) -> Self {
        Self::new(if length == 0 { State::End } else { State::Length(length) })
    }

    /// Creates a decoder for a body that ends with the connection.
    pub fn until_close() -> Self {
        Self::new(State::UntilClose)
    }

    fn new(state: State) -> Self {
        Self { state, overhead: MAX_OVERHEAD, trailers: MAX_TRAILERS }
    }

    /// Whether the body has ended. Any bytes that follow are not part of it.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.state == State::End
    }

    /// Returns the next data in `bytes`, and advances `bytes` past what was read. Returns `None` if all of `bytes`
    /// was read or the body has ended.
    ///
    /// # Errors
    /// The framing is malformed.
    #[inline]
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<&'b [u8]>, BodyError> {
        loop {
            match self.state {
                State::UntilClose if bytes.is_empty() => return Ok(None),
                State::UntilClose => return Ok(Some(take(bytes, u64::MAX))),
                State::Length(left) | State::Chunk(left) => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let data = take(bytes, left);
                    let left = left - data.len() as u64;
                    self.state = match self.state {
                        State::Chunk(_) if left == 0 => State::ChunkCr,
                        State::Chunk(_) => State::Chunk(left),
                        _ if left == 0 => State::End,
                        _ => State::Length(left),
                    };
                    return Ok(Some(data));
                }
                State::End => return Ok(None),
                _ => {
                    if let Some((state, rest)) = self.after_line(bytes) {
                        (self.state, *bytes) = (state, rest);
                        continue;
                    }
                    let Some((&byte, rest)) = bytes.split_first() else { return Ok(None) };
                    *bytes = rest;
                    self.state = self.after(byte)?;
                }
            }
        }
    }

    /// Reads all of a chunk's end, or of a line that is only a chunk size. Most framing in a stream is just that, and
    /// reading it byte by byte would cost several times as much.
    #[inline]
    fn after_line<'b>(&self, bytes: &'b [u8]) -> Option<(State, &'b [u8])> {
        match self.state {
            State::ChunkCr => Some((State::Size(0, 0), bytes.strip_prefix(b"\r\n")?)),
            State::Size(0, 0) => {
                let (mut size, mut length) = (0, 0);
                for digit in bytes.iter().take(SHORT_SIZE).map_while(|&byte| char::from(byte).to_digit(16)) {
                    (size, length) = (size * 16 + u64::from(digit), length + 1);
                }
                let rest = bytes.get(length..)?.strip_prefix(b"\r\n")?;
                (size > 0).then_some((State::Chunk(size), rest))
            }
            _ => None,
        }
    }

    /// Ends the body because the connection was closed.
    ///
    /// # Errors
    /// [`BodyError::Incomplete`], unless the body ends with the connection.
    pub fn close(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::UntilClose | State::End => {
                self.state = State::End;
                Ok(())
            }
            _ => Err(BodyError::Incomplete),
        }
    }

    fn after(&mut self, byte: u8) -> Result<State, BodyError> {
        Ok(match (self.state, byte) {
            (State::Size(size, digits), byte) if byte.is_ascii_hexdigit() && digits < MAX_DIGITS => {
                State::Size(with_digit(size, byte)?, digits + 1)
            }
            (State::Size(size, 1..) | State::SizeBlank(size) | State::Extension(size), b'\r') => {
                State::SizeLf(size)
            }
            (State::Size(size, 1..) | State::SizeBlank(size), b' ' | b'\t') => {
                self.count()?;
                State::SizeBlank(size)
            }
            (State::Size(size, 1..) | State::SizeBlank(size), b';') => State::Extension(size),
            (State::Size(..) | State::SizeBlank(_), _) => return Err(BodyError::Size),
            (State::Extension(_), b'\n') => return Err(BodyError::LineEnd),
            (State::Extension(size), byte) if is_text(byte) => {
                self.count()?;
                State::Extension(size)
            }
            (State::Extension(_), _) => return Err(BodyError::Extension),
            (State::SizeLf(0), b'\n') => {
                self.overhead = MAX_OVERHEAD;
                State::TrailerStart
            }
            (State::SizeLf(size), b'\n') => {
                // Each chunk has its own limit, so that every chunk of a long response may have an extension.
                self.overhead = MAX_OVERHEAD;
                State::Chunk(size)
            }
            (State::ChunkCr, b'\r') => State::ChunkLf,
            (State::ChunkLf, b'\n') => State::Size(0, 0),
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::LastLf, b'\n') => State::End,
            (State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf, byte) => {
                self.count()?;
                if self.state == State::TrailerStart {
                    self.trailers = self.trailers.checked_sub(1).ok_or(BodyError::Overhead)?;
                }
                after_trailer(self.state, byte)?
            }
            _ => return Err(BodyError::LineEnd),
        })
    }

    /// Counts a byte of extensions or trailer fields against the limit.
    fn count(&mut self) -> Result<(), BodyError> {
        self.overhead = self.overhead.checked_sub(1).ok_or(BodyError::Overhead)?;
        Ok(())
    }
}

fn after_trailer(state: State, byte: u8) -> Result<State, BodyError> {
    Ok(match (state, byte) {
        (State::TrailerStart | State::TrailerName, byte) if is_token(byte) => State::TrailerName,
        (State::TrailerName, b':') => State::TrailerValue,
        (State::TrailerValue, b'\r') => State::TrailerLf,
        (State::TrailerValue, byte) if is_text(byte) => State::TrailerValue,
        (State::TrailerLf, b'\n') => State::TrailerStart,
        (State::TrailerValue | State::TrailerStart, b'\n') | (State::TrailerLf, _) => {
            return Err(BodyError::LineEnd);
        }
        _ => return Err(BodyError::Trailer),
    })
}

/// Whether the byte is a `tchar`, which is all that field names may contain (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether field values and chunk extensions may contain the byte: a tab, or anything that is not a control
/// character.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

fn with_digit(size: u64, digit: u8) -> Result<u64, BodyError> {
    let digit = char::from(digit).to_digit(16).ok_or(BodyError::Size)?;
    let size = size.checked_mul(16).ok_or(BodyError::Size)?;
    Ok(size + u64::from(digit))
}

fn take<'b>(bytes: &mut &'b [u8], at_most: u64) -> &'b [u8] {
    let length = usize::try_from(at_most).unwrap_or(usize::MAX).min(bytes.len());
    let (data, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
    *bytes = rest;
    data
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes a body that arrives in `pieces`. Returns its data, the number of bytes after it, and whether it has
    /// ended.
    fn read<'p>(
        mut body: BodyDecoder,
        pieces: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(Vec<u8>, usize, bool), BodyError> {
        let (mut data, mut left) = (Vec::new(), 0);
        for mut piece in pieces {
            while let Some(found) = body.next(&mut piece)? {
                data.extend_from_slice(found);
            }
            left += piece.len();
        }
        Ok((data, left, body.is_over()))
    }

    #[test]
    fn chunks_are_joined_and_bytes_after_the_body_are_left() {
        let bytes = b"5\r\nhello\r\n1;x=\"y\"\r\n,\r\n06 \r\n world\r\n0\r\nTrailer: 1\r\n\r\nHTTP/1.1";
        assert_eq!(read(BodyDecoder::chunked(), [&bytes[..]]), Ok((b"hello, world".to_vec(), 8, true)));
    }

    #[test]
    fn body_of_known_length_ends_after_that_many_bytes() {
        assert_eq!(read(BodyDecoder::of_length(3), [&b"ab"[..], b"cd"]), Ok((b"abc".to_vec(), 1, true)));
        assert_eq!(read(BodyDecoder::of_length(0), [&b"x"[..]]), Ok((Vec::new(), 1, true)));
    }

    #[test]
    fn close_ends_only_a_body_without_other_framing() {
        let mut body = BodyDecoder::until_close();
        assert_eq!(body.next(&mut &b"all"[..]), Ok(Some(&b"all"[..])));
        assert_eq!((body.close(), body.is_over()), (Ok(()), true));
        assert_eq!(BodyDecoder::chunked().close(), Err(BodyError::Incomplete));
        assert_eq!(BodyDecoder::of_length(1).close(), Err(BodyError::Incomplete));
    }

    #[test]
    fn malformed_chunks_are_errors() {
        for (bytes, error) in [
            (&b"\r\n"[..], BodyError::Size),
            (b"g\r\n", BodyError::Size),
            (b"-1\r\n", BodyError::Size),
            (b"11111111111111111\r\n", BodyError::Size),
            (b"00000000000000001\r\nx\r\n", BodyError::Size),
            (b"00000000000000000", BodyError::Size),
            (b"1\nx\r\n", BodyError::Size),
            (b"1 1\r\nx\r\n", BodyError::Size),
            (b"0x1\r\nx\r\n", BodyError::Size),
            (b"1_0\r\nx\r\n", BodyError::Size),
            (b"+1\r\nx\r\n", BodyError::Size),
            (b" 1\r\nx\r\n", BodyError::Size),
            (b"1\r\nxy", BodyError::LineEnd),
            (b"1\r\nx\n", BodyError::LineEnd),
            (b"1\r\nx\rx", BodyError::LineEnd),
            (b"1\rx", BodyError::LineEnd),
            (b"1;\0\r\n", BodyError::Extension),
            (b"1;a\rb\r\n", BodyError::LineEnd),
            (b"1;a\nx\r\n", BodyError::LineEnd),
            (b"0\r\n\n", BodyError::LineEnd),
            (b"0\r\na: b\n\r\n", BodyError::LineEnd),
            (b"0\r\na\n\r\n", BodyError::Trailer),
            (b"0\r\na b: c\r\n\r\n", BodyError::Trailer),
            (b"0\r\na: b\r\n c\r\n\r\n", BodyError::Trailer),
            (b"0\r\na: \0\r\n\r\n", BodyError::Trailer),
            (b"0\r\na: b\rc\r\n\r\n", BodyError::LineEnd),
            (b"0\r\n: b\r\n\r\n", BodyError::Trailer),
        ] {
            assert_eq!(read(BodyDecoder::chunked(), [bytes]), Err(error), "{bytes:?}");
            assert_eq!(read(BodyDecoder::chunked(), bytes.chunks(1)), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn extensions_and_trailers_are_limited_to_the_byte() {
        for (before, after) in
            [("1", "\r\nx\r\n0\r\n\r\n"), ("1\r\nx\r\n1", "\r\nx\r\n0\r\n\r\n"), ("0", "\r\n\r\n")]
        {
            for (filler, repeated) in [(";x", "x"), (" \t", "\t")] {
                for (length, is_taken) in
                    [(MAX_OVERHEAD - 1, true), (MAX_OVERHEAD, true), (MAX_OVERHEAD + 1, false)]
                {
                    let blanks = usize::from(filler == " \t");
                    let filled = filler.to_owned() + &repeated.repeat(length - 1 - blanks);
                    let bytes = format!("{before}{filled}{after}");
                    let read = read(BodyDecoder::chunked(), [bytes.as_bytes()]);
                    assert_eq!(read.err(), (!is_taken).then_some(BodyError::Overhead), "{before} {length}");
                }
            }
        }
        for (length, is_taken) in [(MAX_OVERHEAD, true), (MAX_OVERHEAD + 1, false)] {
            let trailers = format!("a: b\r\nb:{}\r\n", "c".repeat(length - 10));
            let bytes = format!("1;x\r\nx\r\n0\r\n{trailers}\r\n");
            let read = read(BodyDecoder::chunked(), [bytes.as_bytes()]);
            assert_eq!(read.err(), (!is_taken).then_some(BodyError::Overhead), "{length}");
        }
        for (fields, is_taken) in [(99, true), (100, true), (101, false)] {
            let bytes = format!("0\r\n{}\r\n", "a: b\r\n".repeat(fields));
            let read = read(BodyDecoder::chunked(), [bytes.as_bytes()]);
            assert_eq!(read.err(), (!is_taken).then_some(BodyError::Overhead), "{fields}");
        }
    }

    #[test]
    fn every_prefix_of_a_framed_body_is_incomplete() {
        let chunked = b"5;a=b\r\nhello\r\n1 \r\n,\r\n0\r\nx: y\r\nz:\r\n\r\n";
        for (decoder, bytes) in
            [(BodyDecoder::chunked(), &chunked[..]), (BodyDecoder::of_length(5), b"hello")]
        {
            for length in 0..bytes.len() {
                let mut decoder = decoder.clone();
                let mut piece = &bytes[..length];
                while decoder.next(&mut piece).unwrap().is_some() {}
                assert_eq!(
                    (decoder.is_over(), decoder.close()),
                    (false, Err(BodyError::Incomplete)),
                    "{length}"
                );
            }
            let mut decoder = decoder.clone();
            let mut piece = bytes;
            while decoder.next(&mut piece).unwrap().is_some() {}
            assert!(decoder.is_over());
        }
    }

    #[test]
    fn chunk_size_may_have_sixteen_digits() {
        let bytes = b"0000000000000001\r\nx\r\n0000000000000000\r\n\r\n";
        assert_eq!(read(BodyDecoder::chunked(), [&bytes[..]]), Ok((b"x".to_vec(), 0, true)));
        let mut largest = BodyDecoder::chunked();
        assert_eq!(largest.next(&mut &b"FFFFFFFFFFFFFFFF\r\n"[..]), Ok(None));
        assert_eq!(largest.next(&mut &b"x"[..]), Ok(Some(&b"x"[..])));
    }

    #[test]
    fn extension_limit_is_per_chunk() {
        let bytes = format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "y".repeat(100)).repeat(1000));
        assert_eq!(read(BodyDecoder::chunked(), [bytes.as_bytes()]), Ok((vec![b'x'; 1000], 0, true)));
    }

    proptest! {
        #[test]
        fn split_does_not_change_the_decoded_body(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
            prop_assert_eq!(read(BodyDecoder::chunked(), pieces), Ok((chunks.concat(), 0, true)));
            prop_assert_eq!(read(BodyDecoder::chunked(), bytes.chunks(1)), Ok((chunks.concat(), 0, true)));
        }
    }
}
