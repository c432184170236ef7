//! The command line: one file per command.
//!
//! Each command takes its own `Args` and returns an exit status: 0 for success, 1 if it failed or found differences, and 2
//! if the command line or the configuration is wrong. Results go to stdout (`results`), progress and logs to stderr.

mod admin_server;
mod announce;
mod bench;
mod block_on;
mod calibrate;
mod check;
mod completions;
mod conform;
mod demo;
mod detect;
mod examples;
mod flag_hints;
mod formats;
mod keys;
mod lumo;
mod man;
mod mcp;
mod mock;
mod offered_values;
mod open_files;
mod output;
mod problems;
mod record;
mod reference;
mod reloading;
mod replay;
mod report_flags;
mod rewrite;
mod serve;
mod systemd;
mod top;
mod upstream_flags;

pub(crate) use output::results;
pub(crate) use upstream_flags::UpstreamFlags;

use std::{env, ffi::OsStr, io, process::ExitCode};

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, builder::Resettable};

use toolwire_gateway::observe::{log, terminal};

/// Exit status for a wrong command line or configuration, the same as clap's.
pub(crate) const WRONG_INPUT: u8 = 2;

const NO_FIXTURE: &str = "a fixture is a folder with a fixture.toml; `toolwire record` writes one";

const OTHER_ADDRESS: &str = "`--listen ADDR` selects another address; port 0 uses a free port";

/// A proxy that gives any model standard, streaming tool calls
#[derive(Debug, Parser)]
#[command(name = "toolwire", version, propagate_version = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Cli {
    /// Format of log lines on stderr
    #[arg(long, global = true, value_name = "FORMAT", env = "TOOLWIRE_LOG_FORMAT", default_value = "text")]
    #[arg(help_heading = GLOBAL, display_order = LAST)]
    pub(crate) log_format: LogFormat,
    /// Level of log lines: error, warn, info, debug, trace, or a filter such as info,toolwire=debug
    /// [default: info; for demo, calibrate, conform and top: error]
    #[arg(long, global = true, value_name = "LEVEL", env = "TOOLWIRE_LOG")]
    #[arg(value_parser = offered_values::text(log::LEVELS), hide_possible_values = true)]
    #[arg(help_heading = GLOBAL, display_order = LAST + 1)]
    pub(crate) log_level: Option<String>,
    /// Print help (a summary with -h)
    #[arg(long, short, global = true, action = ArgAction::Help, help_heading = GLOBAL, display_order = LAST + 2)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, short = 'V', global = true, action = ArgAction::Version, help_heading = GLOBAL, display_order = LAST + 3)]
    version: Option<bool>,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Display order of the global options, which come after all others.
const LAST: usize = 1000;

/// The groups in which the help lists the commands, those for builders of toolwire and of other gateways last.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Serve", &["serve", "check", "top", "keys", "mcp", "lumo"]),
    ("Try", &["demo", "detect", "formats"]),
    ("Measure", &["bench", "calibrate"]),
    ("Install", &["completions", "man"]),
    ("For builders", &["record", "replay", "rewrite", "mock", "conform"]),
];

/// Commands that log nothing. Their help leaves out the options of logs.
const SILENT: [&str; 5] = ["completions", "man", "keys", "formats", "detect"];

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line
    Json,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run the proxy
    Serve(serve::Args),
    /// Show a complete setup on one machine, without keys or network
    Demo(demo::Args),
    /// Rewrite one upstream stream into a client's stream
    Rewrite(rewrite::Args),
    /// Play fixtures and show differences
    Replay(replay::Args),
    /// Serve, and write each exchange as a fixture
    Record(record::Args),
    /// Serve fixtures or generated responses as an upstream
    Mock(mock::Args),
    /// Measure streams: one endpoint, or several side by side
    Bench(Box<bench::Args>),
    /// Ask a model the same prompts in every format, and report which it calls tools in
    Calibrate(Box<calibrate::Args>),
    /// Play known upstream responses through a gateway, and check what arrives at clients
    Conform(Box<conform::Args>),
    /// Check a configuration, and show what it resolves to
    Check(check::Args),
    /// Watch the responses in progress of a running server
    Top(top::Args),
    /// Make, list and revoke keys of clients
    Keys(keys::Args),
    /// List the text formats
    Formats(formats::Args),
    /// Find the format in which a text contains tool calls
    Detect(detect::Args),
    /// Offer the hosted tools over MCP, log in to MCP servers, and show their prompts
    Mcp(mcp::Args),
    /// Show, refresh or end the sessions of Lumo accounts
    Lumo(lumo::Args),
    /// Write the completions of a shell
    Completions(completions::Args),
    /// Write the manual pages
    Man(man::Args),
}

impl Cli {
    /// Reads the command line and the environment. An empty variable counts as unset.
    fn read() -> Result<Self, clap::Error> {
        fn heed_no_empty_variable(command: clap::Command) -> clap::Command {
            let is_empty = |name: &OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
            command
                .mut_args(
                    |arg| if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg },
                )
                .mut_subcommands(heed_no_empty_variable)
        }
        let mut command = heed_no_empty_variable(Self::grouped());
        let matches = command
            .try_get_matches_from_mut(env::args_os())
            .map_err(|error| flag_hints::add(error, &command, env::args_os().skip(1)))?;
        Self::from_arg_matches(&matches)
    }

    /// The command line's definition, with the commands in groups in its help, and examples.
    fn grouped() -> clap::Command {
        let command = examples::with_examples(Self::command(), "");
        let of_logs =
            command.get_arguments().filter(|arg| arg.get_long().is_some_and(|it| it.starts_with("log-")));
        let of_logs: Vec<_> = of_logs.map(|arg| arg.clone().hide(true)).collect();
        let command = SILENT.iter().fold(command, |command, name| {
            command.mut_subcommand(name, |silent| silent.args(of_logs.clone()))
        });
        let about = |name: &str| {
            let found = command.find_subcommand(name).and_then(clap::Command::get_about);
            found.map_or_else(String::new, |about| about.ansi().to_string())
        };
        let (bold, plain) = (command.get_styles().get_header(), command.get_styles().get_literal());
        let groups = GROUPS.map(|(heading, names)| {
            let lines = names.iter().map(|name| format!("  {plain}{name:11}{plain:#} {}\n", about(name)));
            format!("{bold}{heading}:{bold:#}\n{}", lines.collect::<String>())
        });
        let template = format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}\n{bold}{GLOBAL}:{bold:#}\n{{options}}\n\n\
             {bold}{}{bold:#}\n{}\n`toolwire COMMAND --help` describes a command",
            groups.join("\n"),
            examples::HEADING,
            examples::of("")
        );
        command.help_template(template)
    }

    /// The requested log level, or the command's default. Commands that draw on the terminal log only errors by default.
    fn log_filter(&self) -> &str {
        let draws = matches!(
            self.command,
            Command::Demo(_) | Command::Calibrate(_) | Command::Conform(_) | Command::Top(_)
        );
        let own = if draws { "error" } else { "info" };
        self.log_level.as_deref().unwrap_or(own)
    }
}

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    let cli = Cli::read().unwrap_or_else(|error| error.exit());
    let log_filter = cli.log_filter().to_owned();
    let Cli { log_format, command, .. } = cli;
    let style = match log_format {
        LogFormat::Text => log::Style::Text,
        LogFormat::Json => log::Style::Json,
    };
    let _flush = match log::init(style, terminal::is_coloured(&io::stderr()), Some(&log_filter)) {
        Ok(flush) => flush,
        Err(error) => {
            let next = "a filter of single modules looks like info,toolwire=debug";
            return output::refused(format_args!("--log-level (TOOLWIRE_LOG): {error}"), Some(next));
        }
    };
    match command {
        Command::Serve(args) => serve::run(args, log_format),
        Command::Demo(args) => demo::run(args),
        Command::Rewrite(args) => rewrite::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Record(args) => record::run(args, log_format),
        Command::Mock(args) => mock::run(args),
        Command::Bench(args) => bench::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Conform(args) => conform::run(&args),
        Command::Check(args) => check::run(args),
        Command::Top(args) => top::run(&args),
        Command::Keys(args) => keys::run(args),
        Command::Formats(args) => formats::run(args),
        Command::Detect(args) => detect::run(args),
        Command::Mcp(args) => mcp::run(&args, log_format),
        Command::Lumo(args) => lumo::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
