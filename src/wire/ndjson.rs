//! NDJSON: one JSON text a line, cut anywhere.

use std::ops::ControlFlow;

use super::sse::{Lines, Oversized};

/// Splits a stream into its records: the lines that are not blank.
#[derive(Debug)]
pub struct Records {
    lines: Lines,
}

impl Records {
    /// A splitter that refuses records of more than `max_record` bytes.
    pub fn new(max_record: usize) -> Self {
        Self { lines: Lines::new(max_record) }
    }

    /// Calls `on` with each record that `bytes` complete. When `on` breaks, the rest of the stream is ignored.
    ///
    /// # Errors
    /// A record longer than the limit; those before it have been handed over, the rest of the stream is ignored.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Oversized> {
        self.lines.push(bytes, |line| record(line, &mut on))
    }

    /// The stream has ended: calls `on` with a last record without a line end.
    pub fn finish(&mut self, mut on: impl FnMut(&[u8]) -> ControlFlow<()>) {
        self.lines.finish(|line| record(line, &mut on));
    }
}

fn record(line: &[u8], on: &mut impl FnMut(&[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
    if line.trim_ascii().is_empty() { ControlFlow::Continue(()) } else { on(line) }
}
