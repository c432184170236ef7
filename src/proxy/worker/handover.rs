//! [`Handover`]: how an answer that has an upstream leaves hyper, and with it what hyper decided about the connection.
//!
//! hyper knows everything that decides whether a connection may be used again (RFC 9112, sections 6.1, 9.3 and 9.6), but
//! does not show it to a handler: with both `Content-Length` and `Transfer-Encoding`, for example, the request arrives
//! without the former. So hyper is asked for the head of a response to this request. That head is caught before it
//! reaches the socket, and [`Framing`] is read from it.

use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{super::answer::AnswerBody, rewind::Rewind, streaming::Framing};

/// Bytes that the head is expected to have at most.
const HEAD: usize = 128;

/// What the handler, the socket and the task of an HTTP/1 connection tell one another.
#[derive(Debug, Default, Clone)]
pub(super) struct Handover(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The handler has a request that it has not answered.
    is_answering: bool,
    /// hyper has written something that the socket has not taken.
    is_unflushed: bool,
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    /// No answer has an upstream.
    #[default]
    Hyper,
    /// An answer has one.
    Begun(Pin<Box<AnswerBody>>),
    /// hyper is asked for its head. What it writes goes here.
    Head(Pin<Box<AnswerBody>>, Vec<u8>),
}

/// What is to be done after hyper was polled.
pub(super) enum Next {
    /// Wait.
    Wait,
    /// Poll it again: it is asked for the head.
    Poll,
    /// Take the connection, to send this answer.
    Take(Pin<Box<AnswerBody>>, Framing),
}

impl Handover {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has arrived.
    pub(super) fn asked(&self) {
        self.state().is_answering = true;
    }

    /// hyper has the response.
    pub(super) fn answered(&self) {
        self.state().is_answering = false;
    }

    /// The answer has an upstream.
    pub(super) fn begun(&self, answer: Pin<Box<AnswerBody>>) {
        self.state().stage = Stage::Begun(answer);
    }

    /// Whether hyper is asked for a response's head.
    pub(super) fn wants_head(&self) -> bool {
        matches!(self.state().stage, Stage::Head(..))
    }

    /// No request is being answered, and all answers have been written.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        !state.is_answering && !state.is_unflushed
    }

    /// What is to be done after hyper was polled. An answer before the one that is handed over, which the client is slow
    /// to take, goes first.
    pub(super) fn next(&self) -> Next {
        let mut state = self.state();
        if state.is_unflushed {
            return Next::Wait;
        }
        match mem::take(&mut state.stage) {
            Stage::Hyper => Next::Wait,
            Stage::Begun(answer) => {
                state.stage = Stage::Head(answer, Vec::with_capacity(HEAD));
                Next::Poll
            }
            Stage::Head(answer, head) if head.is_empty() => {
                state.stage = Stage::Head(answer, head);
                Next::Wait
            }
            Stage::Head(answer, head) => Next::Take(answer, Framing::of(&head)),
        }
    }
}

/// A client's socket as hyper sees it.
#[derive(Debug)]
pub(super) struct Lent {
    client: Rewind,
    handover: Handover,
}

impl Lent {
    pub(super) fn new(client: Rewind, handover: Handover) -> Self {
        Self { client, handover }
    }

    pub(super) fn into_inner(self) -> Rewind {
        self.client
    }

    /// Whether `slices` are the head that hyper was asked for. They are kept then, and do not go to the client.
    fn catches(&self, slices: &[IoSlice<'_>]) -> bool {
        let mut state = self.handover.state();
        let Stage::Head(_, head) = &mut state.stage else {
            state.is_unflushed = true;
            return false;
        };
        slices.iter().for_each(|slice| head.extend_from_slice(slice));
        true
    }
}

impl AsyncRead for Lent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Lent {
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
        self.handover.state().is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_shutdown(cx)
    }
}
