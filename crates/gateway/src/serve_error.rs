//! [`ServeError`]: the reason why a server cannot start.

use std::{io, net::SocketAddr};

/// The reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// toolwire cannot listen on an address.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        #[source]
        error: io::Error,
    },
    /// A socket inherited from another process cannot be used.
    #[error("an inherited socket cannot be used: {0}")]
    Inherited(#[source] io::Error),
    /// The address of an inherited socket can be reached from other machines, and clients need no key.
    #[error("the inherited socket listens on {0}, which others can reach; that needs `api_keys`")]
    Open(SocketAddr),
    /// A thread or its runtime cannot be created.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// TLS cannot be used as configured.
    #[error("TLS cannot be spoken: {0}")]
    Tls(#[source] tokio_rustls::rustls::Error),
    /// The request to an upstream cannot be built: its key contains characters that a header must not contain, or its
    /// address is too long.
    #[error("no request to upstream `{name}` can be written, are its api_key and base_url right? {error}")]
    Upstream {
        /// The upstream's name.
        name: String,
        /// The reason.
        #[source]
        error: http::Error,
    },
}
