//! [`Plan`]: the settings of a run, from the command line.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use super::{prompts::Prompts, ramp, slo::Slo, target::Target};
use toolwire_gateway::observe::terminal::plural;
use toolwire_pipeline::dialect::ClientDialect;

/// The settings of a run.
#[derive(Debug)]
pub struct Plan {
    /// The dialect of all targets.
    pub dialect: ClientDialect,
    /// The model of requests whose path names it.
    pub model: String,
    /// The targets; ratios compare the others with the first.
    pub targets: Vec<Contender>,
    pub prompts: Prompts,
    pub load: Load,
    pub length: Length,
    /// Maximum number of open streams in an open loop. At this limit, starts are skipped and counted.
    pub max_open: usize,
    /// Time over which the first streams of a closed loop are spread.
    pub spread: Duration,
    /// Number of rounds; each has one trial of every target.
    pub rounds: usize,
    /// Number of unmeasured streams for each target before the first round.
    pub warm_up: u64,
    /// Time limit for a stream.
    pub timeout: Duration,
    /// Pauses between two tokens count as gaps if they are longer than this.
    pub gap: Duration,
    /// If set, the run has no rounds: it searches for the highest number of streams that meets this service level.
    pub ramp: Option<(Slo, ramp::Range)>,
    /// A mock in the bench's own process, measured in every round.
    pub baseline: Option<Contender>,
    /// The command line, as the report shows it.
    pub command: String,
    /// Whether to hide the progress bar.
    pub quiet: bool,
    /// Progress of the run in thousandths, read by other threads.
    pub course: Arc<AtomicU32>,
}

/// A target with its processes.
#[derive(Debug, Clone)]
pub struct Contender {
    pub target: Arc<Target>,
    /// The target's processes. Their children are measured too.
    pub pids: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// On a schedule, independent of responses.
    Open {
        /// Streams per second.
        rate: f64,
        /// Distribution of the starts.
        arrivals: Arrivals,
        /// Seed of the Poisson process.
        seed: u64,
    },
    /// A fixed number of concurrent streams: when one ends, the next starts.
    Closed {
        /// Number of concurrent streams.
        concurrency: usize,
    },
}

/// Distribution of the starts of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// At constant intervals.
    Constant,
    /// Like independent users: intervals are exponentially distributed.
    Poisson,
}

/// When a trial ends: at the first of these limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Length {
    /// Number of streams.
    pub requests: Option<u64>,
    /// Time in which streams start. Streams that are open when it has elapsed are measured to their end.
    pub duration: Option<Duration>,
}

impl Length {
    /// Returns the progress of a trial, 0 to 1, after `streams` started streams and `nanoseconds`.
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
            Self::Closed { concurrency } => write!(f, "closed loop, {concurrency} concurrent streams"),
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
