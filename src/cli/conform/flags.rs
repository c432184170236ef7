//! The options of `conform`.

use std::{
    convert::Infallible,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use http::{HeaderName, HeaderValue, Uri};
use secrecy::SecretString;

use super::{
    super::{
        offered_values::{client_dialect, taught, tested_dialect, text},
        report_flags::{ReportFlags, duration},
        upstream_flags::resolved_secret,
    },
    target_url,
};
use toolwire_lab::{
    bench::target,
    conform::{Api, gateway::Models},
};
use toolwire_pipeline::dialect::ClientDialect;

/// Options of `conform`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) gateway: GatewayFlags,
    #[command(flatten)]
    pub(super) cases: CaseFlags,
    #[command(flatten)]
    pub(super) run: RunFlags,
    #[command(flatten)]
    pub(super) output: ReportFlags,
}

/// The gateway.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gateway")]
pub(super) struct GatewayFlags {
    /// Base URL of the API to test, such as http://127.0.0.1:4000/v1 [default: a toolwire that is started]
    #[arg(long, value_name = "URL", value_parser = target_url)]
    pub(super) target: Option<Uri>,
    /// Address of the mock, the gateway's upstream [default: 127.0.0.1:8790 with --target, else a free
    /// port]
    #[arg(long, value_name = "ADDR")]
    mock_listen: Option<SocketAddr>,
    /// Model to request, or DIALECT=NAME for one upstream dialect; may be repeated [default:
    /// conform-DIALECT, conform-DIALECT-FORMAT for calls as text]
    #[arg(long = "model", value_name = "NAME", value_parser = model)]
    models: Vec<(Option<Api>, String)>,
    /// API key to send: env:NAME or file:PATH
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_CONFORM_KEY", hide_env_values = true, value_parser = resolved_secret)]
    pub(super) api_key: Option<SecretString>,
    /// Header for every request; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = target::header)]
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// The cases to play.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Cases")]
pub(super) struct CaseFlags {
    /// Dialect of the client; several are separated by commas [default: chat with --target, else all]
    #[arg(long, value_parser = client_dialect(), value_name = "DIALECT", value_delimiter = ',')]
    pub(super) client: Vec<ClientDialect>,
    /// Dialect of the target's upstream; several are separated by commas [default: chat with --target, else all]
    #[arg(long, value_name = "DIALECT", value_parser = tested_dialect(), value_delimiter = ',')]
    pub(super) upstream_dialect: Vec<Api>,
    /// Text format of calls; several are separated by commas: names, all or none
    /// [default: none with --target, else all]
    #[arg(long = "format", value_name = "FORMAT", value_delimiter = ',')]
    #[arg(value_parser = text(["all", "none"].into_iter().chain(taught())), hide_possible_values = true)]
    pub(super) formats: Option<Vec<String>>,
    /// Fixture, or folder of fixtures, to play too; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) fixtures: Vec<PathBuf>,
    /// Play only this case, with * for any text; may be repeated
    #[arg(long, value_name = "CASE")]
    pub(super) only: Vec<String>,
    /// Print the names of the cases
    #[arg(long)]
    pub(super) list: bool,
    /// Be strict: fail a case also for violations that all tested clients tolerate
    #[arg(long)]
    pub(super) strict: bool,
    /// How many of a response's cuts in two are played, or all
    #[arg(long, value_name = "N", default_value_t = Cuts(DEFAULT_CUTS))]
    pub(super) cuts: Cuts,
    /// Random seed (choice of cuts)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// The settings of the run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run")]
pub(super) struct RunFlags {
    /// Concurrent requests
    #[arg(long, value_name = "N", default_value = "8")]
    pub(super) concurrency: NonZeroUsize,
    /// Time limit of a response
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub(super) timeout: Duration,
}

const DEFAULT_CUTS: usize = 24;

/// The value of `--cuts`; `all` is [`usize::MAX`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Cuts(pub(super) usize);

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            usize::MAX => f.write_str("all"),
            number => write!(f, "{number}"),
        }
    }
}

impl FromStr for Cuts {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self(usize::MAX)),
            _ => text.parse().map(Self).map_err(|_| "it is a number, or `all`"),
        }
    }
}

impl Args {
    pub(super) fn mock_listen(&self) -> SocketAddr {
        let port = if self.gateway.target.is_some() { 8790 } else { 0 };
        self.gateway.mock_listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The model to request for each upstream dialect.
    pub(super) fn models(&self) -> Models {
        let by_api = self.gateway.models.iter().filter_map(|(api, name)| Some(((*api)?, name.clone())));
        let all = self.gateway.models.iter().rev().find(|(api, _)| api.is_none());
        Models { all: all.map(|(_, name)| name.clone()), by_api: by_api.collect() }
    }

    /// Formats the command line for repeating a case: without the options that choose cases, clients or outputs, and
    /// without secret values.
    pub(super) fn repeated(&self) -> String {
        fn add(command: &mut String, flag: &str, value: &str) {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "/@=_-.:,".contains(c);
            match value.chars().all(is_plain) {
                true => command.extend([" ", flag, " ", value]),
                false => command.extend([" ", flag, " '", &value.replace('\'', "'\\''"), "'"]),
            }
        }
        let mut command = "toolwire conform".to_owned();
        if let Some(url) = &self.gateway.target {
            add(&mut command, "--target", &url.to_string());
        }
        if let Some(address) = self.gateway.mock_listen {
            add(&mut command, "--mock-listen", &address.to_string());
        }
        for (api, name) in &self.gateway.models {
            add(&mut command, "--model", &api.map_or_else(|| name.clone(), |api| format!("{api}={name}")));
        }
        for (name, _) in &self.gateway.headers {
            add(&mut command, "--header", &format!("{name}: …"));
        }
        if !self.cases.upstream_dialect.is_empty() {
            let names: Vec<_> = self.cases.upstream_dialect.iter().map(|api| api.name()).collect();
            add(&mut command, "--upstream-dialect", &names.join(","));
        }
        if let Some(formats) = &self.cases.formats {
            add(&mut command, "--format", &formats.join(","));
        }
        for path in &self.cases.fixtures {
            add(&mut command, "--fixtures", &path.display().to_string());
        }
        if self.cases.strict {
            command.push_str(" --strict");
        }
        if self.cases.cuts.0 != DEFAULT_CUTS {
            add(&mut command, "--cuts", &self.cases.cuts.to_string());
        }
        if self.cases.seed != 1 {
            add(&mut command, "--seed", &self.cases.seed.to_string());
        }
        command
    }
}

/// Parses `NAME`, or `DIALECT=NAME`.
fn model(text: &str) -> Result<(Option<Api>, String), Infallible> {
    let pair = text.split_once('=').and_then(|(api, name)| Some((api.parse().ok()?, name)));
    Ok(match pair {
        Some((api, name)) => (Some(api), name.to_owned()),
        None => (None, text.to_owned()),
    })
}
