//! [`Pool`]: an upstream's connections.
//!
//! HTTP/1.1 connections are used by one exchange at a time and kept between two; an HTTP/2 connection, where TLS has
//! agreed on one, is shared by all. A pool belongs to one thread of the server, so that a stream's two sockets wake
//! the same thread.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::{
    connection::Connection,
    connector::{ConnectError, Connector},
};
use crate::config::Upstream;

/// Idle connections are kept for so long: below the minute after which many servers close them.
const IDLE: Duration = Duration::from_secs(50);

/// Bytes of one HTTP/2 stream that the upstream may send ahead of a slow client.
const STREAM_WINDOW: u32 = 64 << 10;

/// Bytes of all streams of an HTTP/2 connection together: slow clients must not stop the others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The sending end of a shared connection.
pub(super) type Http2 = http2::SendRequest<Full<Bytes>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    /// The upstream's own address.
    address: Uri,
    /// The last used comes last.
    idle: Mutex<Vec<Idle>>,
    shared: Mutex<Option<Http2>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection for one request.
#[derive(Debug)]
pub(super) enum Lease {
    /// For this request alone.
    Http1 {
        connection: Connection,
        /// Another request went before.
        used: bool,
    },
    /// With others.
    Http2(Http2),
}

impl Lease {
    /// Whether another request went before on this connection.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Http1 { used, .. } => *used,
            Self::Http2(_) => true,
        }
    }
}

impl Pool {
    /// A pool without connections.
    pub(super) fn new(upstream: &Upstream) -> Self {
        Self {
            connector: Connector::new(upstream),
            address: upstream.base_url.clone(),
            idle: Mutex::default(),
            shared: Mutex::default(),
        }
    }

    /// A connection that is there, else a new one.
    ///
    /// # Errors
    /// If the upstream cannot be connected to.
    pub(super) async fn lease(&self) -> Result<Lease, ConnectError> {
        if let Some(http2) = self.shared() {
            return Ok(Lease::Http2(http2));
        }
        while let Some(Idle { mut connection, since }) = self.pop() {
            if since.elapsed() < IDLE && connection.is_open().await {
                return Ok(Lease::Http1 { connection, used: true });
            }
        }
        // A pooled connection is the rule, and the future of a new one is large.
        Box::pin(self.connect()).await
    }

    /// A new connection.
    ///
    /// # Errors
    /// If the upstream cannot be connected to.
    pub(super) async fn connect(&self) -> Result<Lease, ConnectError> {
        let stream = self.connector.connect(&self.address).await?;
        if !stream.is_http2() {
            return Ok(Lease::Http1 { connection: Connection::new(stream), used: false });
        }
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream));
        // It is large, and every request would carry it.
        let shaken = Box::pin(handshake).await;
        let (http2, connection) = shaken.map_err(|error| ConnectError::Failed(error.into()))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "many requests share it; it ends with the last of them once the pool lets go of it"
        )]
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
        });
        *locked(&self.shared) = Some(http2.clone());
        Ok(Lease::Http2(http2))
    }

    /// Lets go of connections that have been idle for long.
    pub(super) fn sweep(&self) {
        locked(&self.idle).retain(|idle| idle.since.elapsed() < IDLE);
    }

    fn shared(&self) -> Option<Http2> {
        let mut shared = locked(&self.shared);
        if shared.as_ref().is_some_and(Http2::is_closed) {
            *shared = None;
        }
        shared.clone()
    }

    fn pop(&self) -> Option<Idle> {
        locked(&self.idle).pop()
    }

    /// Takes back a connection on which another request may follow.
    pub(super) fn keep(&self, connection: Connection) {
        locked(&self.idle).push(Idle { connection, since: Instant::now() });
    }
}

/// Nothing panics with a lock held that would leave its list half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
