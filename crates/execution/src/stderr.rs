//! [`StderrLog`]: logs what a program writes to stderr.
//!
//! Each line is logged without secrets and control characters. A program may write any amount: long lines are cut, the
//! number of lines logged per second is limited, and a program that writes more than [`BYTES_PER_SECOND`] is slowed
//! down.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{Instant, sleep_until},
};

use toolwire_net::redact::Redactor;

/// Maximum number of bytes of a line that are read. The line is cut to [`LONGEST_LINE`] after redaction, so that no
/// secret is cut before it is recognized.
const READ_OF_LINE: usize = 16 << 10;

/// Maximum number of characters of a line that are logged.
const LONGEST_LINE: usize = 1000;

/// Number of recent lines that are retained for display.
const KEPT_LINES: usize = 20;

const LINES_PER_SECOND: usize = 20;

const BYTES_PER_SECOND: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct StderrLog {
    provider: Arc<str>,
    redactor: Redactor,
    last: Mutex<VecDeque<String>>,
}

impl StderrLog {
    /// Creates a log for the program of `provider`, in which `secrets` are redacted.
    pub(crate) fn new<'s>(provider: Arc<str>, secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Self { provider, redactor: Redactor::new(secrets), last: Mutex::default() }
    }

    /// The most recent lines.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last.lock().iter().cloned().collect()
    }

    /// Reads until the program closes the pipe.
    pub(crate) async fn read(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = [0; 4096];
        let mut line = Line::default();
        let mut pace = Pace::new();
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            for byte in buffer.iter().take(read) {
                match byte {
                    b'\n' => self.log(&mut line, &mut pace),
                    _ => line.push(*byte),
                }
            }
            pace.wait(read).await;
        }
        self.log(&mut line, &mut pace);
    }

    fn log(&self, line: &mut Line, pace: &mut Pace) {
        let Some(text) = line.take() else { return };
        let mut text = self.redactor.text(&text).into_owned();
        if let Some((end, _)) = text.char_indices().nth(LONGEST_LINE) {
            text.truncate(end);
            text.push('…');
        }
        if pace.may_log() {
            tracing::info!(provider = %self.provider, "stderr: {text}");
        }
        let mut last = self.last.lock();
        if last.len() == KEPT_LINES {
            last.pop_front();
        }
        last.push_back(text);
    }
}

/// A line that is being read.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl Line {
    fn push(&mut self, byte: u8) {
        if self.0.len() < READ_OF_LINE {
            self.0.push(byte);
        }
    }

    /// Takes the line's text, and clears the line. Returns `None` if the text is empty.
    fn take(&mut self) -> Option<String> {
        let mut text = String::new();
        for chunk in self.0.utf8_chunks() {
            text.extend(
                chunk.valid().chars().map(|character| if character.is_control() { ' ' } else { character }),
            );
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.0.clear();
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// How many bytes were read and how many lines were logged in the current second.
#[derive(Debug)]
struct Pace {
    end: Instant,
    lines: usize,
    bytes: usize,
}

impl Pace {
    fn new() -> Self {
        Self { end: Instant::now() + Duration::from_secs(1), lines: 0, bytes: 0 }
    }

    fn may_log(&mut self) -> bool {
        self.lines += 1;
        self.lines <= LINES_PER_SECOND
    }

    /// Waits until the next second if too much was read in this one.
    async fn wait(&mut self, read: usize) {
        self.bytes += read;
        if self.bytes >= BYTES_PER_SECOND {
            sleep_until(self.end).await;
        }
        if Instant::now() >= self.end {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> StderrLog {
        StderrLog::new("p".into(), ["hunter2-hunter2"])
    }

    #[tokio::test]
    async fn lines_are_kept_without_secrets_and_control_characters() {
        let log = log();
        log.read(&b"one\x1b[31m\r\n\ntwo hunter2-hunter2\n\xff last"[..]).await;
        assert_eq!(log.last(), ["one [31m", "two xxxxxxxxxxxxxxx", "\u{fffd} last"]);
    }

    #[tokio::test]
    async fn long_lines_are_cut() {
        let log = log();
        for (length, is_cut) in [(LONGEST_LINE, false), (LONGEST_LINE + 1, true)] {
            log.read(&*"a".repeat(length).into_bytes()).await;
            assert_eq!(log.last().last().map(|line| line.ends_with('…')), Some(is_cut));
        }
    }

    #[tokio::test]
    async fn only_the_last_lines_are_kept() {
        let log = log();
        let lines: String = (0..1000).map(|line| format!("{line}\n")).collect();
        log.read(lines.as_bytes()).await;
        let expected: Vec<_> = (1000 - KEPT_LINES..1000).map(|line| line.to_string()).collect();
        assert_eq!(log.last(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn endless_messages_are_slowed_down() {
        let start = Instant::now();
        log().read(tokio::io::repeat(b'a').take(3 * BYTES_PER_SECOND as u64)).await;
        assert!(start.elapsed() >= Duration::from_secs(2));
    }
}
