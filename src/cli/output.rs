//! Results on stdout, and errors on stderr.

use std::{
    error::Error,
    fmt::Display,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use toolwire_gateway::observe::untrusted_text::escaped;

/// An error that a command reports, whatever its type.
pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// An error in a file that the command line names.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub(super) struct FileError {
    path: PathBuf,
    #[source]
    error: Failed,
}

/// Converts an error in the file at `path`.
pub(super) fn in_file<E: Into<Failed>>(path: &Path) -> impl Fn(E) -> FileError {
    move |error| FileError { path: path.to_owned(), error: error.into() }
}

/// Writes a result to stdout with `write` and returns `status`. Output that its reader has closed (`… | head`) is not
/// an error.
pub(crate) fn results(status: ExitCode, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> ExitCode {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => status,
        Err(error) => failed(format_args!("cannot write the result: {error}"), None),
    }
}

/// Reports on stderr why a command failed, in the form that all commands use: `error: …` on one line, and a hint on
/// the next line. Returns the status for failed work.
pub(super) fn failed(error: impl Display, next: Option<&str>) -> ExitCode {
    say("error", error, next);
    ExitCode::FAILURE
}

/// Like [`failed`], for a wrong command line, configuration or file, with the status for these.
pub(super) fn refused(error: impl Display, next: Option<&str>) -> ExitCode {
    say("error", error, next);
    super::WRONG_INPUT.into()
}

/// Reports a warning on stderr, in the same form.
pub(super) fn warn(warning: impl Display, next: Option<&str>) {
    say("warning", warning, next);
}

fn say(severity: &str, message: impl Display, next: Option<&str>) {
    eprintln!("{severity}: {}", escaped(&message.to_string()));
    tip(next);
}

/// Writes a hint to stderr.
pub(super) fn tip(next: Option<&str>) {
    if let Some(next) = next {
        eprintln!("  tip: {next}");
    }
}
