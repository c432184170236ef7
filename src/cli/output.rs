//! Results on stdout, and what is said of a failure on stderr.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

use crate::observe::untrusted::escaped;

/// Writes a result to stdout with `write`, then gives `status`. A reader that has gone away (`… | head`) has seen
/// what it wanted: a normal end.
pub(crate) fn results(status: ExitCode, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> ExitCode {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => status,
        Err(error) => failed(format_args!("cannot write the result: {error}"), None),
    }
}

/// Says on stderr why a command failed, in one form for all of them: `error: …` in one line, and in the next one what
/// to do. Gives the status of work that failed.
pub(super) fn failed(error: impl Display, next: Option<&str>) -> ExitCode {
    say("error", error, next);
    ExitCode::FAILURE
}

/// The same of a command line, a configuration or a file that is wrong, with the status for that.
pub(super) fn refused(error: impl Display, next: Option<&str>) -> ExitCode {
    say("error", error, next);
    super::WRONG_INPUT.into()
}

/// Says on stderr what looks wrong, in the same form.
pub(super) fn warn(warning: impl Display, next: Option<&str>) {
    say("warning", warning, next);
}

fn say(severity: &str, message: impl Display, next: Option<&str>) {
    eprintln!("{severity}: {}", escaped(&message.to_string()));
    tip(next);
}

/// Says on stderr what to do next.
pub(super) fn tip(next: Option<&str>) {
    if let Some(next) = next {
        eprintln!("  tip: {next}");
    }
}
