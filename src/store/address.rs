//! [`StoreAddress`]: the URL of a Redis or Valkey server.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// The URL of a server: `redis://host:6379/0`, or `rediss://…` with TLS. It may have a user and a password, so it is never shown whole.
#[derive(Clone)]
pub struct StoreAddress {
    url: SecretString,
    shown: String,
    password: Option<SecretString>,
}

impl StoreAddress {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it. It is not repeated: it may hold a password.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str =
            "expected the URL of a server such as \"redis://host:6379/0\", or \"rediss://…\" for TLS";
        let url = Url::parse(written).map_err(|_| EXPECTED)?;
        if !matches!(url.scheme(), "redis" | "rediss") || url.host_str().is_none_or(str::is_empty) {
            return Err(EXPECTED);
        }
        let database = url.path().trim_start_matches('/');
        if !database.is_empty() && database.parse::<u16>().is_err() {
            return Err("the path of the server's URL is the number of a database such as \"/0\"");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(
                "the server's URL has a scheme, a host, a port and the number of a database; nothing else",
            );
        }
        let port = url.port().unwrap_or(6379);
        let host = url.host_str().unwrap_or_default();
        let database = if database.is_empty() { "0" } else { database };
        let shown = format!("{}://{host}:{port}/{database}", url.scheme());
        let password = url.password().map(|password| SecretString::from(password.to_owned()));
        Ok(Self { url: SecretString::from(written.to_owned()), shown, password })
    }

    /// The whole URL. It must not be shown.
    #[cfg(feature = "redis")]
    pub(crate) fn url(&self) -> &str {
        self.url.expose_secret()
    }

    /// Whether connections use TLS.
    #[cfg(feature = "redis")]
    pub(crate) fn uses_tls(&self) -> bool {
        self.shown.starts_with("rediss:")
    }

    /// The password, as it stands in the URL.
    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(|password| password.expose_secret())
    }

    /// The URL with `mask` in place of user and password.
    pub(crate) fn covered(&self, mask: &str) -> String {
        match (&self.password, self.shown.split_once("://")) {
            (Some(_), Some((scheme, rest))) => format!("{scheme}://{mask}@{rest}"),
            _ => self.shown.clone(),
        }
    }
}

/// Without user and password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Without user and password.
impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreAddress").field(&self.shown).finish()
    }
}

impl PartialEq for StoreAddress {
    fn eq(&self, other: &Self) -> bool {
        self.url.expose_secret() == other.url.expose_secret()
    }
}

impl Eq for StoreAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_never_shown() {
        let address = StoreAddress::parse("rediss://user:pa%73s@redis.example/3").unwrap();
        assert_eq!(address.to_string(), "rediss://redis.example:6379/3");
        assert_eq!(address.covered("***"), "rediss://***@redis.example:6379/3");
        assert!(!format!("{address:?}").contains("pa"));
        assert_eq!(address.password(), Some("pa%73s"));
        let plain = StoreAddress::parse("redis://[::1]:7000").unwrap();
        assert_eq!(plain.covered("***"), "redis://[::1]:7000/0");
    }

    #[test]
    fn other_urls_are_refused_without_being_repeated() {
        for wrong in [
            "",
            "embeded",
            "http://pw@h/0",
            "redis://",
            "redis:///0",
            "redis://h:99999/0",
            "redis://h/zero",
            "redis://h/70000",
            "redis://h/0?protocol=resp3",
            "redis://h/0#x",
            "redis://u:secret@h/x",
        ] {
            let message = StoreAddress::parse(wrong).unwrap_err();
            assert!(!message.contains("secret") && !message.contains("pw"), "{wrong}");
        }
    }
}
