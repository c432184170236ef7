//! [`GatedContainer`]: reads a container of calls, and sends the calls through a [`Gate`].

use super::{
    gate::{Gate, Waiting},
    string_fast_path::StringFastPath,
    text::tail,
    walk::{CallRules, Out, Surroundings, Walk},
    walker::{Parsed, Walker},
};
use crate::event::CallEnd;

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// All of it was read, and the container continues.
    More,
    /// This many bytes were read, and everything up to there belongs to calls rather than text.
    Certain(usize),
    /// `taken` bytes were read. The container and its calls ended before the last `rescan` of them.
    Ended { taken: usize, rescan: usize },
    /// The container has ended after this many bytes, and the model invented what follows in the message.
    MessageEnded(usize),
    /// This many bytes were read. They contain a call that waited and is broken, so everything since the last certain
    /// point is text. The container continues.
    Broken(usize),
    /// `taken` bytes were read. A call was cut off before the last `rescan` of them, which are text.
    Cut { taken: usize, rescan: usize },
    /// `taken` bytes were read, and everything since the last certain point is text. The last `rescan` bytes may
    /// begin something else.
    Failed { taken: usize, rescan: usize },
}

#[derive(Debug)]
pub(super) struct GatedContainer {
    walker: Walker,
    gate: Gate,
}

impl GatedContainer {
    /// Reads with `walk`, starting with the text `held`.
    pub(super) fn new(walk: impl Walk + 'static, gate: Gate, held: &str) -> Self {
        Self { walker: Walker::new(walk, held), gate }
    }

    /// Reads the next piece. Sends pieces of calls to `out` unless they must wait.
    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Passed {
        let mut at = 0;
        while at < text.len() {
            let gate = &mut self.gate;
            let (taken, parsed) =
                self.walker.feed(tail(text, at), rules, &mut |piece| gate.filter(piece, rules, out));
            at += taken;
            let rescan = self.walker.undecided();
            return match parsed {
                Parsed::More => Passed::More,
                Parsed::Whole if self.gate.waits_for_all() => continue,
                Parsed::Whole | Parsed::Certain => Passed::Certain(at),
                Parsed::Broken if self.gate.streams() => Passed::Certain(at),
                Parsed::Broken if !self.gate.waits_for_all() => Passed::Broken(at),
                Parsed::End => Passed::Ended { taken: at, rescan },
                Parsed::EndMessage => Passed::MessageEnded(at),
                Parsed::Stop if self.is_streaming() => {
                    // Characters outside a call are text, and so is everything after them.
                    self.walker.finish(false, out);
                    Passed::Cut { taken: at, rescan }
                }
                Parsed::Broken | Parsed::Stop => Passed::Failed { taken: at, rescan },
            };
        }
        Passed::More
    }

    /// Ends the text. Returns whether everything since the last certain point belongs to calls. `stopped` is set
    /// if the model stopped by itself.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        let gate = &mut self.gate;
        if !self.walker.stops_open() {
            return self.walker.ends_outside(&mut |piece| gate.filter(piece, rules, out));
        }
        // An incomplete call that waits can become text instead.
        let stopped = stopped && (gate.streams() || rules.repair || self.walker.ends_with_text());
        let end = self.walker.finish(stopped, &mut |piece| gate.filter(piece, rules, out));
        gate.settle(end, out)
    }

    /// Whether a call is being streamed, which makes bytes certain as soon as they are read.
    pub(super) fn is_streaming(&self) -> bool {
        self.gate.streams() && self.walker.is_open()
    }

    /// Whether a call has begun. The call may be streamed, or it may be waiting.
    pub(super) fn has_begun(&self) -> bool {
        !self.gate.is_empty() || self.is_streaming()
    }

    /// Whether a call that waits has ended.
    pub(super) fn has_ended_call(&self) -> bool {
        self.gate.has_end()
    }

    /// How many bytes at the end of the text may turn out not to be part of calls.
    pub(super) fn undecided(&self) -> usize {
        self.walker.undecided()
    }

    pub(super) fn kept(&self) -> usize {
        self.walker.kept()
    }

    /// The fast path for the argument string being streamed, if there is one.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        if self.gate.streams() && !self.gate.drops() { self.walker.string() } else { None }
    }

    /// Returns what kind of text follows the container after it has failed or, if `cut` is set, after it has ended
    /// within a call.
    pub(super) fn surroundings(&mut self, cut: bool) -> Surroundings {
        self.walker.surroundings(cut)
    }

    /// Whether the text ended inside a list of calls, after a call.
    pub(super) fn is_unfinished(&self) -> bool {
        self.walker.is_unfinished()
    }

    /// Whether the text could only go on with another call or the end of their list, if a call has been sent.
    pub(super) fn is_in_list(&self) -> bool {
        self.walker.is_in_list()
    }

    /// How the last call that waits ended, if it did.
    pub(super) fn waiting_end(&self) -> Option<CallEnd> {
        self.gate.waiting_end()
    }

    /// The name of the call that waits, if there is one.
    pub(super) fn waiting_name(&self) -> Option<&str> {
        self.gate.waiting_name()
    }

    /// Whether what was read since the last certain point may contain text.
    pub(super) fn has_text(&self) -> bool {
        self.walker.has_text()
    }

    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.gate.take()
    }
}
