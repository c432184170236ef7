//! Serves HTTP/2 connections with hyper, and adds the timeouts that hyper does not have.
//!
//! hyper runs each stream as a task of its own. The task waits for the handler, for the next bytes of the response, or
//! for the client to read the previous ones. The first two waits go through this module, which records them
//! ([`Waits`]). If a task waits although nothing is recorded, it waits for the client. When that has lasted for
//! `limits.write_timeout`, or less if requests wait for an upstream, the stream is reset. A client that reads nothing
//! at all is noticed at the socket ([`ClientSocket`](super::client_socket::ClientSocket)).

use std::{
    cell::Cell,
    convert::Infallible,
    future::poll_fn,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::sleep};

use super::{
    super::{current_service::CurrentService, reply},
    FAREWELL,
    bounds::{BUFFER, GOODBYE, IDLE},
    rewind::Rewind,
    shortage::Leave,
    stall::Stall,
};

/// Maximum number of concurrent streams per connection.
const MAX_STREAMS: u32 = 256;

/// Serves an HTTP/2 client until there have been no requests for [`IDLE`]. When the server stops, open streams
/// continue, and a connection without open streams is closed.
pub(super) async fn serve(
    stream: Rewind,
    peer: IpAddr,
    service: Arc<CurrentService>,
    mut stopped: Pin<&mut Leave>,
) -> hyper::Result<()> {
    let streams = Arc::new(Streams::new(&stream, Arc::clone(&service)));
    let handler = service_fn(move |request| {
        let mut handled = Box::pin(service.get().handle(request, peer));
        async move {
            let response = poll_fn(|cx| Waits::noted(handled.as_mut().poll(cx))).await?;
            Ok::<_, Infallible>(response.map(Http2Body))
        }
    });
    let serving = http2::Builder::new(Spawner(Arc::downgrade(&streams)))
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(BUFFER)
        .keep_alive_interval(IDLE)
        .serve_connection(TokioIo::new(stream), handler);
    let mut serving = pin!(serving);
    // The connection is polled first, since it spawns the tasks for which the other branch waits.
    tokio::select! {
        biased;
        served = &mut serving => return served,
        () = &mut stopped => serving.as_mut().graceful_shutdown(),
        () = streams.unused_for(IDLE) => serving.as_mut().graceful_shutdown(),
        () = streams.ended(Until::Forever) => {}
    }
    // The connection ends once the client has acknowledged the shutdown. The time for that is limited.
    let patience = if streams.are_over() { GOODBYE } else { FAREWELL };
    tokio::select! {
        biased;
        served = &mut serving => return served,
        () = streams.ended(Until::Over) => {}
    }
    tokio::select! {
        served = serving => served,
        () = sleep(patience) => Ok(()),
    }
}

/// What the task of a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The client, since nothing else was recorded.
    Client,
    /// The handler or the body of the response.
    Service,
    /// Nothing, since the stream is being aborted.
    Nothing,
}

thread_local! {
    /// What the task being polled waits for.
    static WAITS: Cell<Waits> = const { Cell::new(Waits::Client) };
}

impl Waits {
    /// If `polled` is pending, records that the task waits for the service.
    fn noted<T>(polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            WAITS.set(Self::Service);
        }
        polled
    }
}

/// The body of a response. It records when the task waits for it.
#[derive(Debug)]
struct Http2Body(reply::ReplyBody);

impl HttpBody for Http2Body {
    type Data = Bytes;
    type Error = <reply::ReplyBody as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Waits::noted(Pin::new(&mut self.0).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        if WAITS.get() == Waits::Nothing {
            self.0.stalled();
        }
    }
}

/// How long to wait for the tasks of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until no tasks are left.
    Over,
    Forever,
}

/// The tasks of a connection's streams, which are aborted when the connection is dropped.
#[derive(Debug)]
struct Streams {
    service: Arc<CurrentService>,
    /// Whether the client reads nothing at all on the connection.
    is_stalled: Arc<AtomicBool>,
    tasks: Mutex<JoinSet<()>>,
    begun: AtomicUsize,
}

impl Streams {
    fn new(connection: &Rewind, service: Arc<CurrentService>) -> Self {
        let is_stalled = connection.stalled();
        Self { service, is_stalled, tasks: Mutex::default(), begun: AtomicUsize::new(0) }
    }

    fn are_over(&self) -> bool {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.is_empty()
    }

    /// Waits until there has been no open stream for `limit`, or for up to twice as long. hyper has no such timeout,
    /// not even for clients that do not finish the preface.
    async fn unused_for(&self, limit: Duration) {
        let mut seen = None;
        loop {
            let begun = self.begun.load(Ordering::Relaxed);
            let is_unused = self.are_over() && seen == Some(begun);
            if is_unused {
                return;
            }
            seen = self.are_over().then_some(begun);
            sleep(limit).await;
        }
    }

    async fn ended(&self, until: Until) {
        poll_fn(|cx| {
            let mut tasks = self.tasks.lock();
            loop {
                match tasks.poll_join_next(cx) {
                    Poll::Ready(Some(_)) => {}
                    Poll::Ready(None) if until == Until::Over => return Poll::Ready(()),
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
    }
}

/// Spawns the tasks of streams. hyper stores a clone in each task, so the reference is weak: tasks must not keep
/// themselves alive.
#[derive(Debug, Clone)]
struct Spawner(Weak<Streams>);

impl<F> Executor<F> for Spawner
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let Some(streams) = self.0.upgrade() else { return };
        streams.begun.fetch_add(1, Ordering::Relaxed);
        let current = streams.service.get();
        let (stall, patience) = (Stall::new(current.limits().write_timeout), Stall::new(current.patience()));
        let (service, is_stalled) = (Arc::clone(&streams.service), Arc::clone(&streams.is_stalled));
        streams.tasks.lock().spawn(Stream {
            future: Some(Box::pin(future)),
            stall,
            patience,
            service,
            is_stalled,
        });
    }
}

struct Stream<F> {
    /// `None` once the task has ended.
    future: Option<Pin<Box<F>>>,
    stall: Stall,
    /// Like `stall`, but for use while requests wait for an upstream.
    patience: Stall,
    service: Arc<CurrentService>,
    /// Whether the client reads nothing at all on the connection.
    is_stalled: Arc<AtomicBool>,
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        WAITS.set(Waits::Client);
        if future.as_mut().poll(cx).is_ready() {
            this.end(this.is_stalled.load(Ordering::Relaxed));
            return Poll::Ready(());
        }
        if WAITS.get() == Waits::Service {
            this.stall.end();
            this.patience.end();
            return Poll::Pending;
        }
        if this.stall.poll_expired(cx).is_ready() || this.is_waited_for(cx) {
            this.service.get().shared.monitors.metrics.client_stalled();
            this.end(true);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl<F> Stream<F> {
    /// Whether the client has read nothing for so long that its slot at an upstream should go to a waiting request.
    fn is_waited_for(&mut self, cx: &mut Context<'_>) -> bool {
        while self.patience.poll_expired(cx).is_ready() {
            if self.service.get().is_waited_for() {
                tracing::warn!(
                    "a stream ends, since its client does not read it and others wait for an upstream"
                );
                return true;
            }
        }
        false
    }

    /// Drops the task's future, which resets the stream unless it has ended.
    fn end(&mut self, is_stalled: bool) {
        WAITS.set(if is_stalled { Waits::Nothing } else { Waits::Client });
        self.future = None;
        WAITS.set(Waits::Client);
    }
}

impl<F> Drop for Stream<F> {
    fn drop(&mut self) {
        self.end(self.is_stalled.load(Ordering::Relaxed));
    }
}
