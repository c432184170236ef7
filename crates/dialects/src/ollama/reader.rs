//! Reads an upstream's response and turns it into events.
//!
//! A streamed response has one JSON object per line; other responses are a single object. [`BodyReader`]
//! finds the lines, [`answer`] interprets them, and [`line`] is a view of a single line.

mod answer;
mod line;

use crate::BodyReader;
use answer::AnswerState;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a line, and of a response that is a single object, in bytes.
    pub max_frame: usize,
    /// Whether a body without a line with `done: true` counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false }
    }
}

/// Reads a response from an upstream with Ollama's API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings.tolerate_truncation), settings.max_frame)
    }
}
