//! The reader: an upstream's bytes decoded to events.
//!
//! Servers of this API deviate wherever a client library tolerates it, and often where it does not
//! (docs/protocols/chat.md#upstream-deviations). [`BodyReader`] finds the frames in any kind of body;
//! [`answer`] reads the frames; [`chunk`] is the view of a single frame.

mod answer;
mod calls;
mod chunk;

use crate::BodyReader;
use answer::AnswerState;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum bytes of one frame, and of a body that is JSON instead of a stream.
    pub max_frame: usize,
    /// Whether the client speaks this dialect too: frames in the canonical form are forwarded as
    /// [`Event::Verbatim`](crate::event::Event::Verbatim).
    pub verbatim: bool,
    /// Whether each frame repeats all of the text so far.
    pub cumulative: bool,
    /// Whether a body that ends without an end mark counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, verbatim: false, cumulative: false, tolerate_truncation: false }
    }
}

/// Reads one response from an upstream that speaks Chat Completions or a similar API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings), settings.max_frame)
    }
}
