//! [`Report`]: all results of a run of `toolwire bench`, as `--json` writes them. The table, the CSV and the HTML page are
//! made from it.

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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub version: String,
    /// When the run began, in seconds since 1970.
    pub started: u64,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    pub command: String,
    pub dialect: String,
    /// The load in words: `open loop, 20 streams/s, Poisson`.
    pub load: String,
    /// Number of rounds; each had one trial of every target.
    pub rounds: usize,
    pub machine: Machine,
    pub overhead: Overhead,
    /// The results of a mock in the tool's own process. They show how much of the figures is due to the tool and the
    /// kernel.
    pub baseline: Option<Target>,
    /// The targets, in the order of the command line.
    pub targets: Vec<Target>,
    /// The comparisons of targets.
    pub ratios: Vec<Ratio>,
    /// The results of the ramp, one per target.
    pub ramps: Vec<Ramp>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that the tool may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub system: String,
    /// One-minute load averages before and after the run.
    pub load: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// CPU time of the tool per token read, in µs.
    pub cpu_per_token: f64,
    /// Time of one clock reading, in ns.
    pub clock_ns: f64,
    /// Time to parse and check one delta, in ns.
    pub parse_ns: f64,
    /// Delay between the intended start of a request and its sending, on an open connection.
    pub start_lag: Option<Distribution>,
}

/// The results of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub name: String,
    pub url: String,
    pub all: Summary,
    pub rounds: Vec<Summary>,
    /// The tokens of a few streams, for the timeline.
    pub timelines: Vec<Timeline>,
    /// Number of occurrences of each interruption and each violation of the dialect's rules.
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
    /// Number of streams of an open loop that were skipped because too many were open. Not included in `streams`.
    #[serde(default)]
    pub unsent: u64,
    /// Number of deltas with content.
    pub tokens: u64,
    /// Total size of the bodies, in bytes.
    pub bytes: u64,
    /// Time from the first intended start to the end of the last stream, in seconds.
    pub seconds: f64,
    /// Deltas with content per second, over all streams.
    pub tokens_per_second: f64,
    /// Complete streams per second.
    pub streams_per_second: f64,
    /// Number of pauses between two tokens of a stream that are longer than [`Plan::gap`](super::plan::Plan::gap).
    pub gaps: u64,
    /// Distributions in µs.
    pub metrics: BTreeMap<Metric, Distribution>,
    /// The process under test, if `--pid` is given.
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
    /// From the intended start to the start of the first call.
    FirstCall,
    /// From the intended start to the last piece of a call.
    LastCall,
    /// Between two consecutive tokens of a stream.
    Itl,
    /// A stream's mean time per output token after the first.
    Tpot,
    /// From the intended start to the end of the stream.
    E2e,
    /// The added latency: from the mock's postmark in a token to the arrival of that token.
    Added,
    /// How late the mock sends tokens, relative to its own schedule.
    Slip,
}

/// A distribution, in µs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// The percentile curve: pairs of percentile (0 to 100) and value, ascending. Omitted in rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(f64, f64)>,
}

/// When the tokens of one stream arrived.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Time from the intended start to each token, in µs.
    pub tokens: Vec<f64>,
    /// Time to the first byte, in µs.
    pub first_byte: Option<f64>,
    /// Time to the start of the first call, in µs.
    pub first_call: Option<f64>,
    /// Time from the intended start to the end of the stream, in µs.
    pub end: f64,
}

/// A comparison of two targets by one measure: the median and the spread of the rounds' ratios.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub target: String,
    /// The reference: the first target for which the measure is available.
    pub to: String,
    /// The measure: `ttft_p50`, `added_p99`, `tokens_per_second`, `cpu_per_token`, …
    pub measure: String,
    pub median: f64,
    pub min: f64,
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
    /// Peak proportional set size, in KiB.
    pub peak_kib: f64,
    /// Peak number of open streams.
    pub open_streams: u64,
    /// (peak − idle) ÷ open streams, in KiB.
    pub kib_per_stream: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    pub target: String,
    /// The service level, as given on the command line.
    pub slo: String,
    /// The highest number of streams that met the service level.
    pub streams: Option<u64>,
    pub steps: Vec<RampStep>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RampStep {
    /// Number of concurrent streams.
    pub streams: u64,
    /// Whether the service level was met.
    pub held: bool,
    /// The measured value for each condition: `ttft_p99 = 210 ms`.
    pub measured: Vec<String>,
}
