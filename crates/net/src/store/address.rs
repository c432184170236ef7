//! [`StoreAddress`]: the URL of a Redis or Valkey server, or of several.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// The URL of a server (`redis://host:6379/0`), of sentinels that know which server is the primary
/// (`redis+sentinel://host:26379,host:26379/name/0`), or of servers in a cluster
/// (`redis+cluster://host:6379,host:6379`). Schemes that start with `rediss` use TLS. The URL may contain a user and a
/// password, so it is never displayed in full.
#[derive(Clone)]
pub struct StoreAddress {
    /// The URL as it was configured.
    written: SecretString,
    /// The URL of the server. For sentinels or a cluster, its host is the first in the list.
    url: SecretString,
    sentinels: Option<Sentinels>,
    cluster: Option<Vec<Node>>,
    shown: String,
    password: Option<SecretString>,
}

/// Programs that monitor servers and know which one is the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentinels {
    pub urls: Vec<String>,
    /// The name of the group of servers that the sentinels monitor.
    pub name: String,
}

/// A sentinel, or a server in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Maximum number of sentinels or cluster servers in a URL. The cluster itself may have more.
const MAX_NODES: usize = 16;

const EXPECTED: &str =
    "expected the URL of a server such as \"redis://host:6379/0\", or \"rediss://…\" for TLS";

const EXPECTED_SENTINELS: &str =
    "expected the URL of sentinels such as \"redis+sentinel://host:26379,host:26379/name/0\"";

const EXPECTED_CLUSTER: &str = "expected the URL of servers of a cluster such as \"redis+cluster://host:6379,host:6379\"; a cluster has database 0 only";

/// Parses a comma-separated list of hosts with optional ports.
fn nodes(scheme: &str, hosts: &str, port: u16) -> Option<Vec<Node>> {
    let node = |host: &str| {
        let url = Url::parse(&format!("{scheme}://{host}")).ok()?;
        let is_host = url.path().is_empty() && url.query().is_none() && url.fragment().is_none();
        let name = url.host_str().filter(|name| is_host && url.username().is_empty() && !name.is_empty())?;
        let host = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Node { host, port: url.port().unwrap_or(port) })
    };
    let nodes = hosts.split(',').map(node).collect::<Option<Vec<_>>>()?;
    (nodes.len() <= MAX_NODES).then_some(nodes)
}

fn listed(nodes: &[Node]) -> String {
    nodes.iter().map(Node::to_string).collect::<Vec<_>>().join(",")
}

impl StoreAddress {
    /// Parses the URL.
    ///
    /// # Errors
    /// What is wrong with the URL. The URL itself is not quoted, since it may contain a password.
    pub fn parse(written: &str) -> Result<Self, &'static str> {
        match (written.split_once("+sentinel://"), written.split_once("+cluster://")) {
            (Some((scheme @ ("redis" | "rediss"), rest)), _) => Self::of_sentinels(written, scheme, rest),
            (_, Some((scheme @ ("redis" | "rediss"), rest))) => Self::of_cluster(written, scheme, rest),
            _ => Self::of_server(written),
        }
    }

    fn of_cluster(written: &str, scheme: &str, rest: &str) -> Result<Self, &'static str> {
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let nodes = nodes(scheme, hosts, 6379).ok_or(EXPECTED_CLUSTER)?;
        let (Some(first), "" | "0") = (nodes.first(), database) else { return Err(EXPECTED_CLUSTER) };
        let at = if user.is_empty() { "" } else { "@" };
        let server = Self::of_server(&format!("{scheme}://{user}{at}{first}"))?;
        Ok(Self {
            written: SecretString::from(written.to_owned()),
            shown: format!("{scheme}+cluster://{}", listed(&nodes)),
            cluster: Some(nodes),
            ..server
        })
    }

    fn of_sentinels(written: &str, scheme: &str, rest: &str) -> Result<Self, &'static str> {
        let (authority, path) = rest.split_once('/').ok_or(EXPECTED_SENTINELS)?;
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (name, database) = path.split_once('/').unwrap_or((path, "0"));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(EXPECTED_SENTINELS);
        }
        let nodes = nodes(scheme, hosts, 26379).ok_or(EXPECTED_SENTINELS)?;
        let at = if user.is_empty() { "" } else { "@" };
        let host = nodes.first().ok_or(EXPECTED_SENTINELS)?;
        let server = Self::of_server(&format!("{scheme}://{user}{at}{host}/{database}"))?;
        let database = if database.is_empty() { "0" } else { database };
        Ok(Self {
            written: SecretString::from(written.to_owned()),
            shown: format!("{scheme}+sentinel://{}/{name}/{database}", listed(&nodes)),
            sentinels: Some(Sentinels {
                urls: nodes.iter().map(|node| format!("{scheme}://{node}")).collect(),
                name: name.to_owned(),
            }),
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
        Ok(Self { written: whole.clone(), url: whole, sentinels: None, cluster: None, shown, password })
    }

    /// The URL of the server, including the password. With sentinels, its host and port are not those of the server.
    pub fn url(&self) -> &str {
        self.url.expose_secret()
    }

    /// The sentinels to ask for the primary server. `None` if the URL does not list sentinels.
    pub fn sentinels(&self) -> Option<&Sentinels> {
        self.sentinels.as_ref()
    }

    /// Some servers in a cluster, which know the others. `None` if the URL does not describe a cluster.
    pub fn cluster(&self) -> Option<&[Node]> {
        self.cluster.as_deref()
    }

    pub fn uses_tls(&self) -> bool {
        self.shown.starts_with("rediss")
    }

    /// The password as written in the URL.
    pub fn password(&self) -> Option<&str> {
        self.password.as_ref().map(|password| password.expose_secret())
    }

    /// Returns the URL with `mask` in place of the user and password.
    pub fn covered(&self, mask: &str) -> String {
        match (&self.password, self.shown.split_once("://")) {
            (Some(_), Some((scheme, rest))) => format!("{scheme}://{mask}@{rest}"),
            _ => self.shown.clone(),
        }
    }
}

/// Writes the URL without the user and password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Writes the URL without the user and password.
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
        let many = ["a"; MAX_NODES + 1].join(",");
        assert!(StoreAddress::parse(&format!("redis+sentinel://{many}/main")).is_err());
    }

    #[test]
    fn cluster_is_named_by_some_of_its_servers() {
        let address = StoreAddress::parse("rediss+cluster://user:pa%73s@a.example,[::1]:7000").unwrap();
        assert_eq!(address.to_string(), "rediss+cluster://a.example:6379,[::1]:7000");
        assert_eq!(address.covered("***"), "rediss+cluster://***@a.example:6379,[::1]:7000");
        let node = |host: &str, port| Node { host: host.to_owned(), port };
        assert_eq!(address.cluster.clone().unwrap(), [node("a.example", 6379), node("::1", 7000)]);
        assert_eq!(address.url.expose_secret(), "rediss://user:pa%73s@a.example:6379");
        assert_eq!(StoreAddress::parse("redis+cluster://a/0").unwrap().to_string(), "redis+cluster://a:6379");
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
            "redis+cluster://",
            "redis+cluster://u:secret@h/1",
            "redis+cluster://u:secret@h,/0",
            "redis+cluster://u:secret@h?x",
            "http+cluster://u:secret@h",
        ] {
            let message = StoreAddress::parse(wrong).unwrap_err();
            assert!(!message.contains("secret") && !message.contains("pw"), "{wrong}");
        }
    }
}
