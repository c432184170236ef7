//! Reads an upstream's response and turns it into events.
//!
//! [`BodyReader`] finds the frames, [`response`] interprets them, and [`event`] is a view of a single frame.
//! A response without streaming is read as if each of its blocks had been streamed in one piece.

mod counts;
mod event;
mod plain;
mod response;

use crate::BodyReader;
use response::ResponseReader;

/// How to read an upstream's responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum size of a frame, and of a body that is JSON instead of a stream, in bytes.
    pub max_frame: usize,
    /// Whether the client speaks this dialect as well, so that unchanged frames can be forwarded as
    /// [`Event::Verbatim`](crate::event::Event::Verbatim).
    pub verbatim: bool,
    /// Whether a body without an end marker counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, verbatim: false, tolerate_truncation: false }
    }
}

/// Reads a response from an upstream that speaks Messages.
pub type Reader = BodyReader<ResponseReader>;

impl Reader {
    /// Creates a reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(ResponseReader::new(settings), settings.max_frame)
    }
}
