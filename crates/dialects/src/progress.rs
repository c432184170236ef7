//! [`Progress`]: how far a response has progressed and whether it may end there.

use crate::failure::{Failure, Kind};

/// How far a response has progressed.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether any part of the response has been read, even without content.
    pub(super) has_choice: bool,
    /// Whether the response has content, such as text, a call or an image. Reasoning alone does not count.
    pub(super) has_content: bool,
    pub(super) is_finished: bool,
    pub(super) is_marked: bool,
    pub(super) is_done: bool,
}

impl Progress {
    /// Whether content may follow, so that unreadable data may be part of the response.
    pub(super) fn is_inside(&self) -> bool {
        self.has_choice && !self.is_finished
    }

    /// Whether only one of the finish reason and the end marker has arrived. If the body then ends properly,
    /// the response is complete.
    pub(super) fn awaits_end(&self) -> bool {
        (self.is_marked || self.is_finished) && !self.is_done
    }

    /// Whether the finish reason has arrived without the end marker. The response is then complete even if
    /// the body does not end.
    pub(super) fn lacks_only_mark(&self) -> bool {
        self.is_finished && !self.is_done
    }

    /// Handles the end marker. Returns whether it ends the response; without a finish reason, the body must
    /// also end properly.
    pub(super) fn mark_end(&mut self) -> bool {
        self.is_marked = true;
        self.is_finished || !self.has_content
    }

    /// Whether the end of the body is the end of the response. If `may_end` is set, neither a finish reason
    /// nor an end marker is needed.
    pub(super) fn ends_with_body(&self, may_end: bool) -> bool {
        self.is_finished || ((self.is_marked || may_end) && self.has_choice)
    }

    /// Ends the response. If there was no finish reason, it is derived from the content.
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

pub(super) fn truncated() -> Failure {
    Failure::new(Kind::Truncated, "the upstream closed the stream before the end of the response")
}
