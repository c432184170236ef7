//! [`ClientSocket`]: a client's TCP connection, on which writes fail if the client reads nothing for too long.

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

use rustix::io::Errno;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::stall::Stall;

/// A client's TCP connection. TLS writes its records through it, so the time limit applies to them as well.
#[derive(Debug)]
pub(super) struct ClientSocket {
    stream: TcpStream,
    stall: Stall,
    is_stalled: Arc<AtomicBool>,
}

impl ClientSocket {
    /// Wraps `stream`. Writing fails after the client has read nothing for `write_timeout`.
    pub(super) fn new(stream: TcpStream, write_timeout: Duration) -> Self {
        Self { stream, stall: Stall::new(write_timeout), is_stalled: Arc::default() }
    }

    /// Returns a flag that is set when a write fails because the client read nothing.
    pub(super) fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stalled)
    }

    /// Ready when a read may return data.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_read_ready(cx)
    }

    /// Returns the first byte without consuming it. `None` if the client has closed its side.
    ///
    /// # Errors
    /// As for reading.
    pub(super) async fn peek(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let length = self.stream.peek(&mut byte).await?;
        Ok((length > 0).then_some(byte[0]))
    }

    /// Continues a pending write of `bytes`. Fails if the client has read nothing for too long.
    ///
    /// The kernel considers a socket writable only when a third of its buffer is free, which a slow client may not
    /// achieve in time. A write is therefore attempted anyway, when the timer starts and when it expires. Since the
    /// kernel counts complete packets, a client that reads less than about 64 KiB within `limits.write_timeout` may
    /// still look like one that reads nothing.
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

    /// Writes directly, bypassing the runtime. `None` if the socket accepts no bytes.
    fn write_now(&self, bytes: &[u8]) -> Option<io::Result<usize>> {
        match rustix::io::write(&self.stream, bytes) {
            Err(Errno::AGAIN) => None,
            written => Some(written.map_err(io::Error::from)),
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ClientSocket {
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
        // TLS writes most records separately, and writing one slice costs the system less than writing a list of them.
        if let [slice] = slices {
            return self.poll_write(cx, slice);
        }
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

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
