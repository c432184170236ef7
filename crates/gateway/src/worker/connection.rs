//! A client's connection, from its first byte to its last.
//!
//! ```text
//! TLS, if it is configured ─▶ first bytes ─┬─ HTTP/2 ─▶ http2: hyper, to the end
//!                                          └─ HTTP/1 ─▶ hyper: requests, and the responses that toolwire itself makes
//!                                                         │ ▲
//!                                  an upstream responds   │ │ the response has ended, and the connection persists
//!                                                         ▼ │
//!                                                       streaming: the response's bytes to the socket
//! ```
//!
//! A connection that becomes a WebSocket is taken over from hyper in the same way, and stays one to its end.
//!
//! The first bytes determine the protocol over TLS as well: a client that has negotiated HTTP/2 starts with its preface.
//!
//! hyper reads all requests but does not write responses from upstreams; see [`http1`](toolwire_http1).
//!
//! # What decides whether a connection persists
//!
//! - hyper, based on the request: version, `Connection` in any form, `Content-Length` together with
//!   `Transfer-Encoding`, a body that was not read to its end, or an invalid request. For a response that hyper does
//!   not write, it is still asked ([`handover`](super::handover)).
//! - `Service::begin`, which makes hyper announce the end of the connection if the body was not read or the host is
//!   wrong.
//! - `Streaming`, which closes the connection after an aborted response, or after one whose end the client can
//!   recognize only by the end of the connection.
//! - The drain, during which no connection persists, and a lack of file descriptors
//!   ([`Shortage`](super::shortage::Shortage)), during which older connections do not.
//!
//! Each of these can only close a connection. None keeps a connection open that another one closes.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use http::{Request, Response, response};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    super::{
        answer::AnswerBody,
        current_service::CurrentService,
        reply::ReplyBody,
        service::Service,
        websocket::{Handshake, head},
    },
    bounds::{GOODBYE, IDLE},
    client_socket::ClientSocket,
    client_stream::{ClientStream, NoTls},
    handover::{HandledBody, Handover, Served, until_handover},
    http2,
    rewind::Rewind,
    shortage::Leave,
    streaming, websocket,
};

/// How long a client may continue to send after the last response on a connection.
const LINGER: Duration = Duration::from_secs(2);

/// Start of the HTTP/2 connection preface, long enough to distinguish it from an HTTP/1 request.
const HTTP2_PREFACE: &[u8] = b"PRI ";

/// Number of bytes to read before the protocol is known: enough for most requests including their bodies.
const FIRST_READ: usize = 4 << 10;

/// What is written without hyper.
enum TakenOver {
    Answer(Pin<Box<AnswerBody>>),
    WebSocket(Box<Handshake>, Box<response::Parts>),
}

type Handled = Response<HandledBody<ReplyBody, TakenOver>>;

type Handling = Pin<Box<dyn Future<Output = Result<Handled, Infallible>> + Send>>;

/// Response to a client that does not use TLS on a TLS listener.
const NO_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 43\r\n\
    connection: close\r\n\r\nThis port speaks TLS: the URL is https://.\n";

enum Opening {
    Http1,
    Http2,
    /// The connection uses neither protocol and cannot be served.
    Neither,
}

/// Serves `stream` to its end. Once `leave` is ready, only open responses continue.
pub(super) async fn serve(
    (stream, peer): (TcpStream, SocketAddr),
    service: Arc<CurrentService>,
    leave: Leave,
) {
    let peer = peer.ip();
    let mut stopped = pin!(leave);
    let current = service.get();
    let opened = tokio::select! {
        biased;
        opened = open(stream, peer, &current) => opened,
        // A request that is already being sent is answered, even if only with a refusal.
        () = async { stopped.as_mut().await; sleep(GOODBYE).await } => return,
    };
    drop(current);
    let Some((opening, stream)) = opened else { return };
    let stalled = stream.stalled();
    match opening {
        Opening::Http1 => serve_http1(stream, peer, &service, stopped).await,
        Opening::Http2 => {
            // Boxed, since it takes twice the memory of a connection with HTTP/1.1, which would have to have room for it.
            let served = Box::pin(http2::serve(stream, peer, Arc::clone(&service), stopped)).await;
            log_end(served);
        }
        Opening::Neither => close(stream, &service, stopped).await,
    }
    if stalled.load(Ordering::Relaxed) {
        service.get().shared.monitors.metrics.client_stalled();
    }
}

pub(super) fn log_end(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Performs the TLS handshake, if TLS is configured, and reads the start of the connection. `None` if the connection is
/// over.
async fn open(stream: TcpStream, peer: IpAddr, service: &Service) -> Option<(Opening, Rewind)> {
    let socket = ClientSocket::new(stream, service.limits().write_timeout);
    let mut stream = match service.shared.tls.as_ref().map(|tls| Arc::clone(&tls.config)) {
        None => ClientStream::Tcp(socket),
        Some(tls) => match ClientStream::accept(socket, tls).await {
            Ok(stream) => stream,
            Err(NoTls::Gone) => return None,
            Err(NoTls::Plain(mut socket)) => {
                tracing::debug!(%peer, "a client did not begin with TLS");
                socket.write_all(NO_TLS).await.ok()?;
                return Some((Opening::Neither, Rewind::new(ClientStream::Tcp(socket))));
            }
            Err(NoTls::Failed(error)) => {
                tracing::debug!(%peer, %error, "a TLS handshake failed");
                service.shared.monitors.metrics.certificates().handshake_failures.inc();
                return None;
            }
        },
    };
    let first = timeout(IDLE, read_first(&mut stream)).await.ok()?.ok()?;
    let opening = match first.as_slice() {
        first if first.starts_with(HTTP2_PREFACE) => Opening::Http2,
        first if ClientStream::is_handshake(first) => {
            tracing::debug!(%peer, "a client began with TLS, which is not configured");
            Opening::Neither
        }
        _ => Opening::Http1,
    };
    Some((opening, Rewind::new(stream).put_back(&first)))
}

/// Reads enough bytes to distinguish the protocols. Returns no bytes if the client closes the connection.
async fn read_first(stream: &mut ClientStream) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(FIRST_READ);
    loop {
        let read = stream.read_buf(&mut first).await?;
        if read == 0 || !HTTP2_PREFACE.starts_with(&first) {
            return Ok(first);
        }
    }
}

async fn serve_http1(
    mut client: Rewind,
    peer: IpAddr,
    service: &Arc<CurrentService>,
    mut stopped: Pin<&mut Leave>,
) {
    loop {
        let handover = Handover::default();
        let handler = handler(Arc::clone(service), peer, handover.clone());
        let (back, unread, served) = until_handover(client, handover, handler, stopped.as_mut()).await;
        let (taken_over, encoder) = match served {
            Served::HandedOver(taken_over, encoder) => (taken_over, encoder),
            Served::Idle => {
                // Over TLS, a proper shutdown shows the client that nothing was cut off.
                let mut back = back;
                let _ = poll_fn(|cx| Poll::Ready(Pin::new(&mut back).poll_shutdown(cx))).await;
                return;
            }
            // Bytes after the last request are ignored.
            Served::Over => {
                client = back;
                break;
            }
        };
        let back = back.put_back(&unread);
        drop(unread);
        let answer = match taken_over {
            TakenOver::Answer(answer) => answer,
            TakenOver::WebSocket(handshake, parts) => {
                client = serve_websocket(back, *handshake, &parts, service, stopped.as_mut()).await;
                break;
            }
        };
        match streaming::run(back, answer, encoder, service.drain()).await {
            Ok((back, keep_alive)) => {
                client = back;
                if !keep_alive || !service.drain().is_serving() {
                    break;
                }
            }
            Err(_) => return,
        }
    }
    close(client, service, stopped).await;
}

/// Accepts the handshake, and serves the WebSocket to its end.
async fn serve_websocket(
    mut client: Rewind,
    handshake: Handshake,
    parts: &response::Parts,
    service: &CurrentService,
    stopped: Pin<&mut Leave>,
) -> Rewind {
    let head = head(parts);
    let written = async {
        client.write_all(&head).await?;
        client.flush().await
    };
    match written.await {
        Ok(()) => Box::pin(websocket::run(client, handshake, service, stopped)).await,
        Err(_) => client,
    }
}

/// Closes a connection on which the client may still be sending.
async fn close(mut client: Rewind, service: &CurrentService, stopped: Pin<&mut Leave>) {
    let closed = poll_fn(|cx| client.poll_closed(cx));
    if service.drain().is_serving() {
        tokio::select! {
            _ = timeout(LINGER, closed) => {}
            () = stopped => {}
        }
    } else {
        let _ = timeout(GOODBYE, closed).await;
    }
}

/// Returns the handler of requests, which hands over responses from upstreams, and connections that become WebSockets.
fn handler(
    service: Arc<CurrentService>,
    peer: IpAddr,
    handover: Handover<TakenOver>,
) -> impl Fn(Request<Incoming>) -> Handling {
    move |request| {
        let (service, handover) = (Arc::clone(&service), handover.clone());
        handover.request_begins();
        // Boxed, so that its memory is released before the response is written.
        Box::pin(async move {
            let taken_over = match service.get().begin(request, peer).await {
                Ok(answer) => TakenOver::Answer(answer),
                Err(response) => match response.into_parts() {
                    (parts, ReplyBody::WebSocket(handshake)) => {
                        TakenOver::WebSocket(handshake, Box::new(parts))
                    }
                    (parts, body) => {
                        return Ok(Response::from_parts(parts, HandledBody::new(body, handover)));
                    }
                },
            };
            handover.hand_over(taken_over).await;
            Ok(Response::new(HandledBody::new(ReplyBody::Elsewhere, handover)))
        })
    }
}
