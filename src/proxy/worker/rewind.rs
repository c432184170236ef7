//! [`Rewind`]: a client's socket to which bytes that were read can be put back, to be read again.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use rustix::io::Errno;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::stall::Stall;

/// Bytes of further requests that are read while a response is sent. More stay in the socket; then it shows only by a
/// failed write that the client has gone.
const AHEAD: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Rewind {
    stream: TcpStream,
    early: Bytes,
    stall: Stall,
    is_stalled: Arc<AtomicBool>,
}

impl Rewind {
    /// Wraps `stream`. Writing fails when the client has read nothing for `write_timeout`.
    pub(super) fn new(stream: TcpStream, write_timeout: Duration) -> Self {
        let stall = Stall::new(write_timeout);
        Self { stream, early: Bytes::new(), stall, is_stalled: Arc::default() }
    }

    /// Becomes true when a write has failed because the client read nothing.
    pub(super) fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stalled)
    }

    /// Puts back what was `read` last. It is copied, so that the buffer that holds it, which may be large, can be freed.
    pub(super) fn put_back(self, read: &[u8]) -> Self {
        Self { early: [read, &self.early].concat().into(), ..self }
    }

    /// Ready when the client has gone, with the reason. What it sends until then is kept.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while self.early.len() < AHEAD {
            if let Err(error) = ready!(self.stream.poll_read_ready(cx)) {
                return Poll::Ready(error);
            }
            let mut piece = [0; 512];
            let mut read = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {
                    let mut early = BytesMut::from(self.early.as_ref());
                    early.extend_from_slice(read.filled());
                    self.early = early.freeze();
                }
                Ok(()) => return Poll::Ready(ErrorKind::ConnectionAborted.into()),
                Err(error) => return Poll::Ready(error),
            }
        }
        Poll::Pending
    }

    /// Shuts down the write side, then reads and discards what the client still sends. Ready when the client has closed
    /// its side: a socket that is closed with unread bytes in it is reset, and a reset may destroy the end of a response
    /// that the client has not read yet (RFC 9112, section 9.6).
    pub(super) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if ready!(Pin::new(&mut self.stream).poll_shutdown(cx)).is_err() {
            return Poll::Ready(());
        }
        let mut piece = [0; 4 << 10];
        loop {
            let mut read = ReadBuf::new(&mut piece);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// Continues a write of `bytes` that is pending. Ready with an error when the client has read nothing for too long.
    ///
    /// The kernel calls a socket writable only when a third of its buffer is free, which a slow client may not achieve in
    /// time. So a write is tried regardless, when the timer starts and when it expires. The kernel counts whole packets,
    /// so a client that reads less than about 64 KiB in `limits.write_timeout` may still look like one that reads nothing.
    fn poll_pending(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.stall.is_running()
            && let Some(written) = self.write_now(bytes)
        {
            return Poll::Ready(written);
        }
        ready!(self.stall.poll_expired(cx));
        Poll::Ready(self.write_now(bytes).unwrap_or_else(|| {
            self.is_stalled.store(true, Ordering::Relaxed);
            Err(ErrorKind::TimedOut.into())
        }))
    }

    /// Writes past the runtime. `None`: the socket takes nothing.
    fn write_now(&self, bytes: &[u8]) -> Option<io::Result<usize>> {
        match rustix::io::write(&self.stream, bytes) {
            Err(Errno::AGAIN) => None,
            written => Some(written.map_err(io::Error::from)),
        }
    }
}

impl AsyncRead for Rewind {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.early.len().min(buffer.remaining());
        buffer.put_slice(self.early.get(..length).unwrap_or_default());
        self.early.advance(length);
        if self.early.is_empty() {
            // Even an empty view would keep the buffer allocated.
            self.early = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewind {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write(cx, bytes) {
            Poll::Pending => this.poll_pending(cx, bytes),
            written => {
                this.stall.end();
                written
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write_vectored(cx, slices) {
            Poll::Pending => {
                let first = slices.iter().find(|slice| !slice.is_empty());
                this.poll_pending(cx, first.map_or(&[], |slice| slice))
            }
            written => {
                this.stall.end();
                written
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
