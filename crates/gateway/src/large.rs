//! Runs work on large requests on other threads, so that it does not delay streams.

use std::{pin::Pin, sync::LazyLock, thread::available_parallelism};

use tokio::{runtime::Handle, sync::Semaphore, task::spawn_blocking};
use tracing::Span;

use toolwire_pipeline::failure::{Failure, Kind};

/// Minimum size in bytes of a request that is processed on another thread. Smaller requests take a few milliseconds at
/// most.
pub(super) const LARGE: usize = 256 << 10;

/// Slots for work on large requests. Such work cannot be stopped, so without a limit, a client that repeatedly
/// disconnects and reconnects could keep any number of bodies in memory.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(places()));

fn places() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Whether a request of `size` bytes is processed on another thread.
pub(super) fn is_large(size: usize) -> bool {
    size >= LARGE
}

/// Work that runs on another thread.
///
/// # Errors
/// [`Kind::Internal`] if the work panicked.
pub(super) type Apart<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Runs `work` on another thread. The future is boxed so that the futures of small requests need no space for it.
pub(super) fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Apart<T> {
    #[cfg(test)]
    tests::MOVED.set(tests::MOVED.get() + 1);
    let span = Span::current();
    Box::pin(async move {
        let failed = || Failure::new(Kind::Internal, "the request could not be worked on");
        let place = PLACES.acquire().await.map_err(|_| failed())?;
        let work = move || {
            let _place = place;
            span.in_scope(work)
        };
        spawn_blocking(work).await.map_err(|_| failed())
    })
}

/// Drops `value` on another thread, since dropping its many parts takes a long time.
pub(super) fn discard(value: impl Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || drop(value));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        cell::Cell,
        sync::mpsc,
        thread::{self, ThreadId},
        time::Duration,
    };

    use tokio::{
        sync::oneshot,
        task::{JoinSet, yield_now},
    };

    use super::*;

    thread_local! {
        /// How many times this thread has moved work to another thread.
        pub(crate) static MOVED: Cell<usize> = const { Cell::new(0) };
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn other_tasks_of_the_thread_go_on_meanwhile() {
        let (sender, receiver) = mpsc::channel();
        let work = apart(move || receiver.recv_timeout(LONG));
        let other = async {
            yield_now().await;
            sender.send("from the thread of the streams")
        };
        let (received, sent) = tokio::join!(work, other);
        assert_eq!(received.unwrap(), Ok("from the thread of the streams"));
        assert!(sent.is_ok());
    }

    #[tokio::test]
    async fn value_is_dropped_on_another_thread() {
        struct Tells(Option<oneshot::Sender<ThreadId>>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.take().map(|tell| tell.send(thread::current().id()));
            }
        }
        let (tell, told) = oneshot::channel();
        discard(Tells(Some(tell)));
        assert_ne!(told.await.unwrap(), thread::current().id());
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_frees_its_place() {
        for _ in 0..=places() {
            let failed = apart(|| panic!("on purpose")).await;
            assert_eq!(failed.unwrap_err().kind(), Kind::Internal);
        }
        assert_eq!(apart(|| 1).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn work_of_a_client_that_has_left_keeps_its_place_until_it_ends() {
        let (started, begun) = oneshot::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let (ended, end) = oneshot::channel();
        let work = apart(move || {
            let _ = started.send(());
            let _ = finished.recv_timeout(LONG);
            let _ = ended.send(());
        });
        let mut task = JoinSet::from_iter([work]);
        begun.await.unwrap();
        task.shutdown().await;
        assert!(PLACES.available_permits() < places());
        finish.send(()).unwrap();
        end.await.unwrap();
    }
}
