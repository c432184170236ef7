//! [`run`]: sends an upstream's response to an HTTP/1 client.
//!
//! Everything that is available is sent in one write: the chunk's size, the data and, for the last chunk, the end of
//! the body. [`ResponseEncoder`] produces the bytes.

use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, ErrorKind},
    mem,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
    time::SystemTime,
};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as _;
use tokio::io::AsyncWrite;

use super::{flood_throttle::FloodThrottle, rewind::Rewind};
use crate::{answer::AnswerBody, drain::Drain, reply, yield_now};
use toolwire_http1::ResponseEncoder;

/// Number of writes after which the thread's other connections get a turn.
const MAX_WRITES: usize = 8;

/// Maximum number of bytes of a thread's write buffer that stay allocated between two writes.
const KEPT_BUFFER: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Streaming {
    client: Rewind,
    answer: Pin<Box<AnswerBody>>,
    encoder: ResponseEncoder,
    /// The head of the response, which is sent together with the first data.
    head: Vec<u8>,
    /// Bytes that the socket has not taken yet.
    unsent: Bytes,
    /// Whether all of the response has been sent or is in `unsent`.
    is_over: bool,
    flood_throttle: FloodThrottle,
}

thread_local! {
    /// The buffer in which writes are assembled. No data stays in it between writes.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads `answer` and sends it. Returns the connection, and whether it persists.
///
/// # Errors
/// If the client disconnects before the end or reads nothing for too long.
pub(super) async fn run(
    mut client: Rewind,
    mut answer: Pin<Box<AnswerBody>>,
    mut encoder: ResponseEncoder,
    drain: &Drain,
) -> io::Result<(Rewind, bool)> {
    let committed = poll_fn(|cx| match answer.as_mut().poll_commit(cx) {
        Poll::Ready(committed) => Poll::Ready(Ok(committed)),
        Poll::Pending => client.poll_gone(cx).map(Err),
    });
    let committed = committed.await?;
    let (parts, answer) = reply::answer(answer, committed);
    if let Some(length) = answer.size_hint().exact() {
        encoder.set_length(length);
    }
    if !drain.is_serving() {
        encoder.set_close();
    }
    let head = encoder.head(&parts, SystemTime::now());
    // Not held as long as the response.
    drop(parts);
    let mut streaming = Streaming {
        client,
        answer,
        encoder,
        head,
        unsent: Bytes::new(),
        is_over: false,
        flood_throttle: FloodThrottle::default(),
    };
    let sent = poll_fn(|cx| streaming.poll_sent(cx)).await;
    if sent.is_err() && streaming.client.stalled().load(Ordering::Relaxed) {
        streaming.answer.as_mut().stalled();
    }
    sent.map(|()| (streaming.client, encoder.is_keep_alive()))
}

impl Streaming {
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..MAX_WRITES {
            match self.poll_flush(cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => {
                    self.answer.as_mut().poll_overdue(cx);
                    return self.client.poll_gone(cx).map(Err);
                }
            }
            if self.is_over {
                return Poll::Ready(Ok(()));
            }
            if self.flood_throttle.poll_pause(cx).is_pending() {
                return self.client.poll_gone(cx).map(Err);
            }
            let data = match self.answer.as_mut().poll_some(cx) {
                Poll::Ready(true) => self.answer.as_mut().take(),
                Poll::Ready(false) => BytesMut::new(),
                Poll::Pending if self.head.is_empty() => return self.client.poll_gone(cx).map(Err),
                // Does not happen, since a response is committed only when it has data, but would be harmless.
                Poll::Pending => {
                    self.unsent = mem::take(&mut self.head).into();
                    continue;
                }
            };
            self.is_over = data.is_empty() || self.answer.is_end_stream();
            self.send(cx, &data)?;
            self.flood_throttle.sent();
            self.answer.as_mut().put_back(data);
        }
        yield_now::yield_now(cx);
        Poll::Pending
    }

    /// Ready when the socket has taken all bytes.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.client).poll_write(cx, &self.unsent))?;
            self.unsent.advance(nonzero(written)?);
        }
        Pin::new(&mut self.client).poll_flush(cx)
    }

    /// Writes as much of `data`, with its framing, as the socket accepts immediately.
    fn send(&mut self, cx: &mut Context<'_>, data: &[u8]) -> io::Result<()> {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            buffer.extend_from_slice(&mem::take(&mut self.head));
            self.encoder.put_data(buffer, data, self.is_over);
            if !buffer.is_empty() {
                let written = match Pin::new(&mut self.client).poll_write(cx, buffer) {
                    Poll::Ready(written) => nonzero(written?)?,
                    Poll::Pending => 0,
                };
                if let Some(unsent @ [_, ..]) = buffer.get(written..) {
                    self.unsent = Bytes::copy_from_slice(unsent);
                }
            }
            buffer.shrink_to(KEPT_BUFFER);
            Ok(())
        })
    }
}

fn nonzero(written: usize) -> io::Result<usize> {
    if written == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(written) }
}
