//! Results on stdout, and errors on stderr.

use std::{
    error::Error,
    fmt::Display,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use toolwire_gateway::observe::{
    terminal::{is_coloured, painted},
    untrusted_text::escaped,
};

/// Any error that a command reports.
pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// An error in a file given on the command line.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .path.display())]
pub(super) struct FileError {
    path: PathBuf,
    #[source]
    error: Failed,
}

/// For `map_err`: adds `path` to an error.
pub(super) fn in_file<E: Into<Failed>>(path: &Path) -> impl Fn(E) -> FileError {
    move |error| FileError { path: path.to_owned(), error: error.into() }
}

/// Calls `write` with stdout, and returns `status` if it succeeds. It is not an error if the reader has closed the pipe
/// (`… | head`).
pub(crate) fn results(status: ExitCode, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> ExitCode {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => status,
        Err(error) => failed(format_args!("cannot write the result: {error}"), None),
    }
}

/// Reports on stderr why a command failed: `error: …` on one line, and a hint, if any, on the next. Returns
/// [`ExitCode::FAILURE`].
pub(super) fn failed(error: impl Display, next: Option<&str>) -> ExitCode {
    say("error", error, next);
    ExitCode::FAILURE
}

/// Like [`failed`], but for wrong input. Returns [`WRONG_INPUT`](super::WRONG_INPUT).
pub(super) fn refused(error: impl Display, next: Option<&str>) -> ExitCode {
    say("error", error, next);
    super::WRONG_INPUT.into()
}

/// Reports a warning on stderr, in the same format as an error.
pub(super) fn warn(warning: impl Display, next: Option<&str>) {
    say("warning", warning, next);
}

fn say(severity: &str, message: impl Display, next: Option<&str>) {
    eprintln!("{}: {}", label(severity, is_coloured(&io::stderr())), escaped(&message.to_string()));
    tip(next);
}

/// `error` or `warning`, in the colour that it has in the errors of the command line.
pub(super) fn label(severity: &str, is_coloured: bool) -> String {
    let colour = if severity == "error" { "1;31" } else { "1;33" };
    painted(colour, severity, is_coloured)
}

pub(super) fn tip(next: Option<&str>) {
    if let Some(next) = next {
        eprintln!("  {} {next}", painted("32", "tip:", is_coloured(&io::stderr())));
    }
}
