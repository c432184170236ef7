//! [`FloodThrottle`]: when a stream that is faster than any model is looked at less often.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// Writes between two looks at the deadlines.
const WRITES: u8 = 8;

/// So many writes in less time are more than anybody can follow: 20,000 a second.
const HASTY: Duration = Duration::from_micros(400);

/// How long such a stream is left alone.
const REST: Duration = Duration::from_millis(1);

/// How hastily a stream is written.
///
/// A token a write costs three system calls, and wakes the client each time. That is what a model's tokens are worth. A
/// replay, or an answer out of a cache, brings ten times as many as a model could; what then gathers in the upstream's
/// socket within a millisecond is read and written at once. Nothing that has been read waits.
#[derive(Debug, Default)]
pub(super) struct FloodThrottle {
    /// Since when writes are counted.
    since: Option<Instant>,
    writes: u8,
    rest: Option<Pin<Box<Sleep>>>,
}

impl FloodThrottle {
    /// There has been a write.
    pub(super) fn sent(&mut self) {
        self.writes += 1;
        if self.writes < WRITES {
            return;
        }
        let now = Instant::now();
        if self.since.replace(now).is_some_and(|since| now - since < HASTY) {
            self.rest = Some(Box::pin(sleep(REST)));
        }
        self.writes = 0;
    }

    /// Waits until the stream is to be looked at again, mostly not at all.
    pub(super) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
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

    /// How many of so many writes, each so long after the one before, are followed by a rest.
    async fn rests(writes: usize, gap: Duration) -> usize {
        let (mut flood_throttle, mut rests) = (FloodThrottle::default(), 0);
        for _ in 0..writes {
            advance(gap).await;
            flood_throttle.sent();
            rests += usize::from(flood_throttle.rest.is_some());
            poll_fn(|cx| flood_throttle.poll_rest(cx)).await;
        }
        rests
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_is_never_left_alone() {
        assert_eq!(rests(1000, Duration::from_micros(51)).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_left_alone_now_and_then() {
        let rested = rests(1000, Duration::from_micros(5)).await;
        assert!((100..=1000 / usize::from(WRITES)).contains(&rested), "{rested}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_not_yet_a_flood() {
        let mut flood_throttle = FloodThrottle::default();
        (1..WRITES).for_each(|_| flood_throttle.sent());
        advance(HASTY).await;
        flood_throttle.sent();
        assert!(flood_throttle.rest.is_none());
    }
}
