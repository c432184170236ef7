//! [`TcpConnector`]: opens TCP connections to an upstream, directly or through its proxy.
//!
//! For `https`, the proxy opens a tunnel (RFC 9110, section 9.3.6), in which everything is as without it. For `http`, the connection is
//! to the proxy, and requests name the upstream (RFC 9112, section 3.2.2).

use std::{
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use http::{Uri, uri::Scheme};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector, proxy::Tunnel},
    rt::TokioIo,
};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::config::HttpProxy;

/// See the module.
#[derive(Debug, Clone)]
pub(super) enum TcpConnector {
    /// To the upstream.
    Direct(HttpConnector),
    /// To the upstream, by a tunnel of its proxy.
    Tunnel(Tunnel<HttpConnector>),
    /// To its proxy, which is here.
    Forward(HttpConnector, Uri),
}

impl TcpConnector {
    /// Connections to the server of `address` by `tcp`.
    pub(super) fn new(tcp: HttpConnector, proxy: Option<&HttpProxy>, address: &Uri) -> Self {
        match proxy {
            None => Self::Direct(tcp),
            Some(proxy) if address.scheme() == Some(&Scheme::HTTPS) => {
                let tunnel = Tunnel::new(proxy.address.clone(), tcp);
                Self::Tunnel(match &proxy.authorization {
                    Some(authorization) => tunnel.with_auth(authorization.clone()),
                    None => tunnel,
                })
            }
            Some(proxy) => Self::Forward(tcp, proxy.address.clone()),
        }
    }
}

/// A connection that is being opened.
type Connecting = Pin<Box<dyn Future<Output = Result<TcpConnection, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Uri> for TcpConnector {
    type Response = TcpConnection;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self {
            Self::Direct(tcp) | Self::Forward(tcp, _) => tcp.poll_ready(cx).map_err(Into::into),
            Self::Tunnel(tunnel) => tunnel.poll_ready(cx).map_err(Into::into),
        }
    }

    fn call(&mut self, upstream: Uri) -> Connecting {
        match self {
            Self::Direct(tcp) => connected(tcp.call(upstream), false),
            Self::Tunnel(tunnel) => connected(tunnel.call(upstream), false),
            Self::Forward(tcp, proxy) => connected(tcp.call(proxy.clone()), true),
        }
    }
}

fn connected<E: Into<Box<dyn Error + Send + Sync>>>(
    connecting: impl Future<Output = Result<TokioIo<TcpStream>, E>> + Send + 'static,
    is_forwarded: bool,
) -> Connecting {
    Box::pin(async move {
        let stream = connecting.await.map_err(Into::into)?;
        Ok(TcpConnection { stream, is_forwarded })
    })
}

/// An open connection.
#[derive(Debug)]
pub(super) struct TcpConnection {
    stream: TokioIo<TcpStream>,
    /// A proxy reads the requests and passes them on.
    is_forwarded: bool,
}

impl TcpConnection {
    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.inner()
    }

    pub(super) fn into_socket(self) -> TcpStream {
        self.stream.into_inner()
    }
}

impl Connection for TcpConnection {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_forwarded)
    }
}

impl Read for TcpConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl Write for TcpConnection {
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
