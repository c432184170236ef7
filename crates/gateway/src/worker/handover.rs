//! [`Handover`]: takes a client's connection over from hyper, so that toolwire's own code can write a response.
//!
//! hyper knows everything that decides whether a connection persists (RFC 9112, sections 6.1, 9.3 and 9.6), but does
//! not show it to handlers: if a request has both `Content-Length` and `Transfer-Encoding`, for example, the handler
//! does not see the former. hyper is therefore asked to write the head of a response to the request. This head is
//! intercepted before it reaches the socket, and [`ResponseEncoder`] adopts the decision that it contains.
//!
//! # The invariant
//!
//! From hyper's point of view, a handler that hands over its response never completes: it stays pending until hyper is
//! asked for the head, and then returns a body that never yields. Between [`Handover::hand_over`] and the end of
//! [`until_handover`]:
//!
//! 1. Everything that hyper has written before is flushed, so responses keep their order.
//! 2. Nothing that hyper writes reaches the socket. All of it is collected as the head.
//! 3. All bytes that were read but do not belong to the request are returned, in front of those still in the socket.
//! 4. hyper is not polled again, and is dropped together with its handler.
//!
//! `connections_taken_over_lose_and_add_no_byte` tests these rules with pipelined requests that are split at different
//! places.

use std::{
    convert::Infallible,
    error::Error,
    future::poll_fn,
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::bounds::{BUFFER, IDLE};
use toolwire_http1::ResponseEncoder;

/// Expected maximum size in bytes of the head that hyper writes.
const EXPECTED_HEAD: usize = 128;

/// Shared by the handler, the socket and the task of an HTTP/1 connection. `T` is the type of responses to hand over.
#[derive(Debug)]
pub(super) struct Handover<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
struct State<T> {
    /// Whether a request is waiting for its response, or the body of the response has not ended.
    is_handling: bool,
    /// Whether hyper has written bytes that the socket has not taken.
    is_unflushed: bool,
    stage: Stage<T>,
}

#[derive(Debug, Default)]
enum Stage<T> {
    #[default]
    Hyper,
    HandedOver(T),
    /// hyper is asked for the head of the response, which is collected here.
    Head(T, Vec<u8>),
}

enum Next<T> {
    Wait,
    /// Poll hyper again, to get the head.
    Poll,
    TakeOver(T, ResponseEncoder),
}

/// The body of a response that hyper writes. Its request counts as in progress until the body is dropped.
#[derive(Debug)]
pub(super) struct HandledBody<B, T> {
    body: B,
    handover: Handover<T>,
}

impl<B, T> HandledBody<B, T> {
    pub(super) fn new(body: B, handover: Handover<T>) -> Self {
        Self { body, handover }
    }
}

impl<B: Body + Unpin, T> Body for HandledBody<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B, T> Drop for HandledBody<B, T> {
    fn drop(&mut self) {
        self.handover.0.lock().is_handling = false;
    }
}

/// Why hyper no longer serves a connection.
pub(super) enum Served<T> {
    /// A response was handed over and must be written with this encoder.
    HandedOver(T, ResponseEncoder),
    /// The last response has been written, or the client has disconnected.
    Over,
    /// The server is stopping and no response is open.
    Idle,
}

/// Serves requests on `client` with hyper, until `handler` hands over a response or the connection ends. Returns the
/// connection, including any bytes that were read but not used.
///
/// Once `stopped` is ready, an idle connection ends immediately, and a busy one after its response.
pub(super) async fn until_handover<S, T, B, F>(
    client: S,
    handover: Handover<T>,
    handler: impl Fn(Request<Incoming>) -> F,
    mut stopped: Pin<&mut impl Future<Output = ()>>,
) -> (S, Bytes, Served<T>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(LentStream::new(client, handover.clone())), service_fn(handler));
    let mut is_stopping = false;
    let served = poll_fn(|cx| {
        if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            // A request that has already been received is still handled, even if only with a refusal.
            if let Poll::Ready(served) = Pin::new(&mut serving).poll(cx) {
                super::connection::log_end(served);
                return Poll::Ready(Served::Over);
            }
            if handover.is_idle() {
                return Poll::Ready(Served::Idle);
            }
            Pin::new(&mut serving).graceful_shutdown();
        }
        loop {
            // Ready when everything has been written and the connection is shut down.
            if let Poll::Ready(served) = Pin::new(&mut serving).poll(cx) {
                super::connection::log_end(served);
                return Poll::Ready(Served::Over);
            }
            match handover.next() {
                Next::Poll => {}
                Next::TakeOver(response, encoder) => {
                    return Poll::Ready(Served::HandedOver(response, encoder));
                }
                Next::Wait => return Poll::Pending,
            }
        }
    });
    let served = served.await;
    let parts = serving.into_parts();
    (parts.io.into_inner().into_inner(), parts.read_buf, served)
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        let state = State { is_handling: false, is_unflushed: false, stage: Stage::Hyper };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl<T> Clone for Handover<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Handover<T> {
    pub(super) fn request_begins(&self) {
        self.0.lock().is_handling = true;
    }

    /// Hands over `response`, and returns when hyper is asked for the head of a response. The handler must then return
    /// a response whose body never yields.
    pub(super) async fn hand_over(&self, response: T) {
        self.0.lock().stage = Stage::HandedOver(response);
        // No waker is needed: the connection's task polls again when it wants the head.
        poll_fn(|_| match self.0.lock().stage {
            Stage::Head(..) => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Whether no request is being handled and all responses have been written.
    fn is_idle(&self) -> bool {
        let state = self.0.lock();
        !state.is_handling && !state.is_unflushed
    }

    /// Decides what to do after polling hyper. Earlier responses are written completely first, even if the client reads
    /// slowly.
    fn next(&self) -> Next<T> {
        let mut state = self.0.lock();
        if state.is_unflushed {
            return Next::Wait;
        }
        match mem::take(&mut state.stage) {
            Stage::Hyper => Next::Wait,
            Stage::HandedOver(response) => {
                state.stage = Stage::Head(response, Vec::with_capacity(EXPECTED_HEAD));
                Next::Poll
            }
            Stage::Head(response, head) if head.is_empty() => {
                state.stage = Stage::Head(response, head);
                Next::Wait
            }
            Stage::Head(response, head) => Next::TakeOver(response, ResponseEncoder::following(&head)),
        }
    }
}

/// A client's connection while hyper uses it.
#[derive(Debug)]
struct LentStream<S, T> {
    client: S,
    handover: Handover<T>,
}

impl<S, T> LentStream<S, T> {
    fn new(client: S, handover: Handover<T>) -> Self {
        Self { client, handover }
    }

    fn into_inner(self) -> S {
        self.client
    }

    /// If hyper was asked for a head, collects `slices` instead of sending them to the client. Returns whether it did.
    fn catches(&self, slices: &[IoSlice<'_>]) -> bool {
        let mut state = self.handover.0.lock();
        let Stage::Head(_, head) = &mut state.stage else {
            state.is_unflushed = true;
            return false;
        };
        slices.iter().for_each(|slice| head.extend_from_slice(slice));
        true
    }
}

impl<S: AsyncRead + Unpin, T> AsyncRead for LentStream<S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin, T> AsyncWrite for LentStream<S, T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.catches(&[IoSlice::new(bytes)]) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.client).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.catches(slices) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        Pin::new(&mut self.client).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.client.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.client).poll_flush(cx))?;
        self.handover.0.lock().is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
