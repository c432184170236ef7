//! [`CheckedConnector`]: opens connections to addresses that [`AddressRules`] allow.
//!
//! A host name is resolved once, all its addresses are checked, and the connection uses one of them. TLS and the `Host`
//! header still use the name.
//!
//! A proxy would resolve the name itself and could find other addresses. If addresses must be checked, toolwire
//! therefore resolves the name and asks the proxy for a tunnel to one of the addresses, even for `http`.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{HttpConnector, dns::Name},
    rt::TokioIo,
};
use tokio::{net::lookup_host, time::timeout};
use tower_service::Service;

use super::address::{AddressRules, Blocked};
use toolwire_net::proxied::{HttpProxy, Proxies, TcpConnection, TcpConnector, open_tunnel, port_of};

/// Time limit for connecting to a proxy, or to all addresses of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of a name's addresses that are tried through a proxy.
pub(super) const MAX_TUNNELS: usize = 3;

type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Resolves a host name.
pub(super) type Lookup = Arc<dyn Fn(String) -> LookingUp + Send + Sync>;

/// Resolves names with the system's resolver.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(lookup_host((name, 0)).await?.collect()) }))
}

/// Opens TCP connections. Without rules, all addresses are allowed.
#[derive(Debug, Clone)]
pub(super) struct CheckedConnector {
    tcp: HttpConnector<CheckedResolver>,
    /// Proxies are configured, so their addresses are not checked.
    to_proxies: HttpConnector,
    resolver: CheckedResolver,
    proxies: Arc<Proxies>,
}

impl CheckedConnector {
    pub(super) fn new(rules: Option<Arc<AddressRules>>, proxies: Arc<Proxies>, lookup: Lookup) -> Self {
        let resolver = CheckedResolver { rules, lookup };
        let tcp = prepared(HttpConnector::new_with_resolver(resolver.clone()));
        Self { tcp, to_proxies: prepared(HttpConnector::new()), resolver, proxies }
    }
}

fn prepared<R>(mut tcp: HttpConnector<R>) -> HttpConnector<R> {
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp
}

type Connecting = Pin<Box<dyn Future<Output = Result<TcpConnection, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Uri> for CheckedConnector {
    type Response = TcpConnection;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Connecting {
        // IP addresses never reach the resolver.
        let ip = host_of(&address).parse::<IpAddr>();
        let is_blocked = match (&self.resolver.rules, ip) {
            (Some(rules), Ok(ip)) => !rules.allows_ip(ip),
            _ => false,
        };
        if is_blocked {
            return Box::pin(async { Err(Blocked::Private.into()) });
        }
        let Some(proxy) = self.proxies.proxy_for(&address) else {
            let connecting = self.tcp.call(address);
            return Box::pin(async { Ok(TcpConnection::direct(connecting.await?)) });
        };
        let to_proxy = self.to_proxies.clone();
        let connecting: Connecting = match self.resolver.rules {
            None => TcpConnector::new(to_proxy, Some(&proxy), &address).call(address),
            Some(_) => Box::pin(tunnelled(self.resolver.clone(), to_proxy, proxy, address)),
        };
        Box::pin(async { timeout(CONNECT_TIMEOUT, connecting).await? })
    }
}

fn host_of(address: &Uri) -> &str {
    address.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// Opens a tunnel through a proxy to a checked address.
async fn tunnelled(
    mut resolver: CheckedResolver,
    mut to_proxy: HttpConnector,
    proxy: HttpProxy,
    address: Uri,
) -> Result<TcpConnection, Box<dyn Error + Send + Sync>> {
    let port = port_of(&address);
    let mut ips: Vec<IpAddr> = match host_of(&address).parse() {
        Ok(ip) => vec![ip],
        Err(_) => {
            let name = host_of(&address).parse().map_err(|_| Blocked::Invalid)?;
            resolver.call(name).await?.map(|found| found.ip()).collect()
        }
    };
    // IPv4 first, since not every proxy supports IPv6.
    ips.sort_by_key(IpAddr::is_ipv6);
    let mut failed = "the name has no address".into();
    for ip in ips.into_iter().take(MAX_TUNNELS) {
        let stream = to_proxy.call(proxy.address.clone()).await?.into_inner();
        let target = SocketAddr::new(ip, port).to_string();
        match open_tunnel(stream, &target, proxy.authorization.as_ref()).await {
            Ok(stream) => return Ok(TcpConnection::direct(TokioIo::new(stream))),
            Err(error) => failed = error.into(),
        }
    }
    Err(failed)
}

/// A resolver that fails if the rules forbid an address.
#[derive(Clone)]
struct CheckedResolver {
    rules: Option<Arc<AddressRules>>,
    lookup: Lookup,
}

toolwire_pipeline::wire::debug_fields!(CheckedResolver { rules });

type Resolving =
    Pin<Box<dyn Future<Output = Result<vec::IntoIter<SocketAddr>, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Name> for CheckedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Resolving;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Resolving {
        let looking_up = (self.lookup)(name.as_str().to_owned());
        let rules = self.rules.clone();
        Box::pin(async move {
            let addresses = looking_up.await?;
            // A private address among public ones is an attack or a mistake, so the whole name is rejected.
            let is_allowed =
                |address: &SocketAddr| rules.as_ref().is_none_or(|rules| rules.allows_ip(address.ip()));
            if addresses.iter().all(is_allowed) {
                Ok(addresses.into_iter())
            } else {
                Err(Blocked::Private.into())
            }
        })
    }
}
