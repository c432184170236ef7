//! [`Worker`]: one thread's part of a server: it accepts connections, serves them, and stops in order.

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

/// After a failed `accept` (no more file descriptors): time for some to come free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Grace period in which answers that were cut may still send their error, and answers that ended reach the client. A
/// part of the drain's time.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often idle connections to upstreams are looked through.
const SWEEP: Duration = Duration::from_secs(10);

/// What a thread serves, and with what.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) listeners: Vec<std::net::TcpListener>,
    service: Arc<Service>,
    pub(super) drain_timeout: Duration,
}

impl Worker {
    /// A thread's part that listens nowhere yet.
    pub(super) fn new(service: Service, drain_timeout: Duration) -> Self {
        Self { listeners: Vec::new(), service: Arc::new(service), drain_timeout }
    }

    /// The same for another thread.
    pub(super) fn sibling(&self) -> Self {
        Self::new(self.service.sibling(), self.drain_timeout)
    }

    /// How far the server has stopped.
    pub(super) fn drain(&self) -> &Arc<Drain> {
        self.service.drain()
    }

    /// Serves until the drain begins, then drains. Dropping the future ends all at once.
    ///
    /// # Errors
    /// If the sockets cannot be listened on in this thread's runtime.
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
                    Ok(stream) => {
                        connections.spawn(connection::serve(stream, Arc::clone(&self.service)));
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
    // A client that does not read its error in time does not get it.
    let _ = timeout(farewell, closed).await;
}

/// The next connection on any of the listeners.
fn poll_accept(listeners: &[TcpListener], cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
    for listener in listeners {
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            return Poll::Ready(accepted.map(|(stream, _peer)| stream));
        }
    }
    Poll::Pending
}
