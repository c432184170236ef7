//! [`Target`]: an endpoint to be measured.

use std::str::FromStr;

use http::{HeaderName, HeaderValue, Uri, uri::Scheme};
use tokio_rustls::rustls::ClientConfig;

use crate::Invalid;

/// An endpoint.
#[derive(Debug, Clone)]
pub struct Target {
    pub name: String,
    /// The base URL of the target's API, such as `http://127.0.0.1:8787/v1`.
    pub url: Uri,
    /// Additional request headers. A header with the name of a default header replaces it.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How the target's certificate is verified. `None` trusts the system's root certificates, or Mozilla's if the system
    /// has none.
    pub tls: Option<ClientConfig>,
}

impl FromStr for Target {
    type Err = Invalid;

    /// Parses `name=url` or `url`. Without a name, the URL's host and port are the name.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains("://") => (Some(name), url),
            _ => (None, text),
        };
        let wrong = |why: &str| Invalid::from(format!("{url:?} {why}, such as http://127.0.0.1:8787/v1"));
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("is not a URL ({error})")))?;
        if uri.scheme() != Some(&Scheme::HTTP) && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(wrong("does not begin with http:// or https://"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if authority.as_str().contains('@') {
            let why = "has a password in its URL; use a header instead".to_owned();
            return Err(Invalid::from(format!("the target {why}")));
        }
        if name == Some("") {
            return Err(Invalid::from(format!("{text:?} has no name before its =")));
        }
        let name = name.unwrap_or(authority.as_str()).to_owned();
        Ok(Self { name, url: uri, headers: Vec::new(), tls: None })
    }
}

/// Parses `Name: value`. The value is marked as sensitive, so that it is never printed.
///
/// # Errors
/// The text is not a valid header.
pub fn header(text: &str) -> Result<(HeaderName, HeaderValue), Invalid> {
    let wrong = || Invalid::from("a header is `Name: value`, in printable characters");
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name = name.trim().parse().map_err(|_| wrong())?;
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<(String, String), String> {
        let target: Target = text.parse().map_err(|error: Invalid| error.to_string())?;
        Ok((target.name, target.url.to_string()))
    }

    #[test]
    fn target_name_defaults_to_its_host() {
        let pair = |name: &str, url: &str| Ok((name.to_owned(), url.to_owned()));
        assert_eq!(told("direct=http://[::1]:80/v1"), pair("direct", "http://[::1]:80/v1"));
        assert_eq!(
            told("https://api.example.com/v1?a=b"),
            pair("api.example.com", "https://api.example.com/v1?a=b")
        );
        assert_eq!(told("x=http://h:1/?a=b"), pair("x", "http://h:1/?a=b"));
    }

    #[test]
    fn invalid_target_is_reported() {
        for (text, why) in [
            ("ftp://host", "http:// or https://"),
            ("localhost:8787", "http:// or https://"),
            ("a=/v1", "http:// or https://"),
            ("=http://h", "no name"),
            ("a=http://", "is not a URL"),
            ("http://me:secret@h/v1", "password"),
        ] {
            let told = told(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
            assert!(!told.contains("secret"));
        }
    }

    #[test]
    fn header_is_parsed() {
        let (name, value) = header("X-Fixture:  weather").unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("x-fixture", b"weather".as_slice()));
        assert!(header("nothing").is_err() && header("a b: c").is_err());
    }
}
