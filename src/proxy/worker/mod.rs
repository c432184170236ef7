//! [`Worker`]: one thread of a server. It accepts connections, serves them, and shuts down gracefully.

mod client_socket;
mod client_stream;
mod connection;
mod flood_throttle;
mod handover;
mod http2;
mod rewind;
mod stall;
mod streaming;

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{drain::Drain, service::Service};
use crate::execute::Started;

/// Pause after a failed `accept`, so that file descriptors may become free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Grace period in which aborted streams may still send their error event, and finished ones reach the client. Part of the
/// drain timeout.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often idle connections to upstreams are checked.
const SWEEP: Duration = Duration::from_secs(10);

/// The listeners of a thread, and what handles their requests.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) listeners: Vec<std::net::TcpListener>,
    service: Arc<Service>,
    pub(super) drain_timeout: Duration,
}

impl Worker {
    /// A worker without listeners.
    pub(super) fn new(service: Service, drain_timeout: Duration) -> Self {
        Self { listeners: Vec::new(), service: Arc::new(service), drain_timeout }
    }

    /// A worker for another thread, also without listeners.
    pub(super) fn sibling(&self) -> Self {
        Self::new(self.service.sibling(), self.drain_timeout)
    }

    /// The execution stage, if it is configured.
    pub(super) fn execution(&self) -> Option<&Arc<Started>> {
        self.service.execution()
    }

    /// The server's shutdown.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// The server's shutdown.
    pub(super) fn drain(&self) -> &Arc<Drain> {
        self.service.drain()
    }

    /// Takes note of the addresses on which the server listens.
    pub(super) fn listens_on(&self, addresses: &[SocketAddr]) {
        self.service.listens_on(addresses);
    }

    /// Serves until the drain begins, then drains. Dropping the future ends everything at once.
    ///
    /// # Errors
    /// If the sockets cannot be registered with this thread's runtime.
    pub(super) async fn run(self) -> io::Result<()> {
        let listeners =
            self.listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<Vec<_>>>()?;
        let mut connections = JoinSet::new();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = pin!(self.service.drain().when_begun());
        loop {
            tokio::select! {
                () = &mut stopped => break,
                accepted = poll_fn(|cx| poll_accept(&listeners, cx)) => match accepted {
                    Ok(accepted) => {
                        connections.spawn(connection::serve(accepted, Arc::clone(&self.service)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                _ = sweep.tick() => self.service.sweep(),
            }
        }
        drop(listeners);
        drain(&self.service, connections, self.drain_timeout).await;
        Ok(())
    }
}

async fn drain(service: &Service, mut connections: JoinSet<()>, limit: Duration) {
    let mut closed = pin!(async { while connections.join_next().await.is_some() {} });
    let farewell = FAREWELL.min(limit / 4);
    if timeout(limit - farewell, &mut closed).await.is_ok() {
        return;
    }
    service.drain().cut();
    // A client that does not read its error event in time does not get it.
    let _ = timeout(farewell, closed).await;
}

/// The next connection on any of the listeners.
fn poll_accept(listeners: &[TcpListener], cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    for listener in listeners {
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            return Poll::Ready(accepted);
        }
    }
    Poll::Pending
}
