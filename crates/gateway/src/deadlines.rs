//! [`Deadlines`]: all deadlines of one response, on a single timer.
//!
//! Each piece of a stream postpones two deadlines: one for the upstream's silence, and one for toolwire's own.
//! Resetting a timer costs more than parsing a token, so the timer is left as it is. The deadlines are computed again
//! only if it fires, or if one of them may have become earlier. A token thus costs only one reading of the clock.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long an upstream may take to close the body after its end marker, before the connection is given up. Enough for
/// the last chunk to arrive, so that the connection can be reused.
const LINGER: Duration = Duration::from_millis(100);

/// How long an upstream may take to end the body if only the finish reason or only the end marker has arrived. A server
/// that has sent everything ends the body immediately; token counts may take a moment.
const END: Duration = Duration::from_secs(3);

/// How long an upstream may send nothing but comments and white space, as a multiple of `idle`. They show that the
/// upstream is alive, but not that it works.
pub(super) const FILLER: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deadline {
    /// Nothing was sent to the client for `keep_alive`.
    KeepAlive,
    /// The upstream has sent nothing for `idle`.
    Idle,
    /// The upstream has sent nothing but comments and white space for [`FILLER`] times `idle`.
    Filler,
    /// The response has no content yet, and another target could answer instead.
    FirstContent,
    /// The response took longer than `total`.
    Total,
    /// The upstream did not end the body after its end marker.
    Linger,
    /// The upstream did not end a body whose end would have completed the response.
    Unended,
}

#[derive(Debug)]
#[pin_project]
pub(super) struct Deadlines {
    #[pin]
    sleep: Sleep,
    /// Whether a deadline may pass before the timer fires.
    may_be_earlier: bool,
    keep_alive: Option<Duration>,
    written: Instant,
    idle: Duration,
    received: Option<Instant>,
    /// When the upstream last sent anything other than comments and white space.
    received_content: Option<Instant>,
    content: Option<Instant>,
    total: Option<Instant>,
    linger: Option<Instant>,
    end: Option<Instant>,
}

impl Deadlines {
    /// Creates deadlines that start now. Without `keep_alive`, as for non-streaming responses, [`Deadline::KeepAlive`]
    /// never passes.
    pub(super) fn new(keep_alive: Option<Duration>, idle: Duration, total: Option<Duration>) -> Self {
        let now = Instant::now();
        let total = total.and_then(|total| now.checked_add(total));
        let mut deadlines = Self {
            sleep: sleep_until(now),
            may_be_earlier: false,
            keep_alive,
            written: now,
            idle,
            received: None,
            received_content: None,
            content: None,
            total,
            linger: None,
            end: None,
        };
        if let Some((at, _)) = deadlines.next() {
            deadlines.sleep = sleep_until(at);
        }
        deadlines
    }

    /// Adds a time limit for the first content of the response.
    pub(super) fn expecting_content(mut self, limit: Option<Duration>) -> Self {
        self.content = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.may_be_earlier = true;
        self
    }

    /// Restarts the idle time: the upstream has sent something, and more is expected. `is_filler` is true if it
    /// consisted only of comments or white space.
    pub(super) fn on_upstream_data(self: Pin<&mut Self>, is_filler: bool) {
        let this = self.project();
        let now = Instant::now();
        *this.may_be_earlier |= this.received.is_none();
        *this.received = Some(now);
        *this.received_content = this.received_content.filter(|_| is_filler).or(Some(now));
        *this.end = None;
    }

    /// Suspends the idle time until the upstream responds to another request.
    pub(super) fn on_upstream_request(self: Pin<&mut Self>) {
        let this = self.project();
        *this.received = None;
        *this.received_content = None;
        *this.end = None;
    }

    /// Sets the idle time for another upstream.
    pub(super) fn expect_within(self: Pin<&mut Self>, idle: Duration) {
        let this = self.project();
        *this.idle = idle;
        *this.may_be_earlier = true;
    }

    /// Sets the time limit for the first content, starting now.
    pub(super) fn expect_content(self: Pin<&mut Self>, limit: Option<Duration>) {
        let this = self.project();
        *this.content = limit.and_then(|limit| Instant::now().checked_add(limit));
        *this.may_be_earlier = true;
    }

    /// Restarts the keep-alive time because something is sent to the client.
    pub(super) fn on_client_write(self: Pin<&mut Self>) {
        *self.project().written = Instant::now();
    }

    /// Restarts the keep-alive time because the upstream's latest data is passed on. Reuses the time of that data
    /// instead of reading the clock.
    pub(super) fn on_forward(self: Pin<&mut Self>) {
        let this = self.project();
        *this.written = this.received.map_or(*this.written, |last| last.max(*this.written));
    }

    /// Leaves only [`Deadline::Linger`], since the response is complete.
    pub(super) fn linger(self: Pin<&mut Self>) {
        let this = self.project();
        *this.linger = Some(Instant::now() + LINGER);
        *this.may_be_earlier = true;
    }

    /// Starts to wait for the end of the body, which completes the response or the hop.
    pub(super) fn await_end(self: Pin<&mut Self>) {
        let this = self.project();
        *this.end = this.end.or_else(|| Instant::now().checked_add(END));
        *this.may_be_earlier = true;
    }

    /// Returns the next deadline when it passes.
    pub(super) fn poll_deadline(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Deadline> {
        if !self.may_be_earlier && self.as_mut().project().sleep.poll(cx).is_pending() {
            return Poll::Pending;
        }
        let Some((at, deadline)) = self.next() else { return Poll::Pending };
        loop {
            let this = self.as_mut().project();
            let mut sleep = this.sleep;
            if sleep.deadline() > at {
                sleep.as_mut().reset(at);
            }
            *this.may_be_earlier = false;
            ready!(sleep.as_mut().poll(cx));
            if at <= Instant::now() {
                return Poll::Ready(deadline);
            }
            sleep.reset(at);
        }
    }

    /// Ready when the response has taken longer than `total`. Ignores all other deadlines.
    pub(super) fn poll_total(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.total else { return Poll::Pending };
        let this = self.project();
        let mut sleep = this.sleep;
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
            *this.may_be_earlier = true;
        }
        sleep.poll(cx)
    }

    fn next(&self) -> Option<(Instant, Deadline)> {
        if let Some(at) = self.linger {
            return Some((at, Deadline::Linger));
        }
        let keep_alive = self.keep_alive.and_then(|limit| self.written.checked_add(limit));
        let idle = self.received.and_then(|last| last.checked_add(self.idle));
        let filler =
            self.received_content.and_then(|last| last.checked_add(self.idle.saturating_mul(FILLER)));
        let deadlines = [
            (filler, Deadline::Filler),
            (self.total, Deadline::Total),
            (self.end, Deadline::Unended),
            (idle, if self.end.is_some() { Deadline::Unended } else { Deadline::Idle }),
            (self.content, Deadline::FirstContent),
            (keep_alive, Deadline::KeepAlive),
        ];
        deadlines.into_iter().filter_map(|(at, deadline)| Some((at?, deadline))).min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn postponed_deadline_expires_later() {
        let start = Instant::now();
        let mut deadlines = pin!(Deadlines::new(None, 10 * SECOND, None));
        deadlines.as_mut().on_upstream_data(false);
        for _ in 0..5 {
            advance(9 * SECOND).await;
            assert!(poll_fn(|cx| Poll::Ready(deadlines.as_mut().poll_deadline(cx))).await.is_pending());
            deadlines.as_mut().on_upstream_data(false);
        }
        assert_eq!(poll_fn(|cx| deadlines.as_mut().poll_deadline(cx)).await, Deadline::Idle);
        assert_eq!(start.elapsed(), 55 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn filler_postpones_the_idle_deadline_ten_times() {
        let start = Instant::now();
        let mut deadlines = pin!(Deadlines::new(None, 10 * SECOND, None));
        deadlines.as_mut().on_upstream_data(false);
        let passed = loop {
            advance(9 * SECOND).await;
            if let Poll::Ready(deadline) =
                poll_fn(|cx| Poll::Ready(deadlines.as_mut().poll_deadline(cx))).await
            {
                break deadline;
            }
            deadlines.as_mut().on_upstream_data(true);
        };
        assert_eq!(passed, Deadline::Filler);
        assert_eq!(start.elapsed(), 108 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn keep_alives_come_in_silence_and_the_total_comes_last() {
        let mut deadlines = pin!(Deadlines::new(Some(4 * SECOND), 60 * SECOND, Some(9 * SECOND)));
        let mut passed = Vec::new();
        while passed.last() != Some(&Deadline::Total) {
            passed.push(poll_fn(|cx| deadlines.as_mut().poll_deadline(cx)).await);
            deadlines.as_mut().on_client_write();
        }
        assert_eq!(passed, [Deadline::KeepAlive, Deadline::KeepAlive, Deadline::Total]);
    }

    #[tokio::test(start_paused = true)]
    async fn new_deadline_may_be_earlier_than_the_timer() {
        let start = Instant::now();
        let mut deadlines = pin!(Deadlines::new(Some(60 * SECOND), 60 * SECOND, None));
        assert!(poll_fn(|cx| Poll::Ready(deadlines.as_mut().poll_deadline(cx))).await.is_pending());
        deadlines.as_mut().linger();
        assert_eq!(poll_fn(|cx| deadlines.as_mut().poll_deadline(cx)).await, Deadline::Linger);
        assert_eq!(start.elapsed(), LINGER);
    }
}
