//! `toolwire formats`: the text formats, with the models that write them and an example.

use std::process::ExitCode;

/// Options of `formats`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(_args: Args) -> ExitCode {
    ExitCode::FAILURE
}
