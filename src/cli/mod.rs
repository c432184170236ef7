//! The command line: one file a command.
//!
//! Every command takes its own `Args` and gives an exit status: 0 done, 1 the work failed or differs, 2 the command
//! line or the configuration is wrong. Results go to stdout ([`results`]), progress and logs to stderr.

pub mod announce;
pub mod check;
pub mod demo;
pub mod formats;
pub mod mock;
mod output;
pub mod record;
pub mod replay;
pub mod rewrite;
pub mod serve;
mod upstream_flags;

pub use output::results;
pub use upstream_flags::UpstreamFlags;

use std::process::ExitCode;

use clap::Parser;

use crate::observe::log;

/// Exit status: the command line or the configuration is wrong. clap gives the same.
pub const WRONG_INPUT: u8 = 2;

/// Makes any model speak standard streaming tool calls.
#[derive(Debug, Parser)]
#[command(name = "toolwire", version, propagate_version = true)]
pub struct Cli {
    /// How log lines look on stderr
    #[arg(long, global = true, value_name = "FORMAT", env = "TOOLWIRE_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// Which log lines there are: error, warn, info, debug, trace, or a filter such as info,toolwire=debug
    #[arg(long, global = true, value_name = "LEVEL", env = "TOOLWIRE_LOG", default_value = "info")]
    pub log_level: String,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run the proxy
    Serve(serve::Args),
    /// Show the whole thing on one machine, without keys or network
    Demo(demo::Args),
    /// Rewrite one upstream stream to a client's stream
    Rewrite(rewrite::Args),
    /// Run fixtures and show differences
    Replay(replay::Args),
    /// Serve, and write each exchange as a fixture
    Record(record::Args),
    /// Serve fixtures as an upstream
    Mock(mock::Args),
    /// Read a configuration and say all that is wrong with it, else what it resolved to
    Check(check::Args),
    /// List the text formats
    Formats(formats::Args),
}

/// Reads the command line and runs its command.
pub fn run() -> ExitCode {
    let Cli { log_format, log_level, command } = Cli::parse();
    let style = match log_format {
        LogFormat::Text => log::Style::Text,
        LogFormat::Json => log::Style::Json,
    };
    if let Err(error) = log::init(style, Some(&log_level)) {
        eprintln!("--log-level (TOOLWIRE_LOG): {error}");
        return WRONG_INPUT.into();
    }
    match command {
        Command::Serve(args) => serve::run(args, log_format),
        Command::Demo(args) => demo::run(args),
        Command::Rewrite(args) => rewrite::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Record(args) => record::run(args, log_format),
        Command::Mock(args) => mock::run(args),
        Command::Check(args) => check::run(args),
        Command::Formats(args) => formats::run(args),
    }
}
