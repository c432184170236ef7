//! [`Plan`]: what a run does. The command line makes one; rounds and ramp follow it.

use std::{fmt, sync::Arc, time::Duration};

use super::{Dialect, prompts::Prompts, ramp, slo::Slo, target::Target};
use crate::observe::terminal::plural;

/// A whole run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is spoken to every target.
    pub dialect: Dialect,
    /// The targets; ratios refer to the first.
    pub targets: Vec<Contender>,
    /// What is asked.
    pub prompts: Prompts,
    /// When streams start.
    pub load: Load,
    /// When a turn ends.
    pub length: Length,
    /// Streams open at once in an open loop; starts beyond them are counted, not made.
    pub max_open: usize,
    /// The first streams of a closed loop are spread over this time.
    pub spread: Duration,
    /// Rounds; every target has a turn in each.
    pub rounds: usize,
    /// Streams for each target before the first round, unmeasured.
    pub warm_up: u64,
    /// How long a stream may take.
    pub timeout: Duration,
    /// Pauses between two tokens longer than this are counted.
    pub gap: Duration,
    /// In place of rounds: the search for the most streams at which a service level holds.
    pub ramp: Option<(Slo, ramp::Range)>,
    /// A mock in the bench's own process, which has a turn in each round, too.
    pub baseline: Option<Contender>,
    /// The command line, as the report shows it.
    pub command: String,
    /// No progress bar.
    pub quiet: bool,
}

/// A target with what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    /// Where and how it is asked.
    pub target: Arc<Target>,
    /// Its processes; their children belong to it, too.
    pub pids: Vec<u32>,
}

/// When streams start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// On a schedule, whatever the answers do.
    Open {
        /// Streams a second.
        rate: f64,
        /// How they follow each other.
        arrivals: Arrivals,
        /// Chooses among the schedules of a Poisson process.
        seed: u64,
    },
    /// So many at once: when one ends, the next one starts.
    Closed {
        /// Streams open at once.
        concurrency: usize,
    },
}

/// How the starts of an open loop follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum Arrivals {
    /// Always as long after one another.
    Constant,
    /// As independent users come: gaps are exponentially distributed.
    Poisson,
}

/// When a turn ends: what comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Length {
    /// After so many streams.
    pub requests: Option<u64>,
    /// After so long; streams that are open then are still measured to their end.
    pub duration: Option<Duration>,
}

impl Length {
    /// Which part of a turn is over, 0 to 1, after so many streams and nanoseconds.
    pub(crate) fn part(&self, streams: u64, nanoseconds: u64) -> f64 {
        let by_requests = self.requests.map_or(0.0, |requests| streams as f64 / requests.max(1) as f64);
        let by_time = self.duration.map_or(0.0, |time| nanoseconds as f64 / 1e9 / time.as_secs_f64());
        by_requests.max(by_time).clamp(0.0, 1.0)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { rate, arrivals: Arrivals::Constant, .. } => {
                write!(f, "open loop, {rate} streams/s, constant")
            }
            Self::Open { rate, arrivals: Arrivals::Poisson, seed } => {
                write!(f, "open loop, {rate} streams/s, Poisson (seed {seed})")
            }
            Self::Closed { concurrency: 1 } => f.write_str("closed loop, 1 stream at a time"),
            Self::Closed { concurrency } => write!(f, "closed loop, {concurrency} streams at once"),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.requests, self.duration) {
            (Some(requests), None) => write!(f, "{requests} {} a turn", plural(requests, "stream")),
            (None, Some(duration)) => write!(f, "{} a turn", humantime::format_duration(duration)),
            (Some(requests), Some(duration)) => {
                let streams = plural(requests, "stream");
                write!(f, "{requests} {streams} or {} a turn", humantime::format_duration(duration))
            }
            (None, None) => f.write_str("no end"),
        }
    }
}
