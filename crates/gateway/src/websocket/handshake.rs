//! [`Handshake`]: the request that opens a WebSocket (RFC 6455, section 4.2).

use std::{fmt, net::IpAddr};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header, request, response};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use toolwire_pipeline::{
    dialect::ClientDialect,
    failure::{Failure, Kind},
};

/// The version of the protocol.
pub(crate) const VERSION: HeaderValue = HeaderValue::from_static("13");

/// Appended to the client's key (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Length of a key in bytes, before it is encoded.
const KEY: usize = 16;

/// A handshake that has been accepted.
pub struct Handshake {
    pub(crate) dialect: ClientDialect,
    /// The request. Its headers apply to all requests on the connection.
    pub(crate) head: request::Parts,
    pub(crate) peer: IpAddr,
}

impl fmt::Debug for Handshake {
    /// Leaves the headers out, which contain the client's key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("dialect", &self.dialect)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Returns the value of `Sec-WebSocket-Accept`. Extensions and subprotocols that the client offers are not used.
///
/// # Errors
/// [`Kind::Request`] if the version or the key is missing, repeated or wrong. The status is 426 for another version.
pub(crate) fn accept(headers: &HeaderMap) -> Result<HeaderValue, Failure> {
    if only(headers, &header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        let failure = Failure::new(Kind::Request, "the WebSocket's version must be 13").with_status(426);
        return Err(failure.with_param(header::SEC_WEBSOCKET_VERSION.as_str()));
    }
    let key = only(headers, &header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let is_key = |key: &&[u8]| BASE64_STANDARD.decode(key).is_ok_and(|key| key.len() == KEY);
    let Some(key) = key.filter(is_key) else {
        let failure =
            Failure::new(Kind::Request, "the request needs one `Sec-WebSocket-Key`: 16 bytes in base64");
        return Err(failure.with_param(header::SEC_WEBSOCKET_KEY.as_str()));
    };
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(GUID);
    let accept = BASE64_STANDARD.encode(digest.finish());
    HeaderValue::try_from(accept).map_err(|_| Failure::new(Kind::Internal, "base64 is not a header's value"))
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).into_iter();
    values.next().filter(|_| values.next().is_none())
}

/// The bytes of the response that accepts a handshake.
pub(crate) fn head(parts: &response::Parts) -> Vec<u8> {
    let mut head = b"HTTP/1.1 101 Switching Protocols\r\n".to_vec();
    for (name, value) in &parts.headers {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(piece);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn answered(version: &[&'static str], key: &[&'static str]) -> Result<HeaderValue, u16> {
        let mut headers = HeaderMap::new();
        for version in version {
            headers.append(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(version));
        }
        for key in key {
            headers.append(header::SEC_WEBSOCKET_KEY, HeaderValue::from_static(key));
        }
        accept(&headers).map_err(|failure| failure.status())
    }

    /// The key and its answer are the example of RFC 6455, section 1.3.
    #[test]
    fn key_of_the_standard_is_answered_as_in_the_standard() {
        assert_eq!(answered(&["13"], &[EXAMPLE]).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn other_versions_and_keys_are_refused() {
        for version in [&[][..], &["8"], &["13", "13"], &["13, 8"]] {
            assert_eq!(answered(version, &[EXAMPLE]), Err(426), "{version:?}");
        }
        for key in [
            &[][..],
            &[""],
            &["AAAA"],
            &["dGhlIHNhbXBsZSBub25jZQ="],
            &["not base64 at all, is it"],
            &[EXAMPLE, EXAMPLE],
        ] {
            assert_eq!(answered(&["13"], key), Err(400), "{key:?}");
        }
    }
}
