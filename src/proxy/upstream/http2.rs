//! [`Shared`]: an HTTP/2 connection to an upstream, on which several exchanges run at once.
//!
//! hyper speaks the protocol; what is decided here is which connection a request goes to. It never waits for a stream:
//! a connection takes no more requests than its server allows at once, and beyond that another connection is opened.
//! An upstream's `max_concurrent` limits both.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::Instant;

use super::{
    head,
    pool::{IDLE, locked},
    stream::Stream,
    unanswered::Unanswered,
};

/// Bytes of one HTTP/2 stream that the upstream may send ahead of a slow client.
const STREAM_WINDOW: u32 = 64 << 10;

/// Bytes of all streams of an HTTP/2 connection together: slow clients must not stop the others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A connection on which nothing has come for this time is asked for a sign of life.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);

/// A connection without an answer to that for this time is closed, and with it all that runs on it.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams that may be opened before the server has said how many it allows.
const STREAMS_AT_FIRST: usize = 1;

/// Bytes of a response's headers as HTTP/2 counts them, which is 32 more for each than HTTP/1.1 has: so many that
/// [`head::check_length`] is what refuses them, and says why.
const HEADER_LIST: u32 = 8 * head::MAX_HEAD as u32;

type Connection = http2::Connection<TokioIo<Stream>, Full<Bytes>, TokioExecutor>;
type Sender = http2::SendRequest<Full<Bytes>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    sender: Sender,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// What knows how many streams the server allows. `None`: it is over.
    connection: Mutex<Option<Connection>>,
    /// Exchanges that run on it.
    open: AtomicUsize,
    /// Since when there are none.
    idle_since: Mutex<Instant>,
    /// It takes no more requests.
    retired: AtomicBool,
    /// A request went before.
    used: AtomicBool,
}

/// A place for one exchange on a connection; given back when dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<State>);

/// A place for one exchange, and the way to ask.
#[derive(Debug)]
pub(super) struct Free {
    sender: Sender,
    slot: Slot,
    used: bool,
}

impl Shared {
    /// Begins to speak HTTP/2 on `stream`.
    ///
    /// # Errors
    /// If it closes at once.
    pub(super) async fn open(stream: Stream) -> Result<Self, hyper::Error> {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .max_header_list_size(HEADER_LIST)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            // A dead connection would else be noticed by the next request that uses it.
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream));
        // It is large, and every request would carry it.
        let (sender, connection) = Box::pin(handshake).await?;
        let state = Arc::new(State {
            connection: Mutex::new(Some(connection)),
            open: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            retired: AtomicBool::new(false),
            used: AtomicBool::new(false),
        });
        let run = Arc::clone(&state);
        #[expect(
            clippy::disallowed_methods,
            reason = "many requests share it; it ends with the last of them once the pool lets go of it"
        )]
        tokio::spawn(async move {
            let ended = poll_fn(|cx| match &mut *locked(&run.connection) {
                Some(connection) => Pin::new(connection).poll(cx),
                None => Poll::Ready(Ok(())),
            });
            if let Err(error) = ended.await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
            // Requests that it has not taken are given back.
            locked(&run.connection).take();
        });
        Ok(Self { sender, state })
    }

    /// A place for one more exchange, if the server allows one.
    pub(super) fn free(&self) -> Option<Free> {
        let allowed = locked(&self.state.connection).as_ref().map_or(0, Connection::current_max_send_streams);
        (self.state.open.load(Ordering::Relaxed) < allowed).then(|| self.take())
    }

    /// A place for one more exchange, whatever the server allows: for the first one on a new connection.
    pub(super) fn take(&self) -> Free {
        self.state.open.fetch_add(1, Ordering::Relaxed);
        let used = self.state.used.swap(true, Ordering::Relaxed);
        Free { sender: self.sender.clone(), slot: Slot(Arc::clone(&self.state)), used }
    }

    /// Whether more requests may go to it.
    pub(super) fn is_usable(&self) -> bool {
        let is_closed = self.sender.is_closed() || self.state.retired.load(Ordering::Relaxed);
        let is_busy = self.state.open.load(Ordering::Relaxed) > 0;
        !is_closed && (is_busy || locked(&self.state.idle_since).elapsed() < IDLE)
    }
}

impl Free {
    /// Whether another request went before on this connection.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// What keeps the place, and can retire the connection.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }

    /// See [`Slot::retire`].
    pub(super) fn retire(&self) {
        self.slot.retire();
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let asked = self.sender.try_send_request(request).await;
        let response = asked.map_err(|mut error| {
            let unsent = error.take_message().is_some();
            Unanswered::Http2 { error: error.into_error(), unsent }
        })?;
        let (parts, body) = response.into_parts();
        head::check_length(&parts).map_err(Unanswered::NoHttp)?;
        Ok(Response::from_parts(parts, body))
    }
}

impl Slot {
    /// The server has been silent for too long: the connection may be dead. What runs on it goes on, and no more
    /// requests join it.
    pub(super) fn retire(&self) {
        self.0.retired.store(true, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *locked(&self.0.idle_since) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
