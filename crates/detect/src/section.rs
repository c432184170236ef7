//! [`Section`]: reads calls with their own markers, either in a section or by themselves.
//!
//! A section begins at its opener or, if the format allows single calls, at the opener of a call. Between calls
//! there may be white space, meaningless markup, the opener of the next call, or the section's closer. Each call is
//! read by the walk for its kind of body. If a section fails before its first call, all of it is text. After a
//! call, only what follows the call is text. The rest of a call that broke ends at its closer, at the next opener, or at
//! the section's closer, and reading continues there.

use super::{
    broken::{BrokenCall, EndedBy, Rest, Resumes, Skipped},
    gate::Wait,
    pattern::{Fit, fit, fit_any},
    pythonic::PythonWalk,
    string_fast_path::StringFastPath,
    text::{boundary_from, head, tail},
    walk::{CallRules, Out, Step, Walk, step},
    walker::body,
};
use crate::format::{CallBody, Calls, Place, is_token};

/// The maximum length of text that is held before the first call of a section, in bytes.
const MAX_SKIPPED: usize = 1024;

#[derive(Debug)]
enum Phase {
    Between,
    Call(Box<dyn Walk>),
    /// In the rest of a broken call.
    Broken(BrokenCall, Box<dyn Walk>),
    /// After a broken call outside of any section.
    Over,
}

#[derive(Debug)]
pub(super) struct Section {
    calls: &'static Calls,
    /// The section's closer, or empty for a call outside of any section.
    close: &'static str,
    in_section: bool,
    /// Whether all calls wait for the end of the section.
    waits: bool,
    /// How many bytes the rest of a broken call may have.
    max_rest: usize,
    phase: Phase,
    found: bool,
    /// Whether the section may end without a call.
    may_be_empty: bool,
    /// Whether the section's opener is a special token, so that text before the first call is not for people.
    skips: bool,
    /// The length of the text before the first call, in bytes, without white space between its parts.
    skipped: usize,
    /// Whether the current call has ended and is complete.
    whole: bool,
    /// Whether the current call is broken, and its closer may follow.
    broken: bool,
    /// Whether the value of the broken call has ended, and its rest goes on behind it.
    behind: bool,
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
    pub(super) fn new(calls: &'static Calls, close: &'static str, wait: Wait, max_rest: usize) -> Self {
        Self {
            calls,
            close,
            in_section: true,
            waits: wait == Wait::RegionEnd,
            max_rest,
            phase: Phase::Between,
            found: false,
            may_be_empty: false,
            skips: false,
            skipped: 0,
            whole: false,
            broken: false,
            behind: false,
        }
    }

    /// Returns the reader for a section with this opener, which may contain no call. Prose may mention an opener
    /// that is a word, so it then must start a line. `is_shared` is set if other formats that have not been tried
    /// yet have the same opener.
    pub(super) fn opened_by(self, open: &str, starts_line: bool, is_shared: bool) -> Self {
        let skips = is_token(open) && self.is_marked() && !is_shared;
        Self { may_be_empty: is_token(open) || starts_line, skips, ..self }
    }

    /// Creates a reader that starts after the opener of a single call.
    pub(super) fn naked(calls: &'static Calls, open: &str, wait: Wait, rules: &CallRules<'_>) -> Self {
        let rules = CallRules { any_name: rules.any_name && !calls.naked_must_be_declared(), ..*rules };
        let phase = Phase::Call(body(calls, open, &rules));
        Self { in_section: false, phase, ..Self::new(calls, "", wait, rules.max_hold) }
    }

    /// Whether each call of this section has a marker.
    fn is_marked(&self) -> bool {
        self.in_section && !self.calls.open.contains(&"")
    }

    fn begin_call(&mut self, open: &str, rules: &CallRules<'_>) {
        self.phase = Phase::Call(body(self.calls, open, rules));
        (self.whole, self.broken, self.behind) = (false, false, false);
    }

    /// Matches what ends a broken call against the start of `text`.
    fn marker(&self, call: &dyn Walk, text: &str) -> Fit {
        marker(call, (self.calls, self.close), text)
    }

    /// Reads the rest of a broken call behind its value.
    fn read_behind(&mut self, mut call: Box<dyn Walk>) {
        self.behind = true;
        self.phase = Phase::Broken(BrokenCall::behind_value(&call.breaks()), call);
    }

    /// Reads the rest of a broken call.
    fn rest(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let (calls, close, behind) = (self.calls, self.close, self.behind);
        let Phase::Broken(broken, call) = &mut self.phase else { return Step::Stop(0) };
        // The line end before the next call may have been read.
        let start = (broken.is_fresh() && calls.place == Place::LineStart).then_some(text.len());
        let ends = |text: &str| match marker(call.as_ref(), (calls, close), text) {
            Fit::No if start == Some(text.len()) => fit_any(calls.open.iter().copied(), text),
            Fit::No if behind => ends_behind(calls, text),
            fit => fit,
        };
        let (len, by) = match broken.step(text, ends, out) {
            Skipped::Took(len) => return Step::Took(len),
            Skipped::Hold => return Step::Hold,
            Skipped::Ended(len, by) => (len, by),
        };
        let mended = by == EndedBy::MarkerAtOnce && rules.repair && call.mend(out);
        if !mended {
            broken.abandon(out);
        }
        let by_marker = !matches!(by, EndedBy::Value);
        let resumes = match call.resume() {
            Resumes::BetweenCalls if by_marker => Resumes::Never,
            _ if by == EndedBy::Limit => Resumes::Never,
            resumes => resumes,
        };
        let Phase::Broken(_, call) = std::mem::replace(&mut self.phase, Phase::Between) else {
            return Step::Stop(0);
        };
        let goes_on = matches!(self.calls.body, CallBody::Python(_) | CallBody::Dsl { .. });
        if goes_on && by == EndedBy::Value && resumes == Resumes::Never {
            self.read_behind(call);
            return Step::Took(len);
        }
        if resumes != Resumes::Never {
            self.phase = Phase::Call(call);
        } else if !self.in_section {
            self.phase = Phase::Over;
        }
        self.found |= mended || !rules.waits;
        // If the opener of the section has become text, so does its closer.
        self.may_be_empty &= self.found;
        self.skips &= self.found;
        self.broken = !mended;
        match () {
            () if mended => {
                self.whole = true;
                Step::Whole(len)
            }
            () if resumes == Resumes::BeforeCloser => Step::Took(len),
            () => self.leave(len),
        }
    }

    /// Ends a broken call, `len` bytes on.
    fn leave(&mut self, len: usize) -> Step {
        (self.broken, self.whole, self.behind) = (false, true, false);
        Step::Broken(len)
    }

    /// Handles a step that follows the rest of a broken call, where the call's closer is read.
    fn behind_broken(&mut self, step: Step, text: &str) -> Step {
        let len = match step {
            Step::Took(_) | Step::Hold => return step,
            Step::Whole(len)
            | Step::Certain(len)
            | Step::End(len)
            | Step::EndMessage(len)
            | Step::Broken(len)
            | Step::Stop(len) => len,
        };
        let closed = !matches!(step, Step::Stop(_) | Step::End(0));
        let may_go_on = !closed && (!self.close.is_empty() || has_closer(self.calls));
        let next = match &self.phase {
            Phase::Call(call) if may_go_on => match self.marker(call.as_ref(), tail(text, len)) {
                Fit::No => ends_behind(self.calls, tail(text, len)),
                fit => fit,
            },
            _ => Fit::Whole(0),
        };
        if next == Fit::Begins {
            return if len > 0 { Step::Took(len) } else { Step::Hold };
        }
        if let Phase::Call(call) = std::mem::replace(&mut self.phase, Phase::Between)
            && next == Fit::No
        {
            self.read_behind(call);
            return Step::Took(len);
        }
        if !self.in_section {
            self.phase = Phase::Over;
        }
        self.leave(len)
    }

    fn between(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        let blank = text.len() - text.trim_ascii_start().len();
        if blank > 0 {
            return Step::Took(blank);
        }
        let close =
            Some(self.close).filter(|_| self.found || self.may_be_empty).map(|close| (close, Mark::Closer));
        let openers = self.calls.open.iter().map(|&open| (open, Mark::Opener));
        let noise = self.calls.noise.iter().map(|&noise| (noise, Mark::Noise));
        let marks = || {
            let marks = close.into_iter().chain(openers.clone()).chain(noise.clone());
            marks.filter(|(mark, _)| !mark.is_empty())
        };
        let fits = marks().map(|(mark, kind)| (fit(mark, text), kind));
        let mut begins = false;
        let whole = fits.filter_map(|(fit, kind)| match fit {
            Fit::Whole(len) => Some((len, kind)),
            fit => {
                begins |= fit == Fit::Begins;
                None
            }
        });
        match whole.min_by_key(|&(len, _)| len) {
            // Text in a section without calls is text.
            Some((_, Mark::Closer)) if self.skipped > 0 => Step::Stop(0),
            Some((len, Mark::Closer)) => Step::End(len),
            Some((len, Mark::Opener)) => {
                self.skipped = 0;
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
            None if self.skips && !self.found && self.skipped < MAX_SKIPPED => {
                // White space ends a run, since it does not count.
                let begins = |byte: u8| {
                    byte.is_ascii_whitespace()
                        || marks().any(|(mark, _)| mark.as_bytes().first() == Some(&byte))
                };
                let first = text.chars().next().map_or(0, char::len_utf8);
                let run = tail(text, first).bytes().position(begins).map_or(text.len(), |at| first + at);
                let run = boundary_from(text, run.min(MAX_SKIPPED - self.skipped));
                self.skipped += run;
                Step::Took(run)
            }
            None => Step::Stop(0),
        }
    }
}

impl Walk for Section {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let call = match &mut self.phase {
            Phase::Call(call) => call,
            Phase::Between => return self.between(text, rules),
            Phase::Broken(..) => return self.rest(text, rules, out),
            Phase::Over => return Step::End(0),
        };
        let step = step(call.as_mut(), text, rules, out);
        if self.broken {
            return self.behind_broken(step, text);
        }
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

    fn has_text(&self) -> bool {
        // A tag with the name of a tool may be text.
        let is_tag = matches!(self.calls.body, CallBody::Elements(_)) && self.calls.naked_must_be_declared();
        self.skipped > 0 || (is_tag && !self.in_section)
    }

    fn is_unfinished(&self, held: &str) -> bool {
        match &self.phase {
            Phase::Between => {
                self.found
                    && !held.is_empty()
                    && fit_any(self.calls.open.iter().copied(), held) == Fit::Begins
            }
            Phase::Call(call) => call.is_unfinished(held) || (self.found && !self.whole),
            Phase::Broken(..) | Phase::Over => false,
        }
    }

    fn is_broken(&self) -> bool {
        self.broken || matches!(self.phase, Phase::Broken(..))
    }

    fn abandon(&mut self, out: &mut Out<'_>) {
        if let Phase::Broken(broken, _) = &mut self.phase {
            broken.abandon(out);
        }
    }

    /// Handles text that cannot continue an open call, whose rest is then read, and text that started like a call but
    /// is not one: it may be something else that separates calls.
    fn recover(&mut self, open: bool) -> bool {
        if open {
            return match std::mem::replace(&mut self.phase, Phase::Between) {
                Phase::Call(mut call) if !self.broken => {
                    let rest = call.breaks();
                    self.behind = false;
                    self.phase = Phase::Broken(BrokenCall::new(rest, self.max_rest), call);
                    true
                }
                phase => {
                    self.phase = phase;
                    false
                }
            };
        }
        if self.whole && matches!(self.calls.body, CallBody::Elements(_)) {
            // Junk between the arguments and the closers around them.
            if let Phase::Call(call) = std::mem::replace(&mut self.phase, Phase::Between) {
                self.behind = true;
                self.phase = Phase::Broken(BrokenCall::behind_value(&Rest::default()), call);
                return true;
            }
        }
        let goes_on = self.found && self.is_marked() && matches!(self.phase, Phase::Call(_));
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
            Phase::Broken(..) | Phase::Over => true,
        }
    }
}

/// Whether calls have closers of their own.
fn has_closer(calls: &Calls) -> bool {
    match &calls.body {
        CallBody::Header(header) => !header.close.is_empty(),
        CallBody::Params(params) => !params.end.is_empty(),
        CallBody::Elements(_) => true,
        CallBody::Attributes { .. } | CallBody::Raw(..) => true,
        // It ends with its line.
        CallBody::React => true,
        CallBody::Python(_) | CallBody::Dsl { .. } | CallBody::Dictionaries => false,
    }
}

/// Matches what else ends the rest of a broken call behind its value: the opener of the next call or, for calls without
/// a closer, the end of the line.
fn ends_behind(calls: &'static Calls, text: &str) -> Fit {
    match calls.body {
        CallBody::React | CallBody::Python(_) if text.starts_with('\n') => Fit::Whole(1),
        _ => fit_any(calls.open.iter().copied().filter(|open| open.len() > 1), text),
    }
}

/// Matches what ends a broken call against the start of `text`.
fn marker(call: &dyn Walk, (calls, close): (&'static Calls, &'static str), text: &str) -> Fit {
    match (call.ends_call(text), text.strip_prefix('\n')) {
        (Fit::No, Some("")) if calls.place == Place::LineStart => Fit::Begins,
        (Fit::No, Some(line)) if calls.place == Place::LineStart => fit_any(calls.open.iter().copied(), line),
        (Fit::No, _) => fit_any(ends(calls, close), text),
        (fit, _) => fit,
    }
}

/// Returns the markers that end a broken call: its own closers, what may follow its arguments, the openers of calls,
/// and the markers of sections.
fn ends(calls: &'static Calls, close: &'static str) -> impl Iterator<Item = &'static str> {
    let (first, second): (&[&str], &[&str]) = match &calls.body {
        CallBody::Header(header) => (header.after, header.close),
        CallBody::Params(params) => (params.end, &[]),
        CallBody::React => (&[crate::react::RESULT], &[]),
        CallBody::Attributes { end } => (end, &[]),
        CallBody::Raw(_, close) => (std::slice::from_ref(close), &[]),
        CallBody::Elements(_) | CallBody::Python(_) | CallBody::Dsl { .. } | CallBody::Dictionaries => {
            (&[], &[])
        }
    };
    let is_tagged = matches!(calls.body, CallBody::Params(_) | CallBody::Elements(_) | CallBody::Header(_));
    let open = if is_tagged { calls.open } else { &[] };
    let sections = calls.sections.iter().flat_map(|&(open, close)| [open, close]);
    let markers = first.iter().chain(second).chain(open).copied().chain(sections).chain([close]);
    // A single bracket may also be a part of the arguments.
    let is_bracket = move |marker: &str| is_tagged && matches!(marker, ")" | "]");
    markers.filter(move |marker| !marker.is_empty() && !marker.contains('%') && !is_bracket(marker))
}
