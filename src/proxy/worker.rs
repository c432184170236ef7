//! [`Worker`]: one thread's part of a server: it accepts connections, serves them, and stops in order.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{drain::Drain, service::Service};

/// A connection on which no request comes for so long is closed, also between two requests.
const IDLE_CONNECTION: Duration = Duration::from_secs(75);

/// Bytes that hyper buffers a connection, each way; a request's headers must fit.
const CONNECTION_BUFFER: usize = 64 << 10;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;

/// After a failed `accept` (no more file descriptors): time for some to come free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Streams that were cut have so long to tell their clients.
const FAREWELL: Duration = Duration::from_secs(2);

/// How often idle connections to upstreams are looked through.
const SWEEP: Duration = Duration::from_secs(10);

/// What a thread serves, and with what.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) listeners: Vec<std::net::TcpListener>,
    service: Arc<Service>,
    drain_timeout: Duration,
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
        let graceful = GracefulShutdown::new();
        let protocol = protocol();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = pin!(self.service.drain().when_begun());
        loop {
            tokio::select! {
                () = &mut stopped => break,
                accepted = poll_fn(|cx| poll_accept(&listeners, cx)) => match accepted {
                    Ok(stream) => {
                        let service = Arc::clone(&self.service);
                        connections.spawn(connection(stream, service, protocol.clone(), graceful.watcher()));
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
        drain(&self.service, graceful, self.drain_timeout).await;
        Ok(())
    }
}

async fn drain(service: &Service, graceful: GracefulShutdown, limit: Duration) {
    tracing::info!(connections = graceful.count(), ?limit, "stopping: open answers may finish");
    let mut closed = pin!(graceful.shutdown());
    if timeout(limit, &mut closed).await.is_ok() {
        return;
    }
    tracing::warn!("open answers are cut off");
    service.drain().cut();
    // Whoever does not read its farewell in time does not get it.
    let _ = timeout(FAREWELL, closed).await;
}

/// HTTP/1.1 or HTTP/2 (h2c), as the client begins.
fn protocol() -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    protocol
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_CONNECTION)
        .max_buf_size(CONNECTION_BUFFER)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(CONNECTION_BUFFER)
        .keep_alive_interval(IDLE_CONNECTION);
    protocol
}

async fn connection(
    stream: TcpStream,
    service: Arc<Service>,
    protocol: auto::Builder<TokioExecutor>,
    watcher: Watcher,
) {
    // Tokens are small, and each is worth a packet: Nagle's algorithm would wait for more.
    let _ = stream.set_nodelay(true);
    let asked = AtomicBool::new(false);
    let serve = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        // In a box of its own, which is gone when the answer begins: hyper keeps the room of a handler as long as the
        // connection.
        Box::pin(Arc::clone(&service).handle(request))
    });
    let mut served = pin!(watcher.watch(protocol.serve_connection(TokioIo::new(stream), serve)));
    let early = timeout(IDLE_CONNECTION, &mut served).await;
    // Whoever has connected and asked nothing by then (which hyper does not look after) is dropped.
    let ended = match early {
        Ok(ended) => ended,
        Err(_elapsed) if !asked.load(Ordering::Relaxed) => return,
        Err(_elapsed) => served.await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
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
