//! [`Connector`]: opens connections to an upstream within a time limit, with TLS if the upstream's URL is `https`.

use std::{error::Error, fmt, pin::Pin, time::Duration};

use http::{Uri, uri::Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::timeout;
use tower_service::Service;

use super::{innermost, stream::Stream};
use toolwire_config::Upstream;
use toolwire_net::proxied::TcpConnector;

/// Interval of TCP keep-alive probes, which detect dead connections.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(60);

pub(super) trait Connect: fmt::Debug + Send + Sync {
    /// Opens a new connection.
    ///
    /// # Errors
    /// If the connection cannot be opened in time.
    fn connect(&self) -> Connecting<'_>;
}

pub(super) type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send + 'a>>;

/// Connects within `connect_timeout`, which covers name resolution, TCP and TLS together.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    https: HttpsConnector<TcpConnector>,
    /// The upstream's own address.
    address: Uri,
    limit: Duration,
}

impl Connector {
    /// Creates a connector for `upstream`. By default, it trusts the system's certificates, or Mozilla's if the system
    /// has none.
    pub(super) fn new(upstream: &Upstream) -> Self {
        Self::to(&upstream.base_url, upstream)
    }

    /// Creates a connector for the server at `address`, with the settings of `upstream`.
    pub(super) fn to(address: &Uri, upstream: &Upstream) -> Self {
        let limit = upstream.timeouts.connect;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEP_ALIVE));
        // The limit is divided among the addresses of a name, so that an unreachable address does not use up all of it.
        tcp.set_connect_timeout(Some(limit));
        let builder = HttpsConnectorBuilder::new();
        // Reading the system's certificates takes time, so this is not done for an upstream without TLS.
        let tls = if let Some(tls) = &upstream.tls {
            builder.with_tls_config(tls.config.clone())
        } else if address.scheme() == Some(&Scheme::HTTPS) {
            builder.with_native_roots().unwrap_or_else(|_| HttpsConnectorBuilder::new().with_webpki_roots())
        } else {
            builder.with_webpki_roots()
        };
        let tcp = TcpConnector::new(tcp, upstream.proxy.as_ref(), address);
        let https = tls.https_or_http().enable_all_versions().wrap_connector(tcp);
        Self { https, address: address.clone(), limit }
    }

    /// Returns the connector without its time limit.
    pub(super) fn https(self) -> HttpsConnector<TcpConnector> {
        self.https
    }
}

impl Connect for Connector {
    fn connect(&self) -> Connecting<'_> {
        let connecting = timeout(self.limit, self.https.clone().call(self.address.clone()));
        Box::pin(async {
            let connected = connecting.await.map_err(|_elapsed| ConnectError::TimedOut)?;
            Ok(connected.map_err(ConnectError::Failed)?.into())
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("no connection in time")]
    TimedOut,
    /// The name could not be resolved, or the TCP or TLS connection failed.
    #[error("{}", innermost(.0.as_ref()))]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}
