//! [`UpstreamFlags`]: the options by which `serve`, `record` and `check` are told what to serve.

use std::{convert::Infallible, env, path::PathBuf, process::ExitCode};

use secrecy::SecretString;

use super::WRONG_INPUT;
use crate::config::{self, Config, Loaded, Overrides, Problems};

/// A configuration file, or one upstream in its place.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct UpstreamFlags {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address to listen on, in place of the file's; may be given several times [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR", env = "TOOLWIRE_LISTEN", value_delimiter = ',')]
    pub listen: Vec<String>,
    /// Key of which clients must show one, in place of the file's: env:NAME or file:PATH; may be given several times
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_CLIENT_KEY", hide_env_values = true, value_parser = secret)]
    pub client_key: Vec<SecretString>,
    /// Base URL of one upstream that serves every model name, in place of the file's upstreams and models
    #[arg(long, value_name = "URL", env = "TOOLWIRE_UPSTREAM", requires = "dialect")]
    pub upstream: Option<String>,
    /// That upstream's dialect: lumo or chat
    #[arg(long, value_name = "DIALECT", env = "TOOLWIRE_DIALECT", requires = "upstream")]
    pub dialect: Option<String>,
    /// That upstream's key: env:NAME or file:PATH
    #[arg(
        long,
        value_name = "SECRET",
        env = "TOOLWIRE_UPSTREAM_KEY",
        hide_env_values = true,
        value_parser = secret,
        requires = "upstream"
    )]
    pub api_key: Option<SecretString>,
    /// How models are told of tools, in place of the file's: native, or a text format
    #[arg(long, value_name = "TOOLS", env = "TOOLWIRE_TOOLS")]
    pub tools: Option<String>,
    /// Text formats that are looked for, in place of the file's: auto, off, or names with commas
    #[arg(long, value_name = "FORMATS", env = "TOOLWIRE_DETECT")]
    pub detect: Option<String>,
    /// What becomes of calls that an upstream ran itself, in place of the file's: auto, forward, annotate or hide
    #[arg(long, value_name = "HOW", env = "TOOLWIRE_SERVER_CALLS")]
    pub server_calls: Option<String>,
}

impl UpstreamFlags {
    /// Reads the configuration.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(&self) -> Result<Loaded, Problems> {
        config::load(&self.overrides(), &|name| env::var(name).ok())
    }

    /// Reads the configuration and says on stderr what is wrong with it.
    ///
    /// # Errors
    /// The exit status for a configuration that is wrong.
    pub fn load_or_say(&self) -> Result<Config, ExitCode> {
        match self.load() {
            Ok(Loaded { config, warnings }) => {
                warnings.iter().for_each(|warning| eprintln!("{warning}"));
                Ok(config)
            }
            Err(problems) => {
                eprintln!("{problems}");
                Err(WRONG_INPUT.into())
            }
        }
    }

    fn overrides(&self) -> Overrides {
        Overrides {
            file: self.config.clone(),
            listen: self.listen.clone(),
            client_keys: self.client_key.clone(),
            upstream: self.upstream.clone(),
            dialect: self.dialect.clone(),
            api_key: self.api_key.clone(),
            tools: self.tools.clone(),
            detect: self.detect.clone(),
            server_calls: self.server_calls.clone(),
        }
    }
}

/// Keeps the value out of every later print of the flags.
fn secret(value: &str) -> Result<SecretString, Infallible> {
    Ok(SecretString::from(value))
}
