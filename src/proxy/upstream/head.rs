//! The heads of HTTP/1.1 messages: a request's is written, a response's is read.

use std::{fmt, mem::MaybeUninit};

use bytes::{BufMut, BytesMut};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Version, header, response::Parts};
use httparse::ParserConfig;

use crate::{
    proxy::heads::{put_line, put_lines, says, words},
    wire::http1::Body,
};

/// Header lines that a response may have.
const MAX_HEADERS: usize = 100;

/// Bytes that the line with a body's length takes at most, with the head's end.
const LENGTH: usize = 48;

/// A response's head, and what it says of the rest.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) parts: Parts,
    /// How the body is framed.
    pub(super) body: Body,
    /// The connection may be used again once the body is over.
    pub(super) keeps: bool,
    /// Bytes of the head.
    pub(super) length: usize,
}

/// What came is no response's head.
#[derive(Debug)]
pub(super) struct NoHttp(String);

impl NoHttp {
    /// The head has more than `limit` bytes.
    pub(super) fn too_long(limit: usize) -> Self {
        Self(format!("its headers are longer than {limit} bytes"))
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

/// The head at the beginning of `bytes`, if all of it is there. Interim heads (1xx) are passed over.
///
/// # Errors
/// If the bytes begin no response.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Head>, NoHttp> {
    let mut at = 0;
    loop {
        let Some(mut head) = read_one(bytes.get(at..).unwrap_or_default())? else { return Ok(None) };
        at += head.length;
        head.length = at;
        match head.parts.status {
            StatusCode::SWITCHING_PROTOCOLS => {
                return Err(NoHttp("it switched protocols, which was not asked for".to_owned()));
            }
            status if status.is_informational() => {}
            _ => return Ok(Some(head)),
        }
    }
}

fn read_one(bytes: &[u8]) -> Result<Option<Head>, NoHttp> {
    let no_http = |error: &dyn fmt::Display| NoHttp(error.to_string());
    let mut lines = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut raw = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(&mut raw, bytes, &mut lines);
    let length = match parsed.map_err(|error| no_http(&error))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
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
    let keeps = keeps(&parts) && body != Body::until_close();
    Ok(Some(Head { parts, body, keeps, length }))
}

/// RFC 9112, section 6.3, for the answer to a POST.
fn framing(head: &Parts) -> Result<Body, NoHttp> {
    if head.status.is_informational()
        || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    {
        return Ok(Body::of_length(0));
    }
    if let Some(coding) = words(&head.headers, &header::TRANSFER_ENCODING).last() {
        let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
        return Ok(if is_chunked { Body::chunked() } else { Body::until_close() });
    }
    let mut lengths = words(&head.headers, &header::CONTENT_LENGTH);
    let Some(first) = lengths.next() else { return Ok(Body::until_close()) };
    let digits = std::str::from_utf8(first).ok().filter(|_| first.iter().all(u8::is_ascii_digit));
    let length = digits.and_then(|digits| digits.parse().ok());
    match length {
        Some(length) if lengths.all(|other| other == first) => Ok(Body::of_length(length)),
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

    fn head(text: &str) -> Option<Head> {
        read(text.as_bytes()).unwrap()
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
            ("transfer-encoding: chunked\r\n", Body::chunked(), true),
            ("transfer-encoding: gzip, Chunked\r\ncontent-length: 3\r\n", Body::chunked(), false),
            ("transfer-encoding: gzip\r\n", Body::until_close(), false),
            ("transfer-encoding: chunked, identity\r\n", Body::until_close(), false),
            ("transfer-encoding: chunked\r\ntransfer-encoding: x\r\n", Body::until_close(), false),
            ("transfer-encoding: chunked\u{e9}\r\n", Body::until_close(), false),
            ("transfer-encoding: , chunked ,\r\n", Body::chunked(), true),
            ("content-length: 3,3,\r\n", Body::of_length(3), true),
            ("content-length: 3\r\ncontent-length: 3\r\n", Body::of_length(3), true),
            ("content-length: 3\r\nconnection: x, Close\r\n", Body::of_length(3), false),
            ("", Body::until_close(), false),
        ] {
            let head = head(&format!("HTTP/1.1 200 OK\r\n{lines}\r\nrest")).unwrap();
            assert_eq!((head.body, head.keeps), (body, keeps), "{lines}");
        }
        for lengths in [
            "content-length: 3\r\ncontent-length: 4\r\n",
            "content-length: +3\r\n",
            "content-length: 3\u{e9}\r\n",
            "content-length: 99999999999999999999\r\n",
        ] {
            assert!(read(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n").as_bytes()).is_err(), "{lengths}");
        }
        assert_eq!(head("HTTP/1.1 204 No\r\n\r\n").unwrap().body, Body::of_length(0));
        assert!(!head("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n").unwrap().keeps);
        let old = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n";
        assert!(head(&format!("{old}content-length: 1\r\n\r\n")).unwrap().keeps);
        assert!(!head(&format!("{old}transfer-encoding: chunked\r\n\r\n")).unwrap().keeps);
    }

    #[test]
    fn interim_heads_are_passed_over() {
        let text = "HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nrest";
        assert_eq!(head(text).unwrap().length, text.len() - 4);
        assert!(head(text.get(..40).unwrap()).is_none());
        assert!(read(b"HTTP/1.1 101 Switching\r\n\r\n").is_err());
        assert!(read(b"SSH-2.0-x\r\n").is_err());
    }
}
