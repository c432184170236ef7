//! [`Stream`]: the bytes of a connection to an upstream, over TCP or over TLS.

use std::{
    fmt,
    io::{self, ErrorKind, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioIo};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Both ways of a connection.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// The socket below, if there is one.
    fn socket(&self) -> Option<&TcpStream>;
}

impl Duplex for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Duplex for TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>> {
    fn socket(&self) -> Option<&TcpStream> {
        Some(match self.inner() {
            MaybeHttpsStream::Http(stream) => stream.inner(),
            MaybeHttpsStream::Https(stream) => stream.inner().get_ref().0.inner().inner(),
        })
    }
}

/// What an idle connection looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// Open, and nothing has come.
    Quiet,
    /// Closed, or not to be used for another reason.
    Closed,
    /// The other side has sent something that nobody had asked for.
    Unsolicited,
}

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
            stream @ MaybeHttpsStream::Https(_) => {
                Self::Tls { stream: Box::new(TokioIo::new(stream)), http2 }
            }
        }
    }
}

impl Stream {
    /// HTTP/2 is spoken on it.
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Tls { http2: true, .. })
    }

    /// Looks at an idle connection.
    ///
    /// The socket itself is asked. What the runtime knows of it is as old as the runtime's last look at all sockets,
    /// and what came since would be taken for the answer to the next request.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) -> Idle {
        match self {
            Self::Tcp(socket) => peek(socket),
            Self::Tls { stream, .. } => {
                let mut byte = [0];
                let mut buffer = ReadBuf::new(&mut byte);
                match Pin::new(stream.as_mut()).poll_read(cx, &mut buffer) {
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => Idle::Unsolicited,
                    Poll::Ready(_) => Idle::Closed,
                    // Bytes of the socket may be anything, the end of TLS for one. Whatever they are, they need not
                    // be known: a new connection is cheap.
                    Poll::Pending => match stream.socket().map(peek) {
                        None | Some(Idle::Quiet) => Idle::Quiet,
                        Some(Idle::Closed | Idle::Unsolicited) => Idle::Closed,
                    },
                }
            }
        }
    }

    fn duplex(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls { stream, .. } => Pin::new(stream.as_mut()),
        }
    }
}

fn peek(socket: &TcpStream) -> Idle {
    match SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]) {
        Ok(0) => Idle::Closed,
        Ok(_) => Idle::Unsolicited,
        Err(error) if error.kind() == ErrorKind::WouldBlock => Idle::Quiet,
        Err(_) => Idle::Closed,
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
