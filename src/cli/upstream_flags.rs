//! [`UpstreamFlags`]: the options of `serve`, `record` and `check` that select the configuration.

use std::{convert::Infallible, env, ops::Not, path::PathBuf, process::ExitCode};

use secrecy::{ExposeSecret, SecretString};

use super::{LogFormat, WRONG_INPUT, output::tip};
use toolwire_config as config;
use toolwire_config::{Config, Loaded, Overrides, Problem, Problems, Severity};
use toolwire_gateway::observe::untrusted_text::escaped;

const SERVED: &str = "Upstream";
const CLIENTS: &str = "Clients";
const CALLS: &str = "Tool calls";

/// A configuration file, or one upstream instead.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct UpstreamFlags {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "TOOLWIRE_CONFIG", help_heading = SERVED)]
    pub config: Option<PathBuf>,
    /// Address to listen on; may be repeated [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR", env = "TOOLWIRE_LISTEN", value_delimiter = ',', help_heading = CLIENTS)]
    pub listen: Vec<String>,
    /// API key that clients must send: env:NAME or file:PATH; may be repeated, each is accepted
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_CLIENT_KEY", hide_env_values = true, value_parser = secret)]
    #[arg(help_heading = CLIENTS)]
    pub client_key: Vec<SecretString>,
    /// Base URL of one upstream for all models, instead of those of the configuration file
    #[arg(long, value_name = "URL", env = "TOOLWIRE_UPSTREAM", requires = "dialect", help_heading = SERVED)]
    pub upstream: Option<String>,
    /// Dialect of that upstream: lumo, chat, responses, messages, gemini, interactions, ollama, completions or bedrock
    #[arg(long, value_name = "DIALECT", env = "TOOLWIRE_DIALECT", requires = "upstream", help_heading = SERVED)]
    pub dialect: Option<String>,
    /// API key for that upstream: env:NAME or file:PATH
    #[arg(
        long,
        value_name = "SECRET",
        env = "TOOLWIRE_UPSTREAM_KEY",
        hide_env_values = true,
        value_parser = secret,
        requires = "upstream",
        help_heading = SERVED
    )]
    pub api_key: Option<SecretString>,
    /// How tools are presented to models: native, or the name of a text format
    #[arg(long, value_name = "TOOLS", env = "TOOLWIRE_TOOLS", help_heading = CALLS)]
    pub tools: Option<String>,
    /// The models' chat template: a tokenizer_config.json or a Jinja file
    #[arg(long, value_name = "FILE", env = "TOOLWIRE_CHAT_TEMPLATE", help_heading = CALLS)]
    pub chat_template: Option<String>,
    /// Text formats to look for in responses: auto, off, or comma-separated names
    #[arg(long, value_name = "FORMATS", env = "TOOLWIRE_DETECT", help_heading = CALLS)]
    pub detect: Option<String>,
    /// What clients see of calls that an upstream ran itself: auto, forward, annotate or hide
    #[arg(long, value_name = "HOW", env = "TOOLWIRE_SERVER_CALLS", help_heading = CALLS)]
    pub server_calls: Option<String>,
}

impl UpstreamFlags {
    /// Reads the configuration.
    ///
    /// # Errors
    /// The configuration is wrong. The error lists all its problems.
    pub(crate) fn load(&self) -> Result<Loaded, Problems> {
        config::load(&self.overrides(), &|name| env::var(name).ok())
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
            listen: self.listen.clone(),
            client_keys: self.client_key.clone(),
            typed_client_keys: self.client_key.iter().any(|key| is_typed(key, "TOOLWIRE_CLIENT_KEY")),
            upstream: self.upstream.clone(),
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

/// Reports the problems of a configuration as text, and returns the exit status for wrong input.
pub(super) fn refused(Problems(problems): &Problems) -> ExitCode {
    say(problems);
    WRONG_INPUT.into()
}

pub(super) fn say(problems: &[Problem]) {
    problems.iter().for_each(|problem| eprintln!("{}", escaped(&problem.to_string())));
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        tip(Some(
            "`toolwire check --keys` describes every configuration key, `toolwire serve --help` every flag",
        ));
    }
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
