//! [`Section`]: reads calls with their own markers, either in a section or by themselves.
//!
//! A section begins at its opener or, if the format allows single calls, at the opener of a call. Between calls
//! there may be white space, meaningless markup, the opener of the next call, or the section's closer. Each call is
//! read by the walk for its kind of body. If a section fails before its first call, all of it is text. After a
//! call, only what follows the call is text.

use super::{
    gate::Wait,
    pattern::{Fit, fit},
    pythonic::PythonWalk,
    string_fast_path::StringFastPath,
    text::head,
    walk::{CallRules, Out, Step, Walk, step},
    walker::body,
};
use crate::format::Calls;

#[derive(Debug)]
enum Phase {
    Between,
    Call(Box<dyn Walk>),
}

#[derive(Debug)]
pub(super) struct Section {
    calls: &'static Calls,
    /// The section's closer, or empty for a call outside of any section.
    close: &'static str,
    in_section: bool,
    /// Whether all calls wait for the end of the section.
    waits: bool,
    phase: Phase,
    found: bool,
    /// Whether the current call has ended and is complete.
    whole: bool,
}

/// Markup between calls.
#[derive(Debug, Clone, Copy)]
enum Mark {
    Closer,
    Opener,
    Noise,
}

impl Section {
    /// Creates a reader that starts after the opener of a section.
    pub(super) fn new(calls: &'static Calls, close: &'static str, wait: Wait) -> Self {
        let waits = wait == Wait::RegionEnd;
        Self { calls, close, in_section: true, waits, phase: Phase::Between, found: false, whole: false }
    }

    /// Creates a reader that starts after the opener of a single call.
    pub(super) fn naked(calls: &'static Calls, open: &str, wait: Wait, rules: &CallRules<'_>) -> Self {
        let rules = CallRules { any_name: rules.any_name && !calls.naked_must_be_declared(), ..*rules };
        let phase = Phase::Call(body(calls, open, &rules));
        Self { in_section: false, phase, ..Self::new(calls, "", wait) }
    }

    /// Whether each call of this section has a marker.
    fn is_marked(&self) -> bool {
        self.in_section && !self.calls.open.contains(&"")
    }

    fn begin_call(&mut self, open: &str, rules: &CallRules<'_>) {
        self.phase = Phase::Call(body(self.calls, open, rules));
        self.whole = false;
    }

    fn between(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        let blank = text.len() - text.trim_ascii_start().len();
        if blank > 0 {
            return Step::Took(blank);
        }
        let close = Some(self.close).filter(|_| self.found).map(|close| (close, Mark::Closer));
        let openers = self.calls.open.iter().map(|&open| (open, Mark::Opener));
        let noise = self.calls.noise.iter().map(|&noise| (noise, Mark::Noise));
        let marks = close.into_iter().chain(openers).chain(noise).filter(|(mark, _)| !mark.is_empty());
        let fits = marks.map(|(mark, kind)| (fit(mark, text), kind));
        let mut begins = false;
        let whole = fits.filter_map(|(fit, kind)| match fit {
            Fit::Whole(len) => Some((len, kind)),
            fit => {
                begins |= fit == Fit::Begins;
                None
            }
        });
        match whole.min_by_key(|&(len, _)| len) {
            Some((len, Mark::Closer)) => Step::End(len),
            Some((len, Mark::Opener)) => {
                self.begin_call(head(text, len), rules);
                Step::Took(len)
            }
            // Markup after calls is not text, whatever follows it.
            Some((len, Mark::Noise)) if self.found => Step::Whole(len),
            Some((len, Mark::Noise)) => Step::Took(len),
            None if begins => Step::Hold,
            None if self.calls.open.contains(&"") && text.starts_with(PythonWalk::may_begin) => {
                self.begin_call("", rules);
                Step::Took(0)
            }
            None => Step::Stop(0),
        }
    }
}

impl Walk for Section {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let Phase::Call(call) = &mut self.phase else { return self.between(text, rules) };
        let step = step(call.as_mut(), text, rules, out);
        self.whole |= matches!(step, Step::Whole(_) | Step::End(_) | Step::EndMessage(_));
        self.found |= self.whole;
        match step {
            Step::End(len) if self.in_section => {
                self.phase = Phase::Between;
                Step::Whole(len)
            }
            step => step,
        }
    }

    fn close(&mut self, held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        if let Phase::Call(call) = &mut self.phase { call.close(held, stopped, out) } else { false }
    }

    fn string(&self) -> Option<StringFastPath> {
        if let Phase::Call(call) = &self.phase { call.string() } else { None }
    }

    fn kept(&self) -> usize {
        if let Phase::Call(call) = &self.phase { call.kept() } else { 0 }
    }

    /// Handles text that started like a call but is not one: it may be something else that separates calls.
    fn recover(&mut self, open: bool, _rest: &str) -> bool {
        let goes_on = self.found && !open && self.is_marked() && matches!(self.phase, Phase::Call(_));
        if goes_on {
            self.phase = Phase::Between;
        }
        goes_on
    }

    fn ends_outside(&mut self, _held: &str, _out: &mut Out<'_>) -> bool {
        match &self.phase {
            Phase::Between => self.found,
            // The markup of a call that has not started is framing.
            Phase::Call(_) => self.whole || self.found && !self.waits && self.is_marked(),
        }
    }
}
