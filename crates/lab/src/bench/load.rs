//! The load of a trial: when each stream starts.
//!
//! *Open loop*: streams start on a [`Schedule`] that does not depend on responses, as with real users: a target that
//! stalls does not slow the schedule down. Times are measured from each stream's *intended* start, so they include any
//! delay before the actual start. *Closed loop*: the number of open streams is constant. It shows the capacity of a
//! target, not the experience of its users.

use std::{io, time::Duration};

use tokio::task::{JoinError, JoinSet};

use super::plan::{Arrivals, Length, Load};
use crate::{
    clock::{self, PreciseTimer},
    follow::sample::{Outcome, Sample},
};

/// An endless iterator over the intended starts of an open loop, in nanoseconds since the loop began.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    gap: f64,
    arrivals: Arrivals,
    random: fastrand::Rng,
    number: u64,
    at: f64,
}

impl Schedule {
    /// Creates a schedule with `rate` starts per second, which is reproducible from `seed`.
    pub(crate) fn new(rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        Self { gap: 1e9 / rate, arrivals, random: fastrand::Rng::with_seed(seed), number: 0, at: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self.arrivals {
            // Multiplies instead of adding up, so that rounding errors do not accumulate.
            Arrivals::Constant => self.at = self.number as f64 * self.gap,
            Arrivals::Poisson => self.at -= (1.0 - self.random.f64()).ln() * self.gap,
        }
        self.number = self.number.saturating_add(1);
        Some(self.at as u64)
    }
}

/// One trial of one target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub load: Load,
    pub length: Length,
    /// Maximum number of open streams in an open loop.
    pub max_open: usize,
    /// Time over which the first streams of a closed loop are spread, to avoid synchronizing them.
    pub spread: Duration,
}

/// The facts about a trial that its samples do not contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LoadStats {
    /// Number of scheduled starts skipped because too many streams were open.
    pub unsent: u64,
    /// Peak number of open streams.
    pub most_open: u64,
}

impl Trial {
    /// Runs the trial. `start` creates a stream from its number and intended start; `keep` receives the sample of each
    /// stream that has ended.
    ///
    /// # Errors
    /// The system's timer fails.
    pub(crate) async fn run<F>(
        &self,
        start: impl Fn(u64, u64) -> F,
        mut keep: impl FnMut(Sample),
    ) -> io::Result<LoadStats>
    where
        F: Future<Output = Sample> + Send + 'static,
    {
        match self.load {
            Load::Open { rate, arrivals, seed } => {
                self.open(Schedule::new(rate, arrivals, seed), start, &mut keep).await
            }
            Load::Closed { concurrency } => self.closed(concurrency, start, &mut keep).await,
        }
    }

    async fn open<F>(
        &self,
        schedule: Schedule,
        start: impl Fn(u64, u64) -> F,
        keep: &mut impl FnMut(Sample),
    ) -> io::Result<LoadStats>
    where
        F: Future<Output = Sample> + Send + 'static,
    {
        let alarm = PreciseTimer::new()?;
        let mut course = LoadStats::default();
        let mut streams = JoinSet::new();
        let began = clock::now();
        for (number, offset) in (0..).zip(schedule) {
            if self.is_over(number, offset) {
                break;
            }
            let intended = began.saturating_add(offset);
            loop {
                tokio::select! {
                    ringing = alarm.until(intended) => break ringing?,
                    Some(ended) = streams.join_next() => keep(sample(ended)),
                }
            }
            while let Some(ended) = streams.try_join_next() {
                keep(sample(ended));
            }
            if streams.len() < self.max_open {
                streams.spawn(start(number, intended));
                course.most_open = course.most_open.max(streams.len() as u64);
            } else {
                course.unsent = course.unsent.saturating_add(1);
                // A loop that is behind schedule never waits, so it must yield for the open streams to progress.
                tokio::task::yield_now().await;
            }
        }
        while let Some(ended) = streams.join_next().await {
            keep(sample(ended));
        }
        Ok(course)
    }

    async fn closed<F>(
        &self,
        concurrency: usize,
        start: impl Fn(u64, u64) -> F,
        keep: &mut impl FnMut(Sample),
    ) -> io::Result<LoadStats>
    where
        F: Future<Output = Sample> + Send + 'static,
    {
        let alarm = PreciseTimer::new()?;
        let mut streams = JoinSet::new();
        let began = clock::now();
        let spread = nanoseconds(self.spread);
        let width = (concurrency as u64).max(1);
        let mut course = LoadStats::default();
        let mut number = 0;
        let mut places = 0;
        loop {
            let next_place = began.saturating_add(spread.saturating_mul(places).div_euclid(width));
            tokio::select! {
                ringing = alarm.until(next_place), if places < width => {
                    ringing?;
                    places = places.saturating_add(1);
                }
                Some(ended) = streams.join_next() => keep(sample(ended)),
                else => break,
            }
            let now = clock::now();
            let wanted = (streams.len() as u64) < places;
            if wanted && !self.is_over(number, now.saturating_sub(began)) {
                streams.spawn(start(number, now));
                number = number.saturating_add(1);
                course.most_open = course.most_open.max(streams.len() as u64);
            }
        }
        Ok(course)
    }

    /// Whether stream `number`, starting `offset` nanoseconds into the trial, is beyond the trial's end.
    fn is_over(&self, number: u64, offset: u64) -> bool {
        self.length.requests.is_some_and(|requests| number >= requests)
            || self.length.duration.is_some_and(|duration| offset >= nanoseconds(duration))
    }
}

/// Returns the sample of a stream's task. If the task panicked, the stream counts as broken.
fn sample(ended: Result<Sample, JoinError>) -> Sample {
    ended.unwrap_or_else(|error| Sample {
        outcome: Outcome::Broken(format!("the bench's client failed: {error}")),
        ..Sample::default()
    })
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    fn schedule(arrivals: Arrivals, seed: u64) -> impl Iterator<Item = u64> {
        Schedule::new(1000.0, arrivals, seed)
    }

    fn turn(load: Load, requests: u64) -> Trial {
        let length = Length { requests: Some(requests), duration: None };
        Trial { load, length, max_open: usize::MAX, spread: Duration::ZERO }
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let starts: Vec<_> = schedule(Arrivals::Constant, 7).take(4).collect();
        assert_eq!(starts, [0, 1_000_000, 2_000_000, 3_000_000]);
        assert_eq!(Schedule::new(3.0, Arrivals::Constant, 0).nth(3_000_000), Some(1_000_000_000_000_000));
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_depend_only_on_the_seed() {
        let starts: Vec<_> = schedule(Arrivals::Poisson, 7).take(20_000).collect();
        assert!(starts.is_sorted());
        let mean = starts[19_999] as f64 / 20_000.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "{mean}");
        // In an exponential distribution, 1/e of the values lie above the mean.
        let long = starts.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
        assert!((long as f64 / 20_000.0 - 0.368).abs() < 0.02, "{long}");
        assert!(schedule(Arrivals::Poisson, 7).take(9).eq(starts.iter().copied().take(9)));
        assert!(schedule(Arrivals::Poisson, 8).take(9).ne(starts.iter().copied().take(9)));
    }

    #[tokio::test]
    async fn stall_counts_for_all_streams_scheduled_meanwhile() {
        const STALL: u64 = 60_000_000;
        let open_until = clock::now() + STALL;
        // The target stalls until `open_until`, then answers all requests at once.
        let answer = |_, intended| async move {
            PreciseTimer::new().unwrap().until(open_until).await.unwrap();
            Sample { intended, sent: clock::now(), end: clock::now(), ..Sample::default() }
        };
        let load = Load::Open { rate: 1000.0, arrivals: Arrivals::Constant, seed: 0 };
        let mut waits = Vec::new();
        let course = turn(load, 40).run(answer, |sample| waits.push(sample)).await.unwrap();
        assert_eq!((waits.len(), course.unsent), (40, 0));
        for wait in waits {
            assert!(wait.end - wait.intended >= open_until.saturating_sub(wait.intended));
        }
        assert!(course.most_open > 1);
    }

    #[tokio::test]
    async fn starts_skipped_for_too_many_open_streams_are_counted() {
        let load = Load::Open { rate: 10_000.0, arrivals: Arrivals::Constant, seed: 0 };
        let turn = Trial { max_open: 3, ..turn(load, 10) };
        let (release, released) = tokio::sync::watch::channel(false);
        let stream = move |number, _| {
            let mut released = released.clone();
            async move {
                released.wait_for(|open| *open).await.unwrap();
                Sample { bytes: number, ..Sample::default() }
            }
        };
        let kept = Mutex::new(Vec::new());
        let run = turn.run(stream, |sample| kept.lock().push(sample.bytes));
        let open = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            release.send(true).unwrap();
        };
        let (course, ()) = tokio::join!(run, open);
        let course = course.unwrap();
        let kept = kept.into_inner();
        assert_eq!(kept.len() as u64 + course.unsent, 10);
        assert_eq!(course.most_open, 3);
        assert!(kept.contains(&2));
    }

    #[tokio::test]
    async fn closed_loop_keeps_its_concurrency() {
        for (concurrency, requests, most) in [(4, 11, 4), (4, 2, 2), (1, 3, 1)] {
            let stream = |number, intended| async move {
                tokio::task::yield_now().await;
                Sample { intended, bytes: number, ..Sample::default() }
            };
            let mut numbers = Vec::new();
            let turn = turn(Load::Closed { concurrency }, requests);
            let course = turn.run(stream, |sample| numbers.push(sample.bytes)).await.unwrap();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..requests), "{numbers:?}");
            assert_eq!((course.most_open, course.unsent), (most, 0));
        }
    }

    #[tokio::test]
    async fn panicked_stream_is_broken() {
        async fn fails() -> Sample {
            panic!("on purpose")
        }
        let mut outcomes = Vec::new();
        let turn = turn(Load::Closed { concurrency: 1 }, 1);
        turn.run(|_, _| fails(), |sample| outcomes.push(sample.outcome)).await.unwrap();
        assert!(matches!(outcomes.as_slice(), [Outcome::Broken(_)]), "{outcomes:?}");
    }
}
