//! [`Checkpoint`]: a state between two texts to which the detector can return.

use super::{Detector, QuotedCount, State, prose::Prose};

/// The state of a detector that holds no text.
#[derive(Debug)]
pub struct Checkpoint {
    state: State,
    prose: Prose,
    next: u32,
    quoted: QuotedCount,
}

impl Detector {
    /// Returns a checkpoint, and then reads the following text as a new message, outside of reasoning. Must only be
    /// called between two messages, when no text is held. [`Detector::restore`] returns to the checkpoint.
    pub fn checkpoint(&mut self) -> Checkpoint {
        let state = std::mem::replace(&mut self.state, State::Prose);
        Checkpoint { state, prose: self.prose.clone(), next: self.next, quoted: self.quoted }
    }

    /// Undoes all text since `checkpoint`. No output for that text may have been sent.
    pub fn restore(&mut self, checkpoint: Checkpoint) {
        let Checkpoint { state, prose, next, quoted } = checkpoint;
        (self.state, self.prose, self.next, self.quoted) = (state, prose, next, quoted);
        self.held.clear();
        self.flow = None;
        self.keeps_end = false;
        self.doubted = None;
        self.pending = None;
    }

    /// Records that the upstream separates reasoning from text, so the text does not start inside reasoning.
    pub fn reasoning_is_separate(&mut self) {
        let is_fresh = match &self.state {
            State::Reasoning(thinking) => thinking.is_fresh(),
            State::Whole(text) => text.is_empty(),
            _ => false,
        };
        if is_fresh {
            self.start.saw(false);
            self.start(false);
        }
    }
}
