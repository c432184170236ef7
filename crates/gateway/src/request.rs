//! Examines the head of a request: checks its host, the encoding of its body and other parts that must be unambiguous,
//! and reads the options in toolwire's own headers.
//!
//! Without these checks, two servers on the path could interpret a request differently, and one of them could take the
//! body for another request.

use std::net::Ipv6Addr;

use http::{HeaderMap, HeaderName, Method, Version, header, request::Parts};

use crate::observe::untrusted_text::clip;
use toolwire_http1::list_contains;
use toolwire_pipeline::{
    failure::{Failure, Kind},
    rules::Reasoning,
};

/// Sets how reasoning is passed on for one request, with the values of the setting `reasoning`.
pub(super) const REASONING: HeaderName = HeaderName::from_static("x-toolwire-reasoning");

/// Maximum number of bytes of a header's value in an error message.
const MAX_SHOWN: usize = 64;

/// Checks the host of a request and the encoding of its body.
///
/// # Errors
/// [`Kind::Request`]. The connection must then be closed.
pub(super) fn check(head: &Parts) -> Result<(), Failure> {
    check_host(head)?;
    check_encoding(&head.headers)
}

/// Checks the host (RFC 9112, section 3.2; RFC 9113, section 8.3.1).
fn check_host(head: &Parts) -> Result<(), Failure> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let authority = head.uri.authority().filter(|_| head.version >= Version::HTTP_2);
    match (authority, hosts.next(), hosts.next()) {
        (_, _, Some(_)) => Err(refused("the request has more than one `Host` header", "host")),
        // The authority of an `http` or `https` request must not contain user information (RFC 9113, section 8.3.1).
        (Some(authority), _, _) if !is_host(authority.as_str().as_bytes()) => {
            Err(refused("the request's `:authority` is not a host name or address", "host"))
        }
        (_, Some(host), None) if !is_host(host.as_bytes()) => {
            Err(refused("the request's `Host` header is not a host name or address", "host"))
        }
        (None, None, None) if head.version >= Version::HTTP_11 => {
            Err(refused("the request has no `Host` header", "host"))
        }
        _ => Ok(()),
    }
}

/// Checks the transfer coding of the body (RFC 9112, section 6.1). Only `chunked` is supported, applied once.
fn check_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(refused("the request's `Transfer-Encoding` is not `chunked` alone", "transfer-encoding")),
    }
}

/// Whether the client requests a WebSocket, which requires a GET request (RFC 6455, section 4.1). `Upgrade` is ignored
/// in HTTP/1.0 and without the connection option (RFC 9110, section 7.8).
pub(super) fn asks_websocket(method: &Method, version: Version, headers: &HeaderMap) -> bool {
    method == Method::GET
        && version == Version::HTTP_11
        && list_contains(headers, &header::UPGRADE, b"websocket")
        && list_contains(headers, &header::CONNECTION, b"upgrade")
}

/// Whether a server in front of toolwire has removed the upgrade from the handshake of a WebSocket. Codex repeats a
/// handshake after every other status than 426, for seconds.
pub(super) fn was_handshake(version: Version, headers: &HeaderMap) -> bool {
    version < Version::HTTP_2 && headers.contains_key(header::SEC_WEBSOCKET_KEY)
}

/// Returns the client's own setting for reasoning, if it sends one.
///
/// # Errors
/// [`Kind::Request`] for an unknown value.
pub(super) fn reasoning(headers: &HeaderMap) -> Result<Option<Reasoning>, Failure> {
    let mut values = headers.get_all(REASONING).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused(
            format!("the request has more than one `{REASONING}` header"),
            REASONING.as_str(),
        ));
    }
    let word = clip(value.to_str().unwrap_or("\u{fffd}"), MAX_SHOWN);
    let read = word.parse().map(Some);
    read.map_err(|error| refused(format!("the request's `{REASONING}` header: {error}"), REASONING.as_str()))
}

fn refused(message: impl Into<String>, header: &str) -> Failure {
    Failure::new(Kind::Request, message).with_param(header)
}

/// Whether `value` is `uri-host [ ":" port ]` (RFC 9110, section 7.2). The grammar allows an empty host, but `http`
/// URLs must not have one (section 4.2.1).
fn is_host(value: &[u8]) -> bool {
    let Ok(value) = str::from_utf8(value) else { return false };
    let (is_host, port) = match value.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            (address.parse::<Ipv6Addr>().is_ok(), port)
        }
        None => {
            let (name, port) = value.split_at(value.find(':').unwrap_or(value.len()));
            (is_name(name.as_bytes()), port)
        }
    };
    is_host && is_port(port)
}

/// Whether `name` is a registered name or an IPv4 address (RFC 3986, section 3.2.2).
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
            (byte, tail) if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => tail,
            _ => return false,
        };
    }
    !name.is_empty()
}

/// Whether `port` is empty, or a colon with an optional port number.
fn is_port(port: &str) -> bool {
    match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => {
            digits.bytes().all(|byte| byte.is_ascii_digit())
                && (digits.is_empty() || digits.parse::<u16>().is_ok())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_a_name_or_an_address_with_an_optional_port() {
        for host in [
            "x",
            "localhost:8787",
            "127.0.0.1",
            "a-b.example.",
            "my_service:80",
            "[::1]",
            "[::1]:8787",
            "x:",
            "a%2Db",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn other_values_are_rejected_as_host() {
        for value in [
            "", ":80", "a b", "a/b", "http://a", "user@a", "a:b", "a:80:80", "a:65536", "a:+80", "[::1",
            "[x]", "[]", "[::1]x", "[::1%lo]", "a%2", "a%zz", "a?b", "a#b", "a\\b", "a\tb", "\u{e9}",
        ] {
            assert!(!is_host(value.as_bytes()), "{value}");
        }
        assert!(!is_host(b"\xff"));
    }
}
