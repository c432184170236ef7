//! [`UpstreamFlags`]: the options of `serve`, `record` and `check` that select the configuration.

use std::{
    convert::Infallible,
    env, fs,
    ops::Not,
    path::{Path, PathBuf},
    process::ExitCode,
};

use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Builder;

use super::{
    LogFormat, WRONG_INPUT,
    block_on::block_on,
    offered_values::{detected_formats, server_calls, tool_styles, upstream_dialect},
    output::{Failed, in_file},
    problems::say,
};
use toolwire_config as config;
use toolwire_config::{Config, Loaded, Overrides, Problem, Problems};
use toolwire_gateway::doctor::{FoundUpstream, find_upstream};
use toolwire_pipeline::dialect::Dialect;

const SERVED: &str = "Upstream";
const CLIENTS: &str = "Clients";
const CALLS: &str = "Tool calls";

/// A configuration file, or one upstream instead.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct UpstreamFlags {
    /// Base URL of the upstream, the same as --upstream
    #[arg(value_name = "URL", help_heading = SERVED)]
    pub url: Option<String>,
    /// The configuration file
    #[arg(long, short, value_name = "FILE", env = "TOOLWIRE_CONFIG", help_heading = SERVED)]
    pub config: Option<PathBuf>,
    /// Address to listen on; may be repeated [default: 127.0.0.1:8787]
    #[arg(long, short, value_name = "ADDR", env = "TOOLWIRE_LISTEN", value_delimiter = ',', help_heading = CLIENTS)]
    pub listen: Vec<String>,
    /// Port to listen on at 127.0.0.1, instead of an address
    #[arg(long, short, value_name = "PORT", conflicts_with = "listen", help_heading = CLIENTS)]
    pub port: Option<u16>,
    /// API key that clients must send: env:NAME or file:PATH; may be repeated, each is accepted
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_CLIENT_KEY", hide_env_values = true, value_parser = secret)]
    #[arg(help_heading = CLIENTS)]
    pub client_key: Vec<SecretString>,
    /// Base URL of the upstream, for all models and instead of those of the configuration file
    #[arg(long, value_name = "URL", env = "TOOLWIRE_UPSTREAM", help_heading = SERVED)]
    pub upstream: Option<String>,
    /// Dialect of the upstream [default: found by asking]
    #[arg(long, value_name = "DIALECT", env = "TOOLWIRE_DIALECT", value_parser = upstream_dialect(), help_heading = SERVED)]
    pub dialect: Option<String>,
    /// API key to send: env:NAME or file:PATH
    #[arg(
        long,
        value_name = "SECRET",
        env = "TOOLWIRE_UPSTREAM_KEY",
        hide_env_values = true,
        value_parser = secret,
        help_heading = SERVED
    )]
    pub api_key: Option<SecretString>,
    /// How tools are presented to the model: native, or a text format
    #[arg(long, value_name = "TOOLS", env = "TOOLWIRE_TOOLS", help_heading = CALLS)]
    #[arg(value_parser = tool_styles(), hide_possible_values = true)]
    pub tools: Option<String>,
    /// The models' chat template: a tokenizer_config.json or a Jinja file
    #[arg(long, value_name = "FILE", env = "TOOLWIRE_CHAT_TEMPLATE", help_heading = CALLS)]
    pub chat_template: Option<String>,
    /// Text formats to look for in responses: auto, off, or comma-separated names
    #[arg(long, value_name = "FORMATS", env = "TOOLWIRE_DETECT", help_heading = CALLS)]
    #[arg(value_parser = detected_formats(), hide_possible_values = true)]
    pub detect: Option<String>,
    /// What clients see of calls that the upstream ran itself
    #[arg(long, value_name = "HOW", env = "TOOLWIRE_SERVER_CALLS", value_parser = server_calls(), help_heading = CALLS)]
    pub server_calls: Option<String>,
}

impl UpstreamFlags {
    /// Reads the configuration. If the upstream's dialect is not given, its server is asked.
    ///
    /// # Errors
    /// The configuration is wrong. The error lists all its problems.
    pub(crate) fn load(&self) -> Result<Loaded, Problems> {
        let own = env::var("TOOLWIRE_UPSTREAM").ok();
        if self.url.is_some() && self.upstream.is_some() && self.upstream != own {
            return Err(Problems(vec![Problem::error(
                "the URL of the upstream is given twice, also as --upstream",
            )]));
        }
        let overrides = self.overrides();
        match block_on(Builder::new_current_thread(), load_asking(&overrides)) {
            Ok(loaded) => loaded,
            Err(_) => load(&overrides),
        }
    }

    /// Reads the configuration and reports its problems on stderr in `log_format`.
    ///
    /// # Errors
    /// The configuration is wrong. The error is the exit status.
    pub(crate) fn load_or_say(&self, log_format: LogFormat) -> Result<Config, ExitCode> {
        let (problems, config) = match self.load() {
            Ok(Loaded { config, warnings }) => (warnings, Ok(config)),
            Err(Problems(problems)) => (problems, Err(WRONG_INPUT.into())),
        };
        match log_format {
            LogFormat::Text => say(&problems),
            LogFormat::Json => problems.iter().for_each(Problem::log),
        }
        config
    }

    fn overrides(&self) -> Overrides {
        Overrides {
            file: self.config.clone(),
            listen: self.port.map_or_else(|| self.listen.clone(), |port| vec![format!("127.0.0.1:{port}")]),
            client_keys: self.client_key.clone(),
            typed_client_keys: self.client_key.iter().any(|key| is_typed(key, "TOOLWIRE_CLIENT_KEY")),
            upstream: self.url.clone().or_else(|| self.upstream.clone()),
            dialect: self.dialect.clone(),
            api_key: self.api_key.clone(),
            typed_api_key: self.api_key.iter().any(|key| is_typed(key, "TOOLWIRE_UPSTREAM_KEY")),
            tools: self.tools.clone(),
            chat_template: self.chat_template.clone(),
            detect: self.detect.clone(),
            server_calls: self.server_calls.clone(),
        }
    }
}

fn load(overrides: &Overrides) -> Result<Loaded, Problems> {
    config::load(overrides, &|name| env::var(name).ok())
}

/// Reads a configuration. If it has the URL of an upstream without its dialect, the server is asked for both.
///
/// # Errors
/// The configuration is wrong.
pub(super) async fn load_asking(overrides: &Overrides) -> Result<Loaded, Problems> {
    if overrides.upstream.is_none() || overrides.dialect.is_some() {
        return load(overrides);
    }
    let chat = Overrides { dialect: Some(Dialect::Chat.name().to_owned()), ..overrides.clone() };
    let assumed = load(&chat)?;
    let Some(upstream) = assumed.config.upstreams.first() else { return Ok(assumed) };
    let FoundUpstream { dialect, base_url } = find_upstream(upstream).await;
    load(&Overrides { dialect: Some(dialect.name().to_owned()), upstream: Some(base_url), ..chat })
}

/// Whether a key was typed on the command line, where other users of the machine can read it. It was not if it is a
/// reference, or the value of the environment variable `name`.
pub(super) fn is_typed(key: &SecretString, name: &str) -> bool {
    let key = key.expose_secret();
    let is_reference = key.starts_with("env:") || key.starts_with("file:");
    !is_reference && env::var(name).is_ok_and(|value| value == key).not()
}

/// Parses a secret, which debug output does not show.
pub(super) fn secret(value: &str) -> Result<SecretString, Infallible> {
    Ok(SecretString::from(value))
}

/// Parses `env:NAME`, `file:PATH`, or the secret itself.
pub(super) fn resolved_secret(value: &str) -> Result<SecretString, Failed> {
    let (kind, found) = match (value.strip_prefix("env:"), value.strip_prefix("file:")) {
        (Some(""), _) => return Err("there is no name after `env:`".into()),
        (Some(name), _) => (format!("the environment variable `{name}`"), env::var(name).ok()),
        (_, Some(path)) => {
            let content = fs::read_to_string(path).map_err(in_file(Path::new(path)))?;
            (format!("the file {path}"), Some(content.trim_end_matches(['\r', '\n']).to_owned()))
        }
        (None, None) => return Ok(SecretString::from(value)),
    };
    match found {
        None => Err(format!("{kind} is not set").into()),
        Some(secret) if secret.is_empty() => Err(format!("{kind} is empty").into()),
        Some(secret) => Ok(SecretString::from(secret)),
    }
}
