//! [`HttpProxy`]: a proxy between toolwire and a server. [`Proxies`]: selects the proxy for a server.

use std::{fmt, net::IpAddr};

use http::{HeaderValue, Uri, uri::Scheme};
use hyper_util::client::proxy::matcher::Matcher;

use super::port_of;

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Environment variables that name proxies, or hosts that are reached without one.
const VARIABLES: [&str; 8] = [
    "https_proxy",
    "HTTPS_PROXY",
    "http_proxy",
    "HTTP_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

/// An HTTP proxy. For an `https` URL, it opens a tunnel (`CONNECT`); for an `http` URL, it receives the request itself.
#[derive(Debug, Clone)]
pub struct HttpProxy {
    /// Contains no user or password.
    pub address: Uri,
    /// The value of `Proxy-Authorization`, marked as sensitive.
    pub authorization: Option<HeaderValue>,
}

impl HttpProxy {
    /// Parses a proxy's URL, which may contain a user and a password. The scheme defaults to `http`.
    ///
    /// # Errors
    /// What is wrong with the URL. The URL itself is not quoted, since it may contain a password.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected the URL of a proxy such as \"http://proxy.example:3128\"";
        // hyper-util only parses proxy URLs as part of rules. These rules use the proxy for all requests.
        let found =
            Matcher::builder().all(written).build().intercept(&Uri::from_static("http://any.example/"));
        let found = found.ok_or(EXPECTED)?;
        if found.uri().scheme() != Some(&Scheme::HTTP) {
            return Err("only proxies whose URL begins with `http://` are supported");
        }
        if found.uri().host().is_none_or(str::is_empty) {
            return Err(EXPECTED);
        }
        Ok(Self { address: found.uri().clone(), authorization: found.basic_auth().cloned() })
    }

    /// The URL, with `mask` in place of the user and password.
    pub fn shown(&self, mask: &str) -> String {
        match self.authorization {
            Some(_) => format!("http://{mask}@{}", self.host()),
            None => self.to_string(),
        }
    }

    fn host(&self) -> &str {
        self.address.authority().map_or("", |authority| authority.as_str())
    }

    /// The secret part of the `Proxy-Authorization` header.
    pub fn secret(&self) -> Option<&str> {
        self.authorization.as_ref()?.to_str().ok()?.strip_prefix("Basic ")
    }

    /// Returns the proxy that the environment selects for `base`: `HTTPS_PROXY` or `HTTP_PROXY`, or else `ALL_PROXY`,
    /// unless `NO_PROXY` lists the host. As in curl, lower-case names take precedence. Loopback addresses are always
    /// reached directly.
    ///
    /// # Errors
    /// The variable that cannot be used, and why.
    pub fn of_environment(
        base: &Uri,
        environment: Environment<'_>,
    ) -> Result<Option<Self>, (&'static str, &'static str)> {
        let names = match base.scheme() == Some(&Scheme::HTTPS) {
            true => ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
            false => ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        };
        let value = |name| environment(name).filter(|value| !value.is_empty());
        let Some((name, written)) = names.into_iter().find_map(|name| Some((name, value(name)?))) else {
            return Ok(None);
        };
        let excluded = ["no_proxy", "NO_PROXY"].into_iter().find_map(value).unwrap_or_default();
        if is_loopback(base) || excludes(&excluded, base) {
            return Ok(None);
        }
        Self::parse(&written).map(Some).map_err(|wrong| (name, wrong))
    }
}

/// Selects the proxy for servers that are not known in advance.
#[derive(Debug, Clone)]
pub enum Proxies {
    /// The same proxy, or none, for every server.
    One(Option<HttpProxy>),
    /// The proxy that these environment variables select.
    Environment(Vec<(&'static str, String)>),
}

impl Proxies {
    pub fn of_environment(environment: Environment<'_>) -> Self {
        let set = VARIABLES.into_iter().filter_map(|name| Some((name, environment(name)?)));
        Self::Environment(set.collect())
    }

    pub fn proxy_for(&self, url: &Uri) -> Option<HttpProxy> {
        self.find(url).unwrap_or_default()
    }

    /// The variables that cannot be used, and why.
    pub fn faults(&self) -> Vec<(&'static str, &'static str)> {
        let urls = ["https://any.example", "http://any.example"].map(Uri::from_static);
        urls.iter().filter_map(|url| self.find(url).err()).collect()
    }

    /// The secret parts of the `Proxy-Authorization` headers of all proxies.
    pub fn secrets(&self) -> Vec<String> {
        let proxies = match self {
            Self::One(proxy) => vec![proxy.clone()],
            Self::Environment(set) => set.iter().map(|(_, written)| HttpProxy::parse(written).ok()).collect(),
        };
        proxies.iter().flatten().filter_map(|proxy| proxy.secret().map(str::to_owned)).collect()
    }

    fn find(&self, url: &Uri) -> Result<Option<HttpProxy>, (&'static str, &'static str)> {
        match self {
            Self::One(proxy) => Ok(proxy.clone()),
            Self::Environment(set) => HttpProxy::of_environment(url, &|name| {
                set.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.clone())
            }),
        }
    }
}

/// Writes the URL without the user and password.
impl fmt::Display for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.host())
    }
}

/// Whether a URL's host is a loopback address or `localhost`.
pub fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || name.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Whether `NO_PROXY`, a comma-separated list, contains the host of `url`. Entries are `*`, domains with their
/// subdomains, addresses, and networks, each with an optional port. hyper-util matches entries but does not support
/// ports.
fn excludes(list: &str, url: &Uri) -> bool {
    let port = port_of(url);
    let entries = list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty());
    let entries = entries.filter_map(|entry| {
        let (host, only) = with_port(entry);
        only.is_none_or(|only| only == port).then_some(host)
    });
    let entries: Vec<_> = entries.map(|entry| entry.strip_prefix('*').unwrap_or(entry)).collect();
    // An empty entry was `*` before its port was removed.
    if entries.contains(&"") {
        return true;
    }
    let rules = Matcher::builder().all("http://any.example").no(entries.join(",")).build();
    rules.intercept(&without_dot(url)).is_none()
}

/// Splits an entry into its host, without brackets, and its port.
fn with_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.split_once(':') {
        // An entry with more than one colon is an IPv6 address or network.
        Some((host, port)) if !port.contains(':') && !host.is_empty() => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

/// Removes the trailing dot of an absolute host name.
fn without_dot(url: &Uri) -> Uri {
    let host = url.host().unwrap_or_default().trim_end_matches('.');
    let scheme = url.scheme_str().unwrap_or("http");
    format!("{scheme}://{host}/").parse().unwrap_or_else(|_| url.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy_of(base: &str, variables: &[(&str, &str)]) -> Option<String> {
        let environment = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = HttpProxy::of_environment(&base.parse().unwrap(), &environment).unwrap();
        found.map(|proxy| proxy.address.to_string())
    }

    #[test]
    fn proxy_is_chosen_by_scheme() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "p:2"), ("ALL_PROXY", "http://a:3")];
        assert_eq!(proxy_of("https://h/v1", &both).unwrap(), "http://s:1/");
        assert_eq!(proxy_of("http://h/v1", &both).unwrap(), "http://p:2/");
        assert_eq!(proxy_of("http://h/v1", &both[2..]).unwrap(), "http://a:3/");
        let cases = [("HTTPS_PROXY", "http://upper:1"), ("https_proxy", "http://lower:1")];
        assert_eq!(proxy_of("https://h", &cases).unwrap(), "http://lower:1/");
        for none in [&[][..], &[("https_proxy", ""), ("NO_PROXY", "")], &[("HTTP_PROXY", "http://p:1")]] {
            assert_eq!(proxy_of("https://h/v1", none), None);
        }
    }

    #[test]
    fn this_machine_is_reached_directly() {
        let all = [("ALL_PROXY", "http://p:1")];
        for host in
            ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9:80", "[::1]:80"]
        {
            assert_eq!(proxy_of(&format!("http://{host}/v1"), &all), None, "{host}");
        }
        for host in ["localhost.example", "128.0.0.1", "[::2]", "notlocalhost"] {
            assert!(proxy_of(&format!("http://{host}/v1"), &all).is_some(), "{host}");
        }
    }

    #[test]
    fn no_proxy_lists_domains_addresses_networks_and_ports() {
        for (list, excluded, proxied) in [
            ("*", "https://any.example", None),
            ("a, *", "http://1.2.3.4", None),
            ("example.org", "http://example.org", Some("http://example.com")),
            ("example.com", "https://example.com", Some("https://notexample.com")),
            ("example.com", "https://a.example.com", Some("https://example.com.evil")),
            (".example.com", "https://a.example.com", Some("https://aexample.com")),
            ("*.example.com", "https://a.example.com", Some("https://example.org")),
            ("EXAMPLE.com", "https://a.Example.COM.", Some("https://example.co")),
            ("a,example.com b", "https://b", Some("https://c")),
            ("10.0.0.1", "http://10.0.0.1", Some("http://10.0.0.2")),
            ("10.0.0.0/8", "http://10.255.0.1:99", Some("http://11.0.0.0")),
            ("fd00::/8", "http://[fd12::1]", Some("http://[fe00::1]")),
            ("fd00::1", "http://[fd00::1]:8", Some("http://[fd00::2]")),
            ("[fd00::1]", "http://[fd00::1]", Some("http://[fd00::2]")),
            ("[fd00::1]:81", "http://[fd00::1]:81", Some("http://[fd00::1]:82")),
            ("example.com:8080", "http://example.com:8080", Some("http://example.com")),
            ("example.com:443", "https://example.com", Some("http://example.com")),
            ("10.0.0.1:80", "http://10.0.0.1", Some("https://10.0.0.1")),
            ("*:81", "http://h:81", Some("http://h:82")),
        ] {
            for (url, is_excluded) in [(Some(excluded), true), (proxied, false)] {
                let Some(url) = url else { continue };
                assert_eq!(excludes(list, &url.parse().unwrap()), is_excluded, "{list}: {url}");
            }
        }
    }

    #[test]
    fn password_is_sent_and_not_shown() {
        let proxy = HttpProxy::parse("http://us%20er:p%40ss@proxy.example:3128/ignored").unwrap();
        assert_eq!(proxy.authorization.as_ref().unwrap(), "Basic dXMgZXI6cEBzcw==");
        assert_eq!(proxy.address, "http://proxy.example:3128/");
        assert_eq!(proxy.secret(), Some("dXMgZXI6cEBzcw=="));
        let shown = [proxy.shown("***"), format!("{proxy:?}")];
        assert_eq!(shown[0], "http://***@proxy.example:3128");
        assert!(shown.iter().all(|shown| !shown.contains("40ss") && !shown.contains("dXM")), "{shown:?}");
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_without_repeating_it() {
        for wrong in [
            "",
            "https://p:1",
            "socks5://user:pass@p:1",
            "http://",
            "a b",
            "http://p:1\r\nX: 1",
            "/path",
            "ftp://p",
        ] {
            let error = HttpProxy::parse(wrong).unwrap_err();
            assert!(!error.contains("pass"), "{error}");
        }
        let environment = |_: &str| Some("socks5://p:1".to_owned());
        let base = Uri::from_static("https://h/v1");
        assert_eq!(HttpProxy::of_environment(&base, &environment).unwrap_err().0, "https_proxy");
    }

    #[test]
    fn environment_is_kept_and_its_faults_are_named() {
        let set = [
            ("HTTPS_PROXY", "http://u:sesame@p:1"),
            ("ALL_PROXY", "socks5://p:2"),
            ("no_proxy", "direct.example"),
        ];
        let environment = |name: &str| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxies = Proxies::of_environment(&environment);
        let of = |url: &'static str| {
            proxies.proxy_for(&Uri::from_static(url)).map(|proxy| proxy.address.to_string())
        };
        assert_eq!(of("https://any.example/x").as_deref(), Some("http://p:1/"));
        for direct in ["https://direct.example/x", "http://any.example", "https://127.0.0.1"] {
            assert_eq!(of(direct), None, "{direct}");
        }
        assert_eq!(proxies.faults().into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["ALL_PROXY"]);
        assert_eq!(proxies.secrets(), ["dTpzZXNhbWU="]);
        let one = Proxies::One(HttpProxy::parse("p:1").ok());
        assert!(one.proxy_for(&Uri::from_static("http://127.0.0.1/")).is_some());
        assert!(Proxies::One(None).proxy_for(&Uri::from_static("https://any.example/")).is_none());
    }
}
