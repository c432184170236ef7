//! `toolwire man`: writes the manual pages, one for the program and one per command.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap_mangen::Man;

use super::{Cli, examples::HEADING, output::failed};

/// Options of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write to
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let out = &args.out;
    let mut command = Cli::grouped().disable_help_subcommand(true);
    command.build();
    let written = fs::create_dir_all(out).and_then(|()| write(&command, out));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("cannot write to {}: {error}", out.display()), None),
    }
}

/// Writes the page of `command` and those of its subcommands.
fn write(command: &clap::Command, out: &Path) -> io::Result<()> {
    command.get_subcommands().try_for_each(|sub| write(sub, out))?;
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    // The library calls the text after the options "extra", and the heading of the examples is part of that text.
    let page = page.replace(&format!(".SH EXTRA\n{HEADING}\n"), ".SH EXAMPLES\n");
    fs::write(out.join(man.get_filename()), page)
}
