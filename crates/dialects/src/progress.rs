//! [`Progress`]: the progress of a response, and whether it may end there.

use crate::failure::{Failure, Kind};

/// The progress of a response.
#[derive(Debug, Default)]
pub struct Progress {
    /// A part of the response has been read, possibly without content.
    pub(super) has_choice: bool,
    /// The response has content: text, a call, an image. Reasoning alone does not count.
    pub(super) has_content: bool,
    /// The finish reason is known.
    pub(super) is_finished: bool,
    /// The end mark has been read.
    pub(super) is_marked: bool,
    /// The response has ended: nothing else is read.
    pub(super) is_done: bool,
}

impl Progress {
    /// Whether content may follow, so that unreadable data may be a part of the response.
    pub(super) fn is_inside(&self) -> bool {
        self.has_choice && !self.is_finished
    }

    /// Whether only one of the finish reason and the end mark has arrived: the response is complete if the
    /// body then ends properly.
    pub(super) fn awaits_end(&self) -> bool {
        (self.is_marked || self.is_finished) && !self.is_done
    }

    /// Whether the finish reason arrived without the end mark: the response is complete even if the body does
    /// not end.
    pub(super) fn lacks_only_mark(&self) -> bool {
        self.is_finished && !self.is_done
    }

    /// Handles the end mark. Returns whether the response ends with it. If there is no finish reason, the
    /// body must also end properly.
    pub(super) fn mark_end(&mut self) -> bool {
        self.is_marked = true;
        self.is_finished || !self.has_content
    }

    /// Whether the response ends with the body. If there is no finish reason, this is so only if `may_end` is
    /// set.
    pub(super) fn ends_with_body(&self, may_end: bool) -> bool {
        self.is_finished || ((self.is_marked || may_end) && self.has_choice)
    }

    /// Ends the response. If no finish reason arrived, it is derived from the content.
    ///
    /// # Errors
    /// There is neither a finish reason nor content.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.is_done = true;
        if self.is_finished || self.has_content {
            return Ok(());
        }
        let message = "the upstream ended its response without content or a finish reason";
        Err(Failure::new(Kind::Truncated, message))
    }
}

/// The failure of a response whose body ended too early.
pub(super) fn truncated() -> Failure {
    Failure::new(Kind::Truncated, "the upstream closed the stream before the end of the response")
}
