//! The reader: an upstream's bytes decoded to events.
//!
//! A stream is an event stream, or, without `alt=sse`, one JSON array; a response that is not streamed is one
//! object. [`BodyReader`] finds the data; [`answer`] reads the data; [`chunk`] is the view of one response.

mod answer;
mod chunk;
mod finish;
mod grounding;
mod parts;
mod streamed_call;

use crate::BodyReader;
use answer::AnswerState;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum bytes of one frame, of an element of an array, and of a response that is one JSON object.
    pub max_frame: usize,
    /// Whether a body that ends without a finish reason counts as complete.
    pub tolerate_truncation: bool,
    /// Whether the upstream may search, so that the positions of citations in the text are needed.
    pub cites: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false, cites: false }
    }
}

/// Reads one response of an upstream with Gemini's API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings), settings.max_frame)
    }
}
