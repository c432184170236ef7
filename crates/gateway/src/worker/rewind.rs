//! [`Rewind`]: a client's connection to which bytes can be returned after reading, to be read again.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client_stream::ClientStream;

/// Maximum number of bytes of further requests to read while a response is sent. More bytes stay in the socket; then
/// only a failed write shows that the client has disconnected.
const AHEAD: usize = 16 << 10;

/// A client's connection, and bytes to read before those in its socket.
#[derive(Debug)]
pub(super) struct Rewind {
    stream: ClientStream,
    early: Bytes,
}

impl Rewind {
    pub(super) fn new(stream: ClientStream) -> Self {
        Self { stream, early: Bytes::new() }
    }

    /// Returns a flag that is set when a write fails because the client read nothing.
    pub(super) fn stalled(&self) -> Arc<AtomicBool> {
        self.stream.stalled()
    }

    /// Puts back `read`, the bytes that were read last. They are copied so that their buffer, which may be large, can
    /// be freed.
    pub(super) fn put_back(self, read: &[u8]) -> Self {
        Self { early: [read, &self.early].concat().into(), ..self }
    }

    /// Ready when the client has disconnected, with the reason. Bytes that arrive before that stay available for
    /// reading.
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

    /// Shuts down writing, and then reads and discards everything that the client still sends. Ready when the client
    /// has closed its side. Closing a socket with unread bytes would reset the connection, which may destroy the end of
    /// a response that the client has not read yet (RFC 9112, section 9.6).
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
            // Even an empty slice would keep the buffer allocated.
            self.early = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewind {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
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
