//! [`Section`]: calls that are told by markers of their own, in a section or naked.
//!
//! A section is entered at its opener, or at a call's opener where the format's calls may stand alone. Between calls
//! there are blanks, the format's noise, the next call's opener or the section's closer; each call is read by a
//! [`Walker`]. A section that fails before its first call is text; after a call only what follows it is.

use super::{
    envelope::CallRules,
    gate::{Queue, Wait, Waiting},
    pattern::{Fit, fit},
    pythonic::PythonWalk,
    region::Passed,
    string_fast_path::StringFastPath,
    text::tail,
    walker::{Out, Parsed, Walker},
};
use crate::{event::CallEnd, format::Calls};

#[derive(Debug)]
enum Phase {
    /// Between calls; [`Section::markup`] is what may be a marker.
    Between,
    Call(Box<Walker>),
}

/// A section of calls being read.
#[derive(Debug)]
pub(super) struct Section {
    calls: &'static Calls,
    /// The section's closer; empty for a call outside any section.
    close: &'static str,
    in_section: bool,
    phase: Phase,
    markup: String,
    wait: Wait,
    waiting: Queue,
    found: bool,
}

impl Section {
    /// Begins behind a section's opener.
    pub(super) fn new(calls: &'static Calls, close: &'static str, wait: Wait) -> Self {
        Self {
            calls,
            close,
            in_section: true,
            phase: Phase::Between,
            markup: String::new(),
            wait,
            waiting: Queue::default(),
            found: false,
        }
    }

    /// Begins behind the opener of a call that stands alone.
    pub(super) fn naked(calls: &'static Calls, open: &str, wait: Wait, rules: &CallRules<'_>) -> Self {
        let rules = CallRules { any_name: rules.any_name && !calls.naked_must_be_declared(), ..*rules };
        let call = Phase::Call(Box::new(Walker::new(calls, open, &rules)));
        Self { in_section: false, phase: call, ..Self::new(calls, "", wait) }
    }

    /// A call streams: what is fed is certain as it comes.
    pub(super) fn is_streaming(&self) -> bool {
        self.wait == Wait::Nothing && matches!(&self.phase, Phase::Call(walker) if walker.is_open())
    }

    /// A call has begun: it streams, or waits.
    pub(super) fn has_begun(&self) -> bool {
        !self.waiting.is_empty() || self.is_streaming()
    }

    /// How many of the last bytes of what was fed may still be no part of calls.
    pub(super) fn unsure(&self) -> usize {
        if let Phase::Call(walker) = &self.phase { walker.undecided() } else { self.markup.len() }
    }

    /// Bytes kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        if let Phase::Call(walker) = &self.phase { walker.kept() } else { 0 }
    }

    /// In a string of arguments that goes out as it comes.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        match &self.phase {
            Phase::Call(walker) if self.wait == Wait::Nothing => walker.string(),
            _ => None,
        }
    }

    /// The calls that waited.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.waiting.take()
    }

    /// Reads on. Pieces of calls go to `out`, unless they must wait.
    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Passed {
        let mut at = 0;
        while at < text.len() {
            match &mut self.phase {
                Phase::Call(_) => {
                    let (len, passed) = self.call(tail(text, at), rules, out);
                    at += len;
                    match passed {
                        Some(Passed::Certain(_)) => return Passed::Certain(at),
                        Some(Passed::Ended(_)) => return Passed::Ended(at),
                        Some(Passed::MessageEnded(_)) => return Passed::MessageEnded(at),
                        Some(Passed::Left { rescan, .. }) => return Passed::Left { taken: at, rescan },
                        Some(Passed::Again { rest, certain, .. }) => {
                            return Passed::Again { taken: at, rest, certain };
                        }
                        Some(Passed::Failed { rescan, .. }) => return Passed::Failed { taken: at, rescan },
                        Some(_) => return Passed::Failed { taken: at, rescan: 0 },
                        None => {}
                    }
                }
                Phase::Between => {
                    let Some(character) = tail(text, at).chars().next() else { break };
                    match self.between(character, rules) {
                        Between::Taken => at += character.len_utf8(),
                        Between::Call => {}
                        // What has ended calls is no text, whatever follows it.
                        Between::Noise if self.found && self.wait != Wait::RegionEnd => {
                            return Passed::Certain(at + character.len_utf8());
                        }
                        Between::Noise => at += character.len_utf8(),
                        Between::Closed => return Passed::Ended(at + character.len_utf8()),
                        Between::Foreign => {
                            return Passed::Failed { taken: at, rescan: self.markup.len() };
                        }
                    }
                }
            }
        }
        Passed::More
    }

    /// The text stops here: whether the section ends with calls. `stopped`: the model was done.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        let marked = self.is_marked();
        let Phase::Call(walker) = &mut self.phase else { return self.found };
        if !walker.found() {
            return self.found && self.wait != Wait::RegionEnd && marked;
        }
        if self.wait == Wait::Nothing {
            walker.finish(stopped, out);
            return true;
        }
        let waiting = &mut self.waiting;
        let end = walker.finish(stopped && rules.repair, &mut |piece| waiting.push(piece));
        if end == Some(CallEnd::Cut) {
            return false;
        }
        true
    }

    /// A call has ended: it goes out, unless it must wait for the section's end.
    fn certain(&self) -> Option<Passed> {
        (self.wait != Wait::RegionEnd).then_some(Passed::Certain(0))
    }

    fn call(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> (usize, Option<Passed>) {
        let marked = self.is_marked();
        let Phase::Call(walker) = &mut self.phase else { return (0, None) };
        let waiting = &mut self.waiting;
        let (len, parsed) = match self.wait {
            Wait::Nothing => walker.feed(text, rules, out),
            _ => walker.feed(text, rules, &mut |piece| waiting.push(piece)),
        };
        self.found |= walker.found();
        let rest = walker.undecided();
        let passed = match parsed {
            Parsed::More => None,
            Parsed::Certain => self.certain(),
            Parsed::End if rest > 0 => {
                self.phase = Phase::Between;
                let certain = self.certain().is_some();
                Some(if self.in_section {
                    Passed::Again { taken: 0, rest, certain }
                } else {
                    Passed::Left { taken: 0, rescan: rest }
                })
            }
            Parsed::End => {
                self.phase = Phase::Between;
                if self.in_section { self.certain() } else { Some(Passed::Ended(0)) }
            }
            Parsed::EndMessage => Some(Passed::MessageEnded(0)),
            Parsed::Stop if walker.is_open() && self.wait == Wait::Nothing => {
                // What was fed and is no part of the call is text, as what follows is.
                walker.finish(false, out);
                Some(Passed::Left { taken: 0, rescan: rest })
            }
            Parsed::Stop if self.found && !walker.is_open() && marked => {
                self.phase = Phase::Between;
                Some(Passed::Again { taken: 0, rest, certain: false })
            }
            Parsed::Stop => Some(Passed::Failed { taken: 0, rescan: rest }),
        };
        (len, passed)
    }

    /// One character between calls.
    fn between(&mut self, character: char, rules: &CallRules<'_>) -> Between {
        if self.markup.is_empty() && character.is_ascii_whitespace() {
            return Between::Taken;
        }
        self.markup.push(character);
        let (mut begins, markup) = (false, self.markup.as_str());
        let close = Some(self.close).filter(|close| !close.is_empty());
        if let Some(close) = close {
            match fit(close, markup) {
                Fit::Whole(_) if self.found => return Between::Closed,
                fit => begins |= fit == Fit::Begins,
            }
        }
        for &open in self.calls.open.iter().filter(|open| !open.is_empty()) {
            match fit(open, markup) {
                Fit::Whole(_) => {
                    self.phase = Phase::Call(Box::new(Walker::new(self.calls, markup, rules)));
                    self.markup.clear();
                    return Between::Taken;
                }
                fit => begins |= fit == Fit::Begins,
            }
        }
        for noise in self.calls.noise {
            match fit(noise, markup) {
                Fit::Whole(_) => {
                    self.markup.clear();
                    return Between::Noise;
                }
                fit => begins |= fit == Fit::Begins,
            }
        }
        if begins {
            return Between::Taken;
        }
        self.markup.pop();
        if self.markup.is_empty() && self.calls.open.contains(&"") && PythonWalk::may_begin(character) {
            self.phase = Phase::Call(Box::new(Walker::new(self.calls, "", rules)));
            return Between::Call;
        }
        Between::Foreign
    }

    /// Each call of this section has a marker.
    fn is_marked(&self) -> bool {
        self.in_section && !self.calls.open.contains(&"")
    }
}

/// What a character between calls is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Taken,
    /// It was not taken: a call begins with it.
    Call,
    /// The last of what means nothing.
    Noise,
    /// The last of the closer.
    Closed,
    /// No part of the section.
    Foreign,
}
