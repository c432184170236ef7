//! [`Connector`]: connections to an upstream, TLS where its address says so, all within one time limit.

use std::{error::Error, fmt, pin::Pin, task, time::Duration};

use http::{Uri, uri::Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{net::TcpStream, time::timeout};
use tower_service::Service;

use crate::config::Upstream;

/// Idle connections are probed so often, that dead ones are noticed.
const TCP_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Connects within `connect_timeout`: name, TCP and TLS together.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    https: HttpsConnector<HttpConnector>,
    limit: Duration,
}

impl Connector {
    /// For `upstream`. The system's certificates are trusted; where there are none, Mozilla's.
    pub(super) fn new(upstream: &Upstream) -> Self {
        let limit = upstream.timeouts.connect;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEP_ALIVE));
        // Shared by the addresses of a name, so that a dead one does not use up all of it.
        tcp.set_connect_timeout(Some(limit));
        let builder = HttpsConnectorBuilder::new();
        // Reading the system's certificates takes a while: not for an upstream that never speaks TLS.
        let tls = if upstream.base_url.scheme() == Some(&Scheme::HTTPS) {
            builder.with_native_roots().unwrap_or_else(|_| HttpsConnectorBuilder::new().with_webpki_roots())
        } else {
            builder.with_webpki_roots()
        };
        Self { https: tls.https_or_http().enable_all_versions().wrap_connector(tcp), limit }
    }
}

/// `connect_timeout` has passed.
#[derive(Debug)]
pub(super) struct ConnectTimeout;

impl fmt::Display for ConnectTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connecting took too long")
    }
}

impl Error for ConnectTimeout {}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> task::Poll<Result<(), Self::Error>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = timeout(self.limit, self.https.call(uri));
        Box::pin(async move { connecting.await.map_err(|_| ConnectTimeout)? })
    }
}
