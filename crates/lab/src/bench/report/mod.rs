//! [`Report`]: all results of a run of `toolwire bench`, as `--json` writes them. The table, the CSV and the
//! page are views of it.

mod caveats;
mod csv;
#[cfg(test)]
mod example;
pub(crate) mod figure;
pub(crate) mod grid;
pub(crate) mod json;
mod metric;
pub(crate) mod page;
mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

pub use self::{csv::csv, json::json, page::page, table::table};

/// All results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// toolwire's version.
    pub version: String,
    /// When the run began, in seconds since 1970.
    pub started: u64,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// The command line.
    pub command: String,
    pub dialect: String,
    /// The load in words: `open loop, 20 streams/s, Poisson`.
    pub load: String,
    /// Number of rounds; each had one trial of every target.
    pub rounds: usize,
    pub machine: Machine,
    /// The tool's own cost.
    pub overhead: Overhead,
    /// A mock in the tool's own process, read by the same client. It shows how much the tool and the kernel
    /// contribute to the figures.
    pub baseline: Option<Target>,
    /// The targets, in the order of the command line.
    pub targets: Vec<Target>,
    /// The other targets, each relative to the first.
    pub ratios: Vec<Ratio>,
    /// Results of the ramp, one per target.
    pub ramps: Vec<Ramp>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that the tool may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub system: String,
    /// Load average (one minute) before and after.
    pub load: Option<(f64, f64)>,
}

/// The tool's own cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// CPU time of the tool's process per token that it reads, in µs.
    pub cpu_per_token: f64,
    /// One reading of the clock, in ns.
    pub clock_ns: f64,
    /// Reading and checking one delta, in ns.
    pub parse_ns: f64,
    /// Delay of requests on an open connection after their intended starts, in µs.
    pub start_lag: Option<Distribution>,
}

/// The results of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub name: String,
    /// The target's address.
    pub url: String,
    /// All rounds together.
    pub all: Summary,
    /// The rounds, one by one.
    pub rounds: Vec<Summary>,
    /// The tokens of a few streams, for the timeline.
    pub timelines: Vec<Timeline>,
    /// Violations of the dialect's rules and interruptions, with the number of occurrences.
    pub complaints: BTreeMap<String, u64>,
}

/// Figures of many streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of streams requested.
    pub streams: u64,
    /// Number of complete streams without violations.
    pub good: u64,
    /// Number of streams refused with an error status.
    pub refused: u64,
    /// Number of streams that contained an error event.
    pub failed: u64,
    /// Number of streams without a proper end.
    pub broken: u64,
    /// Number of complete streams with violations.
    pub malformed: u64,
    /// Number of streams in an open loop's schedule that were not sent because too many were open. Not
    /// included in `streams`.
    #[serde(default)]
    pub unsent: u64,
    /// Number of deltas with content.
    pub tokens: u64,
    /// Number of bytes in the bodies.
    pub bytes: u64,
    /// Time from the first intended start to the last end, in seconds.
    pub seconds: f64,
    /// Deltas with content per second, all streams together.
    pub tokens_per_second: f64,
    /// Complete streams per second.
    pub streams_per_second: f64,
    /// Number of pauses between two tokens of a stream that exceed the threshold.
    pub gaps: u64,
    /// Distributions in µs.
    pub metrics: BTreeMap<Metric, Distribution>,
    /// The process under test, if `--pid` names one.
    pub process: Option<Process>,
}

/// A measure of a stream; docs/bench.md defines each.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// From the intended start to the first byte of the body.
    Ttfb,
    /// From the intended start to the first token.
    Ttft,
    /// From the intended start to the beginning of the first call.
    FirstCall,
    /// From the intended start to the last piece of a call.
    LastCall,
    /// Between two consecutive tokens of a stream.
    Itl,
    /// A stream's mean time per output token after the first.
    Tpot,
    /// From the intended start to the end.
    E2e,
    /// From the mock's postmark in a token to its arrival: the added latency.
    Added,
    /// Delay of the mock's tokens compared with its own schedule.
    Slip,
}

/// A distribution, in µs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// The minimum.
    pub min: f64,
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
    /// Percentile (0 to 100) and value, ascending: the percentile curve. Omitted in rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, f64)>,
}

/// The tokens of one stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Time from the intended start to each token, in µs.
    pub tokens: Vec<f64>,
    /// Time to the first byte, in µs.
    pub first_byte: Option<f64>,
    /// Time to the beginning of the first call, in µs.
    pub first_call: Option<f64>,
    /// Time to the end, in µs.
    pub end: f64,
}

/// A target relative to the first one that has the measure: the median of the rounds' ratios, and their
/// spread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub target: String,
    /// The first target that has the measure.
    pub to: String,
    /// The measure that is compared: `ttft_p50`, `added_p99`, `tokens_per_second`, `cpu_per_token`, …
    pub measure: String,
    /// The median over the rounds.
    pub median: f64,
    /// The minimum of the rounds.
    pub min: f64,
    /// The maximum of the rounds.
    pub max: f64,
}

/// The process under test during a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// CPU time of the process and its children, in seconds.
    pub cpu_seconds: f64,
    /// CPU time per token, in µs.
    pub cpu_per_token: f64,
    /// Proportional set size before the round, in KiB.
    pub idle_kib: f64,
    /// Peak of the proportional set size, in KiB.
    pub peak_kib: f64,
    /// Maximum number of open streams.
    pub open_streams: u64,
    /// (peak − idle) ÷ open streams, in KiB.
    pub kib_per_stream: f64,
}

/// The result of a ramp.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    pub target: String,
    /// The service level, as it was given.
    pub slo: String,
    /// The highest number of streams that met the service level.
    pub streams: Option<u64>,
    /// Every step that was tried.
    pub steps: Vec<RampStep>,
}

/// One step of a ramp.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RampStep {
    /// Number of concurrent streams.
    pub streams: u64,
    /// Whether the service level was met.
    pub held: bool,
    /// Each condition with the measured value: `ttft_p99 = 210 ms`.
    pub measured: Vec<String>,
}
