//! Results on stdout.

use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Writes a result to stdout with `write`, then gives `status`. A reader that has gone away (`… | head`) has seen
/// what it wanted: a normal end.
pub fn results(status: ExitCode, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> ExitCode {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => status,
        Err(error) => {
            eprintln!("cannot write the result: {error}");
            ExitCode::FAILURE
        }
    }
}
