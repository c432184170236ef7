//! [`Pool`]: an upstream's connections.
//!
//! An HTTP/1.1 connection serves one exchange at a time and is reused afterwards. HTTP/2 connections, if negotiated by
//! TLS, are shared. Each pool belongs to one thread of the server, so that both sockets of a stream wake the same
//! thread.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    connection::Connection,
    connector::{Connect, ConnectError},
    http2::{Free, Shared},
    stream::IdleState,
    trust::Trust,
};

/// How long an idle connection is kept open. Many servers close idle connections after a minute.
pub(super) const IDLE: Duration = Duration::from_secs(50);

/// The connections of one thread to an upstream.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<dyn Connect>,
    trust: Arc<Trust>,
    /// Idle connections. The most recently used one is last.
    idle: Mutex<Vec<Idle>>,
    /// Shared connections, oldest first. Requests use the first one that has room.
    shared: Mutex<Vec<Shared>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection leased for one request.
#[derive(Debug)]
pub(super) enum Lease {
    Http1(Connection),
    /// Shared with other requests.
    Http2(Free),
}

impl Lease {
    /// Whether a request was sent on this connection before.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_used(),
            Self::Http2(free) => free.is_used(),
        }
    }
}

impl Pool {
    pub(super) fn new(connector: Arc<dyn Connect>, trust: Arc<Trust>) -> Self {
        Self { connector, trust, idle: Mutex::default(), shared: Mutex::default() }
    }

    /// Creates a pool for the same upstream on another thread.
    pub(super) fn sibling(&self) -> Self {
        Self::new(Arc::clone(&self.connector), Arc::clone(&self.trust))
    }

    /// Returns a pooled connection or a new one.
    ///
    /// # Errors
    /// If it is not possible to connect to the upstream.
    pub(super) async fn lease(&self) -> Result<Lease, ConnectError> {
        if let Some(free) = self.shared() {
            return Ok(Lease::Http2(free));
        }
        while let Some(Idle { mut connection, since }) = self.pop() {
            if since.elapsed() >= IDLE {
                continue;
            }
            // The last step before the request is written; see `Stream::check_idle`.
            match connection.check_idle().await {
                IdleState::Quiet => return Ok(Lease::Http1(connection)),
                IdleState::Closed => {}
                IdleState::Unsolicited => self.distrust(),
            }
        }
        // Boxed: usually there is a pooled connection, and the future that opens a new one is large.
        Box::pin(self.connect()).await
    }

    /// Opens a new connection.
    ///
    /// # Errors
    /// If it is not possible to connect to the upstream.
    pub(super) async fn connect(&self) -> Result<Lease, ConnectError> {
        let stream = self.connector.connect().await?;
        if !stream.is_http2() {
            return Ok(Lease::Http1(Connection::new(stream)));
        }
        let opened = Shared::open(stream).await.map_err(|error| ConnectError::Failed(error.into()))?;
        let free = opened.take();
        locked(&self.shared).push(opened);
        Ok(Lease::Http2(free))
    }

    /// Closes connections that are unusable or have been idle for too long.
    pub(super) fn sweep(&self) {
        locked(&self.idle).retain(|idle| idle.since.elapsed() < IDLE);
        locked(&self.shared).retain(Shared::is_usable);
    }

    fn shared(&self) -> Option<Free> {
        let mut shared = locked(&self.shared);
        if shared.is_empty() {
            return None;
        }
        shared.retain(Shared::is_usable);
        shared.iter().find_map(Shared::free)
    }

    fn pop(&self) -> Option<Idle> {
        let mut idle = locked(&self.idle);
        if !self.trust.holds() {
            idle.clear();
        }
        idle.pop()
    }

    /// Takes back a connection that can be reused.
    pub(super) fn keep(&self, connection: Connection) {
        if self.trust.holds() {
            locked(&self.idle).push(Idle { connection, since: Instant::now() });
        }
    }

    /// Closes idle connections and stops pooling for a while, because the upstream has sent unsolicited bytes.
    pub(super) fn distrust(&self) {
        self.trust.lose();
        locked(&self.idle).clear();
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
