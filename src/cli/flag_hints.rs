//! Hints for unknown commands and options, and for those that are missing.

use std::ffi::OsString;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::GROUPS;
use toolwire_pipeline::wire::suggest::nearest_names;

/// Words that people write for options, each with the options that it may stand for, the best first.
const SYNONYMS: [(&str, &[&str]); 24] = [
    ("url", &["upstream", "server", "target"]),
    ("base-url", &["upstream", "server", "target"]),
    ("api-base", &["upstream", "server", "target"]),
    ("gateway", &["target"]),
    ("key", &["api-key", "admin-key"]),
    ("token", &["api-key", "admin-key"]),
    ("port", &["listen", "mock-listen"]),
    ("host", &["listen", "mock-listen"]),
    ("bind", &["listen", "mock-listen"]),
    ("address", &["listen", "mock-listen"]),
    ("file", &["config"]),
    ("api", &["dialect", "client"]),
    ("dialect", &["client", "from"]),
    ("provider", &["dialect", "client"]),
    ("tools", &["tool-count", "tools-file", "declare"]),
    ("upstream", &["account", "upstream-dialect", "from"]),
    ("copies", &["concurrency"]),
    ("format", &["tools", "detect"]),
    ("formats", &["format", "detect"]),
    ("splits", &["split"]),
    ("output", &["out", "html", "json"]),
    ("verbose", &["log-level"]),
    ("debug", &["log-level"]),
    ("tool", &["declare"]),
];

/// Adds what the user may have meant. `words` are those of the command line.
pub(super) fn add(
    mut error: clap::Error,
    command: &Command,
    words: impl Iterator<Item = OsString>,
) -> clap::Error {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word)), _) => {
            let known: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            // Other programs have a command of this name.
            let nearest = match word.as_str() {
                "doctor" => vec!["check --doctor".to_owned()],
                word => nearest_names(word, &known).into_iter().map(str::to_owned).collect(),
            };
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(nearest));
        }
        (ErrorKind::UnknownArgument, _, Some(ContextValue::String(option))) => {
            if let Some(meant) = meant(option, named(command, words)) {
                error.insert(ContextKind::SuggestedArg, ContextValue::String(meant));
            }
        }
        (ErrorKind::MissingRequiredArgument, ..) if named(command, words).get_name() == "mock" => {
            let tip = "`--generate` serves generated responses instead of fixtures";
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        _ => {}
    }
    error
}

/// The option of `command` that people also call `option`.
fn meant(option: &str, command: &Command) -> Option<String> {
    let word = option.trim_start_matches('-').split('=').next()?;
    let (_, options) = SYNONYMS.iter().find(|(synonym, _)| *synonym == word)?;
    let exists = |name: &&&str| command.get_arguments().any(|arg| arg.get_long() == Some(**name));
    options.iter().find(exists).map(|name| format!("--{name}"))
}

/// The command that `words` name, such as `keys add`.
fn named(command: &Command, words: impl Iterator<Item = OsString>) -> &Command {
    words.fold(command, |command, word| {
        let found = word.to_str().and_then(|word| command.find_subcommand(word));
        found.unwrap_or(command)
    })
}
