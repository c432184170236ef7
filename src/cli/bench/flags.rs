//! The options of `bench`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use http::{HeaderName, HeaderValue};
use secrecy::SecretString;

use crate::{
    bench::{
        Dialect,
        plan::{Arrivals, Length, Load},
        ramp,
        slo::Slo,
        target::{self, Target},
    },
    dialect,
    fixture::mock::Pace,
};

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is measured: NAME=URL with the base URL of an API, such as direct=http://127.0.0.1:8788/v1. Several take turns;
    /// ratios refer to the first that has the measure [default: a mock and a toolwire in front of it, both started for the run]
    #[arg(long = "target", value_name = "NAME=URL")]
    pub(super) targets: Vec<Target>,
    /// What is spoken to all of them
    #[arg(long, value_enum, value_name = "DIALECT", default_value_t)]
    pub(super) dialect: Dialect,
    /// The model that is asked for [default: what the prompts say, else bench]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// A header of every request; several are possible
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = target::header)]
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// The key that every target gets: as bearer token, with the Messages API as x-api-key
    #[arg(long, value_name = "KEY", env = "TOOLWIRE_BENCH_KEY", hide_env_values = true, value_parser = secret)]
    pub(super) api_key: Option<SecretString>,
    /// The process of a target: NAME=PID; its CPU time and memory are measured with those of its children. Several
    /// processes may belong to one target
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
    /// Behind --: options for the toolwire that is started where no target is given, such as --detect off
    #[arg(last = true, value_name = "SERVE OPTIONS", conflicts_with = "targets")]
    pub(super) serve: Vec<String>,
}

/// Which streams start when.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadFlags {
    /// Open loop: so many streams start each second, whatever becomes of those before
    #[arg(long, value_name = "STREAMS/S", value_parser = rate, conflicts_with = "concurrency")]
    rate: Option<f64>,
    /// How starts of an open loop follow each other
    #[arg(long, value_enum, value_name = "KIND", default_value = "poisson", requires = "rate")]
    arrivals: Arrivals,
    /// Which Poisson schedule; round by round it is another one, the same for all targets
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    seed: u64,
    /// Streams open at once in an open loop; starts beyond them are not made, but counted
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(super) max_open: usize,
    /// Closed loop: so many streams at once; when one ends the next one starts
    #[arg(long, visible_alias = "copies", value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,
    /// The first streams of a closed loop start over this time, so that they do not all begin and end together
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "0s", conflicts_with = "rate")]
    pub(super) spread: Duration,
    /// New streams start for so long in a target's turn; those that are open then are measured to their end
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Streams in a target's turn [default: 20, unless there is a --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Rounds; each target has a turn in each, in another order each time
    #[arg(long, value_name = "N", default_value = "5")]
    pub(super) rounds: NonZeroUsize,
    /// Streams for each target before the first round, unmeasured
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) warm_up: u64,
    /// How long a stream may take
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    pub(super) timeout: Duration,
    /// Pauses between two tokens of a stream are counted from this length on
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    pub(super) gap: Duration,
    /// Threads that measure; with one, no stream waits for another thread's lock
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

/// The search for the most streams.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Ramp")]
pub(super) struct RampFlags {
    /// In place of rounds, find the highest number of streams at once at which this service level holds:
    /// ttft_p99<300ms,itl_p99<50ms,broken_share<0.1%
    #[arg(long, value_name = "CONDITIONS", conflicts_with_all = ["rate", "concurrency", "spread", "duration", "requests", "rounds"])]
    slo: Option<Slo>,
    /// Streams at once of the first step
    #[arg(long, value_name = "N", default_value_t = 1, requires = "slo")]
    ramp_from: u64,
    /// The most that is tried
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "slo")]
    ramp_to: u64,
    /// New streams start for so long in a step
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s", requires = "slo")]
    ramp_step: Duration,
}

impl RampFlags {
    pub(super) fn ramp(&self) -> Option<(Slo, ramp::Range)> {
        let range = ramp::Range { from: self.ramp_from, to: self.ramp_to, step: self.ramp_step };
        Some((self.slo.clone()?, range))
    }
}

/// What is asked.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompts")]
pub(super) struct PromptFlags {
    /// Prompts, a JSON object a line: {"prompt": …}, {"messages": […], "tools": […]}, or a whole request of the dialect
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt_tokens", "tools"])]
    pub(super) prompts: Option<PathBuf>,
    /// About so many tokens a generated prompt
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(super) prompt_tokens: usize,
    /// Tools that generated prompts declare
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) tools: usize,
    /// The most tokens that an answer may have
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,
    /// Requests of recorded fixtures, or of all below a folder; each asks for the model of its fixture's name. Without a
    /// --target, a mock is started that answers with them
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prompts", "prompt_tokens", "tools", "max_tokens", "model"])]
    pub(super) replay: Vec<PathBuf>,
}

/// The mocks that are started: the one behind our own toolwire, and the baseline.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Mock: that of the baseline, and the one that is started where no target is given"
)]
pub(super) struct MockFlags {
    /// When its pieces leave: a time between two of them, none (all at once) or, with --replay, recorded [default: 2ms,
    /// with --replay recorded]
    #[arg(long, value_name = "PACE")]
    pub(super) pace: Option<Pace>,
    /// Tokens of its answers
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) answer_tokens: usize,
    /// What its answers hold: text, call or text-call
    #[arg(long, value_name = "KIND", value_parser = ["text", "call", "text-call"], default_value = "text")]
    pub(super) answer: String,
    /// Its calls are text in this format (`toolwire formats` lists them)
    #[arg(long, value_name = "NAME")]
    pub(super) format: Option<String>,
    /// What it speaks to the toolwire that is started: chat or lumo
    #[arg(long, value_name = "DIALECT", default_value = "chat")]
    pub(super) upstream: dialect::Dialect,
    /// No baseline: no turns for a mock in the bench's own process
    #[arg(long)]
    pub(super) no_baseline: bool,
}

impl MockFlags {
    /// The pace of a mock that serves fixtures, or makes its answers up.
    pub(super) fn pace(&self, fixtures: bool) -> Pace {
        const GAP: Duration = Duration::from_millis(2);
        match (self.pace, fixtures) {
            (Some(Pace::Recorded), false) | (None, false) => Pace::Every(GAP),
            (Some(pace), _) => pace,
            (None, true) => Pace::Recorded,
        }
    }
}

/// Where results go.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct OutputFlags {
    /// Write all figures as JSON, in place of the table if to stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<PathBuf>,
    /// Write the figures as CSV; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write a page with charts, in one file; - is stdout
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Exit with status 1 if any stream was not whole and by the rules of its dialect; without it, only if a target had
    /// no such stream at all
    #[arg(long)]
    pub(super) strict: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("it is longer than nothing".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}; a time is such as 500ms, 10s or 2m")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "a rate is a number above 0".to_owned())
}

fn pid(text: &str) -> Result<(String, u32), String> {
    let (name, pid) = text.split_once('=').ok_or("NAME=PID with the name of a target")?;
    Ok((name.to_owned(), pid.parse().map_err(|_| format!("`{pid}` is no process id"))?))
}

/// Keeps the value out of every later print of the flags.
fn secret(value: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(value))
}
