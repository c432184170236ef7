//! A client's connection, from its first byte to its last.
//!
//! ```text
//! first bytes ─┬─ HTTP/2 ─▶ http2: hyper, to the end
//!              └─ HTTP/1 ─▶ hyper: requests, and answers that are said at once
//!                             │ ▲
//!         an upstream is asked │ │ the answer has ended, and the connection is kept
//!                             ▼ │
//!                           streaming: the answer's bytes to the socket
//! ```
//!
//! hyper reads every request. An upstream's answer it does not write: its buffers would stay with the connection as long
//! as the answer takes, and are more than all else that a stream needs (docs/performance.md).
//!
//! # Who decides that a connection is used again
//!
//! - hyper, by the request: version, `Connection` in any form, `Content-Length` beside `Transfer-Encoding`, a body that was
//!   not read to its end, a request that could not be read. For answers that it does not write, it is asked ([`handover`]).
//! - `Service::begin` asks hyper to close where the body was not read, or the host is wrong: so the response says so.
//! - `Streaming`: an answer that breaks off, or whose end the client can see only by the end of the connection.
//! - The drain: nothing is used again.
//!
//! Each can only close: none keeps a connection that another one closes.
//!
//! [`handover`]: super::handover

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

use super::{
    super::{answer::AnswerBody, drain::SignalFuture, reply::ReplyBody, service::Service},
    handover::{Handover, Lent, Next},
    http2,
    rewind::Rewind,
    streaming::{self, Framing},
};

/// A connection on which no request comes for so long is closed, also between two requests.
pub(super) const IDLE: Duration = Duration::from_secs(75);

/// Bytes that hyper buffers a connection, each way; a request's headers must fit.
pub(super) const BUFFER: usize = 64 << 10;

/// How long a client may go on sending after the last answer of a connection.
const LINGER: Duration = Duration::from_secs(2);

/// The same when the server stops.
pub(super) const GOODBYE: Duration = Duration::from_millis(100);

/// How an HTTP/2 connection begins, as far as it takes to tell it from a request of HTTP/1.
const HTTP2: &[u8] = b"PRI ";

/// Bytes that are read before the protocol is known: most requests, with their body.
const FIRST: usize = 4 << 10;

type Answering = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, Infallible>> + Send>>;

/// Serves `stream` to its end. When the server stops, that is after the answers that are open.
pub(super) async fn serve(mut stream: TcpStream, service: Arc<Service>) {
    let mut stopped = pin!(service.drain().when_begun());
    let begun = tokio::select! {
        () = &mut stopped => return,
        begun = timeout(IDLE, begun(&mut stream)) => begun,
    };
    let Ok(Ok(first)) = begun else { return };
    let is_http2 = first.starts_with(HTTP2);
    let stream = Rewind::new(stream, service.limits().write_timeout).put_back(&first);
    drop(first);
    let stalled = stream.stalled();
    if is_http2 {
        let served = http2::serve(stream, Arc::clone(&service), stopped).await;
        told(served);
    } else {
        serve_http1(stream, &service, stopped).await;
    }
    if stalled.load(Ordering::Relaxed) {
        service.client_stalled();
    }
}

fn told(served: hyper::Result<()>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// What comes first, as much as it takes to tell the protocols apart. Nothing, if the client goes.
async fn begun(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(FIRST);
    loop {
        let read = stream.read_buf(&mut first).await?;
        if read == 0 || !HTTP2.starts_with(&first) {
            return Ok(first);
        }
    }
}

async fn serve_http1(mut client: Rewind, service: &Arc<Service>, mut stopped: Pin<&mut SignalFuture>) {
    loop {
        let (back, served) = until_answer(client, service, stopped.as_mut()).await;
        client = back;
        let (answer, framing) = match served {
            Served::Begun(answer, framing) => (answer, framing),
            Served::Over => break,
            Served::Idle => return,
        };
        match streaming::run(client, answer, framing, service.drain()).await {
            Ok((back, keeps)) => {
                client = back;
                if !keeps || !service.drain().is_serving() {
                    break;
                }
            }
            Err(_) => return,
        }
    }
    close(client, service, stopped).await;
}

/// Closes a connection on which the client may still be sending.
async fn close(mut client: Rewind, service: &Service, stopped: Pin<&mut SignalFuture>) {
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

/// Why hyper serves a connection no longer.
enum Served {
    /// An answer has an upstream, and is to be sent.
    Begun(Pin<Box<AnswerBody>>, Framing),
    /// The last answer has been written, or the client has gone.
    Over,
    /// The server stops, and no answer is open.
    Idle,
}

/// Serves requests with hyper until an answer has an upstream, or the connection is over. Gives it back.
async fn until_answer(
    client: Rewind,
    service: &Arc<Service>,
    mut stopped: Pin<&mut SignalFuture>,
) -> (Rewind, Served) {
    let handover = Handover::default();
    let handler = handler(Arc::clone(service), handover.clone());
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Lent::new(client, handover.clone())), service_fn(handler));
    let mut is_stopping = false;
    let served = poll_fn(|cx| {
        if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            if handover.is_idle() {
                return Poll::Ready(Served::Idle);
            }
            Pin::new(&mut serving).graceful_shutdown();
        }
        loop {
            // With its shutdown, which is when everything has been written.
            if let Poll::Ready(served) = Pin::new(&mut serving).poll(cx) {
                told(served);
                return Poll::Ready(Served::Over);
            }
            match handover.next() {
                Next::Poll => {}
                Next::Take(answer, framing) => return Poll::Ready(Served::Begun(answer, framing)),
                Next::Wait => return Poll::Pending,
            }
        }
    });
    let served = served.await;
    let parts = serving.into_parts();
    let client = parts.io.into_inner().into_inner();
    match served {
        Served::Begun(..) => (client.put_back(&parts.read_buf), served),
        // What the client sent behind its last request is not read any more.
        Served::Over | Served::Idle => (client, served),
    }
}

/// Answers requests; answers that have an upstream go into `handover`.
fn handler(service: Arc<Service>, handover: Handover) -> impl Fn(Request<Incoming>) -> Answering {
    move |request| {
        let (service, handover) = (Arc::clone(&service), handover.clone());
        handover.asked();
        // In a box of its own, which is gone when the answer begins.
        Box::pin(async move {
            let response = match service.begin(request).await {
                Err(response) => response,
                Ok(answer) => {
                    handover.begun(answer);
                    // The connection's task polls again when it wants the head.
                    poll_fn(|_| if handover.wants_head() { Poll::Ready(()) } else { Poll::Pending }).await;
                    Response::new(ReplyBody::Elsewhere)
                }
            };
            handover.answered();
            Ok(response)
        })
    }
}
