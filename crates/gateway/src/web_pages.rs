//! Decides which web pages may send requests when no key is needed.
//!
//! Any page that is open in a browser can make the browser send requests to all listeners on its machine. Two checks
//! detect requests from pages of other sites:
//!
//! - The host must be one of the server's names. A page whose name temporarily resolves to this machine (DNS rebinding)
//!   has the same origin as its requests, but the host of its requests is that name.
//! - The page's origin must be that of the server, or one that the configuration allows.
//!
//! Programs that are not browsers send neither `Origin` nor `Sec-Fetch-Site`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, HeaderValue, header, request};

use crate::observe::untrusted_text::clip;
use toolwire_pipeline::failure::{Failure, Kind};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Maximum number of bytes of a host or an origin in an error message.
const MAX_SHOWN: usize = 128;

/// The names of a server, apart from those of its machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostNames<'c>(pub [&'c [String]; 2]);

impl HostNames<'_> {
    /// Whether `host` is one of the names. Names without a port match all ports.
    pub fn contain(&self, host: &str) -> bool {
        let Some((name, port)) = split(host) else { return false };
        let is_it = |own: &String| split(own).is_some_and(|own| own == (name, "") || own == (name, port));
        self.0.iter().copied().flatten().any(is_it)
    }

    /// Whether `host` is one of the names, or a name of this machine.
    fn contain_or_local(&self, host: &str) -> bool {
        is_local(host) || self.contain(host)
    }

    /// Whether the browser says that the request comes from a page of this server.
    pub fn are_origin_of(&self, head: &request::Parts) -> bool {
        match head.headers.get(SEC_FETCH_SITE) {
            Some(site) => site == "same-origin",
            None => head.headers.get(header::ORIGIN).is_some_and(|origin| self.are_origin(head, origin)),
        }
    }

    /// Whether `origin` is the origin to which the request is addressed, or has one of the names as its host.
    fn are_origin(&self, head: &request::Parts, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        let Some((scheme, origin)) = origin else { return false };
        let default = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return false,
        };
        let plain = |host: &str| host.strip_suffix(default).unwrap_or(host).to_ascii_lowercase();
        host(head).is_some_and(|host| plain(host) == plain(origin)) || self.contain(origin)
    }

    /// Whether the request comes, or may come, from a page of another site.
    fn are_foreign_to(&self, head: &request::Parts) -> bool {
        // Browsers do not send the origin with requests for resources such as images.
        let site = head.headers.get(SEC_FETCH_SITE);
        site.is_some_and(|site| site != "same-origin" && site != "none")
            || head.headers.get_all(header::ORIGIN).iter().any(|origin| !self.are_origin(head, origin))
    }
}

/// Checks a request to a listener that needs no key. `is_allowed` is true if any page may send the request, or if the
/// configuration allows its page.
///
/// # Errors
/// [`Kind::Forbidden`]
pub(crate) fn check(head: &request::Parts, names: HostNames<'_>, is_allowed: bool) -> Result<(), Failure> {
    if let Some(host) = hosts(head).find(|host| !names.contain_or_local(host)) {
        let host = clip(host, MAX_SHOWN);
        let message = format!(
            "the request is for the host `{host}`, which is not `localhost`; without client keys, another name of this server must be in `hosts` of the configuration"
        );
        return Err(Failure::new(Kind::Forbidden, message).with_code("wrong_host").with_param("host"));
    }
    if is_allowed || !names.are_foreign_to(head) { Ok(()) } else { Err(other_origin(&head.headers)) }
}

/// Whether a request to a listener without a configuration may come from a page of another site. The host is checked
/// only on loopback addresses, since the listener's other names are unknown.
pub fn is_of_other_site(head: &request::Parts, is_loopback: bool) -> bool {
    let names = HostNames::default();
    names.are_foreign_to(head) || is_loopback && check(head, names, true).is_err()
}

fn other_origin(headers: &HeaderMap) -> Failure {
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("\u{fffd}"));
    let page = origin.map_or("another site".to_owned(), |origin| format!("`{}`", clip(origin, MAX_SHOWN)));
    let message = format!(
        "the request comes from a web page of {page}; without client keys, the origins of pages that may call toolwire must be in `cors_origins` of the configuration"
    );
    Failure::new(Kind::Forbidden, message).with_code("other_origin").with_param("origin")
}

/// Whether the request shows that it comes from a browser, be it from a page or from the address bar.
pub fn is_from_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(SEC_FETCH_SITE) || headers.contains_key(header::ORIGIN)
}

/// Whether the request comes from the browser's address bar.
pub fn is_typed(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "none")
}

/// Whether the browser requests an image for a page. Browsers do not state the purpose of requests to remote servers
/// without TLS, but they put image types first in `Accept`.
pub(super) fn is_of_image(headers: &HeaderMap) -> bool {
    match headers.get(SEC_FETCH_DEST) {
        Some(destination) => destination == "image",
        None => {
            headers.get(header::ACCEPT).is_some_and(|accepted| accepted.as_bytes().starts_with(b"image/"))
        }
    }
}

/// Whether the browser navigates to the requested URL, for example because the user has followed a link.
pub(super) fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate")
}

/// Returns the body's declared type without parameters.
pub fn media_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

/// Checks that a browser declares the body as JSON. Pages may send other types to any server without permission. Other
/// programs need not: the commands in Ollama's documentation do not.
///
/// # Errors
/// [`Kind::Request`] with status 415.
pub(super) fn check_json(headers: &HeaderMap) -> Result<(), Failure> {
    let kind = media_type(headers);
    let ends_with = |end: &str| {
        let at = kind.len().checked_sub(end.len());
        at.and_then(|at| kind.get(at..)).is_some_and(|rest| rest.eq_ignore_ascii_case(end))
    };
    if !is_from_browser(headers) || kind.eq_ignore_ascii_case("application/json") || ends_with("+json") {
        return Ok(());
    }
    let message = "without client keys, a browser must declare the body as JSON: send the header `Content-Type: application/json`";
    let failure = Failure::new(Kind::Request, message).with_status(415).with_code("unsupported_media_type");
    Err(failure.with_param("content-type"))
}

pub fn host(head: &request::Parts) -> Option<&str> {
    hosts(head).next()
}

/// Returns the names of the host in the `Host` header and in the request target or `:authority`. Unreadable names are
/// empty.
fn hosts(head: &request::Parts) -> impl Iterator<Item = &str> {
    let header = head.headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    header.into_iter().chain(head.uri.authority().map(|authority| authority.as_str()))
}

/// Splits an authority into the host, without a trailing dot, and the port. `None` if it is invalid.
fn split(host: &str) -> Option<(Name<'_>, &str)> {
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (Name::Address(IpAddr::V6(address.parse::<Ipv6Addr>().ok()?).to_canonical()), port)
        }
        None => {
            let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
            match name.parse::<Ipv4Addr>() {
                Ok(address) => (Name::Address(IpAddr::V4(address)), port),
                Err(_) => (Name::Text(name.strip_suffix('.').unwrap_or(name)), port),
            }
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    (is_whole && host != Name::Text("")).then_some((host, port))
}

#[derive(Debug, Clone, Copy)]
enum Name<'h> {
    Address(IpAddr),
    Text(&'h str),
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Address(address), Self::Address(other)) => address == other,
            (Self::Text(text), Self::Text(other)) => text.eq_ignore_ascii_case(other),
            (Self::Address(_), Self::Text(_)) | (Self::Text(_), Self::Address(_)) => false,
        }
    }
}

/// Whether `host` always resolves to this machine: `localhost`, a name below it, or a loopback address.
pub fn is_local(host: &str) -> bool {
    match split(host) {
        Some((Name::Address(address), _)) => address.is_loopback(),
        Some((Name::Text(name), _)) => {
            let (below, last) =
                name.rsplit_once('.').map_or((None, name), |(below, last)| (Some(below), last));
            last.eq_ignore_ascii_case("localhost") && below != Some("")
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn local_hosts_are_those_of_this_machine_in_any_spelling() {
        for host in [
            "localhost",
            "LocalHost:8787",
            "localhost.",
            "localhost.:8787",
            "a.localhost",
            "a.b.LOCALHOST:1",
            "127.0.0.1",
            "127.0.0.1:8787",
            "127.8.9.1:",
            "[::1]",
            "[::1]:8787",
            "[0:0:0:0:0:0:0:1]:8787",
            "[::ffff:127.0.0.1]:8787",
        ] {
            assert!(is_local(host), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_not_local() {
        for host in [
            "",
            ".",
            ":8787",
            ".localhost",
            "localhost..",
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "xlocalhost",
            "localhost.example:8787",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io",
            "128.0.0.1",
            "127.0.0.1.",
            "127.1",
            "0x7f000001",
            "0x7f.0.0.1",
            "0177.0.0.1",
            "2130706433",
            "127.0.0.01",
            "0.0.0.0",
            "0",
            "[::]",
            "[::2]",
            "[::1",
            "[::1]x",
            "[::ffff:128.0.0.1]",
            "::1",
            "localhost:80@evil.example",
            "evil.example@localhost",
            "localhost:x",
            "localhost:80:80",
            "localhost/evil",
            "local\u{130}host",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn configured_names_hold_with_and_without_port() {
        let (own, further) =
            (["tools.example".to_owned()], ["a.example:81".to_owned(), "10.0.0.1".to_owned()]);
        let names = HostNames([&own, &further]);
        for host in ["tools.example", "TOOLS.example.:8787", "a.example:81", "A.example.:81", "10.0.0.1:80"] {
            assert!(names.contain(host), "{host}");
        }
        for host in [
            "",
            "x.tools.example",
            "tools.example.evil",
            "tools.example:1@evil",
            "a.example",
            "a.example:8",
            "10.0.0.2",
            "localhost",
        ] {
            assert!(!names.contain(host), "{host}");
        }
        assert!(!HostNames::default().contain(""));
    }

    fn head(headers: &[(&str, &str)]) -> request::Parts {
        let request =
            headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_origins_of_the_host_are_its_own() {
        for (host, origin, expected) in [
            ("localhost:8787", "http://localhost:8787", true),
            ("localhost:8787", "https://LOCALHOST:8787", true),
            ("localhost", "http://localhost:80", true),
            ("localhost:443", "https://localhost", true),
            ("127.0.0.1:8787", "http://localhost:8787", false),
            ("localhost:8787", "http://localhost:8788", false),
            ("localhost:8787", "http://localhost", false),
            ("localhost:8787", "http://localhost:8787.evil.example", false),
            ("localhost:8787", "http://localhost:8787@evil.example", false),
            ("localhost:8787", "https://evil.example", false),
            ("localhost:8787", "null", false),
            ("localhost:8787", "", false),
            ("localhost:8787", "chrome-extension://localhost:8787", false),
        ] {
            let head = head(&[("host", host), ("origin", origin)]);
            assert_eq!(check(&head, HostNames::default(), false).is_ok(), expected, "{host} {origin}");
            assert_eq!(HostNames::default().are_origin_of(&head), expected, "{host} {origin}");
        }
    }

    #[test]
    fn every_origin_and_every_name_of_the_host_counts() {
        let own = "http://localhost:1";
        let two = head(&[("host", "localhost:1"), ("origin", own), ("origin", "https://evil.example")]);
        assert!(check(&two, HostNames::default(), false).is_err());
        let target =
            Request::get("http://evil.example/v1/models").header("host", "localhost").body(()).unwrap();
        assert!(check(&target.into_parts().0, HostNames::default(), false).is_err());
        let said = head(&[("host", "localhost:1"), ("origin", own), ("sec-fetch-site", "cross-site")]);
        assert!(check(&said, HostNames::default(), false).is_err(), "it was redirected by another site");
        assert!(check(&said, HostNames::default(), true).is_ok());
    }

    #[test]
    fn body_is_json_only_if_it_is_declared_so() {
        let declared = |kind: &str| {
            check_json(&head(&[("origin", "http://localhost"), ("content-type", kind)]).headers).is_ok()
        };
        for kind in [
            "application/json",
            "Application/JSON ; charset=utf-8",
            "application/x+json",
            "application/ld+JSON;a=b",
        ] {
            assert!(declared(kind), "{kind}");
        }
        for kind in [
            "",
            "text/plain",
            "text/plain;application/json",
            "text/json",
            "application/json5",
            "application/jsonl",
            "json",
            "multipart/form-data; boundary=+json",
        ] {
            assert!(!declared(kind), "{kind}");
        }
        assert!(check_json(&HeaderMap::new()).is_ok(), "no browser");
        assert!(check_json(&head(&[("sec-fetch-site", "same-origin")]).headers).is_err());
    }
}
