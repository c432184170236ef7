//! The reader: an upstream's bytes decoded to events.
//!
//! [`BodyReader`] finds the frames; [`response`] reads the frames; [`event`] is the view of a single frame.
//! Deltas are passed on as they arrive. The end of each item repeats the complete item, from which everything
//! is taken that its deltas lacked. A response that is not streamed is read as if it consisted only of these
//! ends.

mod event;
mod items;
mod response;

use crate::BodyReader;
use response::ResponseReader;

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

/// Reads one response of an upstream that speaks Responses.
pub type Reader = BodyReader<ResponseReader>;

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(ResponseReader::new(settings), settings.max_frame)
    }
}
