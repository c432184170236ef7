//! [`ClientStream`]: a client's connection as a byte stream, over TCP or TLS.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

use super::client_socket::ClientSocket;

/// Time limit for a handshake, starting with the connection.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: the record type of a handshake (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// A client's connection as a byte stream. The TLS state is boxed because it is large, and streams without TLS do not
/// need the space.
#[derive(Debug)]
pub(super) enum ClientStream {
    Tcp(ClientSocket),
    Tls(Box<TlsStream<ClientSocket>>),
}

#[derive(Debug)]
pub(super) enum NoTls {
    /// The client has closed the connection, or reading from it fails.
    Gone,
    /// The client has sent something other than TLS.
    Plain(ClientSocket),
    Failed(io::Error),
}

impl ClientStream {
    /// Performs the TLS handshake on `socket`.
    ///
    /// # Errors
    /// Returns why TLS was not established.
    pub(super) async fn accept(socket: ClientSocket, config: Arc<ServerConfig>) -> Result<Self, NoTls> {
        let handshake = async {
            match socket.peek().await {
                Ok(Some(HANDSHAKE_RECORD)) => {}
                Ok(Some(_)) => return Err(NoTls::Plain(socket)),
                Ok(None) | Err(_) => return Err(NoTls::Gone),
            }
            let accepted = TlsAcceptor::from(config).accept(socket).await.map_err(NoTls::Failed)?;
            Ok(Self::Tls(Box::new(accepted)))
        };
        // Boxed, so that its memory is released before the connection is served.
        let late = |_elapsed| Err(NoTls::Failed(io::ErrorKind::TimedOut.into()));
        timeout(HANDSHAKE, Box::pin(handshake)).await.unwrap_or_else(late)
    }

    /// Whether `first`, the first bytes of a plain connection, look like the start of TLS.
    pub(super) fn is_handshake(first: &[u8]) -> bool {
        matches!(first, [HANDSHAKE_RECORD, 3, ..])
    }

    /// Returns a flag that is set when a write fails because the client read nothing.
    pub(super) fn stalled(&self) -> Arc<AtomicBool> {
        match self {
            Self::Tcp(socket) => socket.stalled(),
            Self::Tls(stream) => stream.get_ref().0.stalled(),
        }
    }

    /// Ready when a read may return data.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => socket.poll_read_ready(cx),
            Self::Tls(stream) => poll_tls_ready(stream, cx),
        }
    }
}

/// Ready when a read may return data, either from a record that was read earlier or from the socket.
fn poll_tls_ready(stream: &TlsStream<ClientSocket>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    match stream.get_ref() {
        (socket, session) if session.wants_read() => socket.poll_read_ready(cx),
        _ => Poll::Ready(Ok(())),
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Tls(stream) => {
                // An HTTP/2 connection is read after each write, when usually nothing has arrived. Asking the socket
                // first is faster than finding that out through the TLS session.
                ready!(poll_tls_ready(stream, cx))?;
                Pin::new(stream.as_mut()).poll_read(cx, buffer)
            }
        }
    }
}

/// Over TLS, a write may be accepted before the socket has taken all of its data. The socket has taken everything once
/// a flush is ready.
impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
