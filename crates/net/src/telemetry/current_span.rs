//! The current span, for code that does not receive a span as an argument: hosted calls and their requests to models.

use std::{
    cell::RefCell,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project::pin_project;

use super::Parent;

thread_local! {
    static CURRENT: RefCell<Option<Parent>> = const { RefCell::new(None) };
}

/// The current span. `None` if there is none, or if there is no tracer.
pub fn current() -> Option<Parent> {
    CURRENT.with_borrow(Clone::clone)
}

/// Calls `run` with `parent` as the current span.
pub fn scoped<T>(parent: Option<Parent>, run: impl FnOnce() -> T) -> T {
    let _guard = Guard(CURRENT.replace(parent));
    run()
}

struct Guard(Option<Parent>);

impl Drop for Guard {
    fn drop(&mut self) {
        CURRENT.set(mem::take(&mut self.0));
    }
}

/// Returns a future that runs with `parent` as the current span.
pub fn within<F: Future>(parent: Option<Parent>, future: F) -> Within<F> {
    Within { parent, future }
}

#[pin_project]
pub struct Within<F> {
    parent: Option<Parent>,
    #[pin]
    future: F,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        scoped(this.parent.clone(), || this.future.poll(cx))
    }
}
