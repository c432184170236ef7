//! [`Rewound`]: a client's socket, with bytes that were read from it and belong to what is read next.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Bytes that a client may send ahead, behind a request whose answer is a stream: further requests. Beyond: they wait
/// in its socket, and that it has gone shows only when something is written to it.
const AHEAD: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Rewound {
    stream: TcpStream,
    early: Bytes,
    /// The socket has taken all that was to be written.
    flushed: Arc<AtomicBool>,
}

impl Rewound {
    /// `stream`, from which nothing was read.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, early: Bytes::new(), flushed: Arc::new(AtomicBool::new(true)) }
    }

    /// True; becomes false with a write, and true again with a flush.
    pub(super) fn flushed(&self) -> Arc<AtomicBool> {
        self.flushed.store(true, Ordering::Relaxed);
        Arc::clone(&self.flushed)
    }

    /// Puts back what was `read` last. It is copied, so that the large buffer that it may stand in can go.
    pub(super) fn put_back(self, read: &[u8]) -> Self {
        Self { early: [read, &self.early].concat().into(), ..self }
    }

    /// Ready when the client has gone, and how. What it says meanwhile is kept.
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
}

impl AsyncRead for Rewound {
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
            // An empty view would keep the buffer.
            self.early = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.flushed.store(false, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.flushed.store(false, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.flushed.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
