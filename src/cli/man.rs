//! `toolwire man`: writes the manual pages, one for the program and one per command.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::CommandFactory;

use super::{Cli, output::failed};

/// Options of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let out = &args.out;
    let written = fs::create_dir_all(out).and_then(|()| clap_mangen::generate_to(Cli::command(), out));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("cannot write to {}: {error}", out.display()), None),
    }
}
