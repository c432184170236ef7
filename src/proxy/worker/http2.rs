//! HTTP/2 connections. hyper serves them to the end; what is added here is when it has to give up.
//!
//! hyper runs each stream as a task of its own. Such a task waits for the handler, for the next bytes of the answer, or
//! for the client to take the last ones. The first two go through code of ours, which notes them ([`Waits`]); a task that
//! waits and has noted nothing waits for the client. If that takes `limits.write_timeout`, the stream is reset. A client
//! that takes nothing at all, of no stream, is noticed at the socket ([`Rewound`]).

use std::{
    cell::Cell,
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{sync::Notify, time::sleep};

use super::{
    super::{drain::Given, reply, service::Service},
    FAREWELL,
    connection::{BUFFER, GOODBYE, IDLE},
    rewound::Rewound,
    stall::Stall,
};

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;

/// Serves a client that speaks HTTP/2. When the server stops, streams that are open go on; a connection without any is
/// closed.
pub(super) async fn serve(
    stream: Rewound,
    service: Arc<Service>,
    mut stopped: Pin<&mut Given>,
) -> hyper::Result<()> {
    let streams = Streams::new(&stream, Arc::clone(&service));
    let handler = service_fn(move |request| {
        let mut handled = Box::pin(Arc::clone(&service).handle(request));
        async move {
            let response = poll_fn(|cx| Waits::noted(handled.as_mut().poll(cx))).await?;
            Ok::<_, Infallible>(response.map(Body))
        }
    });
    let serving = http2::Builder::new(streams.clone())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(BUFFER)
        .keep_alive_interval(IDLE)
        .serve_connection(TokioIo::new(stream), handler);
    let mut serving = pin!(serving);
    tokio::select! {
        served = &mut serving => return served,
        () = &mut stopped => serving.as_mut().graceful_shutdown(),
    }
    // Ends by itself when the client has acknowledged that. One that does not is not waited for.
    let patience = if streams.are_over() { GOODBYE } else { FAREWELL };
    tokio::select! {
        served = &mut serving => served,
        () = streams.over() => tokio::select! {
            served = &mut serving => served,
            () = sleep(patience) => Ok(()),
        },
    }
}

/// What the task of a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The client, as far as is known.
    Client,
    /// The handler or the answer.
    Service,
    /// Nothing: the client was given up.
    Nothing,
}

thread_local! {
    /// What the task that is polled waits for.
    static WAITS: Cell<Waits> = const { Cell::new(Waits::Client) };
}

impl Waits {
    /// Notes that the task waits for the service, if it does.
    fn noted<T>(polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            WAITS.set(Self::Service);
        }
        polled
    }
}

/// The body of a response, which notes when it is waited for.
#[derive(Debug)]
struct Body(reply::Body);

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Waits::noted(Pin::new(&mut self.0).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if WAITS.get() == Waits::Nothing {
            self.0.stalled();
        }
    }
}

/// The streams of a connection: runs their tasks and counts them.
#[derive(Debug, Clone)]
struct Streams(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    service: Arc<Service>,
    /// The whole connection takes nothing.
    is_stalled: Arc<AtomicBool>,
    open: AtomicUsize,
    /// The last one has ended.
    ended: Notify,
}

impl Streams {
    fn new(connection: &Rewound, service: Arc<Service>) -> Self {
        let is_stalled = connection.stalled();
        Self(Arc::new(Shared { service, is_stalled, open: AtomicUsize::new(0), ended: Notify::new() }))
    }

    fn are_over(&self) -> bool {
        self.0.open.load(Ordering::Acquire) == 0
    }

    /// Waits until no stream is open.
    async fn over(&self) {
        while !self.are_over() {
            self.0.ended.notified().await;
        }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.open.fetch_add(1, Ordering::AcqRel);
        let stall = Stall::new(self.0.service.limits().write_timeout);
        tokio::spawn(Stream { future: Some(Box::pin(future)), stall, shared: Arc::clone(&self.0) });
    }
}

/// The task of a stream.
struct Stream<F> {
    /// `None` when it is over.
    future: Option<Pin<Box<F>>>,
    stall: Stall,
    shared: Arc<Shared>,
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        WAITS.set(Waits::Client);
        let is_over = future.as_mut().poll(cx).is_ready();
        if !is_over && WAITS.get() == Waits::Service {
            this.stall.end();
            return Poll::Pending;
        }
        if !is_over {
            if this.stall.poll_expired(cx).is_pending() {
                return Poll::Pending;
            }
            this.shared.service.client_stalled();
        }
        let is_stalled = !is_over || this.shared.is_stalled.load(Ordering::Relaxed);
        WAITS.set(if is_stalled { Waits::Nothing } else { Waits::Client });
        this.future = None;
        WAITS.set(Waits::Client);
        Poll::Ready(())
    }
}

impl<F> Drop for Stream<F> {
    fn drop(&mut self) {
        if self.shared.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.ended.notify_one();
        }
    }
}
