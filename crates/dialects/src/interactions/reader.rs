//! Reads an upstream's response and turns it into events.
//!
//! A streamed response consists of events about steps; other responses are a single interaction. [`BodyReader`] finds
//! the data, [`answer`] interprets it, [`steps`] reads steps, and [`event`] is a view of one event.

mod answer;
mod event;
mod hosted;
mod steps;

use crate::BodyReader;
use answer::AnswerState;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, and of a response that is a single object, in bytes.
    pub max_frame: usize,
    /// Whether a body that ends without the last event counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false }
    }
}

/// Reads a response from an upstream with the Interactions API.
pub type Reader = BodyReader<AnswerState>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(AnswerState::new(settings.tolerate_truncation), settings.max_frame)
    }
}
