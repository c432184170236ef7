//! [`ResponseEncoder`]: writes the responses that toolwire sends without hyper.

use std::time::SystemTime;

use bytes::BufMut;
use http::response::Parts;

use super::fields::{put_field, put_fields};

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The maximum number of fields that are parsed in a head written by hyper. hyper writes fewer than this.
const MAX_FIELDS: usize = 8;

/// The capacity to reserve for a response's head, in bytes.
const EXPECTED_HEAD: usize = 512;

/// Writes a response, and knows how its body is delimited and whether the connection persists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseEncoder {
    framing: Framing,
    keep_alive: bool,
}

/// How the client finds the end of a body (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Chunked,
    Length(u64),
    /// The end of the connection ends the body.
    UntilClose,
}

impl ResponseEncoder {
    /// Creates an encoder that frames a response of unknown length in the way that hyper chose in `head`.
    /// hyper knows the request's version and whether the connection may persist.
    ///
    /// If the head does not say `chunked` or cannot be parsed, the body ends with the connection.
    pub fn following(head: &[u8]) -> Self {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let is_read = response.parse(head).is_ok_and(|parsed| parsed.is_complete());
        let has = |name: &str, value: &[u8]| {
            let mut fields = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            fields.any(|field| field.value.eq_ignore_ascii_case(value))
        };
        if is_read && has("transfer-encoding", b"chunked") {
            Self { framing: Framing::Chunked, keep_alive: !has("connection", b"close") }
        } else {
            Self { framing: Framing::UntilClose, keep_alive: false }
        }
    }

    /// Declares the length of the body in the head.
    pub fn set_length(&mut self, length: u64) {
        self.framing = Framing::Length(length);
    }

    /// Closes the connection after this response, and says so in the head.
    pub fn set_close(&mut self) {
        self.keep_alive = false;
    }

    /// Whether the connection may carry another response.
    pub fn is_keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Returns the head: the status and headers of `parts`, and the fields that describe the connection, which
    /// `parts` must not contain. `now` becomes the `Date`.
    pub fn head(&self, parts: &Parts, now: SystemTime) -> Vec<u8> {
        let reason = parts.status.canonical_reason().unwrap_or_default();
        let mut head = Vec::with_capacity(EXPECTED_HEAD);
        for part in ["HTTP/1.1 ", parts.status.as_str(), " ", reason, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        put_fields(&mut head, &parts.headers);
        match self.framing {
            Framing::Chunked => put_field(&mut head, b"transfer-encoding", b"chunked"),
            Framing::Length(length) => {
                put_field(&mut head, b"content-length", length.to_string().as_bytes());
            }
            Framing::UntilClose => {}
        }
        if !self.keep_alive {
            put_field(&mut head, b"connection", b"close");
        }
        put_field(&mut head, b"date", httpdate::fmt_http_date(now).as_bytes());
        head.put_slice(b"\r\n");
        head
    }

    /// Appends `data` to `out` as a piece of the body. If `is_last` is set, also appends the end of the body.
    #[inline]
    pub fn put_data(&self, out: &mut Vec<u8>, data: &[u8], is_last: bool) {
        let is_chunked = self.framing == Framing::Chunked;
        // An empty chunk would end the body.
        let is_chunk = is_chunked && !data.is_empty();
        if is_chunk {
            put_hex(out, data.len());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(data);
        if is_chunk {
            out.extend_from_slice(b"\r\n");
        }
        if is_chunked && is_last {
            out.extend_from_slice(LAST_CHUNK);
        }
    }
}

/// Writes a chunk size. This runs once per token, and `format!` takes ten times as long.
fn put_hex(out: &mut Vec<u8>, number: usize) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.extend(b"0123456789abcdef".get((number >> (4 * digit)) & 0xf));
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn following(lines: &str) -> ResponseEncoder {
        ResponseEncoder::following(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_bytes())
    }

    #[test]
    fn framing_and_persistence_follow_the_head_of_hyper() {
        let chosen = |lines: &str| {
            let ResponseEncoder { framing, keep_alive } = following(lines);
            (framing, keep_alive)
        };
        assert_eq!(chosen("transfer-encoding: chunked\r\ndate: x\r\n"), (Framing::Chunked, true));
        assert_eq!(chosen("connection: close\r\ntransfer-encoding: chunked\r\n"), (Framing::Chunked, false));
        assert_eq!(chosen("date: x\r\n"), (Framing::UntilClose, false));
        assert_eq!(chosen("content-length"), (Framing::UntilClose, false));
        let unfinished = ResponseEncoder::following(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n");
        assert_eq!((unfinished.framing, unfinished.keep_alive), (Framing::UntilClose, false));
    }

    #[test]
    fn head_has_date_and_either_length_or_transfer_encoding() {
        let (parts, ()) = Response::builder().header("x", "y").body(()).unwrap().into_parts();
        let head = |encoder: &ResponseEncoder| {
            String::from_utf8(encoder.head(&parts, SystemTime::UNIX_EPOCH)).unwrap()
        };
        const DATE: &str = "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
        let mut encoder = following("transfer-encoding: chunked\r\n");
        assert_eq!(
            head(&encoder),
            format!("HTTP/1.1 200 OK\r\nx: y\r\ntransfer-encoding: chunked\r\n{DATE}")
        );
        encoder.set_length(7);
        assert_eq!(head(&encoder), format!("HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 7\r\n{DATE}"));
        encoder.set_close();
        let closing = format!("HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 7\r\nconnection: close\r\n{DATE}");
        assert_eq!(head(&encoder), closing);
        let until_close = following("");
        assert_eq!(head(&until_close), format!("HTTP/1.1 200 OK\r\nx: y\r\nconnection: close\r\n{DATE}"));
    }

    #[test]
    fn chunks_end_with_the_last_chunk_only_at_the_end() {
        let put = |lines: &str, data: &str, is_last: bool| {
            let mut out = Vec::new();
            following(lines).put_data(&mut out, data.as_bytes(), is_last);
            String::from_utf8(out).unwrap()
        };
        const CHUNKED: &str = "transfer-encoding: chunked\r\n";
        assert_eq!(put(CHUNKED, "hello, world", false), "c\r\nhello, world\r\n");
        assert_eq!(put(CHUNKED, "hello", true), "5\r\nhello\r\n0\r\n\r\n");
        assert_eq!(put(CHUNKED, "", false), "");
        assert_eq!(put(CHUNKED, "", true), "0\r\n\r\n");
        assert_eq!(put("", "hello", true), "hello");
    }

    #[test]
    fn chunk_sizes_are_hexadecimal() {
        for number in [1, 9, 10, 15, 16, 255, 256, 0xa0b, 32 << 10, usize::MAX] {
            let mut bytes = Vec::new();
            put_hex(&mut bytes, number);
            assert_eq!(String::from_utf8(bytes).unwrap(), format!("{number:x}"));
        }
    }
}
