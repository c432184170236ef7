//! `toolwire check`: reads a configuration, says all that is wrong, else what it resolved to.

use std::{path::PathBuf, process::ExitCode};

/// Options of `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE", env = "TOOLWIRE_CONFIG")]
    pub config: PathBuf,
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(_args: Args) -> ExitCode {
    ExitCode::FAILURE
}
