//! Reads an upstream's response and turns it into events.
//!
//! A streamed response is an event stream or, without `alt=sse`, a JSON array; other responses are a single
//! object. [`BodyReader`] finds the data, [`answer`] interprets it, and [`chunk`] is a view of one response
//! object.

mod answer;
mod chunk;
mod finish;
mod grounding;
mod parts;
mod streamed_call;

use crate::BodyReader;
use answer::AnswerState;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, of an array element, and of a response that is a single object, in bytes.
    pub max_frame: usize,
    /// Whether a body that ends without a finish reason counts as complete.
    pub tolerate_truncation: bool,
    /// Whether the client speaks this dialect, so that frames of one piece of text are forwarded unchanged.
    pub verbatim: bool,
    /// Whether the upstream may search, so that the positions of citations must be tracked.
    pub cites: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false, verbatim: false, cites: false }
    }
}

/// Reads a response from an upstream with Gemini's API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings), settings.max_frame)
    }
}
