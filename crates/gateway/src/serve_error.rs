//! [`ServeError`]: the reason why a server cannot start.

use std::{fmt, io, net::SocketAddr};

/// The reason why a server cannot start.
#[derive(Debug)]
pub enum ServeError {
    /// toolwire cannot listen on an address.
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// A socket inherited from another process cannot be used.
    Inherited(io::Error),
    /// The address of an inherited socket can be reached from other machines, and clients need no key.
    Open(SocketAddr),
    /// A thread or its runtime cannot be created.
    Thread(io::Error),
    /// TLS cannot be used as configured.
    Tls(tokio_rustls::rustls::Error),
    /// The request to an upstream cannot be built: its key contains characters that a header must not contain, or its
    /// address is too long.
    Upstream {
        /// The upstream's name.
        name: String,
        /// The reason.
        error: http::Error,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Inherited(error) => write!(f, "an inherited socket cannot be used: {error}"),
            Self::Open(address) => {
                write!(
                    f,
                    "the inherited socket listens on {address}, which others can reach; that needs `api_keys`"
                )
            }
            Self::Thread(error) => write!(f, "a thread cannot be started: {error}"),
            Self::Tls(error) => write!(f, "TLS cannot be spoken: {error}"),
            Self::Upstream { name, error } => write!(
                f,
                "no request to upstream `{name}` can be written, are its api_key and base_url right? {error}"
            ),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { error, .. } | Self::Inherited(error) | Self::Thread(error) => Some(error),
            Self::Open(_) => None,
            Self::Tls(error) => Some(error),
            Self::Upstream { error, .. } => Some(error),
        }
    }
}
