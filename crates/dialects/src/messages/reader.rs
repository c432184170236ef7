//! The reader: an upstream's bytes decoded to events.
//!
//! [`BodyReader`] finds the frames; [`response`] reads the frames; [`event`] is the view of a single frame. A
//! response that is not streamed is read as if each of its blocks had been streamed in one piece.

mod citations;
mod counts;
mod event;
mod plain;
mod response;

use crate::BodyReader;
use response::ResponseReader;

/// How an upstream's responses are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderSettings {
    /// Maximum bytes of one frame, and of a body that is JSON instead of a stream.
    pub max_frame: usize,
    /// Whether the client speaks this dialect too: frames that need no change are forwarded as
    /// [`Event::Verbatim`](crate::event::Event::Verbatim).
    pub verbatim: bool,
    /// Whether a body that ends without an end mark counts as complete.
    pub tolerate_truncation: bool,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self { max_frame: 8 << 20, verbatim: false, tolerate_truncation: false }
    }
}

/// Reads one response of an upstream that speaks Messages.
pub type Reader = BodyReader<ResponseReader>;

impl Reader {
    /// A reader for one response.
    pub fn new(settings: ReaderSettings) -> Self {
        Self::with_state(ResponseReader::new(settings), settings.max_frame)
    }
}
