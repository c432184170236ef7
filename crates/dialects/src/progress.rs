//! [`Progress`]: how far a response has come, and whether it may end there.

use crate::failure::{Failure, Kind};

/// How far a response has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// A part of the response has been read, perhaps without content.
    pub(super) has_choice: bool,
    /// The response has content: text, a call, an image. Reasoning alone does not count.
    pub(super) has_content: bool,
    /// The finish reason is known.
    pub(super) is_finished: bool,
    /// The end mark has been read.
    pub(super) is_marked: bool,
    /// The response has ended: nothing more is read.
    pub(super) is_done: bool,
}

impl Progress {
    /// Whether content may follow, so that data that cannot be read may be a part of the response.
    pub(super) fn is_inside(&self) -> bool {
        self.has_choice && !self.is_finished
    }

    /// One of the finish reason and the end mark came without the other: the response is complete if the body ends properly.
    pub(super) fn awaits_end(&self) -> bool {
        (self.is_marked || self.is_finished) && !self.is_done
    }

    /// The finish reason came without the end mark: the response is complete even if the body does not end.
    pub(super) fn lacks_only_mark(&self) -> bool {
        self.is_finished && !self.is_done
    }

    /// The end mark has been read. Returns whether the response ends with it. Without a finish reason, the
    /// body must end properly as well.
    pub(super) fn mark_end(&mut self) -> bool {
        self.is_marked = true;
        self.is_finished || !self.has_content
    }

    /// Whether the end of the body is the end of the response. Without a finish reason, that is so if the
    /// response `may_end` there.
    pub(super) fn ends_with_body(&self, may_end: bool) -> bool {
        self.is_finished || ((self.is_marked || may_end) && self.has_choice)
    }

    /// The response ends here. Without a finish reason, its content implies one.
    ///
    /// # Errors
    /// There is neither.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.is_done = true;
        if self.is_finished || self.has_content {
            return Ok(());
        }
        let message = "the upstream ended its response without content or a finish reason";
        Err(Failure::new(Kind::Truncated, message))
    }
}

/// The failure of a response whose body ended before it did.
pub(super) fn truncated() -> Failure {
    Failure::new(Kind::Truncated, "the upstream closed the stream before the end of the response")
}
