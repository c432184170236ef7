//! `toolwire demo`: (to be written)

use std::process::ExitCode;

/// (to be written)
#[derive(Debug, clap::Args)]
pub struct Args {}

/// (to be written)
pub fn run(_args: Args) -> ExitCode {
    ExitCode::FAILURE
}
