//! [`Bucket`]: limits how many requests, tokens or hosted calls may be used in a period.
//!
//! Buckets use the generic cell rate algorithm. `governor` implements it too, but cannot return part of an amount,
//! which is necessary when a response turns out to be smaller than expected. The state is a single number, the time at
//! which the bucket is full again, so no lock is needed.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

pub const MINUTE: Duration = Duration::from_secs(60);

/// Holds `limit` units and refills evenly within `period`. Times are in nanoseconds since `start`, measured with a
/// monotonic clock.
#[derive(Debug)]
pub struct Bucket {
    limit: u64,
    period: u64,
    start: Instant,
    full_at: AtomicU64,
}

/// An amount that was taken from a bucket and can be returned.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    amount: u64,
    /// When the bucket would be full again. It limits how much can be returned, because part of the amount may have
    /// refilled by then.
    end: u64,
}

/// How full a bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub limit: u64,
    pub remaining: u64,
    pub reset: Duration,
}

impl Level {
    /// Computes the level of a bucket that will be full again after `reset`.
    pub fn of(limit: u64, period: Duration, reset: Duration) -> Self {
        let used = (reset.as_nanos() * u128::from(limit)).div_ceil(period.as_nanos().max(1));
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        Self { limit, remaining: limit.saturating_sub(used), reset }
    }
}

impl Bucket {
    pub fn new(limit: u64, period: Duration) -> Self {
        let (limit, period) = (limit.max(1), nanoseconds(period));
        Self { limit, period, start: Instant::now(), full_at: AtomicU64::new(0) }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes `amount`, which must not exceed the limit.
    ///
    /// # Errors
    /// The time until the bucket contains enough.
    pub fn take(&self, amount: u64) -> Result<Taken, Duration> {
        let (now, cost) = (self.now(), self.cost(amount));
        let end_of = |full_at: u64| full_at.max(now).saturating_add(cost);
        let taken = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, |full_at| {
            Some(end_of(full_at)).filter(|end| *end <= now.saturating_add(self.period))
        });
        match taken {
            Ok(before) => Ok(Taken { amount, end: end_of(before) }),
            Err(full_at) => {
                let early = end_of(full_at).saturating_sub(now.saturating_add(self.period));
                Err(Duration::from_nanos(early.max(1)))
            }
        }
    }

    /// Takes `amount` even if the bucket does not contain enough. The bucket is then in debt.
    pub fn owe(&self, amount: u64) {
        self.settle(Taken { amount: 0, end: 0 }, amount);
    }

    /// Replaces an amount that was taken with the amount that was used. The bucket may then be in debt.
    pub fn settle(&self, taken: Taken, used: u64) {
        let now = self.now();
        let update = |change: &dyn Fn(u64) -> u64| {
            let changed = |full_at| Some(change(full_at));
            // Cannot fail: `changed` always returns a value.
            let _ = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
        };
        if used > taken.amount {
            let cost = self.cost(used - taken.amount);
            update(&|full_at| full_at.max(now).saturating_add(cost));
        } else {
            let unused = self.cost(taken.amount).saturating_sub(self.cost(used));
            let back = unused.min(taken.end.saturating_sub(now));
            update(&|full_at| full_at.saturating_sub(back));
        }
    }

    pub fn level(&self) -> Level {
        Level::of(self.limit, Duration::from_nanos(self.period), self.missing())
    }

    /// Whether the bucket is full, in which case it can be replaced with a new one.
    pub fn is_full(&self) -> bool {
        self.missing() == Duration::ZERO
    }

    fn missing(&self) -> Duration {
        Duration::from_nanos(self.full_at.load(Ordering::Acquire).saturating_sub(self.now()))
    }

    /// The time, in nanoseconds, in which `amount` refills.
    fn cost(&self, amount: u64) -> u64 {
        let cost = u128::from(amount) * u128::from(self.period) / u128::from(self.limit);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn limit_is_exact_and_comes_back_evenly() {
        for limit in [1, 7, 10, 60, 1_000_003] {
            let bucket = Bucket::new(limit, MINUTE);
            assert!(bucket.take(limit).is_ok(), "{limit}");
            let wait = bucket.take(1).unwrap_err();
            assert_eq!(bucket.level().remaining, 0);
            advance(wait).await;
            assert!(bucket.take(1).is_ok(), "{limit}: after the time that it said");
            assert!(bucket.take(1).is_err(), "{limit}");
            advance(Duration::from_secs(3600)).await;
            assert_eq!(bucket.level(), Level { limit, remaining: limit, reset: Duration::ZERO });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn limit_holds_for_any_period() {
        for period in [Duration::from_secs(1), Duration::from_secs(3600)] {
            let bucket = Bucket::new(4, period);
            for _ in 0..4 {
                assert!(bucket.take(1).is_ok(), "{period:?}");
            }
            assert_eq!(bucket.take(1).unwrap_err(), period / 4);
            advance(period / 4 - Duration::from_nanos(1)).await;
            assert!(bucket.take(1).is_err(), "{period:?}: a nanosecond too early");
            advance(Duration::from_nanos(1)).await;
            assert!(bucket.take(1).is_ok(), "{period:?}");
            assert_eq!(bucket.level(), Level { limit: 4, remaining: 0, reset: period });
            advance(period - Duration::from_nanos(1)).await;
            assert!(!bucket.is_full());
            advance(Duration::from_nanos(1)).await;
            assert!(bucket.is_full());
        }
    }

    #[test]
    fn many_threads_take_no_more_than_there_is() {
        let bucket = Bucket::new(100, MINUTE);
        let took = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        took.fetch_add(u64::from(bucket.take(1).is_ok()), Ordering::Relaxed);
                    }
                });
            }
        });
        // One unit refills every 600 ms.
        let elapsed = u64::try_from(bucket.start.elapsed().as_millis()).unwrap();
        let took = took.into_inner();
        assert!((100..=100 + elapsed / 600).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_back_by_itself_is_not_given_back_again() {
        let bucket = Bucket::new(60, MINUTE);
        let taken = bucket.take(60).unwrap();
        advance(Duration::from_secs(120)).await;
        let other = bucket.take(60).unwrap();
        bucket.settle(taken, 0);
        assert_eq!(bucket.level().remaining, 0);
        advance(Duration::from_secs(30)).await;
        assert_eq!(bucket.level().remaining, 30);
        // Half of it has refilled; the remaining unused amount is returned here.
        bucket.settle(other, 6);
        assert_eq!(bucket.level().remaining, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_was_taken_is_owed() {
        let bucket = Bucket::new(100, MINUTE);
        let taken = bucket.take(100).unwrap();
        bucket.settle(taken, 300);
        assert_eq!(bucket.take(1).unwrap_err(), Duration::from_millis(120_600));
        advance(Duration::from_secs(121)).await;
        assert!(bucket.take(1).is_ok());
    }

    proptest! {
        #[test]
        fn unused_reservations_leave_nothing(limit in 1..1_000_000_u64, parts in prop::collection::vec(0.0..1.0_f64, 1..20)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let bucket = Bucket::new(limit, MINUTE);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
                let taken: Vec<_> = parts.iter().filter_map(|part| bucket.take((part * limit as f64) as u64).ok()).collect();
                taken.into_iter().for_each(|taken| bucket.settle(taken, 0));
                prop_assert_eq!(bucket.level().remaining, limit);
                Ok(())
            })?;
        }
    }
}
