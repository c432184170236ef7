//! [`Stream`]: the bytes of a connection to an upstream, over TCP or over TLS.

use std::{
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Both ways of a connection.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Duplex for T {}

/// A connection's bytes. The state of TLS is large, so that it has a box of its own: a stream without pays nothing for
/// it.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls {
        stream: Box<dyn Duplex>,
        /// It was agreed to speak HTTP/2 on it.
        http2: bool,
    },
}

impl From<MaybeHttpsStream<TokioIo<TcpStream>>> for Stream {
    fn from(stream: MaybeHttpsStream<TokioIo<TcpStream>>) -> Self {
        let http2 = stream.connected().is_negotiated_h2();
        match stream {
            MaybeHttpsStream::Http(stream) => Self::Tcp(stream.into_inner()),
            MaybeHttpsStream::Https(stream) => Self::Tls { stream: Box::new(stream.into_inner()), http2 },
        }
    }
}

impl Stream {
    /// HTTP/2 is spoken on it.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Tls { http2: true, .. })
    }

    fn duplex(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls { stream, .. } => Pin::new(stream.as_mut()),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().duplex().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().duplex().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().duplex().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().duplex().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().duplex().poll_shutdown(cx)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp(_) => "Tcp",
            Self::Tls { .. } => "Tls",
        })
    }
}
