//! [`ServeError`]: why a server cannot start.

use std::{io, net::SocketAddr};

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {error}")]
    Bind {
        address: SocketAddr,
        #[source]
        error: io::Error,
    },
    /// A socket inherited from another process cannot be used.
    #[error("an inherited socket cannot be used: {0}")]
    Inherited(#[source] io::Error),
    /// An inherited socket can be reached from other machines, but clients need no key.
    #[error("the inherited socket listens on {0}, which others can reach; that needs `api_keys`")]
    Open(SocketAddr),
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// TLS cannot be used as configured.
    #[error("TLS cannot be spoken: {0}")]
    Tls(#[source] tokio_rustls::rustls::Error),
    /// No request can be built for an upstream: its key contains characters that are not allowed in a header, or its
    /// address is too long.
    #[error("no request to upstream `{name}` can be written, are its api_key and base_url right? {error}")]
    Upstream {
        name: String,
        #[source]
        error: http::Error,
    },
}
