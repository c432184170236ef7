//! [`StoreAddress`]: the URL of a Redis or Valkey server.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// The URL of a server: `redis://host:6379/0`, or of sentinels that know which server is the primary one:
/// `redis+sentinel://host:26379,host:26379/name/0`; `rediss…` with TLS. It may have a user and a password, so it is never shown whole.
#[derive(Clone)]
pub struct StoreAddress {
    /// As it was written.
    written: SecretString,
    /// That of the server. With sentinels, its host is one of them.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a build with servers asks one"))]
    url: SecretString,
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a build with servers asks them"))]
    sentinels: Option<Sentinels>,
    shown: String,
    password: Option<SecretString>,
}

/// Programs that watch servers, and say which one is the primary one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// Their URLs.
    pub(crate) urls: Vec<String>,
    /// How they call the servers.
    pub(crate) name: String,
}

/// Sentinels of one address.
const MAX_SENTINELS: usize = 16;

const EXPECTED: &str =
    "expected the URL of a server such as \"redis://host:6379/0\", or \"rediss://…\" for TLS";

const EXPECTED_SENTINELS: &str =
    "expected the URL of sentinels such as \"redis+sentinel://host:26379,host:26379/name/0\"";

impl StoreAddress {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it. It is not repeated: it may hold a password.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        match written.split_once("+sentinel://") {
            Some((scheme @ ("redis" | "rediss"), rest)) => Self::of_sentinels(written, scheme, rest),
            _ => Self::of_server(written),
        }
    }

    fn of_sentinels(written: &str, scheme: &str, rest: &str) -> Result<Self, &'static str> {
        let (authority, path) = rest.split_once('/').ok_or(EXPECTED_SENTINELS)?;
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (name, database) = path.split_once('/').unwrap_or((path, "0"));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) || hosts.split(',').count() > MAX_SENTINELS {
            return Err(EXPECTED_SENTINELS);
        }
        let (mut urls, mut shown) = (Vec::new(), Vec::new());
        for host in hosts.split(',') {
            let url = Url::parse(&format!("{scheme}://{host}")).map_err(|_| EXPECTED_SENTINELS)?;
            let is_host = url.path().is_empty() && url.query().is_none() && url.fragment().is_none();
            let name = url.host_str().filter(|name| is_host && !name.is_empty()).ok_or(EXPECTED_SENTINELS)?;
            let host = format!("{name}:{}", url.port().unwrap_or(26379));
            urls.push(format!("{scheme}://{host}"));
            shown.push(host);
        }
        let at = if user.is_empty() { "" } else { "@" };
        let host = shown.first().ok_or(EXPECTED_SENTINELS)?;
        let server = Self::of_server(&format!("{scheme}://{user}{at}{host}/{database}"))?;
        let database = if database.is_empty() { "0" } else { database };
        Ok(Self {
            written: SecretString::from(written.to_owned()),
            shown: format!("{scheme}+sentinel://{}/{name}/{database}", shown.join(",")),
            sentinels: Some(Sentinels { urls, name: name.to_owned() }),
            ..server
        })
    }

    fn of_server(written: &str) -> Result<Self, &'static str> {
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
        let whole = SecretString::from(written.to_owned());
        Ok(Self { written: whole.clone(), url: whole, sentinels: None, shown, password })
    }

    /// The whole URL of the server. It must not be shown. With sentinels, its host and port are not the server's.
    #[cfg(feature = "redis")]
    pub(crate) fn url(&self) -> &str {
        self.url.expose_secret()
    }

    /// Who says which server it is.
    #[cfg(feature = "redis")]
    pub(crate) fn sentinels(&self) -> Option<&Sentinels> {
        self.sentinels.as_ref()
    }

    /// Whether connections use TLS.
    #[cfg(feature = "redis")]
    pub(crate) fn uses_tls(&self) -> bool {
        self.shown.starts_with("rediss")
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
        self.written.expose_secret() == other.written.expose_secret()
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
    fn sentinels_are_listed_before_the_name_of_their_servers() {
        let address =
            StoreAddress::parse("rediss+sentinel://user:pa%73s@a.example,[::1]:7000/main-1/3").unwrap();
        assert_eq!(address.to_string(), "rediss+sentinel://a.example:26379,[::1]:7000/main-1/3");
        assert_eq!(address.covered("***"), "rediss+sentinel://***@a.example:26379,[::1]:7000/main-1/3");
        assert_eq!(address.password(), Some("pa%73s"));
        let sentinels = address.sentinels.clone().unwrap();
        assert_eq!(sentinels.urls, ["rediss://a.example:26379", "rediss://[::1]:7000"]);
        assert_eq!(address.url.expose_secret(), "rediss://user:pa%73s@a.example:26379/3");
        assert_ne!(address, StoreAddress::parse("rediss+sentinel://a.example/main-1/3").unwrap());
        let short = StoreAddress::parse("redis+sentinel://a/main").unwrap();
        assert_eq!(short.to_string(), "redis+sentinel://a:26379/main/0");
        let many = ["a"; MAX_SENTINELS + 1].join(",");
        assert!(StoreAddress::parse(&format!("redis+sentinel://{many}/main")).is_err());
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
            "redis+sentinel://u:secret@h",
            "redis+sentinel://u:secret@h/",
            "redis+sentinel://u:secret@h/main/x",
            "redis+sentinel://u:secret@h,/main",
            "redis+sentinel://u:secret@h?x/main",
            "redis+sentinel://u:secret@h/ma in",
            "redis+sentinel:///main",
            "http+sentinel://u:secret@h/main",
        ] {
            let message = StoreAddress::parse(wrong).unwrap_err();
            assert!(!message.contains("secret") && !message.contains("pw"), "{wrong}");
        }
    }
}
