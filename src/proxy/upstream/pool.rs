//! [`Pool`]: an upstream's connections.
//!
//! HTTP/1.1 connections are used by one exchange at a time and kept between two; HTTP/2 connections, where TLS has
//! agreed on them, are shared. A pool belongs to one thread of the server, so that a stream's two sockets wake the same
//! thread.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    connection::Connection,
    connector::{Connect, ConnectError},
    http2::{Free, Shared},
    stream,
    trust::Trust,
};

/// Idle connections are kept for so long: below the minute after which many servers close them.
pub(super) const IDLE: Duration = Duration::from_secs(50);

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Arc<dyn Connect>,
    trust: Arc<Trust>,
    /// The last used comes last.
    idle: Mutex<Vec<Idle>>,
    /// The oldest comes first, and is the first to be filled.
    shared: Mutex<Vec<Shared>>,
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
    Http1(Connection),
    /// With others.
    Http2(Free),
}

impl Lease {
    /// Whether another request went before on this connection.
    pub(super) fn is_used(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_used(),
            Self::Http2(free) => free.is_used(),
        }
    }
}

impl Pool {
    /// A pool without connections.
    pub(super) fn new(connector: Arc<dyn Connect>, trust: Arc<Trust>) -> Self {
        Self { connector, trust, idle: Mutex::default(), shared: Mutex::default() }
    }

    /// The same for another thread.
    pub(super) fn sibling(&self) -> Self {
        Self::new(Arc::clone(&self.connector), Arc::clone(&self.trust))
    }

    /// A connection that is there, else a new one.
    ///
    /// # Errors
    /// If the upstream cannot be connected to.
    pub(super) async fn lease(&self) -> Result<Lease, ConnectError> {
        if let Some(free) = self.shared() {
            return Ok(Lease::Http2(free));
        }
        while let Some(Idle { mut connection, since }) = self.pop() {
            if since.elapsed() >= IDLE {
                continue;
            }
            // The last thing before the request is written: see `stream::Idle`.
            match connection.look().await {
                stream::Idle::Quiet => return Ok(Lease::Http1(connection)),
                stream::Idle::Closed => {}
                stream::Idle::Unsolicited => self.distrust(),
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
        let stream = self.connector.connect().await?;
        if !stream.is_http2() {
            return Ok(Lease::Http1(Connection::new(stream)));
        }
        let opened = Shared::open(stream).await.map_err(|error| ConnectError::Failed(error.into()))?;
        let free = opened.take();
        locked(&self.shared).push(opened);
        Ok(Lease::Http2(free))
    }

    /// Lets go of connections that have been idle for long, or are of no more use.
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

    /// Takes back a connection on which another request may follow.
    pub(super) fn keep(&self, connection: Connection) {
        if self.trust.holds() {
            locked(&self.idle).push(Idle { connection, since: Instant::now() });
        }
    }

    /// The upstream has sent bytes that nobody had asked for.
    pub(super) fn distrust(&self) {
        self.trust.lose();
        locked(&self.idle).clear();
    }
}

/// Nothing panics with a lock held that would leave what it guards half changed.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
