//! Reads an upstream's response and turns it into events.
//!
//! [`BodyReader`] finds the frames, [`response`] interprets them, and [`event`] is a view of a single frame.
//! Deltas are passed on as they arrive. The event that ends an item repeats the complete item, and supplies
//! whatever the deltas lacked. A response without streaming is read as if it consisted only of these events.

mod event;
mod items;
mod response;

use crate::BodyReader;
use response::ResponseReader;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, and of a body that is JSON instead of a stream, in bytes.
    pub max_frame: usize,
    /// Whether a body without an end marker counts as complete.
    pub tolerate_truncation: bool,
    /// Whether the client speaks this dialect, too, so that items which no event represents are forwarded.
    pub verbatim: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, tolerate_truncation: false, verbatim: false }
    }
}

/// Reads a response from an upstream that speaks Responses.
pub type Reader = BodyReader<ResponseReader>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(ResponseReader::new(settings), settings.max_frame)
    }
}
