//! Reads an upstream's response and turns it into events.
//!
//! [`BodyReader`] finds the frames, [`answer`] interprets them, [`delta`] is a view of the most frequent ones, and
//! [`blocks`] handles the contents of blocks. A response without streaming is read as if each of its blocks had been
//! streamed in one piece.

mod answer;
mod blocks;
mod delta;

use crate::BodyReader;
use answer::AnswerState;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame in bytes.
    pub max_frame: usize,
    /// Whether a body without a stop reason counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false }
    }
}

/// Reads a response from an upstream with Bedrock's Converse API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings), settings.max_frame)
    }
}
