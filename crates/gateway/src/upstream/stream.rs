//! [`Stream`]: a connection to an upstream as a byte stream, over TCP or TLS.

use std::{
    fmt,
    io::{self, ErrorKind, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioIo};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use toolwire_net::proxied::TcpConnection;

/// A byte stream in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    fn socket(&self) -> Option<&TcpStream>;

    /// Whether bytes that were read from the socket earlier are still buffered.
    fn has_more(&self) -> bool {
        false
    }
}

impl Duplex for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Duplex for TokioIo<MaybeHttpsStream<TcpConnection>> {
    fn socket(&self) -> Option<&TcpStream> {
        Some(match self.inner() {
            MaybeHttpsStream::Http(stream) => stream.socket(),
            MaybeHttpsStream::Https(stream) => stream.inner().get_ref().0.inner().socket(),
        })
    }

    fn has_more(&self) -> bool {
        matches!(self.inner(), MaybeHttpsStream::Https(stream) if !stream.inner().get_ref().1.wants_read())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleState {
    /// Open, and no data has arrived.
    Quiet,
    /// Closed, or unusable for another reason.
    Closed,
    /// The other side has sent bytes without a request (RFC 9112, section 9.2).
    Unsolicited,
}

/// A connection as a byte stream. The TLS state is boxed because it is large, and streams without TLS do not need the
/// space.
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls {
        stream: Box<dyn Duplex>,
        /// Whether HTTP/2 was negotiated.
        http2: bool,
    },
}

impl From<MaybeHttpsStream<TcpConnection>> for Stream {
    fn from(stream: MaybeHttpsStream<TcpConnection>) -> Self {
        let http2 = stream.connected().is_negotiated_h2();
        match stream {
            MaybeHttpsStream::Http(stream) => Self::Tcp(stream.into_socket()),
            stream @ MaybeHttpsStream::Https(_) => {
                Self::Tls { stream: Box::new(TokioIo::new(stream)), http2 }
            }
        }
    }
}

impl Stream {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Tls { http2: true, .. })
    }

    /// Checks an idle connection.
    ///
    /// Examines the socket itself. The runtime only knows the state of its last poll of all sockets, and bytes that
    /// have arrived since would be taken for the response to the next request.
    pub(super) fn check_idle(&mut self, cx: &mut Context<'_>) -> IdleState {
        match self {
            Self::Tcp(socket) => peek(socket),
            Self::Tls { stream, .. } => {
                let mut byte = [0];
                let mut buffer = ReadBuf::new(&mut byte);
                match Pin::new(stream.as_mut()).poll_read(cx, &mut buffer) {
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => IdleState::Unsolicited,
                    Poll::Ready(_) => IdleState::Closed,
                    // Bytes in the socket may be a TLS close or anything else. A new connection is cheaper than
                    // decrypting them.
                    Poll::Pending => match stream.socket().map(peek) {
                        None | Some(IdleState::Quiet) => IdleState::Quiet,
                        Some(IdleState::Closed | IdleState::Unsolicited) => IdleState::Closed,
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

fn peek(socket: &TcpStream) -> IdleState {
    match SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]) {
        Ok(0) => IdleState::Closed,
        Ok(_) => IdleState::Unsolicited,
        Err(error) if error.kind() == ErrorKind::WouldBlock => IdleState::Quiet,
        Err(_) => IdleState::Closed,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Self::Tls { stream, .. } = this
            && let Some(socket) = stream.socket().filter(|_| !stream.has_more())
        {
            // A read that returns data is followed by one that finds no data. Asking the socket first is faster than
            // finding that out through the TLS session.
            ready!(socket.poll_read_ready(cx))?;
        }
        this.duplex().poll_read(cx, buffer)
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
