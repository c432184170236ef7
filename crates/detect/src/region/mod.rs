//! [`Region`]: reads a stretch of text that is, or may be, a container of calls.
//!
//! A region begins at the opener of a container, or at a bare `{` or `[`. It reads what precedes a value, the value
//! with an [`Envelope`], and what follows it, up to the end of the container.

mod between;
mod entities;

use self::entities::{Entities, Part};
use super::{
    broken::{BrokenCall, EndedBy, Resumes, Skipped},
    envelope::Envelope,
    fence::Fence,
    gate::Wait,
    pattern::{Fit, fit_any},
    pythonic::PythonWalk,
    string_fast_path::StringFastPath,
    tag::Sure,
    text::{head, tail},
    walk::{CallRules, Out, Step, Surroundings, Walk},
};
use crate::{
    format::{Tag, TagKind},
    wire::json::{Progress, Scanner},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegionKind {
    Tag(&'static Tag),
    Fence(Fence),
    Bare,
}

#[derive(Debug)]
enum Phase {
    /// Before a value, where white space and markup may occur (`<code>`, a repeated opener, a fence inside a
    /// marker).
    Before,
    Value,
    /// In the rest of a broken call.
    Broken(BrokenCall),
    /// After a value, where white space, stray brackets, another value and the closer may occur.
    After,
    Ticks(usize),
    /// After the end of a container whose last call is broken.
    Over,
}

/// What a character between values means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// It may be part of markup.
    Begins,
    /// It ends meaningless markup or white space.
    Taken,
    /// A value begins with the markup or with this character.
    Value,
    /// It ends the closer.
    Closed,
    Foreign,
}

#[derive(Debug)]
pub(super) struct Region {
    container: RegionKind,
    quoted: bool,
    wait: Wait,
    phase: Phase,
    value: Option<Box<dyn Walk>>,
    entities: Option<Entities>,
    /// Reads the same value as strict JSON: if the value is not a call, it becomes text, and its end must be known.
    scanner: Option<Scanner>,
    /// Whether missing or extra brackets around calls are tolerated.
    forgives: bool,
    /// Whether the current call is broken. It ends with its value or with the container.
    broken: bool,
    /// Whether the broken call is in a list.
    in_list: bool,
    /// Whether white space follows the value.
    spaced: bool,
    /// Whether the rest of a broken call ends with its line.
    to_line_end: bool,
    /// How many bytes the rest of a broken call may have.
    max_rest: usize,
    /// Whether the container, or a bare value with calls, has ended. Another one may follow after `;` or `,`.
    ended: bool,
    /// Whether the container may end without a call.
    may_be_empty: bool,
    /// Whether a `;` or `,` after the container or value has been read.
    joined: bool,
}

impl Region {
    pub(super) fn new(container: RegionKind, quoted: bool, wait: Wait) -> Self {
        Self {
            container,
            quoted,
            wait,
            phase: Phase::Before,
            value: None,
            entities: None,
            scanner: None,
            forgives: false,
            broken: false,
            in_list: false,
            spaced: false,
            to_line_end: false,
            max_rest: 0,
            ended: false,
            may_be_empty: false,
            joined: false,
        }
    }

    /// Returns the reader with `may_be_empty` set if the container may contain no call, or an empty list.
    pub(super) fn may_be_empty(self, may_be_empty: bool) -> Self {
        Self { may_be_empty, ..self }
    }

    fn own_rules<'r>(&self, rules: &CallRules<'r>) -> CallRules<'r> {
        let RegionKind::Tag(tag) = self.container else { return *rules };
        let special = tag.special();
        CallRules { any_name: rules.any_name && !special.common, no_tool: special.no_tool, ..*rules }
    }

    /// Reads what precedes, separates and follows values.
    fn between(&mut self, text: &str, rules: &CallRules<'_>) -> Step {
        for (at, character) in text.char_indices() {
            let (markup, behind) = (head(text, at), at + character.len_utf8());
            let between = match self.phase {
                Phase::Before => self.before(markup, character, rules),
                _ => self.after(markup, character, rules),
            };
            match between {
                Between::Begins => {}
                // The list of a broken call goes on after the next value, and its bracket is not text.
                Between::Taken if self.in_list && !self.broken => return Step::Certain(behind),
                Between::Taken => {
                    self.spaced |= character.is_ascii_whitespace();
                    return Step::Took(behind);
                }
                Between::Value => {
                    // After a value, a possible opener is part of the next value.
                    let list = markup.starts_with('[');
                    let at = if matches!(self.phase, Phase::Before) && !list { at } else { 0 };
                    if self.broken {
                        return self.leave(at);
                    }
                    self.begin_value(tail(text, at).chars().next().unwrap_or_default(), rules);
                    return Step::Took(at);
                }
                Between::Foreign if self.broken => match self.goes_on(text) {
                    Sure::Yes => return self.skip(),
                    Sure::Maybe => return Step::Hold,
                    Sure::No => {
                        self.phase = Phase::Over;
                        return self.leave(0);
                    }
                },
                Between::Closed if self.broken => {
                    self.phase = Phase::Over;
                    return self.leave(behind);
                }
                Between::Closed => return Step::End(behind),
                Between::Foreign => {
                    let RegionKind::Tag(tag) = self.container else { return Step::Stop(0) };
                    // A closer that could have been the next opener.
                    let is_closed = matches!(self.phase, Phase::After)
                        && tag.open == tag.close
                        && markup.starts_with(tag.close);
                    return if is_closed { Step::End(tag.close.len()) } else { Step::Stop(0) };
                }
            }
        }
        Step::Hold
    }

    /// Whether the rest of a broken call goes on behind its value. Without a closer, words behind white space do not
    /// belong to it.
    fn goes_on(&mut self, text: &str) -> Sure {
        let closed = match self.container {
            RegionKind::Tag(tag) => !tag.close.is_empty(),
            RegionKind::Fence(_) => true,
            RegionKind::Bare => false,
        };
        self.to_line_end = !closed;
        let is_word = text.starts_with(|c: char| c.is_alphanumeric());
        match self.ends(text) {
            Fit::Whole(_) => Sure::No,
            Fit::Begins => Sure::Maybe,
            Fit::No if closed || !is_word || !self.spaced => Sure::Yes,
            Fit::No => Sure::No,
        }
    }

    /// Skips what follows the value of a broken call.
    fn skip(&mut self) -> Step {
        let Some(value) = &mut self.value else { return Step::Stop(0) };
        self.phase = Phase::Broken(BrokenCall::behind_value(&value.breaks()));
        Step::Took(0)
    }

    /// Ends a broken call, `len` bytes on.
    fn leave(&mut self, len: usize) -> Step {
        self.broken = false;
        Step::Broken(len)
    }

    /// Matches what ends a broken call: the container's closer, or its next opener.
    fn ends(&self, text: &str) -> Fit {
        match self.container {
            _ if self.to_line_end && text.starts_with('\n') => Fit::Whole(1),
            RegionKind::Bare => Fit::No,
            RegionKind::Tag(tag) => {
                fit_any([tag.close, tag.open].into_iter().filter(|marker| !marker.is_empty()), text)
            }
            RegionKind::Fence(fence) if text.starts_with('\n') => {
                let line = tail(text, 1);
                let ticks = line.bytes().take_while(|byte| *byte == fence.tick).count();
                match () {
                    () if ticks >= fence.count => Fit::Whole(1),
                    () if ticks == line.len() => Fit::Begins,
                    () => Fit::No,
                }
            }
            RegionKind::Fence(_) => Fit::No,
        }
    }

    /// Reads the rest of a broken call.
    fn rest(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let Phase::Broken(mut rest) = std::mem::replace(&mut self.phase, Phase::After) else {
            return Step::Stop(0);
        };
        let (len, by) = match rest.step(text, |text| self.ends(text), out) {
            Skipped::Ended(len, by) => (len, by),
            skipped => {
                self.phase = Phase::Broken(rest);
                return if let Skipped::Took(len) = skipped { Step::Took(len) } else { Step::Hold };
            }
        };
        let Some(value) = &mut self.value else { return Step::Stop(0) };
        if by == EndedBy::MarkerAtOnce && rules.repair && value.mend(out) {
            return Step::Whole(0);
        }
        rest.abandon(out);
        (self.broken, self.spaced) = (true, false);
        if by == EndedBy::Limit {
            self.phase = Phase::Over;
            return self.leave(len);
        }
        let resumes = value.resume();
        self.in_list = resumes == Resumes::BetweenCalls;
        if by == EndedBy::Value && resumes != Resumes::Never {
            self.phase = Phase::Value;
        }
        Step::Took(len)
    }

    fn begin_value(&mut self, first: char, rules: &CallRules<'_>) {
        self.phase = Phase::Value;
        (self.forgives, self.max_rest) = (self.wait == Wait::Nothing || rules.repair, rules.max_hold);
        let keyed = matches!(self.container, RegionKind::Tag(tag) if tag.special().keyed);
        self.value = Some(match self.container {
            RegionKind::Fence(Fence { code: Some(python), .. }) if !matches!(first, '{' | '[') => {
                Box::new(PythonWalk::new(python, rules))
            }
            _ => Box::new(Envelope::new(rules, keyed)),
        });
        self.scanner = Some(Scanner::new(rules.max_depth));
        let html = matches!(self.container, RegionKind::Tag(tag) if tag.kind == TagKind::Html);
        self.entities = html.then(Entities::default);
    }

    /// Reads a value that may be written with entities.
    fn unescaped(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let Some(entities) = &mut self.entities else { return self.value(text, rules, out) };
        let (len, meant) = match entities.next(text) {
            Part::Plain(plain) => return self.value(plain, rules, out),
            Part::Begins => return Step::Hold,
            Part::Entity(len, meant) => (len, meant),
        };
        // The entity counts as read if the character that it stands for was read.
        let length = |taken: usize| if taken == meant.len_utf8() { len } else { 0 };
        self.value(meant.encode_utf8(&mut [0; 4]), rules, out).map(length)
    }

    fn value(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let Some(value) = &mut self.value else { return Step::Stop(0) };
        let step = value.step(text, rules, out);
        let (len, certain) = match step {
            Step::Took(len) | Step::Stop(len) => (len, false),
            Step::Whole(len)
            | Step::Certain(len)
            | Step::Broken(len)
            | Step::End(len)
            | Step::EndMessage(len) => (len, self.wait != Wait::RegionEnd),
            Step::Hold => (0, false),
        };
        let step = match step {
            // The container's closer belongs to a broken call too.
            Step::End(len) if self.broken => {
                self.phase = Phase::After;
                Step::Took(len)
            }
            Step::Whole(len) if self.broken && self.in_list => self.leave(len),
            Step::Whole(len) if self.broken => Step::Took(len),
            Step::End(len) | Step::EndMessage(len) => self.value_ended(len),
            step => step,
        };
        if let Some(scanner) = &mut self.scanner {
            let (_, progress) = scanner.push(head(text, len).as_bytes());
            if progress == Progress::Invalid || certain || matches!(step, Step::Certain(_)) {
                self.scanner = None;
            }
        }
        step
    }

    /// Called at the end of a value with calls. Without a container, nothing more is read, unless a mark after
    /// the value may show that it was quoted.
    fn value_ended(&mut self, len: usize) -> Step {
        self.phase = Phase::After;
        match self.container {
            RegionKind::Bare if self.quoted => Step::End(len),
            // Without a closer, the mark that ends the quotation could be read as noise.
            RegionKind::Tag(tag) if self.quoted && tag.close.is_empty() => Step::End(len),
            RegionKind::Bare => {
                (self.ended, self.joined) = (true, false);
                Step::Certain(len)
            }
            // The end of the last call's envelope is not text either.
            _ => Step::Whole(len),
        }
    }
}

impl Walk for Region {
    fn step(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let rules = &self.own_rules(rules);
        match (&self.phase, self.container) {
            (Phase::Value, _) => self.unescaped(text, rules, out),
            (Phase::Before | Phase::After, _) => self.between(text, rules),
            (Phase::Broken(_), _) => self.rest(text, rules, out),
            (Phase::Over, _) => Step::End(0),
            (&Phase::Ticks(count), RegionKind::Fence(fence)) => {
                let run = text.bytes().take_while(|byte| *byte == fence.tick).count();
                self.phase = Phase::Ticks(count + run);
                match run {
                    0 if self.broken => {
                        self.phase = Phase::Over;
                        self.leave(0)
                    }
                    0 if count >= fence.count => Step::End(0),
                    0 => Step::Stop(0),
                    run => Step::Took(run),
                }
            }
            (Phase::Ticks(_), _) => Step::Stop(0),
        }
    }

    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        let closes = match self.phase {
            // In an unclosed container, complete JSON is a call. Incomplete JSON is a call only if it is already
            // being streamed, or if a marker shows that a call was intended.
            Phase::Value => self.wait != Wait::RegionEnd,
            _ => false,
        };
        closes && self.value.as_mut().is_some_and(|value| value.close("", stopped, out))
    }

    /// Skipping the strict reader is safe here: it is in the same string, or has already failed.
    fn string(&self) -> Option<StringFastPath> {
        let as_it_stands = self.entities.as_ref().is_none_or(Entities::are_none);
        let in_value = as_it_stands && matches!(self.phase, Phase::Value);
        self.value.as_deref().filter(|_| in_value)?.string()
    }

    fn kept(&self) -> usize {
        self.value.as_deref().map_or(0, Walk::kept)
    }

    fn starts_at_end(&self) -> bool {
        let in_value = matches!(self.phase, Phase::Value) && self.wait != Wait::RegionEnd;
        in_value && self.value.as_deref().is_some_and(Walk::starts_at_end)
    }

    fn is_unfinished(&self, held: &str) -> bool {
        let in_tag = matches!((&self.phase, self.container), (Phase::Value, RegionKind::Tag(_)));
        in_tag && self.value.as_deref().is_some_and(|value| value.is_unfinished(held))
    }

    fn is_in_list(&self, held: &str) -> bool {
        let in_value = matches!(self.phase, Phase::Value);
        let is_fence = matches!(self.container, RegionKind::Fence(_));
        in_value && (is_fence || self.value.as_deref().is_some_and(|value| value.is_unfinished(held)))
    }

    fn is_broken(&self) -> bool {
        self.broken || matches!(self.phase, Phase::Broken(_))
    }

    fn abandon(&mut self, out: &mut Out<'_>) {
        if let Phase::Broken(rest) = &mut self.phase {
            rest.abandon(out);
        }
    }

    fn recover(&mut self, open: bool) -> bool {
        let Some(value) = self.value.as_deref_mut().filter(|_| matches!(self.phase, Phase::Value)) else {
            return false;
        };
        match (open, self.container) {
            (true, _) if self.broken => self.phase = Phase::After,
            (true, _) if self.wait == Wait::RegionEnd => return false,
            (true, _) => {
                self.phase = Phase::Broken(BrokenCall::new(value.breaks(), self.max_rest));
                self.scanner = None;
            }
            // The arguments are complete, so a missing or extra brace around them does not discard the call.
            (false, container) => {
                let recovers = container != RegionKind::Bare && value.is_in_call() && self.forgives;
                if recovers {
                    self.phase = Phase::After;
                }
                return recovers;
            }
        }
        true
    }

    fn ends_outside(&mut self, held: &str, _out: &mut Out<'_>) -> bool {
        match self.phase {
            Phase::Before => false,
            Phase::Value => {
                let in_call = self.value.as_deref().is_some_and(Walk::is_in_call);
                self.wait != Wait::RegionEnd && (in_call || self.is_unfinished(held))
            }
            Phase::After => !self.begins_opener(held) && !self.ended,
            Phase::Ticks(_) | Phase::Over => true,
            Phase::Broken(_) => false,
        }
    }

    fn surroundings(&mut self, cut: bool) -> Surroundings {
        let scanner = self.scanner.take().filter(|scanner| !cut && scanner.depth() > 0);
        match (self.container, scanner) {
            (RegionKind::Fence(fence), _) => Surroundings::Fence(fence),
            (_, Some(scanner)) => Surroundings::Json(scanner),
            _ if self.ended => Surroundings::Behind,
            _ => Surroundings::Prose,
        }
    }
}
