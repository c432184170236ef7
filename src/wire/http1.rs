//! The framing of an HTTP/1.1 body (RFC 9112, sections 6 and 7): by chunks, by length, or to the end of the
//! connection.
//!
//! [`BodyDecoder::next`] gives the data as it lies in the bytes that were read; nothing is copied and nothing is kept but
//! where in the framing the bytes ended.

use std::fmt;

/// Bytes of extensions that a chunk may have, and of trailers; they say nothing of an answer.
const MAX_ASIDE: usize = 16 << 10;

/// Digits that a chunk's size may have, zeros before it included: what it takes to write the largest.
const MAX_DIGITS: u8 = 16;

/// A body whose bytes come in any split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyDecoder {
    at: ChunkState,
    /// Bytes of extensions and trailers that may still come.
    aside: usize,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// Data to the end of the connection.
    Rest,
    /// So many bytes of data, and the body is over.
    Length(u64),
    /// A chunk's size, and how many digits of it there were.
    Size(u64, u8),
    /// What else is in the line of a chunk's size.
    Extension(u64),
    /// The line end behind a chunk's size.
    SizeEnd(u64),
    /// So many bytes of a chunk, and its line end.
    Chunk(u64),
    /// The line end behind a chunk: CR, then LF.
    ChunkEnd,
    ChunkEndLf,
    /// A line behind the last chunk; whether anything stood in it yet.
    Trailer(bool),
    /// The line end of a trailer.
    TrailerEnd(bool),
    /// Nothing.
    End,
}

/// Why bytes are no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadBody {
    /// A chunk's size is no hexadecimal number, or has more than 16 digits.
    Size,
    /// A line does not end as it must.
    LineEnd,
    /// A chunk's extensions, or trailers, of more than 16 KiB.
    Aside,
    /// The connection closed before the end.
    Cut,
}

impl fmt::Display for BadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "a chunk's size is no number",
            Self::LineEnd => "a chunk does not end with a line end",
            Self::Aside => "chunk extensions and trailers are too long",
            Self::Cut => "the connection was closed before the end of the body",
        })
    }
}

impl std::error::Error for BadBody {}

impl BodyDecoder {
    /// A body in chunks.
    pub fn chunked() -> Self {
        Self::new(ChunkState::Size(0, 0))
    }

    /// A body of `length` bytes.
    pub fn of_length(length: u64) -> Self {
        Self::new(if length == 0 { ChunkState::End } else { ChunkState::Length(length) })
    }

    /// A body that ends with its connection.
    pub fn until_close() -> Self {
        Self::new(ChunkState::Rest)
    }

    fn new(at: ChunkState) -> Self {
        Self { at, aside: MAX_ASIDE }
    }

    /// The body is over. A connection may be used again if nothing came behind it.
    pub fn is_over(&self) -> bool {
        self.at == ChunkState::End
    }

    /// The next data in `bytes`, which are moved on behind what has been looked at. `None`: all of it has been, or the
    /// body is over.
    ///
    /// # Errors
    /// If the bytes are no body.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Result<Option<&'b [u8]>, BadBody> {
        loop {
            match self.at {
                ChunkState::Rest if bytes.is_empty() => return Ok(None),
                ChunkState::Rest => return Ok(Some(take(bytes, u64::MAX))),
                ChunkState::Length(left) | ChunkState::Chunk(left) => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let data = take(bytes, left);
                    let left = left - data.len() as u64;
                    self.at = match self.at {
                        ChunkState::Chunk(_) if left == 0 => ChunkState::ChunkEnd,
                        ChunkState::Chunk(_) => ChunkState::Chunk(left),
                        _ if left == 0 => ChunkState::End,
                        _ => ChunkState::Length(left),
                    };
                    return Ok(Some(data));
                }
                ChunkState::End => return Ok(None),
                _ => {
                    let Some((&byte, rest)) = bytes.split_first() else { return Ok(None) };
                    *bytes = rest;
                    self.at = self.framing(byte)?;
                }
            }
        }
    }

    /// The connection has closed.
    ///
    /// # Errors
    /// [`BadBody::Cut`], unless that is how the body ends.
    pub fn close(&mut self) -> Result<(), BadBody> {
        match self.at {
            ChunkState::Rest | ChunkState::End => {
                self.at = ChunkState::End;
                Ok(())
            }
            _ => Err(BadBody::Cut),
        }
    }

    fn framing(&mut self, byte: u8) -> Result<ChunkState, BadBody> {
        Ok(match (self.at, byte) {
            (ChunkState::Size(size, digits), byte) if byte.is_ascii_hexdigit() && digits < MAX_DIGITS => {
                ChunkState::Size(with_digit(size, byte)?, digits + 1)
            }
            (ChunkState::Size(size, 1..) | ChunkState::Extension(size), b'\r') => ChunkState::SizeEnd(size),
            (ChunkState::Size(size, 1..), b';' | b' ' | b'\t') => ChunkState::Extension(size),
            (ChunkState::Size(..), _) => return Err(BadBody::Size),
            (ChunkState::Extension(_), b'\n') => return Err(BadBody::LineEnd),
            (ChunkState::Extension(_), _) => self.aside()?,
            (ChunkState::SizeEnd(0), b'\n') => ChunkState::Trailer(false),
            (ChunkState::SizeEnd(size), b'\n') => {
                // A long answer may have something aside with every chunk.
                self.aside = MAX_ASIDE;
                ChunkState::Chunk(size)
            }
            (ChunkState::ChunkEnd, b'\r') => ChunkState::ChunkEndLf,
            (ChunkState::ChunkEndLf, b'\n') => ChunkState::Size(0, 0),
            (ChunkState::Trailer(something), b'\r') => ChunkState::TrailerEnd(something),
            (ChunkState::Trailer(_), b'\n') => return Err(BadBody::LineEnd),
            (ChunkState::Trailer(_), _) => {
                self.aside()?;
                ChunkState::Trailer(true)
            }
            (ChunkState::TrailerEnd(true), b'\n') => ChunkState::Trailer(false),
            (ChunkState::TrailerEnd(false), b'\n') => ChunkState::End,
            _ => return Err(BadBody::LineEnd),
        })
    }

    fn aside(&mut self) -> Result<ChunkState, BadBody> {
        self.aside = self.aside.checked_sub(1).ok_or(BadBody::Aside)?;
        Ok(self.at)
    }
}

fn with_digit(size: u64, digit: u8) -> Result<u64, BadBody> {
    let digit = char::from(digit).to_digit(16).ok_or(BadBody::Size)?;
    let size = size.checked_mul(16).ok_or(BadBody::Size)?;
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

    /// The data of a body that comes in `pieces`, what is left behind it, and whether it is over.
    fn read<'p>(
        mut body: BodyDecoder,
        pieces: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(Vec<u8>, usize, bool), BadBody> {
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
    fn chunks_are_joined_and_the_end_is_known() {
        let bytes = b"5\r\nhello\r\n1;x=\"y\"\r\n,\r\n06 \r\n world\r\n0\r\nTrailer: 1\r\n\r\nHTTP/1.1";
        assert_eq!(read(BodyDecoder::chunked(), [&bytes[..]]), Ok((b"hello, world".to_vec(), 8, true)));
    }

    #[test]
    fn a_length_is_kept() {
        assert_eq!(read(BodyDecoder::of_length(3), [&b"ab"[..], b"cd"]), Ok((b"abc".to_vec(), 1, true)));
        assert_eq!(read(BodyDecoder::of_length(0), [&b"x"[..]]), Ok((Vec::new(), 1, true)));
    }

    #[test]
    fn a_close_is_an_end_only_where_it_is_the_framing() {
        let mut body = BodyDecoder::until_close();
        assert_eq!(body.next(&mut &b"all"[..]), Ok(Some(&b"all"[..])));
        assert_eq!((body.close(), body.is_over()), (Ok(()), true));
        assert_eq!(BodyDecoder::chunked().close(), Err(BadBody::Cut));
        assert_eq!(BodyDecoder::of_length(1).close(), Err(BadBody::Cut));
    }

    #[test]
    fn what_is_no_chunk_is_an_error() {
        for (bytes, error) in [
            (&b"\r\n"[..], BadBody::Size),
            (b"g\r\n", BadBody::Size),
            (b"-1\r\n", BadBody::Size),
            (b"11111111111111111\r\n", BadBody::Size),
            (b"00000000000000001\r\nx\r\n", BadBody::Size),
            (b"00000000000000000", BadBody::Size),
            (b"1\nx\r\n", BadBody::Size),
            (b"1\r\nxy", BadBody::LineEnd),
            (b"1;a\nx\r\n", BadBody::LineEnd),
            (b"0\r\na\n\r\n", BadBody::LineEnd),
        ] {
            assert_eq!(read(BodyDecoder::chunked(), [bytes]), Err(error), "{bytes:?}");
        }
        for begun in ["1;", "1;a\r\nx\r\n1;", "0\r\n"] {
            let long = [begun.as_bytes(), &[b'x'; MAX_ASIDE + 1]].concat();
            assert_eq!(read(BodyDecoder::chunked(), [long.as_slice()]), Err(BadBody::Aside), "{begun}");
        }
    }

    #[test]
    fn a_chunk_size_may_have_sixteen_digits() {
        let bytes = b"0000000000000001\r\nx\r\n0000000000000000\r\n\r\n";
        assert_eq!(read(BodyDecoder::chunked(), [&bytes[..]]), Ok((b"x".to_vec(), 0, true)));
        let mut largest = BodyDecoder::chunked();
        assert_eq!(largest.next(&mut &b"FFFFFFFFFFFFFFFF\r\n"[..]), Ok(None));
        assert_eq!(largest.next(&mut &b"x"[..]), Ok(Some(&b"x"[..])));
    }

    #[test]
    fn every_chunk_may_have_an_extension() {
        let bytes = format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "y".repeat(100)).repeat(1000));
        assert_eq!(read(BodyDecoder::chunked(), [bytes.as_bytes()]), Ok((vec![b'x'; 1000], 0, true)));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
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
