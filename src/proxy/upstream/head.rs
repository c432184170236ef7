//! The heads of HTTP/1.1 messages: a request's is written, a response's is read.

use std::{fmt, mem::MaybeUninit};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header, response::Parts};
use httparse::ParserConfig;

use crate::{
    proxy::heads::{put_line, put_lines, says, words},
    wire::http1::BodyDecoder,
};

/// Bytes of a response's heads together: interim ones (1xx) and the final one.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// How every response begins.
const PROTOCOL: &[u8] = b"HTTP/1.";

/// Header lines that a response may have.
const MAX_HEADERS: usize = 100;

/// Bytes that the line with a body's length takes at most, with the head's end.
const LENGTH: usize = 48;

/// A response's head, and what it says of the rest.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) parts: Parts,
    /// How the body is framed.
    pub(super) body: BodyDecoder,
    /// The connection may be used again once the body is over.
    pub(super) keeps: bool,
}

/// What came is no response's head.
#[derive(Debug)]
pub(super) struct NoHttp(String);

impl NoHttp {
    /// The heads have more than [`MAX_HEAD`] bytes.
    fn too_long() -> Self {
        Self(format!("its headers are longer than {MAX_HEAD} bytes"))
    }
}

impl fmt::Display for NoHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The head of `request`, but for the length of its body.
pub(super) fn write(request: &Request<()>) -> BytesMut {
    let uri = request.uri();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = BytesMut::new();
    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.put_slice(part.as_bytes());
    }
    if let (false, Some(host)) = (request.headers().contains_key(header::HOST), uri.authority()) {
        // An address may hold a user and a password, which are nobody's host.
        let host = host.as_str();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        put_line(&mut head, b"host", host.as_bytes());
    }
    put_lines(&mut head, request.headers());
    head
}

/// What [`write`] has written, for a body of `length` bytes.
pub(super) fn with_length(written: &[u8], length: usize) -> BytesMut {
    let mut head = BytesMut::with_capacity(written.len() + LENGTH);
    head.put_slice(written);
    put_line(&mut head, b"content-length", length.to_string().as_bytes());
    head.put_slice(b"\r\n");
    head
}

/// Reads a response's head off the bytes of a connection, however they are cut. Each byte is looked at once.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    unread: BytesMut,
    /// Bytes of interim heads, which are gone.
    passed: usize,
    /// Bytes of `unread` that hold no end of a head.
    searched: usize,
}

impl HeadReader {
    /// Takes what came next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Whether nothing at all has come.
    pub(super) fn is_empty(&self) -> bool {
        self.passed == 0 && self.unread.is_empty()
    }

    /// The final head, once all of it is there. Interim heads (1xx) are passed over.
    ///
    /// # Errors
    /// If the bytes are not the beginning of a response, or its heads are too long.
    pub(super) fn next(&mut self) -> Result<Option<Head>, NoHttp> {
        loop {
            self.skip_line_ends();
            // Some other protocol may never send an empty line.
            let begun = self.unread.get(..PROTOCOL.len()).unwrap_or(&self.unread);
            if !PROTOCOL.starts_with(begun) {
                return Err(NoHttp("it does not begin as HTTP/1 does".to_owned()));
            }
            let Some(length) = self.find_end() else {
                let is_full = self.passed + self.unread.len() >= MAX_HEAD;
                return if is_full { Err(NoHttp::too_long()) } else { Ok(None) };
            };
            let bytes = self.unread.split_to(length);
            self.pass(length);
            if self.passed > MAX_HEAD {
                return Err(NoHttp::too_long());
            }
            let head = read(&bytes)?;
            match head.parts.status {
                StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(NoHttp("it switched protocols, which was not asked for".to_owned()));
                }
                status if status.is_informational() => {}
                _ => return Ok(Some(head)),
            }
        }
    }

    /// What came behind the head.
    pub(super) fn into_rest(self) -> Bytes {
        self.unread.freeze()
    }

    /// The parser would pass over these, too, but each time from the first.
    fn skip_line_ends(&mut self) {
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let length = self.unread.iter().take_while(|&byte| is_line_end(byte)).count();
        if length > 0 {
            self.unread.advance(length);
            self.pass(length);
        }
    }

    fn pass(&mut self, length: usize) {
        self.passed += length;
        self.searched = 0;
    }

    /// Bytes up to and with the first empty line. A line ends with LF, and a CR before it belongs to it.
    fn find_end(&mut self) -> Option<usize> {
        while let Some(line) = self.unread.get(self.searched..) {
            let Some(at) = memchr::memchr(b'\n', line) else {
                self.searched = self.unread.len();
                return None;
            };
            let length = match line.get(at + 1..).unwrap_or_default() {
                [b'\n', ..] => 2,
                [b'\r', b'\n', ..] => 3,
                // Whether the next line is empty is not known yet.
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

/// Whether the head of a response that did not come over HTTP/1.1 is longer than one may be there.
///
/// # Errors
/// If it is.
pub(super) fn check_length(parts: &Parts) -> Result<(), NoHttp> {
    let lines = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let length = "HTTP/1.1 200 OK\r\n\r\n".len() + lines.sum::<usize>();
    if length > MAX_HEAD { Err(NoHttp::too_long()) } else { Ok(()) }
}

/// Reads one head, which ends with its empty line.
fn read(bytes: &[u8]) -> Result<Head, NoHttp> {
    let no_http = |error: &dyn fmt::Display| NoHttp(error.to_string());
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut raw = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut raw, bytes, &mut lines);
    if parsed.map_err(|error| no_http(&error))?.is_partial() {
        return Err(NoHttp("its headers are cut off".to_owned()));
    }
    let mut response = Response::new(());
    *response.status_mut() =
        StatusCode::from_u16(raw.code.unwrap_or_default()).map_err(|error| no_http(&error))?;
    *response.version_mut() = if raw.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    for line in raw.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|error| no_http(&error))?;
        let value = HeaderValue::from_bytes(line.value).map_err(|error| no_http(&error))?;
        response.headers_mut().append(name, value);
    }
    let (parts, ()) = response.into_parts();
    let body = framing(&parts)?;
    let keeps = keeps(&parts) && body != BodyDecoder::until_close();
    Ok(Head { parts, body, keeps })
}

/// RFC 9112, section 6.3, for the answer to a POST.
fn framing(head: &Parts) -> Result<BodyDecoder, NoHttp> {
    if head.status.is_informational()
        || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    {
        return Ok(BodyDecoder::of_length(0));
    }
    let mut codings = words(&head.headers, &header::TRANSFER_ENCODING);
    if let Some(coding) = codings.next() {
        let is = |name: &[u8]| coding.eq_ignore_ascii_case(name);
        return match codings.next() {
            None if is(b"chunked") => Ok(BodyDecoder::chunked()),
            None if is(b"identity") => Ok(BodyDecoder::until_close()),
            // No other coding was offered (`te`), and what cannot be undone cannot be read.
            _ => Err(NoHttp("its transfer-encoding is not `chunked`".to_owned())),
        };
    }
    let mut lengths = words(&head.headers, &header::CONTENT_LENGTH);
    let Some(first) = lengths.next() else { return Ok(BodyDecoder::until_close()) };
    let digits = std::str::from_utf8(first).ok().filter(|_| first.iter().all(u8::is_ascii_digit));
    let length = digits.and_then(|digits| digits.parse().ok());
    match length {
        Some(length) if lengths.all(|other| other == first) => Ok(BodyDecoder::of_length(length)),
        _ => Err(NoHttp("its content-length is no length".to_owned())),
    }
}

fn keeps(head: &Parts) -> bool {
    let says = |word: &[u8]| says(&head.headers, &header::CONNECTION, word);
    // A length beside a transfer coding is how messages are smuggled, and HTTP/1.0 has no transfer codings: such a
    // connection is not trusted further.
    let is_doubtful = head.headers.contains_key(header::TRANSFER_ENCODING)
        && (head.headers.contains_key(header::CONTENT_LENGTH) || head.version != Version::HTTP_11);
    !says(b"close") && !is_doubtful && (head.version == Version::HTTP_11 || says(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head that `pieces` begin with, and what is left behind it.
    fn read_pieces<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<(Option<Head>, Bytes), NoHttp> {
        let mut reader = HeadReader::default();
        let mut head = None;
        for piece in pieces {
            reader.push(piece);
            if head.is_none() {
                head = reader.next()?;
            }
        }
        Ok((head, reader.into_rest()))
    }

    fn head(text: &str) -> Result<Option<Head>, NoHttp> {
        let (head, _) = read_pieces([text.as_bytes()])?;
        Ok(head)
    }

    #[test]
    fn a_request_is_written() {
        let request =
            Request::post("http://u:p@host:81/v1/chat?x=1").header("accept", "a/b").body(()).unwrap();
        assert_eq!(
            with_length(&write(&request), 5),
            "POST /v1/chat?x=1 HTTP/1.1\r\nhost: host:81\r\naccept: a/b\r\ncontent-length: 5\r\n\r\n"
        );
    }

    #[test]
    fn framings_are_told_apart() {
        for (lines, body, keeps) in [
            ("transfer-encoding: chunked\r\n", BodyDecoder::chunked(), true),
            ("transfer-encoding: Chunked\r\ncontent-length: 3\r\n", BodyDecoder::chunked(), false),
            ("transfer-encoding: identity\r\n", BodyDecoder::until_close(), false),
            ("transfer-encoding: , chunked ,\r\n", BodyDecoder::chunked(), true),
            ("content-length: 3,3,\r\n", BodyDecoder::of_length(3), true),
            ("content-length: 3\r\ncontent-length: 3\r\n", BodyDecoder::of_length(3), true),
            ("content-length: 3\r\nconnection: x, Close\r\n", BodyDecoder::of_length(3), false),
            ("", BodyDecoder::until_close(), false),
        ] {
            let head = head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\nrest")).unwrap().unwrap();
            assert_eq!((head.body, head.keeps), (body, keeps), "{lines}");
        }
        for lines in [
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: gzip\r\n",
            "transfer-encoding: chunked, identity\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: x\r\n",
            "transfer-encoding: chunked\u{e9}\r\n",
            "content-length: 3\r\ncontent-length: 4\r\n",
            "content-length: +3\r\n",
            "content-length: 3\u{e9}\r\n",
            "content-length: 99999999999999999999\r\n",
        ] {
            assert!(head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n")).is_err(), "{lines}");
        }
        let head = |text: &str| head(text).unwrap().unwrap();
        assert_eq!(head("HTTP/1.1 204 No\r\n\r\n").body, BodyDecoder::of_length(0));
        assert_eq!(head("HTTP/1.1 304 Not\r\ncontent-length: 5\r\n\r\n").body, BodyDecoder::of_length(0));
        assert!(!head("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n").keeps);
        let old = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n";
        assert!(head(&format!("{old}content-length: 1\r\n\r\n")).keeps);
        assert!(!head(&format!("{old}transfer-encoding: chunked\r\n\r\n")).keeps);
    }

    #[test]
    fn interim_heads_are_passed_over_however_they_are_cut() {
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
    fn another_protocol_is_refused_at_its_first_bytes() {
        for bytes in ["HTTP/1.1 101 Switching\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/2", "\x15\x03", "HTTX"] {
            assert!(head(bytes).is_err(), "{bytes:?}");
        }
        assert!(head("HTTP/1").unwrap().is_none());
    }

    #[test]
    fn all_heads_together_are_limited_to_the_byte() {
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
