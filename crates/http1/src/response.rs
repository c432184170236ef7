//! [`HeadReader`]: parses the head of a response, and what it says about the body and the connection
//! (RFC 9112, sections 4 to 6 and 9).

use std::{fmt, mem::MaybeUninit};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version, header, response::Parts};
use httparse::ParserConfig;

use super::{
    body::BodyDecoder,
    fields::{list_contains, list_items},
};

/// The maximum size of all heads of a response, both interim (1xx) and final, in bytes.
pub const MAX_HEAD: usize = 64 << 10;

const PROTOCOL: &[u8] = b"HTTP/1.";

/// The maximum number of fields in a head.
const MAX_FIELDS: usize = 100;

/// The largest `Content-Length` that is accepted. No real body comes close to it, and it is small enough that
/// arithmetic cannot overflow.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// The head of a response, and what it says about the body and the connection.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status, the version and the headers.
    pub parts: Parts,
    /// The decoder for the body.
    pub body: BodyDecoder,
    /// Whether the connection may be reused after the body.
    pub keep_alive: bool,
}

/// Why bytes are not the head of a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The bytes do not begin with `HTTP/1.`.
    #[error("it does not begin with `HTTP/1.`")]
    Protocol,
    /// The heads are larger than [`MAX_HEAD`].
    #[error("its headers are longer than {MAX_HEAD} bytes")]
    TooLong,
    /// The syntax is invalid. The string says why.
    #[error("{0}")]
    Syntax(String),
    /// The status is 101, but no upgrade was requested.
    #[error("it switched protocols, which was not requested")]
    Upgrade,
    /// `Transfer-Encoding` is not `chunked`. toolwire accepts no other coding, so it could not decode the body.
    #[error("its transfer-encoding is not `chunked`")]
    TransferEncoding,
    /// `Content-Length` is not a single number.
    #[error("its content-length is not a valid length")]
    ContentLength,
}

impl HeadError {
    fn syntax(error: &dyn fmt::Display) -> Self {
        Self::Syntax(error.to_string())
    }
}

/// Parses the head of a response that arrives in arbitrary pieces. Each byte is examined once.
#[derive(Debug, Default)]
pub struct HeadReader {
    unread: BytesMut,
    /// How many bytes of interim heads and empty lines have been discarded.
    passed: usize,
    /// How many bytes of `unread` are known not to contain the end of the head.
    searched: usize,
}

impl HeadReader {
    /// Appends the next bytes of the response.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Whether no byte has been pushed.
    pub fn is_empty(&self) -> bool {
        self.passed == 0 && self.unread.is_empty()
    }

    /// Returns the final head once it is complete, skipping interim heads (1xx).
    ///
    /// # Errors
    /// The bytes cannot be the start of a valid response.
    pub fn next_head(&mut self) -> Result<Option<ResponseHead>, HeadError> {
        loop {
            self.skip_empty_lines();
            if *self.unread == *b"\r" {
                // This may be the first half of another empty line.
                return Ok(None);
            }
            // Checked at once, since another protocol might never send an empty line.
            let begun = self.unread.get(..PROTOCOL.len()).unwrap_or(&self.unread);
            if !PROTOCOL.starts_with(begun) {
                return Err(HeadError::Protocol);
            }
            let Some(length) = self.find_end() else {
                let is_full = self.passed + self.unread.len() >= MAX_HEAD;
                return if is_full { Err(HeadError::TooLong) } else { Ok(None) };
            };
            let bytes = self.unread.split_to(length);
            self.pass(length);
            if self.passed > MAX_HEAD {
                return Err(HeadError::TooLong);
            }
            let head = parse(&bytes)?;
            match head.parts.status {
                StatusCode::SWITCHING_PROTOCOLS => return Err(HeadError::Upgrade),
                status if status.is_informational() => {}
                _ => return Ok(Some(head)),
            }
        }
    }

    /// Returns the bytes that follow the head.
    pub fn into_rest(self) -> Bytes {
        self.unread.freeze()
    }

    /// Skips empty lines before the status line. The parser would do that too, but it would start over at the first
    /// line for each read.
    fn skip_empty_lines(&mut self) {
        let mut length = 0;
        while let Some(line) = self.unread.get(length..) {
            match line {
                [b'\n', ..] => length += 1,
                [b'\r', b'\n', ..] => length += 2,
                _ => break,
            }
        }
        if length > 0 {
            self.unread.advance(length);
            self.pass(length);
        }
    }

    fn pass(&mut self, length: usize) {
        self.passed += length;
        self.searched = 0;
    }

    /// Returns the length of the head, including the empty line at its end. Lines end with LF or CR LF.
    fn find_end(&mut self) -> Option<usize> {
        while let Some(line) = self.unread.get(self.searched..) {
            let Some(at) = memchr::memchr(b'\n', line) else {
                self.searched = self.unread.len();
                return None;
            };
            let length = match line.get(at + 1..).unwrap_or_default() {
                [b'\n', ..] => 2,
                [b'\r', b'\n', ..] => 3,
                // The next line may or may not be empty.
                [] | [b'\r'] => {
                    self.searched += at;
                    return None;
                }
                _ => {
                    self.searched += at + 1;
                    continue;
                }
            };
            return Some(self.searched + at + length);
        }
        None
    }
}

/// Checks that a head received over HTTP/2 does not exceed the limit for HTTP/1.1.
///
/// # Errors
/// [`HeadError::TooLong`]
pub fn check_head_size(parts: &Parts) -> Result<(), HeadError> {
    let lines = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let length = "HTTP/1.1 200 OK\r\n\r\n".len() + lines.sum::<usize>();
    if length > MAX_HEAD { Err(HeadError::TooLong) } else { Ok(()) }
}

fn parse(bytes: &[u8]) -> Result<ResponseHead, HeadError> {
    let mut lines = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut raw = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut raw, bytes, &mut lines);
    if parsed.map_err(|error| HeadError::syntax(&error))?.is_partial() {
        return Err(HeadError::Syntax("its headers are cut off".to_owned()));
    }
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(raw.code.unwrap_or_default()).map_err(|error| HeadError::syntax(&error))?;
    *response.version_mut() = if raw.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    for line in raw.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|error| HeadError::syntax(&error))?;
        let value = HeaderValue::from_bytes(line.value).map_err(|error| HeadError::syntax(&error))?;
        response.headers_mut().append(name, value);
    }
    let (parts, ()) = response.into_parts();
    let body = framing(&parts)?;
    let keep_alive = is_persistent(&parts) && body != BodyDecoder::until_close();
    Ok(ResponseHead { parts, body, keep_alive })
}

/// Returns how the body of a response to a POST is delimited (RFC 9112, section 6.3).
fn framing(head: &Parts) -> Result<BodyDecoder, HeadError> {
    if head.status.is_informational()
        || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    {
        return Ok(BodyDecoder::of_length(0));
    }
    if head.headers.contains_key(header::TRANSFER_ENCODING) {
        let mut codings = list_items(&head.headers, &header::TRANSFER_ENCODING);
        let (first, second) = (codings.next().unwrap_or_default(), codings.next());
        return match second {
            None if first.eq_ignore_ascii_case(b"chunked") => Ok(BodyDecoder::chunked()),
            None if first.eq_ignore_ascii_case(b"identity") => Ok(BodyDecoder::until_close()),
            _ => Err(HeadError::TransferEncoding),
        };
    }
    match content_length(&head.headers)? {
        Some(length) => Ok(BodyDecoder::of_length(length)),
        None => Ok(BodyDecoder::until_close()),
    }
}

/// Returns the length in the head. Repetitions of the same length count as one (RFC 9110, section 8.6).
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, HeadError> {
    let lines = headers.get_all(header::CONTENT_LENGTH).into_iter();
    let mut lengths =
        lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    let Some(first) = lengths.next() else { return Ok(None) };
    let digits = str::from_utf8(first).ok().filter(|_| first.iter().all(u8::is_ascii_digit));
    let length = digits.and_then(|digits| digits.parse().ok()).filter(|&length| length <= MAX_LENGTH);
    match length {
        Some(length) if lengths.all(|other| other == first) => Ok(Some(length)),
        _ => Err(HeadError::ContentLength),
    }
}

/// Whether the connection persists (RFC 9112, section 9.3).
fn is_persistent(head: &Parts) -> bool {
    let says = |option: &[u8]| list_contains(&head.headers, &header::CONNECTION, option);
    // A message with both a length and a transfer coding may be an attempt at smuggling, and HTTP/1.0 has no
    // transfer codings. Such connections are not reused (RFC 9112, sections 6.1 and 6.3).
    let is_doubtful = head.headers.contains_key(header::TRANSFER_ENCODING)
        && (head.headers.contains_key(header::CONTENT_LENGTH) || head.version != Version::HTTP_11);
    !says(b"close") && !is_doubtful && (head.version == Version::HTTP_11 || says(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pieces<'p>(
        pieces: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(Option<ResponseHead>, Bytes), HeadError> {
        let mut reader = HeadReader::default();
        let mut head = None;
        for piece in pieces {
            reader.push(piece);
            if head.is_none() {
                head = reader.next_head()?;
            }
        }
        Ok((head, reader.into_rest()))
    }

    fn head(text: &str) -> Result<Option<ResponseHead>, HeadError> {
        let (head, _) = read_pieces([text.as_bytes()])?;
        Ok(head)
    }

    #[test]
    fn framing_follows_transfer_encoding_then_content_length() {
        for (lines, body, keep_alive) in [
            ("transfer-encoding: chunked\r\n", BodyDecoder::chunked(), true),
            ("transfer-encoding: Chunked\r\ncontent-length: 3\r\n", BodyDecoder::chunked(), false),
            ("transfer-encoding: identity\r\n", BodyDecoder::until_close(), false),
            ("transfer-encoding: , chunked ,\r\n", BodyDecoder::chunked(), true),
            ("content-length: 3, 3\r\n", BodyDecoder::of_length(3), true),
            ("content-length: 3\r\ncontent-length: 3\r\n", BodyDecoder::of_length(3), true),
            ("content-length: 3\r\nconnection: x, Close\r\n", BodyDecoder::of_length(3), false),
            ("", BodyDecoder::until_close(), false),
        ] {
            let head = head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\nrest")).unwrap().unwrap();
            assert_eq!((head.body, head.keep_alive), (body, keep_alive), "{lines}");
        }
        for lines in [
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: gzip\r\n",
            "transfer-encoding: chunked, identity\r\n",
            "transfer-encoding:\r\n",
            "transfer-encoding: ,\r\ncontent-length: 3\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: x\r\n",
            "transfer-encoding: chunked\u{e9}\r\n",
            "content-length: 3\r\ncontent-length: 4\r\n",
            "content-length: +3\r\n",
            "content-length: 3\u{e9}\r\n",
            "content-length: 3,3,\r\n",
            "content-length: ,3\r\n",
            "content-length:\r\n",
            "content-length: 3 3\r\n",
            "content-length: 3_0\r\n",
            "content-length: 0x3\r\n",
            "content-length: -3\r\n",
            "content-length: 3\r\ncontent-length: 03\r\n",
            "content-length: 9223372036854775808\r\n",
            "content-length: 99999999999999999999\r\n",
        ] {
            assert!(head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).is_err(), "{lines}");
        }
        let head = |text: &str| head(text).unwrap().unwrap();
        assert_eq!(head("HTTP/1.1 204 No\r\n\r\n").body, BodyDecoder::of_length(0));
        assert_eq!(head("HTTP/1.1 304 Not\r\ncontent-length: 5\r\n\r\n").body, BodyDecoder::of_length(0));
        assert!(!head("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n").keep_alive);
        let old = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n";
        assert!(head(&format!("{old}content-length: 1\r\n\r\n")).keep_alive);
        assert!(!head(&format!("{old}transfer-encoding: chunked\r\n\r\n")).keep_alive);
    }

    #[test]
    fn interim_heads_are_skipped_in_any_split() {
        let text = "\r\n\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\nx: y\r\n\nrest";
        for cut in 0..text.len() {
            let (before, after) = text.as_bytes().split_at(cut);
            let (head, rest) = read_pieces([before, after]).unwrap();
            assert_eq!((head.unwrap().parts.status, &rest[..]), (StatusCode::OK, &b"rest"[..]), "{cut}");
        }
        let (head, rest) = read_pieces(text.as_bytes().chunks(1)).unwrap();
        assert_eq!((head.unwrap().parts.headers.len(), &rest[..]), (1, &b"rest"[..]));
        let (head, _) = read_pieces([&b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n"[..]]).unwrap();
        assert!(head.is_none());
    }

    #[test]
    fn another_protocol_is_rejected_at_its_first_bytes() {
        for bytes in [
            "HTTP/1.1 101 Switching\r\n\r\n",
            "\rHTTP/1.1 200 OK\r\n\r\n",
            "\r\r",
            "SSH-2.0-x\r\n",
            "HTTP/2",
            "\x15\x03",
            "HTTX",
        ] {
            assert!(head(bytes).is_err(), "{bytes:?}");
        }
        assert!(head("HTTP/1").unwrap().is_none());
        assert!(head("\r\n\r").unwrap().is_none());
    }

    #[test]
    fn heads_together_are_limited_to_the_byte() {
        let with_length = |length: usize| {
            let empty = "HTTP/1.1 200 OK\r\nx: \r\n\r\n";
            empty.replace("x: ", &format!("x: {}", "y".repeat(length - empty.len())))
        };
        let interim = "HTTP/1.1 102 Wait\r\n\r\n";
        for before in ["", "\r\n\r\n", &interim.repeat(10)] {
            for (length, is_taken) in [(MAX_HEAD - 1, true), (MAX_HEAD, true), (MAX_HEAD + 1, false)] {
                let text = before.to_owned() + &with_length(length - before.len()) + "rest";
                for size in [1, 1000, text.len()] {
                    let read = read_pieces(text.as_bytes().chunks(size));
                    assert_eq!(read.is_ok_and(|(head, _)| head.is_some()), is_taken, "{length} by {size}");
                }
            }
        }
        for (begun, endless) in [
            ("", "\r\n"),
            ("", "\n"),
            ("", interim),
            ("HTTP/1.1 200 ", "OK"),
            ("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
        ] {
            let error = head(&(begun.to_owned() + &endless.repeat(MAX_HEAD))).unwrap_err().to_string();
            assert!(error.contains("65536"), "{endless:?}: {error}");
        }
    }
}
