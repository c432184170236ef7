//! Reads an upstream's response and turns it into events.
//!
//! Servers send an event stream or, like Ollama, JSON Lines. A body that is a single JSON value, on one line
//! or several, is a response without streaming, or an error. [`BodyReader`] distinguishes these, [`answer`]
//! interprets the chunks, and [`chunk`] is a view of a single chunk.

mod answer;
mod chunk;

use crate::BodyReader;
use answer::AnswerState;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, and of a body that is JSON instead of a stream, in bytes.
    pub max_frame: usize,
    /// Whether a body without an end marker counts as complete.
    pub tolerate_truncation: bool,
    /// Whether the client speaks the dialect, so that frames in OpenAI's form that need no change are forwarded.
    pub verbatim: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false, verbatim: false }
    }
}

/// Reads a response from a text completion upstream.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings), settings.max_frame)
    }
}
