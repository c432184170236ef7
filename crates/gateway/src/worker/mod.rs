//! [`Worker`]: a thread of a server. It accepts connections, serves them, and shuts down gracefully.

mod bounds;
mod client_socket;
mod client_stream;
mod connection;
mod flood_throttle;
mod handover;
mod http2;
mod rewind;
mod shortage;
mod stall;
mod streaming;
mod websocket;

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

use self::shortage::Shortage;
use super::current_service::CurrentService;

/// Grace period in which aborted streams may still send their error event and finished streams may reach the client.
/// Part of the drain timeout.
const FAREWELL: Duration = Duration::from_secs(2);

/// Maximum number of waiting connections to accept per listener when the server stops. More may be opened in the
/// meantime.
const MAX_WAITING: usize = 4096;

/// Interval at which idle connections to upstreams are checked.
const SWEEP: Duration = Duration::from_secs(10);

/// The listeners of a thread, and the service for their requests.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) listeners: Vec<std::net::TcpListener>,
    service: Arc<CurrentService>,
    at_end: AtEnd,
}

/// What happens to waiting connections when the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// They are accepted so that their requests can be refused with a status. Closing the sockets would reset them.
    Accept,
    /// They are left to the next process, which shares the sockets.
    Leave,
}

impl Worker {
    pub(super) fn new(service: Arc<CurrentService>, at_end: AtEnd) -> Self {
        Self { listeners: Vec::new(), service, at_end }
    }

    /// Serves until the drain begins, and then drains. Dropping the future ends everything immediately.
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
        let mut shortage = Shortage::new(self.service.get().shared.monitors.metrics.descriptor_shortages());
        loop {
            tokio::select! {
                () = &mut stopped => break,
                accepted = poll_fn(|cx| poll_accept(&listeners, cx)) => match accepted {
                    Ok(accepted) => {
                        let pause = shortage.after(&accepted.0);
                        let leave = shortage.accepted(self.service.drain().when_begun());
                        connections.spawn(connection::serve(accepted, Arc::clone(&self.service), leave));
                        if let Some(pause) = pause {
                            sleep(pause).await;
                        }
                    }
                    Err(error) => {
                        shortage.failed(&error);
                        sleep(shortage::PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                _ = sweep.tick() => self.service.get().sweep(),
            }
        }
        for listener in listeners {
            if self.at_end == AtEnd::Leave {
                continue;
            }
            for accepted in waiting(listener) {
                let leave = shortage.accepted(self.service.drain().when_begun());
                connections.spawn(connection::serve(accepted, Arc::clone(&self.service), leave));
            }
        }
        drain(&self.service, connections).await;
        Ok(())
    }
}

/// Accepts the connections that are waiting. Dropping the iterator closes the listener.
fn waiting(listener: TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
    // The runtime may not know about these connections yet.
    let listener = listener.into_std().ok();
    let accepted = std::iter::from_fn(move || listener.as_ref()?.accept().ok());
    accepted.take(MAX_WAITING).filter_map(|(stream, peer)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    })
}

async fn drain(service: &CurrentService, mut connections: JoinSet<()>) {
    let limit = service.get().shared.config.drain_timeout;
    let mut closed = pin!(async { while connections.join_next().await.is_some() {} });
    let farewell = FAREWELL.min(limit / 4);
    if timeout(limit - farewell, &mut closed).await.is_ok() {
        return;
    }
    service.drain().cut();
    // After this, clients that have not read their error event do not receive it.
    let _ = timeout(farewell, closed).await;
}

/// Accepts the next connection on any of the listeners.
fn poll_accept(listeners: &[TcpListener], cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    for listener in listeners {
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            return Poll::Ready(accepted);
        }
    }
    Poll::Pending
}
