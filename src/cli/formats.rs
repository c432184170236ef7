//! `toolwire formats`: lists the text formats, each with the models that use it and an example.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};

use super::{
    output::{Failed, in_file, refused},
    results,
};
use toolwire_gateway::observe::terminal::{self, wrapped};
use toolwire_pipeline::format::{self, Definition, Format};

/// Options of `formats`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write JSON
    #[arg(long)]
    pub json: bool,

    /// Write Markdown: the page docs/formats.md
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,

    /// Write the `[[formats]]` entry for a checkpoint's response template, in a `tokenizer_config.json` or
    /// alone
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "markdown"])]
    pub import: Option<PathBuf>,

    /// The name of the imported format
    #[arg(long, value_name = "NAME", requires = "import", default_value = "imported")]
    pub name: String,
}

pub(super) fn run(args: Args) -> ExitCode {
    if let Some(file) = &args.import {
        return import(file, &args.name);
    }
    results(ExitCode::SUCCESS, |out| match args {
        Args { json: true, .. } => {
            writeln!(out, "{:#}", Value::from_iter(format::ALL.iter().map(|format| told(format))))
        }
        Args { markdown: true, .. } => write!(out, "{}", format::page()),
        _ => {
            let width = terminal::width(&io::stdout()).unwrap_or(usize::MAX);
            format::ALL.iter().try_for_each(|format| say(format, width, out))
        }
    })
}

/// Prints a `[[formats]]` entry for the response template in `file`.
fn import(file: &Path, name: &str) -> ExitCode {
    match imported(file, name) {
        Ok(text) => results(ExitCode::SUCCESS, |out| out.write_all(text.as_bytes())),
        Err(error) => {
            refused(in_file(file)(error), Some("docs/configuration.md says which templates can be imported"))
        }
    }
}

fn imported(file: &Path, name: &str) -> Result<String, Failed> {
    #[derive(serde::Serialize)]
    struct Entries {
        formats: Vec<Definition>,
    }
    let text = fs::read_to_string(file)?;
    let definition = format::import(name, &text).map_err(|refused| refused.to_string())?;
    // Do not print a definition that `serve` would reject.
    definition.clone().build(&[]).map_err(|wrong| {
        wrong.iter().map(|wrong| format!("`{}`: {}", wrong.key, wrong.message)).collect::<Vec<_>>().join("; ")
    })?;
    Ok(toml::to_string(&Entries { formats: vec![definition] })?)
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

fn say(format: &Format, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let models = format!("models: {}", format.models.join(", "));
    writeln!(out, "{}", wrapped(format.summary, &format!("{:20} ", format.name), width))?;
    writeln!(out, "{}", wrapped(&models, &" ".repeat(21), width))?;
    format.example.lines().try_for_each(|line| writeln!(out, "{:24} {line}", ""))?;
    writeln!(out)
}
