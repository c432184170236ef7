//! [`Gated`]: a container of calls being read, whose calls pass a [`Gate`] on their way out.

use super::{
    envelope::CallRules,
    gate::{Gate, Waiting},
    string_fast_path::StringFastPath,
    text::tail,
    walker::{Out, Parsed, Surroundings, Walk, Walker},
};

/// How far a feed came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// All was taken; the container goes on.
    More,
    /// This many bytes were taken, and everything up to there is certain: calls, not text.
    Certain(usize),
    /// This many bytes were taken, and the container has ended with its calls, before the last `rescan` bytes.
    Ended { taken: usize, rescan: usize },
    /// The container has ended, and the rest of the message was made up by the model.
    MessageEnded(usize),
    /// This many bytes were taken; the last `rest` of them are read again by what goes on. `certain`: what is before
    /// them is.
    Again { taken: usize, rest: usize, certain: bool },
    /// This many bytes were taken, and a call was cut before the last `rescan` of them, which are text.
    Cut { taken: usize, rescan: usize },
    /// This many bytes were taken; the source since the last certain point is text. Its last `rescan` bytes may begin
    /// something else.
    Failed { taken: usize, rescan: usize },
}

/// See the module.
#[derive(Debug)]
pub(super) struct Gated {
    walker: Walker,
    gate: Gate,
}

impl Gated {
    pub(super) fn new(walk: impl Walk + 'static, gate: Gate) -> Self {
        Self { walker: Walker::of(walk), gate }
    }

    /// Reads on. Pieces of calls go to `out`, unless they must wait.
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
                Parsed::End => Passed::Ended { taken: at, rescan },
                Parsed::EndMessage => Passed::MessageEnded(at),
                Parsed::Stop if self.is_streaming() => {
                    // What is no part of the call is text, as is what follows.
                    self.walker.finish(false, out);
                    Passed::Cut { taken: at, rescan }
                }
                Parsed::Stop => Passed::Failed { taken: at, rescan },
            };
        }
        Passed::More
    }

    /// The text stops here: whether what was read since the last certain point belongs to calls. `stopped`: because the
    /// model was done.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        if !self.walker.stops_open() {
            return self.walker.ends_with_calls();
        }
        let gate = &mut self.gate;
        let stopped = stopped && (gate.streams() || rules.repair);
        let end = self.walker.finish(stopped, &mut |piece| gate.filter(piece, rules, out));
        gate.settle(end, out)
    }

    /// A call streams: what is fed is certain as it comes.
    pub(super) fn is_streaming(&self) -> bool {
        self.gate.streams() && self.walker.is_open()
    }

    /// A call has begun: it streams, or waits.
    pub(super) fn has_begun(&self) -> bool {
        !self.gate.is_empty() || self.is_streaming()
    }

    /// How many of the last bytes that were fed may still be no part of calls.
    pub(super) fn undecided(&self) -> usize {
        self.walker.undecided()
    }

    /// Bytes kept besides the source.
    pub(super) fn kept(&self) -> usize {
        self.walker.kept()
    }

    /// The string of arguments that goes out as it comes.
    pub(super) fn string(&self) -> Option<StringFastPath> {
        if self.gate.streams() && !self.gate.drops() { self.walker.string() } else { None }
    }

    /// What the text behind the container is in, which has failed, or was left in the middle of a call that was `cut`.
    pub(super) fn surroundings(&mut self, cut: bool) -> Surroundings {
        self.walker.surroundings(cut)
    }

    /// The calls that waited.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.gate.take()
    }
}
