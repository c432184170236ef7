//! Reads an upstream's response and turns it into events.
//!
//! Servers deviate from this API wherever a client library tolerates it, and often where it does not
//! (docs/protocols/chat.md#upstream-deviations). [`BodyReader`] finds the frames in any kind of body,
//! [`answer`] interprets them, and [`chunk`] is a view of a single frame.

mod answer;
mod calls;
mod chunk;

use crate::BodyReader;
use answer::AnswerState;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, and of a body that is JSON instead of a stream, in bytes.
    pub max_frame: usize,
    /// Whether the client speaks this dialect as well, so that frames in the canonical form can be forwarded
    /// as [`Event::Verbatim`](crate::event::Event::Verbatim).
    pub verbatim: bool,
    /// Whether each frame repeats all of the text so far.
    pub cumulative: bool,
    /// Whether a body without an end marker counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, verbatim: false, cumulative: false, tolerate_truncation: false }
    }
}

/// Reads a response from an upstream that speaks Chat Completions or a similar API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings), settings.max_frame)
    }
}
