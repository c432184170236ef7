//! The reader: an upstream's bytes decoded to events.
//!
//! Servers send an event stream, or JSON lines as Ollama does. A body that is one JSON value, on one line or
//! several, is a response that is not streamed, or an error. [`BodyReader`] distinguishes these; [`answer`]
//! reads the chunks; [`chunk`] is the view of a single chunk.

mod answer;
mod chunk;

use crate::BodyReader;
use answer::AnswerState;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum bytes of one frame, and of a body that is JSON instead of a stream.
    pub max_frame: usize,
    /// Whether a body that ends without an end mark counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false }
    }
}

/// Reads one response of an upstream that completes text.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings.tolerate_truncation), settings.max_frame)
    }
}
