//! The options of `bench`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use http::{HeaderName, HeaderValue};
use secrecy::SecretString;

use super::super::{
    offered_values::{client_dialect, offering, pace, taught, text},
    output::Failed,
    report_flags::{STDOUT, duration},
    upstream_flags::secret,
};
use toolwire_lab::{
    bench::{
        plan::{Arrivals, Length, Load},
        ramp,
        slo::Slo,
        target::{self, Target},
    },
    fixture::mock::Pace,
};
use toolwire_pipeline::dialect::{ClientDialect, Dialect};

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Base URL of the API to test, or NAME=URL, such as direct=http://127.0.0.1:8788/v1; may be repeated, the first is
    /// the reference [default: a mock and a toolwire in front of it]
    #[arg(long = "target", value_name = "URL")]
    pub(super) targets: Vec<Target>,
    /// Dialect of the client
    #[arg(long, value_parser = client_dialect(), value_name = "DIALECT", default_value = "chat")]
    pub(super) client: ClientDialect,
    /// Model to request [default: that of the prompts, or bench]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Header for every request; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = target::header)]
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// API key to send: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_BENCH_KEY", hide_env_values = true, value_parser = secret)]
    pub(super) api_key: Option<SecretString>,
    /// PEM file of the authorities that are trusted, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Process of a target whose CPU time and memory are measured, with its children; may be repeated
    #[arg(long = "pid", value_name = "NAME=PID", value_parser = pid)]
    pub(super) pids: Vec<(String, u32)>,
    #[command(flatten)]
    pub(super) load: LoadFlags,
    #[command(flatten)]
    pub(super) ramp: RampFlags,
    #[command(flatten)]
    pub(super) prompts: PromptFlags,
    #[command(flatten)]
    pub(super) mock: MockFlags,
    #[command(flatten)]
    pub(super) output: OutputFlags,
    /// After --: options for the started toolwire, such as --detect off
    #[arg(last = true, value_name = "SERVE OPTIONS", conflicts_with = "targets")]
    pub(super) serve: Vec<String>,
}

/// Load: which streams start when.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadFlags {
    /// Open loop: streams to start per second
    #[arg(long, value_name = "STREAMS/S", value_parser = rate, conflicts_with = "concurrency")]
    rate: Option<f64>,
    /// Distribution of the start times in an open loop
    #[arg(long, value_enum, value_name = "KIND", default_value = "poisson", requires = "rate")]
    arrivals: Arrivals,
    /// Random seed (start times in an open loop)
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    seed: u64,
    /// Open streams in an open loop; further starts are skipped and counted
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(super) max_open: usize,
    /// Concurrent requests, in a closed loop
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,
    /// Time over which the first streams of a closed loop start
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "0s", conflicts_with = "rate")]
    pub(super) spread: Duration,
    /// For how long a trial starts new streams
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Streams per trial [default: 20, or unlimited with --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Rounds, each with one trial of every target
    #[arg(long, value_name = "N", default_value = "5")]
    pub(super) rounds: NonZeroUsize,
    /// Streams per target that are not measured
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) warm_up: u64,
    /// Time limit of a response
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    pub(super) timeout: Duration,
    /// Shortest pause between two tokens that counts as a gap
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    pub(super) gap: Duration,
    /// Worker threads
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) threads: NonZeroUsize,
}

impl LoadFlags {
    pub(super) fn load(&self) -> Load {
        match self.rate {
            Some(rate) => Load::Open { rate, arrivals: self.arrivals, seed: self.seed },
            None => Load::Closed { concurrency: self.concurrency.get() },
        }
    }

    pub(super) fn length(&self) -> Length {
        const REQUESTS: u64 = 20;
        let requests = self.requests.or_else(|| self.duration.is_none().then_some(REQUESTS));
        Length { requests, duration: self.duration }
    }
}

/// The search for the highest number of streams.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Ramp")]
pub(super) struct RampFlags {
    /// Find the highest number of concurrent streams that meets this service level, such as
    /// ttft_p99<300ms,itl_p99<50ms,broken_share<0.1%
    #[arg(long, value_name = "CONDITIONS", conflicts_with_all = ["rate", "concurrency", "spread", "duration", "requests", "rounds"])]
    slo: Option<Slo>,
    /// Concurrent streams in the first step
    #[arg(long, value_name = "N", default_value_t = 1, requires = "slo")]
    ramp_from: u64,
    /// Most concurrent streams to try
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "slo")]
    ramp_to: u64,
    /// For how long a step starts new streams
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s", requires = "slo")]
    ramp_step: Duration,
}

impl RampFlags {
    pub(super) fn ramp(&self) -> Option<(Slo, ramp::Range)> {
        let range = ramp::Range { from: self.ramp_from, to: self.ramp_to, step: self.ramp_step };
        Some((self.slo.clone()?, range))
    }
}

/// The requests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompts")]
pub(super) struct PromptFlags {
    /// File of prompts, one JSON object per line: {"prompt": …}, {"messages": […], "tools": […]}, or a
    /// complete request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt_tokens", "tool_count"])]
    pub(super) prompts: Option<PathBuf>,
    /// Approximate tokens of a generated prompt
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(super) prompt_tokens: usize,
    /// Number of tools that generated prompts declare
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) tool_count: usize,
    /// Token limit of a response
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,
    /// Send the requests of a fixture or a folder of fixtures, with its name as the model
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prompts", "prompt_tokens", "tool_count", "max_tokens", "model"])]
    pub(super) replay: Vec<PathBuf>,
}

/// The mocks: the upstream of the toolwire that the bench starts, and the baseline.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Mock (used for the baseline, and started if no target is given)")]
pub(super) struct MockFlags {
    /// Pace of the upstream: recorded (with --replay), none (all at once), or a time between two pieces [default: 2ms;
    /// with --replay recorded]
    #[arg(long, value_name = "PACE", value_parser = pace(), hide_possible_values = true)]
    pub(super) pace: Option<Pace>,
    /// Tokens of the mock's responses
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) answer_tokens: usize,
    /// Content of the upstream's responses: text, a call, or text and then a call
    #[arg(long, value_name = "KIND", value_parser = ["text", "call", "text-call"], default_value = "text")]
    pub(super) answer: String,
    /// Text format of calls [default: native calls]
    #[arg(long, value_name = "FORMAT", value_parser = text(taught()), hide_possible_values = true)]
    pub(super) format: Option<String>,
    /// Dialect of the target's upstream
    #[arg(long, value_name = "DIALECT", default_value = "chat")]
    #[arg(value_parser = offering(["chat", "lumo"], |name: &str| name.parse::<Dialect>()))]
    pub(super) upstream_dialect: Dialect,
    /// Do not measure the baseline, a mock in the bench's process
    #[arg(long)]
    pub(super) no_baseline: bool,
}

impl MockFlags {
    /// The pace given by the options. The default depends on whether the mock serves fixtures or generates responses.
    pub(super) fn pace(&self, fixtures: bool) -> Pace {
        const GAP: Duration = Duration::from_millis(2);
        match (self.pace, fixtures) {
            (Some(Pace::Recorded), false) | (None, false) => Pace::Every(GAP),
            (Some(pace), _) => pace,
            (None, true) => Pace::Recorded,
        }
    }
}

/// Output.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct OutputFlags {
    /// Write JSON; without a file instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    pub(super) json: Option<PathBuf>,
    /// Write the figures as CSV; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write an HTML page; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Be strict: exit with status 1 if any stream was incomplete or violated the rules of its dialect
    #[arg(long)]
    pub(super) strict: bool,
    /// Show no progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}

fn rate(text: &str) -> Result<f64, Failed> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    Ok(rate.ok_or("a rate is a number greater than 0")?)
}

fn pid(text: &str) -> Result<(String, u32), Failed> {
    let (name, pid) = text.split_once('=').ok_or("expected NAME=PID with the name of a target")?;
    Ok((name.to_owned(), pid.parse().map_err(|_| format!("`{pid}` is not a process id"))?))
}
