//! `toolwire serve`: runs the proxy.

use std::process::ExitCode;

use super::UpstreamFlags;

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is served.
    #[command(flatten)]
    pub upstream: UpstreamFlags,
}

/// Runs the command.
pub fn run(args: Args, _log_format: super::LogFormat) -> ExitCode {
    match args.upstream.load_or_say() {
        Ok(_config) => ExitCode::FAILURE,
        Err(status) => status,
    }
}
