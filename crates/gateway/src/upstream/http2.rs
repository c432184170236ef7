//! [`Shared`]: an HTTP/2 connection to an upstream, for concurrent exchanges.
//!
//! hyper implements the protocol, and this module chooses the connection for each request. A request never waits for a
//! stream: if a connection already has as many requests as its server allows, another connection is opened. An
//! upstream's `max_concurrent` limits both.

use parking_lot::Mutex;
use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
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
    no_response::NoResponse,
    pool::{IDLE, locked},
    stream::Stream,
};
use toolwire_http1 as http1;

/// Flow-control window of a stream: how many bytes the upstream may send ahead of a slow client.
const STREAM_WINDOW: u32 = 64 << 10;

/// Flow-control window of a connection: large enough that slow clients do not block others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How long a connection must be silent before it is pinged.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);

/// How long to wait for the answer to a ping before the connection is closed with all its streams.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of streams that may be opened before the server announces its limit.
const STREAMS_AT_FIRST: usize = 1;

/// Maximum size of a response's headers as HTTP/2 counts them: 32 bytes more per field than in HTTP/1.1. Larger than
/// [`http1::MAX_HEAD`], so that headers that are too long are rejected by [`http1::check_head_size`], whose error gives
/// the reason.
const HEADER_LIST: u32 = 8 * http1::MAX_HEAD as u32;

type Connection = http2::Connection<TokioIo<Stream>, Full<Bytes>, TokioExecutor>;
type Sender = http2::SendRequest<Full<Bytes>>;

/// A connection that several requests share.
#[derive(Debug)]
pub(super) struct Shared {
    sender: Sender,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// Knows how many streams the server allows. `None` if the connection has ended.
    connection: Mutex<Option<Connection>>,
    open: AtomicUsize,
    /// When the last exchange ended.
    idle_since: Mutex<Instant>,
    /// Whether no more requests are sent on the connection.
    retired: AtomicBool,
    /// Whether a request has been sent on the connection.
    used: AtomicBool,
}

/// One exchange's place on a connection, returned on drop.
#[derive(Debug)]
pub(super) struct Slot(Arc<State>);

/// A slot, and the handle for sending the request.
#[derive(Debug)]
pub(super) struct Free {
    sender: Sender,
    slot: Slot,
    used: bool,
}

impl Shared {
    /// Starts HTTP/2 on `stream`.
    ///
    /// # Errors
    /// If the handshake fails.
    pub(super) async fn open(stream: Stream) -> Result<Self, hyper::Error> {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .max_header_list_size(HEADER_LIST)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            // Without this, a dead connection would be noticed only by the next request.
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream));
        // Boxed because this future is large, and would make the future of every request just as large.
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
            reason = "many requests share it; it ends with the last of them once the pool has dropped it"
        )]
        tokio::spawn(async move {
            let ended = poll_fn(|cx| match &mut *locked(&run.connection) {
                Some(connection) => Pin::new(connection).poll(cx),
                None => Poll::Ready(Ok(())),
            });
            if let Err(error) = ended.await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
            // Drops the connection so that requests not yet sent fail as unsent.
            locked(&run.connection).take();
        });
        Ok(Self { sender, state })
    }

    /// Returns a slot for another exchange, if the server allows one.
    pub(super) fn free(&self) -> Option<Free> {
        let allowed = locked(&self.state.connection).as_ref().map_or(0, Connection::current_max_send_streams);
        (self.state.open.load(Ordering::Relaxed) < allowed).then(|| self.take())
    }

    /// Returns a slot for the first exchange on a new connection, regardless of the server's limit.
    pub(super) fn take(&self) -> Free {
        self.state.open.fetch_add(1, Ordering::Relaxed);
        let used = self.state.used.swap(true, Ordering::Relaxed);
        Free { sender: self.sender.clone(), slot: Slot(Arc::clone(&self.state)), used }
    }

    /// Whether more requests may be sent on the connection.
    pub(super) fn is_usable(&self) -> bool {
        let is_closed = self.sender.is_closed() || self.state.retired.load(Ordering::Relaxed);
        let is_busy = self.state.open.load(Ordering::Relaxed) > 0;
        !is_closed && (is_busy || locked(&self.state.idle_since).elapsed() < IDLE)
    }
}

impl Free {
    /// Whether a request was sent on this connection before.
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Converts this into the slot, which can also retire the connection.
    pub(super) fn into_slot(self) -> Slot {
        self.slot
    }

    pub(super) fn retire(&self) {
        self.slot.retire();
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoResponse> {
        let asked = self.sender.try_send_request(request).await;
        let response = asked.map_err(|mut error| {
            let is_unsent = error.take_message().is_some();
            NoResponse::Http2 { error: error.into_error(), is_unsent }
        })?;
        let (parts, body) = response.into_parts();
        http1::check_head_size(&parts).map_err(NoResponse::Head)?;
        Ok(Response::from_parts(parts, body))
    }
}

impl Slot {
    /// Sends no more requests on the connection, which may be dead because the server has been silent for too long.
    /// Open exchanges continue.
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
