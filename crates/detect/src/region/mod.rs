//! [`Region`]: reads a stretch of text that is, or may be, a container of calls.
//!
//! A region begins at the opener of a container, or at a bare `{` or `[`. It reads what precedes a value, the value
//! with an [`Envelope`], and what follows it, up to the end of the container.

mod between;
mod entities;

use self::entities::{Entities, Part};
use super::{
    envelope::Envelope,
    fence::Fence,
    gate::Wait,
    pythonic::PythonWalk,
    string_fast_path::StringFastPath,
    text::{head, slice, tail},
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
    /// After a value, where white space, stray brackets, another value and the closer may occur.
    After,
    Ticks(usize),
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
    /// Whether a call's arguments ended too early, at what may be the closer. If it is the closer, the arguments
    /// may still be complete.
    broken: bool,
    /// Whether the container, or a bare value with calls, has ended. Another one may follow after `;` or `,`.
    ended: bool,
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
            ended: false,
            joined: false,
        }
    }

    fn own_rules<'r>(&self, rules: &CallRules<'r>) -> CallRules<'r> {
        let RegionKind::Tag(tag) = self.container else { return *rules };
        let special = tag.special();
        CallRules { any_name: rules.any_name && !special.common, no_tool: special.no_tool, ..*rules }
    }

    /// Reads what precedes, separates and follows values. After a broken call, everything is held until the closer
    /// shows whether the call is complete.
    fn between(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Step {
        let mut from = 0;
        for (at, character) in text.char_indices() {
            let (markup, behind) = (slice(text, from, at), at + character.len_utf8());
            let between = match self.phase {
                Phase::Before => self.before(markup, character, rules),
                _ => self.after(markup, character, rules),
            };
            match between {
                Between::Begins => {}
                Between::Taken if self.broken => from = behind,
                Between::Taken => return Step::Took(behind),
                Between::Value => {
                    // After a value, a possible opener is part of the next value.
                    let at = if matches!(self.phase, Phase::Before) { at } else { from };
                    self.begin_value(tail(text, at).chars().next().unwrap_or_default(), rules);
                    return Step::Took(at);
                }
                Between::Closed => return self.closed(behind, out),
                Between::Foreign => return Step::Stop(0),
            }
        }
        Step::Hold
    }

    /// Called at the container's closer, which ends at `len`. A broken call is complete if only brackets are
    /// missing.
    fn closed(&mut self, len: usize, out: &mut Out<'_>) -> Step {
        let broken = std::mem::take(&mut self.broken);
        let value = self.value.as_mut().filter(|_| broken);
        if value.is_some_and(|value| !value.close("", true, out)) {
            self.ended = true;
            return Step::Stop(len);
        }
        Step::End(len)
    }

    fn begin_value(&mut self, first: char, rules: &CallRules<'_>) {
        self.phase = Phase::Value;
        self.forgives = self.wait == Wait::Nothing || rules.repair;
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
            | Step::Cut(len)
            | Step::End(len)
            | Step::EndMessage(len) => (len, self.wait != Wait::RegionEnd),
            Step::Hold => (0, false),
        };
        let step =
            if let Step::End(len) | Step::EndMessage(len) = step { self.value_ended(len) } else { step };
        if let Some(scanner) = &mut self.scanner {
            let (_, progress) = scanner.push(head(text, len).as_bytes());
            if progress == Progress::Invalid || certain || matches!(step, Step::Certain(_)) {
                self.scanner = None;
            }
        }
        step
    }

    /// Called at the end of a value with calls. Without a container, nothing more is read, unless a backtick after
    /// the value may show that it was quoted.
    fn value_ended(&mut self, len: usize) -> Step {
        self.phase = Phase::After;
        match self.container {
            RegionKind::Bare if self.quoted => Step::End(len),
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
            (Phase::Before | Phase::After, _) => self.between(text, rules, out),
            (&Phase::Ticks(count), RegionKind::Fence(fence)) => {
                let run = text.bytes().take_while(|byte| *byte == fence.tick).count();
                self.phase = Phase::Ticks(count + run);
                match run {
                    0 if count >= fence.count => Step::End(0),
                    0 => Step::Stop(0),
                    run => Step::Took(run),
                }
            }
            (Phase::Ticks(_), _) => Step::Stop(0),
        }
    }

    fn bound(&self) -> usize {
        if self.broken { MAX_BROKEN } else { usize::MAX }
    }

    fn close(&mut self, _held: &str, stopped: bool, out: &mut Out<'_>) -> bool {
        let closes = match self.phase {
            // In an unclosed container, complete JSON is a call. Incomplete JSON is a call only if it is already
            // being streamed, or if a marker shows that a call was intended.
            Phase::Value => self.wait != Wait::RegionEnd,
            _ => self.broken,
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

    fn recover(&mut self, open: bool, rest: &str) -> bool {
        let Some(value) = self.value.as_deref().filter(|_| matches!(self.phase, Phase::Value)) else {
            return false;
        };
        let recovers = match (open, self.container) {
            (true, RegionKind::Tag(tag)) => {
                rest.chars().next().is_some_and(|next| tag.close.starts_with(next))
            }
            (true, _) | (false, RegionKind::Bare) => false,
            // The arguments are complete, so a missing or extra brace around them does not discard the call.
            (false, _) => value.is_in_call(),
        };
        if recovers && self.forgives {
            self.phase = Phase::After;
            self.broken = open;
        }
        recovers && self.forgives
    }

    fn ends_outside(&mut self, held: &str, _out: &mut Out<'_>) -> bool {
        match self.phase {
            Phase::Before => false,
            Phase::Value => {
                self.wait != Wait::RegionEnd && self.value.as_deref().is_some_and(Walk::is_in_call)
            }
            Phase::After => !self.begins_opener(held) && !self.ended,
            Phase::Ticks(_) => true,
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

/// The maximum number of bytes that are held while the closer may still follow a broken call.
const MAX_BROKEN: usize = 1024;
