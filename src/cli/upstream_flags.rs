//! [`UpstreamFlags`]: the options by which `serve` and `record` are told what to serve.

use std::{net::SocketAddr, path::PathBuf};

/// A configuration file, or one upstream in its place.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct UpstreamFlags {
    /// The configuration file.
    #[arg(long, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address to listen on, in place of the file's; may be given several times.
    #[arg(long, value_name = "ADDR", env = "TOOLWIRE_LISTEN", value_delimiter = ',')]
    pub listen: Vec<SocketAddr>,
    /// Base URL of one upstream that serves every model name, in place of a file.
    #[arg(long, value_name = "URL", env = "TOOLWIRE_UPSTREAM")]
    pub upstream: Option<String>,
    /// The upstream's dialect.
    #[arg(long, value_name = "DIALECT", env = "TOOLWIRE_DIALECT")]
    pub dialect: Option<String>,
    /// How models are told of tools: native, or a text format.
    #[arg(long, value_name = "TOOLS", env = "TOOLWIRE_TOOLS")]
    pub tools: Option<String>,
    /// Text formats that are looked for: auto, off, or names with commas.
    #[arg(long, value_name = "FORMATS", env = "TOOLWIRE_DETECT")]
    pub detect: Option<String>,
    /// The upstream's key: env:NAME or file:PATH.
    #[arg(long, value_name = "SECRET", env = "TOOLWIRE_UPSTREAM_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
}
