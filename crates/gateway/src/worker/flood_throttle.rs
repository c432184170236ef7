//! [`FloodThrottle`]: polls a stream less often if it is faster than any model.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// Number of writes between two readings of the clock.
const WRITES: u8 = 8;

/// [`WRITES`] writes in less time than this, or 20,000 per second, are a flood: more than anyone can read.
const FLOOD: Duration = Duration::from_micros(400);

const PAUSE: Duration = Duration::from_millis(1);

/// Measures the rate of writes, and inserts pauses during a flood.
///
/// A write per token takes three system calls and wakes the client each time, which is acceptable at the speed of a
/// model. A replay or a cached response can be ten times faster than any model. During such a flood, everything that
/// reaches the upstream's socket within a millisecond is read and written at once. Bytes that have been read are never
/// held back.
#[derive(Debug, Default)]
pub(super) struct FloodThrottle {
    /// When the counting of writes began.
    since: Option<Instant>,
    writes: u8,
    pause: Option<Pin<Box<Sleep>>>,
}

impl FloodThrottle {
    pub(super) fn sent(&mut self) {
        self.writes += 1;
        if self.writes < WRITES {
            return;
        }
        let now = Instant::now();
        if self.since.replace(now).is_some_and(|since| now - since < FLOOD) {
            self.pause = Some(Box::pin(sleep(PAUSE)));
        }
        self.writes = 0;
    }

    /// Ready when the stream may be polled again, which is usually immediately.
    pub(super) fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            self.since = Some(Instant::now());
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    /// Counts the pauses among `writes` writes that are `gap` apart.
    async fn pauses(writes: usize, gap: Duration) -> usize {
        let (mut flood_throttle, mut pauses) = (FloodThrottle::default(), 0);
        for _ in 0..writes {
            advance(gap).await;
            flood_throttle.sent();
            pauses += usize::from(flood_throttle.pause.is_some());
            poll_fn(|cx| flood_throttle.poll_pause(cx)).await;
        }
        pauses
    }

    #[tokio::test(start_paused = true)]
    async fn writes_at_the_rate_of_a_model_are_not_paused() {
        assert_eq!(pauses(1000, Duration::from_micros(51)).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_is_paused_now_and_then() {
        let paused = pauses(1000, Duration::from_micros(5)).await;
        assert!((100..=1000 / usize::from(WRITES)).contains(&paused), "{paused}");
    }

    #[tokio::test(start_paused = true)]
    async fn burst_is_not_a_flood() {
        let mut flood_throttle = FloodThrottle::default();
        (1..WRITES).for_each(|_| flood_throttle.sent());
        advance(FLOOD).await;
        flood_throttle.sent();
        assert!(flood_throttle.pause.is_none());
    }
}
