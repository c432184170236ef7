//! The current span, for code that receives no span as an argument: hosted calls and their model requests.

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

/// The current span. `None` if there is no span or no tracer.
pub fn current() -> Option<Parent> {
    CURRENT.with_borrow(Clone::clone)
}

/// Calls `run` in the span.
pub fn scoped<T>(parent: Option<Parent>, run: impl FnOnce() -> T) -> T {
    let _guard = Guard(CURRENT.replace(parent));
    run()
}

/// Restores the previous span on drop.
struct Guard(Option<Parent>);

impl Drop for Guard {
    fn drop(&mut self) {
        CURRENT.set(mem::take(&mut self.0));
    }
}

/// Runs `future` in the span.
pub fn within<F: Future>(parent: Option<Parent>, future: F) -> Within<F> {
    Within { parent, future }
}

/// A future that runs in a span.
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
