//! `toolwire completions`: writes a shell's completion script.

use std::process::ExitCode;

use clap_complete::Shell;

use super::{Cli, results};

/// Options of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    pub shell: Shell,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::grouped(), "toolwire", &mut script);
    results(ExitCode::SUCCESS, |out| out.write_all(&script))
}
