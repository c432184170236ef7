//! `toolwire formats`: the text formats, with the models that write them and an example.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde_json::{Value, json};

use super::results;
use crate::format::{self, Format};

/// Options of `formats`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write JSON: an array of objects with `name`, `summary`, `models`, `auto`, `taught` and `example`
    #[arg(long)]
    pub json: bool,

    /// Write Markdown: the page docs/formats.md
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    results(ExitCode::SUCCESS, |out| match args {
        Args { json: true, .. } => {
            writeln!(out, "{:#}", Value::from_iter(format::ALL.iter().map(|format| told(format))))
        }
        Args { markdown: true, .. } => write!(out, "{}", format::page()),
        _ => format::ALL.iter().try_for_each(|format| say(format, out)),
    })
}

fn told(format: &Format) -> Value {
    json!({
        "name": format.name,
        "summary": format.summary,
        "models": format.models,
        "auto": format.auto,
        "taught": format.teach.is_some(),
        "example": format.example,
    })
}

fn say(format: &Format, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:20} {}", format.name, format.summary)?;
    writeln!(out, "{:20} models: {}", "", format.models.join(", "))?;
    format.example.lines().try_for_each(|line| writeln!(out, "{:24} {line}", ""))?;
    writeln!(out)
}
