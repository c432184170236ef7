//! Requests each upstream's list of models, checks the machine, and explains problems in one line each.
//!
//! Nothing is generated. For an upstream without a list of models, the base URL is requested instead: any response
//! shows that there is a server.

mod find;
mod machine;

pub use self::{
    find::{FoundUpstream, find_upstream},
    machine::{Finding, Grade, examine_machine},
};

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use http::{StatusCode, Uri, uri::Scheme};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{
    catalogue::{self, id},
    upstream::{Get, GetError, connect},
};
use toolwire_config::{Config, Upstream};
use toolwire_pipeline::{dialect::Dialect, wire::suggest::nearest_names};

/// Time limit for a request, and for the search for a better base URL.
const LIMIT: Duration = Duration::from_secs(10);

/// Time limit for resolving a name or for connecting, when each step is tried to find the one that fails.
const STEP: Duration = Duration::from_secs(3);

/// By how many seconds clocks may differ, including the time of the response.
const MAX_CLOCK_DIFFERENCE: u64 = 60;

/// Maximum size in bytes of a list of models.
const MAX_BODY: usize = 4 << 20;

/// Path suffixes that base URLs often lack, or have by mistake.
const ENDS: [&str; 6] = ["/v1", "/api/v1", "/openai/v1", "/api", "/v1beta", ""];

#[derive(Debug)]
pub struct Diagnosis {
    pub upstream: String,
    pub address: String,
    pub took: Duration,
    pub verdict: Result<Health, Fault>,
    /// Possible problems, although the upstream works.
    pub warnings: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Health {
    /// The number of models that the upstream lists.
    Lists(usize),
    /// The status of the response. The upstream is not known to have a list of models.
    Reachable(StatusCode),
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lists(1) => f.write_str("lists 1 model"),
            Self::Lists(count) => write!(f, "lists {count} models"),
            Self::Reachable(status) => {
                write!(f, "answers ({status}); it has no list of models, so key and path were not checked")
            }
        }
    }
}

/// A problem with an upstream, and how to solve it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub part: Part,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// No request can be built from the configuration.
    Settings,
    /// The name cannot be resolved.
    Dns,
    /// No TCP connection can be opened.
    Tcp,
    /// The HTTP proxy does not open a connection.
    Proxy,
    /// The TLS handshake fails.
    Tls,
    /// The server rejects the key.
    Key,
    /// The server has nothing at the path.
    Path,
    /// The response does not have the format of the dialect.
    Dialect,
    Server,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings => "settings",
            Self::Dns => "dns",
            Self::Tcp => "tcp",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Key => "key",
            Self::Path => "path",
            Self::Dialect => "dialect",
            Self::Server => "server",
        })
    }
}

/// Checks all upstreams concurrently. The results are in the order of the configuration.
pub async fn examine(config: &Config) -> Vec<Diagnosis> {
    join_all(config.upstreams.iter().map(|upstream| examine_one(upstream, config))).await
}

async fn examine_one(upstream: &Upstream, config: &Config) -> Diagnosis {
    let list = match (upstream.dialect(), &upstream.api_key) {
        // Listing models requires an API key; a session is not enough.
        (Dialect::Lumo, None) => None,
        _ => upstream.check_endpoint(),
    };
    let list = list.transpose();
    let address = list.as_ref().ok().cloned().flatten().unwrap_or_else(|| upstream.base_url.clone());
    let begun = Instant::now();
    let get = list.and_then(|list| Ok((Get::new(upstream, LIMIT, MAX_BODY)?, list)));
    let mut warnings = Vec::new();
    let verdict = match get {
        Err(error) => {
            Err(Fault { part: Part::Settings, message: format!("no request can be written: {error}") })
        }
        Ok((get, list)) => {
            let verdict = match list {
                Some(list) => match listed(&get, &list, upstream).await {
                    Ok(Listed::Names(names)) => {
                        warnings = unlisted(&names, upstream, config);
                        Ok(Health::Lists(names.len()))
                    }
                    Ok(Listed::Nothing(status)) => Ok(Health::Reachable(status)),
                    Err(fault) => Err(fault),
                },
                None => reached(&get, upstream).await.map(Health::Reachable),
            };
            warnings.extend(get.seconds_ahead().and_then(clocks_differ));
            verdict
        }
    };
    let took = begun.elapsed();
    Diagnosis { upstream: upstream.name.clone(), address: address.to_string(), took, verdict, warnings }
}

/// Returns a warning if this machine's clock, which is `ahead` seconds ahead of the upstream's, differs too much.
fn clocks_differ(ahead: i64) -> Option<String> {
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    (ahead.unsigned_abs() > MAX_CLOCK_DIFFERENCE).then(|| {
        format!(
            "this machine's clock is {} seconds {direction} the upstream's: set it right (NTP), since certificates, keys and budgets go by it",
            ahead.unsigned_abs()
        )
    })
}

/// The response to a request for the list of models.
enum Listed {
    Names(Vec<String>),
    /// The response has this status and no list. Some servers of the dialect have no list of models.
    Nothing(StatusCode),
}

async fn listed(get: &Get, list: &Uri, upstream: &Upstream) -> Result<Listed, Fault> {
    let must_list = upstream.models_endpoint().is_some();
    match get.fetch(list.clone()).await {
        Ok(body) => match catalogue::read(&body, upstream.dialect()) {
            Ok(entries) => Ok(Listed::Names(entries.iter().filter_map(id).map(str::to_owned).collect())),
            Err(why) => {
                let message = format!("the response is not a model list ({why}): is `dialect` right?");
                Err(Fault { part: Part::Dialect, message })
            }
        },
        Err(GetError::Status(status)) if !must_list && is_missing(status) => Ok(Listed::Nothing(status)),
        Err(GetError::Status(status)) => Err(refused(status, get, upstream).await),
        Err(error @ GetError::Answer(_)) => Err(Fault { part: Part::Server, message: error.to_string() }),
        Err(error @ GetError::NoAnswer(_)) => Err(unreachable(upstream, &error.to_string()).await),
    }
}

/// Requests the base URL and returns the status of the response, whatever it is.
async fn reached(get: &Get, upstream: &Upstream) -> Result<StatusCode, Fault> {
    match get.fetch(upstream.base_url.clone()).await {
        Ok(_) | Err(GetError::Answer(_)) => Ok(StatusCode::OK),
        Err(GetError::Status(status)) => Ok(status),
        Err(error @ GetError::NoAnswer(_)) => Err(unreachable(upstream, &error.to_string()).await),
    }
}

/// Whether the status says that there is nothing at the path.
fn is_missing(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

async fn refused(status: StatusCode, get: &Get, upstream: &Upstream) -> Fault {
    let (part, message) = match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            (Part::Proxy, format!("the proxy wants a user and a password ({status})"))
        }
        StatusCode::BAD_REQUEST if matches!(upstream.dialect(), Dialect::Gemini | Dialect::Interactions) => (
            Part::Key,
            format!("the upstream refuses the request ({status}), as it does if the key is not valid"),
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if upstream.api_key.is_none() => {
            (Part::Key, format!("the upstream wants a key ({status}): set `api_key`"))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            (Part::Key, format!("the upstream refuses the key ({status})"))
        }
        status if is_missing(status) => {
            let other = timeout(LIMIT, other_base(get, upstream)).await.unwrap_or_default();
            let message = match other {
                Some(base) => {
                    format!(
                        "no list of models there ({status}), but at another path: set `base_url = \"{base}\"`"
                    )
                }
                None => format!("no list of models there ({status}): are `base_url` and `dialect` right?"),
            };
            (Part::Path, message)
        }
        status if status.is_redirection() => (
            Part::Path,
            format!(
                "the server redirects ({status}), which is not followed: set `base_url` to where it leads"
            ),
        ),
        status => (Part::Server, format!("the server answers {status}")),
    };
    Fault { part, message }
}

/// Searches the same server for a base URL that has a list of models.
async fn other_base(get: &Get, upstream: &Upstream) -> Option<Uri> {
    let path = upstream.base_url.path().trim_end_matches('/');
    let root = ENDS.iter().filter(|end| !end.is_empty()).find_map(|end| path.strip_suffix(end));
    let root = root.unwrap_or(path);
    for end in ENDS {
        let mut other = upstream.clone();
        let mut parts = upstream.base_url.clone().into_parts();
        parts.path_and_query = Some(format!("{root}{end}/").parse().ok()?);
        other.base_url = Uri::from_parts(parts).ok()?;
        if other.base_url.path().trim_end_matches('/') == path {
            continue;
        }
        let list = other.check_endpoint()?.ok()?;
        let body = get.fetch(list).await;
        if body.is_ok_and(|body| catalogue::read(&body, upstream.dialect()).is_ok()) {
            return Some(other.base_url);
        }
    }
    None
}

/// Finds the step at which the connection to an unreachable upstream failed. `why` describes the failure of the
/// request.
async fn unreachable(upstream: &Upstream, why: &str) -> Fault {
    if let Some(proxy) = &upstream.proxy {
        // Steps beyond the proxy cannot be examined from here.
        let part = match timeout(STEP, connect(upstream)).await {
            Ok(Ok(())) => Part::Server,
            Ok(Err(error)) if error.to_string().contains("certificate") => Part::Tls,
            _ => Part::Proxy,
        };
        return Fault { part, message: format!("{why} (through the proxy {proxy})") };
    }
    let failed = timeout(LIMIT, failed_step(upstream, why)).await;
    failed.unwrap_or_else(|_| Fault { part: Part::Tcp, message: why.to_owned() })
}

async fn failed_step(upstream: &Upstream, why: &str) -> Fault {
    let address = &upstream.base_url;
    let is_tls = address.scheme() == Some(&Scheme::HTTPS);
    let host = address.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = address.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let addresses = match addresses_of(host, port).await {
        Ok(addresses) => addresses,
        Err(error) => return Fault { part: Part::Dns, message: format!("`{host}` has no address: {error}") },
    };
    let mut refused = None;
    for address in addresses {
        // Closed immediately, since the server may serve only one connection at a time.
        match in_time(TcpStream::connect(address)).await.map(drop) {
            Ok(()) => return fault_behind_tcp(upstream, why).await,
            Err(error) => refused = Some(format!("no connection to {address}: {error}")),
        }
    }
    Fault { part: Part::Tcp, message: refused.unwrap_or_else(|| why.to_owned()) }
}

/// Finds out why a server that accepts connections does not respond.
async fn fault_behind_tcp(upstream: &Upstream, why: &str) -> Fault {
    let is_tls = upstream.base_url.scheme() == Some(&Scheme::HTTPS);
    if is_tls && !timeout(STEP, connect(upstream)).await.is_ok_and(|connected| connected.is_ok()) {
        let message = if why.contains("certificate expired") || why.contains("certificate not valid yet") {
            format!("{why}: is this machine's clock right? If so, the upstream has to renew its certificate")
        } else {
            format!("{why}: does this port speak TLS, and is its certificate trusted?")
        };
        return Fault { part: Part::Tls, message };
    }
    if !is_tls && speaks_tls(upstream).await {
        let message = format!("{why}: the port speaks TLS: set `base_url` to an `https` URL");
        return Fault { part: Part::Tls, message };
    }
    Fault { part: Part::Server, message: why.to_owned() }
}

/// Whether the server speaks TLS, with any certificate, although the base URL does not use TLS.
async fn speaks_tls(upstream: &Upstream) -> bool {
    let mut other = upstream.clone();
    let mut parts = upstream.base_url.clone().into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    if upstream.base_url.port().is_none() {
        let authority = upstream.base_url.host().and_then(|host| format!("{host}:80").parse().ok());
        parts.authority = authority;
    }
    let Ok(url) = Uri::from_parts(parts) else { return false };
    other.base_url = url;
    match timeout(STEP, connect(&other)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => error.to_string().contains("certificate"),
        Err(_) => false,
    }
}

async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    in_time(lookup_host((host, port))).await.map(Iterator::collect)
}

async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_elapsed| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {STEP:?}")));
    timeout(STEP, step).await.unwrap_or_else(late)
}

/// Whether the model `wanted` is listed as `listed`. Ollama's lists add a tag to the name
/// (docs/protocols/ollama.md#models), and Google's may add the prefix `models/` (docs/protocols/gemini.md#models).
fn names_same(listed: &str, wanted: &str) -> bool {
    let [listed, wanted] = [listed, wanted].map(|name| name.strip_prefix("models/").unwrap_or(name));
    listed == wanted || listed.strip_suffix(":latest") == Some(wanted)
}

/// Returns the configured models that the upstream does not list.
fn unlisted(names: &[String], upstream: &Upstream, config: &Config) -> Vec<String> {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let models = config.models.iter().filter(|model| model.upstream.name == upstream.name);
    let wanted = models.filter_map(|model| {
        let own = model.upstream_name.as_deref();
        own.or_else(|| (!model.is_wildcard()).then_some(&*model.name))
    });
    let is_known = |wanted: &str| known.iter().any(|known| names_same(known, wanted));
    let missing = wanted.filter(|wanted| !known.is_empty() && !is_known(wanted));
    let told = missing.map(|wanted| match nearest_names(wanted, &known).first() {
        Some(nearest) => format!("it does not list the model `{wanted}`; the nearest name is `{nearest}`"),
        None => format!("it does not list the model `{wanted}`"),
    });
    told.collect()
}
