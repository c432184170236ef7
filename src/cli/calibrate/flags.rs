//! The options of `calibrate`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::super::{
    offered_values::{taught, text, upstream_dialect},
    output::Failed,
    report_flags::{ReportFlags, duration},
    upstream_flags::secret,
};
use toolwire_lab::calibrate::{
    plan::Sampling,
    variant::{ALL_WORDINGS, ENFORCE, Wording},
};

/// Options of `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) upstream: UpstreamArgs,
    #[command(flatten)]
    pub(super) variants: VariantFlags,
    #[command(flatten)]
    pub(super) prompts: PromptFlags,
    #[command(flatten)]
    pub(super) run: RunFlags,
    #[command(flatten)]
    pub(super) output: ReportFlags,
}

/// The model that is asked.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Upstream")]
pub(super) struct UpstreamArgs {
    /// Base URL of the upstream, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL", env = "TOOLWIRE_UPSTREAM")]
    pub(super) upstream: Option<String>,
    /// Dialect of the upstream [default: found by asking]
    #[arg(long, value_name = "DIALECT", env = "TOOLWIRE_DIALECT", requires = "upstream")]
    #[arg(value_parser = upstream_dialect())]
    pub(super) dialect: Option<String>,
    /// API key to send: env:NAME or file:PATH
    #[arg(
        long,
        value_name = "SECRET",
        env = "TOOLWIRE_UPSTREAM_KEY",
        hide_env_values = true,
        value_parser = secret,
        requires = "upstream"
    )]
    pub(super) api_key: Option<SecretString>,
    /// The configuration file, which has the model; instead of --upstream
    #[arg(long, short, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// Model to request, by its name at the upstream or, with --config, in the file [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
}

/// The variants to compare.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Variants")]
pub(super) struct VariantFlags {
    /// Text format of calls; several are separated by commas: names, native, all, or auto (native, those of the model's
    /// name, one of each family)
    #[arg(long = "format", value_name = "FORMAT", value_delimiter = ',', default_value = "auto")]
    #[arg(value_parser = text(["auto", "native", "all"].into_iter().chain(taught())), hide_possible_values = true)]
    pub(super) formats: Vec<String>,
    /// Wordings, separated by commas: default, schemas, turns, user, last_user, combinations such as
    /// turns+examples=3, or all
    #[arg(long, value_name = "WORDINGS", value_delimiter = ',', default_value = "default")]
    #[arg(value_parser = text(ALL_WORDINGS.into_iter().chain(["all"])), hide_possible_values = true)]
    wordings: Vec<String>,
    /// Values of `enforce`, separated by commas
    #[arg(long, value_name = "VALUES", value_delimiter = ',', value_parser = ENFORCE, default_value = "calls,auto")]
    pub(super) enforce: Vec<String>,
}

impl VariantFlags {
    /// Expands `--wordings`.
    ///
    /// # Errors
    /// A name is not a wording.
    pub(super) fn wordings(&self) -> Result<Vec<Wording>, Failed> {
        let names = self.wordings.iter().flat_map(|name| match name.as_str() {
            "all" => ALL_WORDINGS.to_vec(),
            name => vec![name],
        });
        names.map(|name| Ok(name.parse().map_err(|error| format!("--wordings {name}: {error}"))?)).collect()
    }
}

/// The prompts to ask.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompts")]
pub(super) struct PromptFlags {
    /// File of prompts (docs/calibrate.md) [default: 60 built-in prompts]
    #[arg(long, value_name = "FILE")]
    pub(super) prompts: Option<PathBuf>,
    /// File of the tools that the prompts offer [default: those of the prompts, or the built-in ones]
    #[arg(long, value_name = "FILE", requires = "prompts")]
    pub(super) tools_file: Option<PathBuf>,
    /// How often each prompt is asked
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Temperature of the requests
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    temperature: f64,
    /// Token limit of a response
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: u64,
    /// Random seed (sent with the requests of the first run)
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl PromptFlags {
    pub(super) fn sampling(&self) -> Sampling {
        Sampling { temperature: self.temperature, max_tokens: self.max_tokens, seed: self.seed }
    }
}

/// The settings of the requests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run")]
pub(super) struct RunFlags {
    /// Concurrent requests
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) concurrency: NonZeroUsize,
    /// Time limit of a response
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub(super) timeout: Duration,
    /// File of answers, for resuming [default: one per model in the user's cache folder]
    #[arg(long, value_name = "FILE")]
    pub(super) cache: Option<PathBuf>,
}

fn temperature(text: &str) -> Result<f64, Failed> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    Ok(value.ok_or("a temperature is a number that is not negative")?)
}
