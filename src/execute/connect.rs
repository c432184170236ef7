//! [`CheckedConnector`]: opens connections to addresses that [`AddressRules`] allow.
//!
//! A name is resolved once, all its addresses are checked, and the connection goes to one of these. The certificate and the `Host`
//! field remain those of the name.

use std::{
    error::Error,
    fmt, io,
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
use tokio::net::{TcpStream, lookup_host};
use tower_service::Service;

use super::address::{AddressRules, Blocked};

/// For all addresses of a name together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The addresses of a name.
type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Resolves a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> LookingUp + Send + Sync>;

/// Resolves names as the system does.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(lookup_host((name, 0)).await?.collect()) }))
}

/// Opens TCP connections. Without rules, to all addresses.
#[derive(Debug, Clone)]
pub(super) struct CheckedConnector {
    tcp: HttpConnector<CheckedResolver>,
    rules: Option<Arc<AddressRules>>,
}

impl CheckedConnector {
    pub(super) fn new(rules: Option<Arc<AddressRules>>, lookup: Lookup) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(CheckedResolver { rules: rules.clone(), lookup });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Self { tcp, rules }
    }
}

/// A connection that is being opened.
type Connecting =
    Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Uri> for CheckedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Connecting {
        // An address in place of a name is not resolved.
        let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_blocked = match (&self.rules, host.parse::<IpAddr>()) {
            (Some(rules), Ok(ip)) => !rules.allows_ip(ip),
            _ => false,
        };
        if is_blocked {
            return Box::pin(async { Err(Blocked::Private.into()) });
        }
        let connecting = self.tcp.call(address);
        Box::pin(async { connecting.await.map_err(Into::into) })
    }
}

/// Resolves names to addresses that the rules allow.
#[derive(Clone)]
struct CheckedResolver {
    rules: Option<Arc<AddressRules>>,
    lookup: Lookup,
}

impl fmt::Debug for CheckedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedResolver").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A name that is being resolved.
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
            // One that is private among public ones is an attack, or a mistake.
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
