//! [`Origins`]: the origins whose pages may read responses (`cors_origins`).

use http::HeaderValue;
use toml::de::DeValue;

use super::{
    keys::strings,
    table::Cell,
    value::{list, parsed},
};
use toolwire_pipeline::wire::Invalid;

/// Origins whose pages may read responses. Each is in the form that browsers send (scheme, host and port in lower case,
/// without a default port), so a byte comparison is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origins {
    #[default]
    None,
    Any,
    Listed(Vec<HeaderValue>),
}

impl Origins {
    /// Parses origins; `*` stands for every origin.
    ///
    /// # Errors
    /// A description of the first entry that is not an origin.
    pub fn parse(written: &[&str]) -> Result<Self, Invalid> {
        Ok(Self::of(written.iter().map(|origin| parse(origin)).collect::<Result<_, _>>()?))
    }

    /// The value in the configuration file.
    pub(super) fn shown(&self) -> toml::Value {
        match self {
            Self::None => strings([]),
            Self::Any => strings(["*"]),
            Self::Listed(listed) => strings(listed.iter().filter_map(|origin| origin.to_str().ok())),
        }
    }

    fn of(origins: Vec<Origin>) -> Self {
        match origins.into_iter().collect::<Option<Vec<_>>>() {
            None => Self::Any,
            Some(listed) if listed.is_empty() => Self::None,
            Some(listed) => Self::Listed(listed),
        }
    }
}

/// Reads `cors_origins`: one origin, or an array.
pub(super) fn read(cell: Cell<'_>) -> Option<Origins> {
    let origins = match cell.value {
        DeValue::Array(_) => list(parsed(parse))(cell)?,
        _ => vec![parsed(parse)(cell)?],
    };
    Some(Origins::of(origins))
}

/// An origin in the form that browsers send. `None` means every origin.
type Origin = Option<HeaderValue>;

fn parse(written: &str) -> Result<Origin, Invalid> {
    const EXPECTED: &str =
        "expected an origin such as \"https://ui.example\" or \"http://localhost:3000\", or \"*\" for all";
    match written {
        "*" => return Ok(None),
        "null" => {
            return Err("every sandboxed page and local file has the origin `null`; \"*\" allows all".into());
        }
        _ => {}
    }
    let (scheme, authority) = written.split_once("://").ok_or(EXPECTED)?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme || authority.is_empty() {
        return Err(EXPECTED.into());
    }
    if let Some((host, _)) = authority.split_once(['/', '?', '#']) {
        let wrong = format!("an origin ends with its host or port, without a slash: `{scheme}://{host}`");
        return Err(wrong.into());
    }
    if authority.contains('@') {
        return Err("an origin has no user and no password".into());
    }
    if authority.contains('*') {
        return Err("an origin has no wildcards; list each one, or write \"*\" for all".into());
    }
    let scheme = scheme.to_ascii_lowercase();
    let (host, port) = host_and_port(authority).ok_or(EXPECTED)?;
    let port = match (scheme.as_str(), port) {
        (_, None) | ("http", Some(80)) | ("https", Some(443)) => String::new(),
        (_, Some(port)) => format!(":{port}"),
    };
    HeaderValue::try_from(format!("{scheme}://{host}{port}")).map(Some).map_err(|_| EXPECTED.into())
}

fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, behind) = rest.split_once(']')?;
            let address = address.parse::<std::net::Ipv6Addr>().ok()?;
            let port = if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) };
            (format!("[{address}]"), port)
        }
        None => {
            let (host, port) =
                authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
            let is_host = !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
            (is_host.then(|| host.to_ascii_lowercase())?, port)
        }
    };
    let number = |port: &str| port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()));
    Some((host, port.map(|port| number(port).ok_or(())).transpose().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized_as_browsers_send_them() {
        for (written, sent) in [
            ("https://ui.example", "https://ui.example"),
            ("HTTPS://UI.Example:443", "https://ui.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://a:80", "http://a"),
            ("https://a:80", "https://a:80"),
            ("http://[0:0::1]:8080", "http://[::1]:8080"),
            ("chrome-extension://abcdef", "chrome-extension://abcdef"),
            ("https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
        ] {
            let listed = Origins::Listed(vec![HeaderValue::from_static(sent)]);
            assert_eq!(Origins::parse(&[written]), Ok(listed), "{written}");
        }
        assert_eq!(Origins::parse(&["https://a", "*"]), Ok(Origins::Any));
        assert_eq!(Origins::parse(&[]), Ok(Origins::None));
    }

    #[test]
    fn other_text_is_rejected() {
        for written in [
            "",
            "null",
            "ui.example",
            "https://",
            "://a",
            "https:/a",
            "https://a/",
            "https://a/b",
            "https://a?b",
            "https://a#b",
            "https://u@a",
            "https://u:p@a",
            "https://*.a",
            "https://a:",
            "https://a:x",
            "https://a:+1",
            "https://a:65536",
            "https://a b",
            "https://a\r\nb",
            "https://bücher.example",
            "1http://a",
            "https://[::1",
            "https://[x]",
            "https://a, https://b",
            "**",
        ] {
            assert!(Origins::parse(&[written]).is_err(), "{written}");
        }
    }
}
