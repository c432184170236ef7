//! [`TcpConnector`]: opens TCP connections, directly or through a proxy.
//!
//! For `https`, the proxy opens a tunnel (RFC 9110, section 9.3.6), which then works like a direct connection. For
//! `http`, the connection ends at the proxy, and each request contains the server's full URL (RFC 9112, section 3.2.2).

use std::{
    error::Error,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use http::{Uri, uri::Scheme};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::net::TcpStream;
use tower_service::Service;

use super::{HttpProxy, open_tunnel};

/// Opens TCP connections for requests to one server.
#[derive(Debug, Clone)]
pub enum TcpConnector {
    Direct(HttpConnector),
    /// To the server, through a tunnel that this proxy opens.
    Tunnel(HttpConnector, HttpProxy),
    /// To the proxy at this address, which forwards each request.
    Forward(HttpConnector, Uri),
}

impl TcpConnector {
    /// Creates a connector for the server at `address`. It opens connections with `tcp`.
    pub fn new(tcp: HttpConnector, proxy: Option<&HttpProxy>, address: &Uri) -> Self {
        match proxy {
            None => Self::Direct(tcp),
            Some(proxy) if address.scheme() == Some(&Scheme::HTTPS) => Self::Tunnel(tcp, proxy.clone()),
            Some(proxy) => Self::Forward(tcp, proxy.address.clone()),
        }
    }
}

type Connecting = Pin<Box<dyn Future<Output = Result<TcpConnection, Box<dyn Error + Send + Sync>>> + Send>>;

impl Service<Uri> for TcpConnector {
    type Response = TcpConnection;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self {
            Self::Direct(tcp) | Self::Tunnel(tcp, _) | Self::Forward(tcp, _) => {
                tcp.poll_ready(cx).map_err(Into::into)
            }
        }
    }

    fn call(&mut self, server: Uri) -> Connecting {
        match self {
            Self::Direct(tcp) => {
                let connecting = tcp.call(server);
                Box::pin(async { Ok(TcpConnection::direct(connecting.await?)) })
            }
            Self::Tunnel(tcp, proxy) => {
                let (connecting, proxy) = (tcp.call(proxy.address.clone()), proxy.clone());
                Box::pin(async move {
                    let target = format!("{}:{}", server.host().unwrap_or_default(), port_of(&server));
                    let stream = connecting.await?.into_inner();
                    let stream = open_tunnel(stream, &target, proxy.authorization.as_ref()).await?;
                    Ok(TcpConnection::direct(TokioIo::new(stream)))
                })
            }
            Self::Forward(tcp, proxy) => {
                let connecting = tcp.call(proxy.clone());
                Box::pin(async { Ok(TcpConnection { stream: connecting.await?, is_forwarded: true }) })
            }
        }
    }
}

/// The port in `url`, or the default port of its scheme.
pub fn port_of(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 })
}

#[derive(Debug)]
pub struct TcpConnection {
    stream: TokioIo<TcpStream>,
    /// Whether the other end is a proxy that forwards each request.
    is_forwarded: bool,
}

impl TcpConnection {
    /// Wraps a connection to the server itself, with or without a tunnel.
    pub fn direct(stream: TokioIo<TcpStream>) -> Self {
        Self { stream, is_forwarded: false }
    }

    pub fn socket(&self) -> &TcpStream {
        self.stream.inner()
    }

    pub fn into_socket(self) -> TcpStream {
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
