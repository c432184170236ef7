//! A client's connection, from its first byte to its last.
//!
//! ```text
//! first bytes ─┬─ HTTP/2 ─▶ hyper, to the end
//!              └─ HTTP/1 ─▶ hyper: requests, and answers that are said at once
//!                             │ ▲
//!         an upstream is asked │ │ the answer has ended, and the connection is kept
//!                             ▼ │
//!                           streaming: the answer's bytes to the socket
//! ```
//!
//! hyper reads every request. An upstream's answer it does not write: its buffers would stay with the connection as long
//! as the answer takes, and are more than all else that a stream needs (docs/performance.md).

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

use super::{
    super::{answer::Answer, drain::Given, reply::Body, service::Service},
    rewound::Rewound,
    streaming::{self, Framing},
};

/// A connection on which no request comes for so long is closed, also between two requests.
const IDLE: Duration = Duration::from_secs(75);

/// Bytes that hyper buffers a connection, each way; a request's headers must fit.
const BUFFER: usize = 64 << 10;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;

/// How an HTTP/2 connection begins, as far as it takes to tell it from a request of HTTP/1.
const HTTP2: &[u8] = b"PRI ";

/// Bytes that are read before the protocol is known: most requests, with their body.
const FIRST: usize = 4 << 10;

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// An answer that has yet to come, and how it is framed.
type Begun = (Pin<Box<Answer>>, Framing);

/// Where a handler puts an answer that is to be taken from hyper.
type Handover = Arc<Mutex<Option<Begun>>>;

/// Serves `stream` to its end. When the server stops, that is after the answers that are open.
pub(super) async fn serve(mut stream: TcpStream, service: Arc<Service>) {
    let mut stopped = pin!(service.drain().when_begun());
    let begun = tokio::select! {
        () = &mut stopped => return,
        begun = timeout(IDLE, begun(&mut stream)) => begun,
    };
    let Ok(Ok(first)) = begun else { return };
    let is_http2 = first.starts_with(HTTP2);
    let stream = Rewound::new(stream).put_back(&first);
    drop(first);
    let served = if is_http2 {
        serve_http2(stream, service, stopped).await
    } else {
        serve_http1(stream, service, stopped).await
    };
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

async fn serve_http2(
    stream: Rewound,
    service: Arc<Service>,
    mut stopped: Pin<&mut Given>,
) -> hyper::Result<()> {
    let handler = service_fn(move |request| Arc::clone(&service).handle(request));
    let serving = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(BUFFER)
        .keep_alive_interval(IDLE)
        .serve_connection(TokioIo::new(stream), handler);
    let mut serving = Box::pin(serving);
    tokio::select! {
        served = &mut serving => return served,
        () = &mut stopped => serving.as_mut().graceful_shutdown(),
    }
    serving.await
}

async fn serve_http1(
    mut client: Rewound,
    service: Arc<Service>,
    mut stopped: Pin<&mut Given>,
) -> hyper::Result<()> {
    while let Some((back, (answer, framing))) = until_answer(client, &service, stopped.as_mut()).await? {
        match streaming::run(back, answer, framing).await {
            Ok(Some(kept)) if service.drain().is_serving() => client = kept,
            // Over, or gone.
            Ok(_) | Err(_) => break,
        }
    }
    Ok(())
}

/// Serves requests with hyper until an answer has an upstream; it is given back with the connection. `None`: the
/// connection is over.
async fn until_answer(
    client: Rewound,
    service: &Arc<Service>,
    mut stopped: Pin<&mut Given>,
) -> hyper::Result<Option<(Rewound, Begun)>> {
    let handover = Handover::default();
    let flushed = client.flushed();
    let handler = handler(Arc::clone(service), Arc::clone(&handover));
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(client), service_fn(handler));
    let mut is_stopping = false;
    let begun = poll_fn(|cx| {
        if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            Pin::new(&mut serving).graceful_shutdown();
        }
        if let Poll::Ready(served) = Pin::new(&mut serving).poll(cx) {
            return Poll::Ready(served.map(|()| None));
        }
        // An answer before it, which the client is slow to take, goes first.
        if !flushed.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        match handover.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(begun) => Poll::Ready(Ok(Some(begun))),
            None => Poll::Pending,
        }
    });
    let begun = begun.await?;
    Ok(begun.map(|begun| {
        let parts = serving.into_parts();
        (parts.io.into_inner().put_back(&parts.read_buf), begun)
    }))
}

/// Begins what `service` answers; answers that have an upstream go into `handover`.
fn handler(service: Arc<Service>, handover: Handover) -> impl Fn(Request<Incoming>) -> Answering {
    move |request| {
        let (service, handover) = (Arc::clone(&service), Arc::clone(&handover));
        let framing = Framing::of(&request);
        // In a box of its own, which is gone when the answer begins.
        Box::pin(async move {
            match service.begin(request).await {
                Err(response) => Ok(response),
                Ok(answer) => {
                    *handover.lock().unwrap_or_else(PoisonError::into_inner) = Some((answer, framing));
                    // hyper is left here, and this with it.
                    pending().await
                }
            }
        })
    }
}
