//! The command line: one file a command.
//!
//! Every command takes its own `Args` and gives an exit status: 0 done, 1 the work failed or differs, 2 the command
//! line or the configuration is wrong. Results go to stdout, progress and logs to stderr.

pub mod check;
pub mod demo;
pub mod formats;
pub mod mock;
pub mod record;
pub mod replay;
pub mod rewrite;
pub mod serve;
mod upstream_flags;

pub use upstream_flags::UpstreamFlags;

use std::process::ExitCode;

use clap::Parser;

/// Makes any model speak standard streaming tool calls.
#[derive(Debug, Parser)]
#[command(name = "toolwire", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run the proxy.
    Serve(serve::Args),
    /// Show the whole thing on one machine, without keys or network.
    Demo(demo::Args),
    /// Rewrite one upstream stream to a client's stream.
    Rewrite(rewrite::Args),
    /// Run fixtures and show differences.
    Replay(replay::Args),
    /// Serve, and write each exchange as a fixture.
    Record(record::Args),
    /// Serve fixtures as an upstream.
    Mock(mock::Args),
    /// Read a configuration and say all that is wrong with it.
    Check(check::Args),
    /// List the text formats.
    Formats(formats::Args),
}

/// Reads the command line and runs its command.
pub fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Rewrite(args) => rewrite::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Record(args) => record::run(args),
        Command::Mock(args) => mock::run(args),
        Command::Check(args) => check::run(args),
        Command::Formats(args) => formats::run(args),
    }
}
