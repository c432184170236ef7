//! The reader: an upstream's bytes decoded to events.
//!
//! A response is a JSON object on each line; a response that is not streamed is a single object.
//! [`BodyReader`] finds the lines; [`answer`] reads the lines; [`line`] is the view of a single line.

mod answer;
mod line;

use crate::BodyReader;
use answer::AnswerState;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum bytes of one line, and of a response that is one JSON object.
    pub max_frame: usize,
    /// Whether a body that ends without a line with `done: true` counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false }
    }
}

/// Reads one response of an upstream with Ollama's API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings.tolerate_truncation), settings.max_frame)
    }
}
