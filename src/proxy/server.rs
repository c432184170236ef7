//! [`Server`]: listens, serves connections, and stops in order.

use std::{
    fmt,
    future::poll_fn,
    io,
    net::SocketAddr,
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
    time::{sleep, timeout},
};

use crate::config::Config;

use super::{service::Service, tap::Tap};

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

/// Why a server cannot serve.
#[derive(Debug)]
pub enum ServeError {
    /// An address cannot be listened on.
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// An upstream's key has characters that no header may have.
    Key {
        /// The upstream's name.
        upstream: String,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::Key { upstream } => {
                write!(f, "the api_key of upstream `{upstream}` has characters that no header may have")
            }
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { error, .. } => Some(error),
            Self::Key { .. } => None,
        }
    }
}

/// A server that listens, and does not yet answer.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    service: Arc<Service>,
    drain_timeout: Duration,
}

impl Server {
    /// Listens on the configured addresses. `tap`, if there is one, watches the exchanges.
    ///
    /// # Errors
    /// If an address cannot be listened on, or an upstream's key is no key.
    pub async fn bind(config: Arc<Config>, tap: Option<Arc<dyn Tap>>) -> Result<Self, ServeError> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for &address in &config.listen {
            let failed = |error| ServeError::Bind { address, error };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?);
            listeners.push(listener);
        }
        let drain_timeout = config.drain_timeout;
        let service = Arc::new(Service::new(config, tap)?);
        Ok(Self { listeners, addresses, service, drain_timeout })
    }

    /// Where it listens: with the real ports where the configuration says 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until `shutdown` is ready, then drains: no new connections and requests, open answers go on for
    /// `drain_timeout` at most, and what is left then ends with an error that says so. Dropping the future ends all
    /// at once.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let graceful = GracefulShutdown::new();
        let protocol = protocol();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = poll_fn(|cx| poll_accept(&self.listeners, cx)) => match accepted {
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
            }
        }
        drop(self.listeners);
        drain(&self.service, graceful, self.drain_timeout).await;
    }
}

async fn drain(service: &Service, graceful: GracefulShutdown, limit: Duration) {
    let open = graceful.count();
    tracing::info!(connections = open, limit = ?limit, "stopping: open answers may finish");
    service.drain().begin();
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
        Arc::clone(&service).handle(request)
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
