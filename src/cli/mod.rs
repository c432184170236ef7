//! The command line: one file a command.
//!
//! Every command takes its own `Args` and gives an exit status: 0 done, 1 the work failed or differs, 2 the command
//! line or the configuration is wrong. Results go to stdout ([`results`]), progress and logs to stderr.

pub mod announce;
pub mod bench;
pub mod check;
pub mod demo;
pub mod formats;
pub mod mock;
mod open_files;
mod output;
pub mod record;
pub mod replay;
pub mod rewrite;
pub mod serve;
mod terminal;
mod upstream_flags;

pub use output::results;
pub use upstream_flags::UpstreamFlags;

use std::{env, ffi::OsStr, io, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, builder::Resettable};

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
    /// [default: info; for demo: error]
    #[arg(long, global = true, value_name = "LEVEL", env = "TOOLWIRE_LOG")]
    pub log_level: Option<String>,
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
    /// Serve fixtures as an upstream, or answers that it makes up
    Mock(mock::Args),
    /// Measure streams: one endpoint, or several side by side
    Bench(Box<bench::Args>),
    /// Read a configuration and say all that is wrong with it, else what it resolved to
    Check(check::Args),
    /// List the text formats
    Formats(formats::Args),
}

impl Cli {
    /// Reads the command line and the environment. A variable that is empty counts as not set.
    fn read() -> Result<Self, clap::Error> {
        fn heed_no_empty_variable(command: clap::Command) -> clap::Command {
            let is_empty = |name: &OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
            command
                .mut_args(
                    |arg| if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg },
                )
                .mut_subcommands(heed_no_empty_variable)
        }
        Self::from_arg_matches(&heed_no_empty_variable(Self::command()).try_get_matches()?)
    }

    /// The log lines that are asked for, or those that the command has by itself: the demo draws on the same screen.
    fn log_filter(&self) -> &str {
        let own = if matches!(self.command, Command::Demo(_)) { "error" } else { "info" };
        self.log_level.as_deref().unwrap_or(own)
    }
}

/// Reads the command line and runs its command.
pub fn run() -> ExitCode {
    let cli = Cli::read().unwrap_or_else(|error| error.exit());
    let log_filter = cli.log_filter().to_owned();
    let Cli { log_format, command, .. } = cli;
    let style = match log_format {
        LogFormat::Text => log::Style::Text,
        LogFormat::Json => log::Style::Json,
    };
    if let Err(error) = log::init(style, terminal::is_coloured(&io::stderr()), Some(&log_filter)) {
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
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => check::run(args),
        Command::Formats(args) => formats::run(args),
    }
}
