//! [`AddressRules`]: which addresses may be reached when a model, a client or a provider has chosen them.
//!
//! A URL is checked twice. [`AddressRules::check`] examines its text: the scheme, the port, and the host name or
//! address. [`AddressRules::allows_ip`] examines the addresses that the host name resolves to. It is called by the
//! connector ([`HttpClient`](super::http::HttpClient)), which connects to exactly those addresses, so a name that
//! resolves differently the next time cannot evade the check.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use url::{Host, Url};

use super::tool::{ErrorCode, ToolError};

/// In bytes.
const MAX_URL: usize = 2048;

/// The allowed ports if the rules list none.
const PORTS: [u16; 2] = [80, 443];

/// Host names that only resolve inside a network: names of this machine, of routers and of clusters, and reserved names
/// (RFC 2606, section 2; RFC 6761, section 6; RFC 8375, section 3). Their subdomains count too. `.box` is a public
/// suffix, but is far more often the domain of a home router.
const PRIVATE_NAMES: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "svc",
    "lan",
    "home",
    "box",
    "invalid",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "ip6-localhost",
    "ip6-loopback",
    "test",
    "onion",
];

/// Host names of metadata services, which hand out the machine's credentials. They are always forbidden.
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

/// Azure's metadata service. Its address is public, but is only routed inside Azure.
const AZURE_METADATA: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Alibaba's metadata service. It is in a range that [`AddressRules::allow_private`] allows.
const ALIBABA_METADATA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);

/// Prefix of the IPv6 addresses of Amazon's metadata services. It is in a range that [`AddressRules::allow_private`]
/// allows.
const AMAZON_METADATA: u32 = 0xfd00_0ec2;

/// Which addresses may be reached. By default, all public addresses on ports 80 and 443.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AddressRules {
    /// Also allows addresses and names of this machine and its networks, on every port. Link-local addresses, metadata
    /// services, and addresses that do not belong to a single host are still forbidden.
    pub(crate) allow_private: bool,
    /// The allowed ports. If empty, 80 and 443.
    pub(crate) ports: Vec<u16>,
    /// The only domains that may be reached, with their subdomains. If empty, all.
    pub(crate) allowed_domains: Vec<Domain>,
    /// Domains that may not be reached, with their subdomains.
    pub(crate) denied_domains: Vec<Domain>,
}

impl AddressRules {
    /// Checks the text of a URL, and returns the URL in normal form. Only that form may be passed on, because other
    /// programs may interpret the original text differently.
    ///
    /// # Errors
    /// Why the URL may not be reached.
    pub(crate) fn check(&self, text: &str) -> Result<Url, Blocked> {
        if text.len() > MAX_URL {
            return Err(Blocked::TooLong);
        }
        let url = Url::parse(text.trim()).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => Blocked::Scheme,
            _ => Blocked::Invalid,
        })?;
        self.check_url(&url)?;
        Ok(url)
    }

    /// Checks the text of `url`.
    ///
    /// # Errors
    /// Why the URL may not be reached.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Blocked> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Blocked::Scheme);
        }
        if url.as_str().len() > MAX_URL {
            return Err(Blocked::TooLong);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Blocked::UserInfo);
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.check_ip(ip.into())?,
            Some(Host::Ipv6(ip)) => self.check_ip(ip.into())?,
            Some(Host::Domain(name)) => self.check_name(name)?,
            None => return Err(Blocked::Invalid),
        }
        let port = url.port_or_known_default().ok_or(Blocked::Port)?;
        let is_listed =
            if self.ports.is_empty() { PORTS.contains(&port) } else { self.ports.contains(&port) };
        if !is_listed && (!self.allow_private || port == 0) {
            return Err(Blocked::Port);
        }
        let host = url.host().map(|host| comparable(&host)).unwrap_or_default();
        match is_admitted(&host, &self.allowed_domains, &self.denied_domains) {
            true => Ok(()),
            false => Err(Blocked::Domain),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Blocked> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.is_empty()
            || name.len() > 253
            || name.split('.').any(|label| label.is_empty() || label.len() > 63)
        {
            return Err(Blocked::Invalid);
        }
        if METADATA_NAMES.contains(&name) {
            return Err(Blocked::Private);
        }
        // The resolver may append a search domain to a name without a dot.
        let is_private =
            !name.contains('.') || PRIVATE_NAMES.iter().any(|private| is_or_is_below(name, private));
        if is_private && !self.allow_private { Err(Blocked::Private) } else { Ok(()) }
    }

    fn check_ip(&self, ip: IpAddr) -> Result<(), Blocked> {
        if self.allows_ip(ip) { Ok(()) } else { Err(Blocked::Private) }
    }

    pub(crate) fn allows_ip(&self, ip: IpAddr) -> bool {
        match scope(ip) {
            Scope::Public => true,
            Scope::Private => self.allow_private,
            Scope::Forbidden => false,
        }
    }
}

/// A domain and its subdomains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain(String);

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Domain {
    /// Parses a domain such as `example.com`, the equivalent `*.example.com`, or an IP address. Returns `None` for
    /// other text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix("*.").or_else(|| text.strip_prefix('.')).unwrap_or(text);
        // Rejects text with a port, a path, a user name, or another pattern.
        let is_ipv6 = text.starts_with('[') && text.ends_with(']');
        if !is_ipv6 && text.contains(['/', '\\', ':', '?', '#', '@', '*']) {
            return None;
        }
        let url = Url::parse(&format!("http://{text}/")).ok()?;
        Some(Self(comparable(&url.host()?)))
    }

    /// The domain in normal form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `host`, in the form that [`comparable`] returns, belongs to the domain.
    pub(crate) fn contains(&self, host: &str) -> bool {
        is_or_is_below(host, &self.0)
    }

    /// Like [`Domain::contains`], but for rules that forbid hosts: a rule for one name or address of this machine
    /// covers all of its names and addresses.
    pub(crate) fn covers(&self, host: &str) -> bool {
        self.contains(host) || is_this_machine(&self.0) && is_this_machine(host)
    }
}

/// Returns the URL `text` in normal form, and its host in the form that [`comparable`] returns. Only the normal form
/// may be passed on; see [`AddressRules::check`].
///
/// Returns `None` if the URL has no host, or if other programs may interpret the host differently. For instance, curl
/// expands lists in braces.
pub(super) fn normal(text: &str) -> Option<(Url, String)> {
    let mut url = Url::parse(text.trim()).ok()?;
    if !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    // Parsed separately, because the `url` crate normalizes hosts only for web schemes.
    let host = Host::parse(url.host_str()?).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if matches!(&host, Host::Domain(name) if !name.bytes().all(is_plain)) {
        return None;
    }
    url.set_host(Some(&host.to_string())).ok()?;
    let host = comparable(&host);
    (!host.is_empty()).then_some((url, host))
}

/// Returns the same string for all spellings of a host: an IPv4 address that is embedded in an IPv6 address is returned
/// as IPv4, and a trailing dot is removed.
pub(crate) fn comparable<S: AsRef<str>>(host: &Host<S>) -> String {
    match host {
        Host::Domain(name) => name.as_ref().trim_end_matches('.').to_ascii_lowercase(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => match (ip.segments(), ip.to_ipv4()) {
            ([0x64, 0xff9b, 0, 0, 0, 0, high, low], _) => {
                Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)).to_string()
            }
            // `::` and `::1` do not embed an IPv4 address.
            ([0, 0, 0, 0, 0, 0, 0, 0 | 1], _) => format!("[{ip}]"),
            (_, Some(ip)) => ip.to_string(),
            _ => format!("[{ip}]"),
        },
    }
}

/// Whether a host, in the form that [`comparable`] returns, is this machine. The unspecified address counts, since
/// connections to it reach this machine.
fn is_this_machine(host: &str) -> bool {
    let names = [
        "localhost",
        "localhost.localdomain",
        "localhost6",
        "localhost6.localdomain6",
        "ip6-localhost",
        "ip6-loopback",
    ];
    let is_own = |ip: Ipv4Addr| matches!(ip.octets(), [0 | 127, ..]);
    names.contains(&host)
        || host.ends_with(".localhost")
        || matches!(host, "[::]" | "[::1]")
        || host.parse().is_ok_and(is_own)
}

/// Whether these lists admit `host`, in the form that [`comparable`] returns. An empty `allowed` admits all hosts.
pub(crate) fn is_admitted(host: &str, allowed: &[Domain], denied: &[Domain]) -> bool {
    !denied.iter().any(|domain| domain.covers(host))
        && (allowed.is_empty() || allowed.iter().any(|domain| domain.contains(host)))
}

/// Whether `name` is `domain` or one of its subdomains.
fn is_or_is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("The URL is too long.")]
    TooLong,
    #[error("The URL is not valid.")]
    Invalid,
    #[error("The URL must begin with http:// or https://.")]
    Scheme,
    #[error("The URL must not have a user name or password.")]
    UserInfo,
    #[error("The URL has a port that is not allowed.")]
    Port,
    /// The host is not on the public internet.
    #[error("The URL does not lead to a public server.")]
    Private,
    /// The domain lists exclude the host.
    #[error("The URL's domain is not allowed.")]
    Domain,
    /// The URL is the target of a redirect from `https` to `http`.
    #[error("The URL leads from https:// to http://.")]
    Downgrade,
}

impl From<Blocked> for ToolError {
    fn from(blocked: Blocked) -> Self {
        Self::new(ErrorCode::BlockedUrl, blocked.to_string())
    }
}

/// Where an address can be reached from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Public,
    /// Only this machine and its networks.
    Private,
    /// The address of a metadata service, or not the address of a single host.
    Forbidden,
}

fn scope(ip: IpAddr) -> Scope {
    match ip {
        IpAddr::V4(ip) => scope_v4(ip),
        IpAddr::V6(ip) => scope_v6(ip),
    }
}

/// According to IANA's IPv4 special-purpose address registry.
fn scope_v4(ip: Ipv4Addr) -> Scope {
    if ip == AZURE_METADATA || ip == ALIBABA_METADATA {
        return Scope::Forbidden;
    }
    match ip.octets() {
        [10 | 127, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Scope::Private,
        // "This network", link-local (metadata services), IETF assignments, documentation, 6to4 relays, benchmarks,
        // multicast, reserved, broadcast.
        [0 | 224..=255, ..]
        | [169, 254, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Scope::Forbidden,
        _ => Scope::Public,
    }
}

/// According to IANA's IPv6 special-purpose address registry. Only `2000::/3` is global unicast. An address that embeds
/// an IPv4 address has the scope of that address.
fn scope_v6(ip: Ipv6Addr) -> Scope {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let embedded = || scope_v4(Ipv4Addr::from((u32::from(g) << 16) | u32::from(h)));
    match [a, b, c, d, e, f] {
        _ if ip == Ipv6Addr::LOCALHOST => Scope::Private,
        _ if (u32::from(a) << 16 | u32::from(b)) == AMAZON_METADATA => Scope::Forbidden,
        // Mapped and NAT64: connections go to the embedded IPv4 address.
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => embedded(),
        // Unique local.
        [0xfc00..=0xfdff, ..] => Scope::Private,
        // IETF assignments (Teredo, benchmarks, ORCHID), documentation, 6to4.
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => Scope::Forbidden,
        [0x2000..=0x3fff, ..] => Scope::Public,
        // Compatible, translated, local NAT64, discard-only, link-local, site-local, multicast, unassigned.
        _ => Scope::Forbidden,
    }
}

#[cfg(test)]
mod tests;
