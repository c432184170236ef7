//! `toolwire check`: reads a configuration, and prints its errors or its resolved values. With `--doctor`, it also
//! contacts the upstreams.

pub(super) mod doctor;

use std::{collections::BTreeMap, io, process::ExitCode};

use serde_json::{Value, json};

use super::{UpstreamFlags, WRONG_INPUT, output::failed, problems, reference::keys, results};
use toolwire_config::{Loaded, Place, Problem, Problems};
use toolwire_gateway::observe::terminal;

/// Options of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration to check, given as for `serve`.
    #[command(flatten)]
    pub upstream: UpstreamFlags,
    /// Write JSON: `ok`, `problems`, `config`
    #[arg(long)]
    pub json: bool,
    /// Ask each upstream for its models, check state_dir, the store, certificates, clock and limit of open files, and say
    /// what is wrong
    #[arg(long)]
    pub doctor: bool,
    /// Describe every key of a configuration file
    #[arg(long, exclusive = true)]
    pub keys: bool,
}

pub(super) fn run(args: Args) -> ExitCode {
    if args.keys {
        let width = terminal::width(&io::stdout()).unwrap_or(terminal::WITHOUT_TERMINAL);
        return results(ExitCode::SUCCESS, |out| out.write_all(keys(width).as_bytes()));
    }
    let loaded = args.upstream.load();
    if args.doctor
        && let Ok(Loaded { config, warnings }) = &loaded
    {
        return doctor::run(config, warnings, args.json);
    }
    if args.json { say_json(&loaded) } else { say(&loaded) }
}

fn say(loaded: &Result<Loaded, Problems>) -> ExitCode {
    match loaded {
        Ok(Loaded { config, warnings }) => {
            problems::say(warnings);
            match toml::to_string(&config.to_toml()) {
                Ok(text) => results(ExitCode::SUCCESS, |out| {
                    for (path, file) in config.saved_settings() {
                        writeln!(out, "# {path} was saved over the admin API: {}", file.display())?;
                    }
                    out.write_all(text.as_bytes())
                }),
                Err(error) => failed(format_args!("cannot write the configuration as TOML: {error}"), None),
            }
        }
        Err(problems) => problems::refused(problems),
    }
}

fn say_json(loaded: &Result<Loaded, Problems>) -> ExitCode {
    let (status, told) = match loaded {
        Ok(Loaded { config, warnings }) => {
            let mut told = json!({ "ok": true, "problems": told(warnings), "config": config.to_toml() });
            let saved = config.saved_settings();
            if let (Value::Object(told), false) = (&mut told, saved.is_empty()) {
                told.insert("saved".to_owned(), json!(BTreeMap::from_iter(saved)));
            }
            (ExitCode::SUCCESS, told)
        }
        Err(Problems(problems)) => (WRONG_INPUT.into(), json!({ "ok": false, "problems": told(problems) })),
    };
    results(status, |out| writeln!(out, "{told:#}"))
}

fn told(problems: &[Problem]) -> Vec<Value> {
    let told = problems.iter().map(|problem| {
        let mut told = json!({ "severity": problem.severity.to_string(), "message": problem.message });
        if let Value::Object(told) = &mut told {
            match &problem.place {
                Place::File { path, line, column } => {
                    told.insert("file".to_owned(), json!(path));
                    told.insert("line".to_owned(), json!(line));
                    told.insert("column".to_owned(), json!(column));
                }
                Place::Flag(name) => {
                    told.insert("flag".to_owned(), json!(name));
                }
                Place::Overlay { path, setting } => {
                    told.insert("file".to_owned(), json!(path));
                    told.insert("setting".to_owned(), json!(setting));
                }
                Place::Nowhere => {}
            }
        }
        told
    });
    told.collect()
}
