//! [`Region`]: a stretch of text that is a container of calls, or may be one.
//!
//! A region is entered at a container's opener, or at a bare `{` or `[`. It reads what is before a value, walks each
//! value with an [`Envelope`], and reads what is after it up to the container's end. Calls stream out as they start;
//! where they must wait (whole arguments, or a backtick before the container that may quote it) they are collected,
//! and the end decides. The owner keeps the source since the last certain point and lets it go as text if the region
//! fails.

mod between;
mod entities;

use self::entities::{Entities, Part};
use super::{
    envelope::{CallRules, Envelope},
    fence::Fence,
    gate::{Gate, Wait, Waiting},
    pythonic::PythonWalk,
    string_fast_path::StringFastPath,
    text::tail,
    walker::{Out, Parsed, Walker},
};
use crate::{
    event::CallEnd,
    format::{Tag, TagKind},
    wire::json::{Progress, Scanner},
};

/// What holds the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegionKind {
    Tag(&'static Tag),
    Fence(Fence),
    Bare,
}

/// How far a feed came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// All was taken; the region goes on.
    More,
    /// So much was taken, and everything up to there is certain: calls, not text.
    Certain(usize),
    /// So much was taken, and the region has ended with its calls.
    Ended(usize),
    /// As `Ended`, and the rest of the message was made up by the model.
    MessageEnded(usize),
    /// So much was taken, and the region has ended with its calls, before the last `rescan` bytes.
    Left { taken: usize, rescan: usize },
    /// So much was taken; its last bytes, `rest` of them, are read again by what goes on. `certain`: what is before
    /// them is.
    Again { taken: usize, rest: usize, certain: bool },
    /// So much was taken; the source since the last certain point is text. Its last bytes, `rescan` of them, may
    /// begin something else.
    Failed { taken: usize, rescan: usize },
}

#[derive(Debug)]
enum Phase {
    /// Before a value: blanks and [`Region::markup`] (`<code>`, an opener twice, a fence inside a marker).
    Before,
    Value,
    /// After a value: blanks, stray brackets, another value, the closer.
    After,
    /// In a fence's closing ticks.
    Ticks(usize),
    /// The container has ended; a backtick now means that it was quoted.
    Quoted,
    /// What follows is text.
    Failed,
}

/// What a byte between values is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Taken,
    /// The first byte of a value.
    Value,
    /// The last byte of the closer.
    Closed,
    /// No part of the container.
    Foreign,
}

/// A container being read.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) container: RegionKind,
    quoted: bool,
    gate: Gate,
    phase: Phase,
    /// Markup between values that is not complete yet.
    markup: String,
    walker: Option<Box<Walker>>,
    /// What is written as entities, in an HTML element.
    entities: Option<Entities>,
    /// The same value as strict JSON: where a value that is no call goes on as text, it must be known where it ends.
    pub(super) scanner: Option<Scanner>,
    /// A call's arguments stopped short where the closer may begin; if it does, they may be whole all the same.
    broken: bool,
    /// A bare value of calls has ended; another one may follow behind a `;` or `,`.
    ended: bool,
    /// That `;` or `,` stands.
    joined: bool,
}

impl Region {
    /// `marked`: the container is made for calls; `whole`: arguments do not stream.
    pub(super) fn new(container: RegionKind, quoted: bool, marked: bool, whole: bool) -> Self {
        let wait = Wait::new(quoted, marked, whole);
        Self {
            container,
            quoted,
            gate: Gate::new(wait),
            phase: Phase::Before,
            markup: String::new(),
            walker: None,
            entities: None,
            scanner: None,
            broken: false,
            ended: false,
            joined: false,
        }
    }

    /// The container has ended, and the next byte tells whether it was quoted.
    pub(super) fn is_behind(&self) -> bool {
        matches!(self.phase, Phase::Quoted)
    }

    /// A call streams: what is fed is certain as it comes.
    pub(super) fn is_streaming(&self) -> bool {
        let open = self.walker.as_deref().is_some_and(Walker::is_open);
        open && self.gate.wait == Wait::Nothing && matches!(self.phase, Phase::Value)
    }

    /// In a string of arguments that goes out as it comes. The strict reading of the value beside the call's own
    /// is in that string, too, or has been given up.
    pub(super) fn flow(&self) -> Option<StringFastPath> {
        let as_it_stands = self.entities.as_ref().is_none_or(Entities::are_none);
        if as_it_stands && self.is_streaming() && !self.gate.drops() {
            self.walker.as_deref()?.string()
        } else {
            None
        }
    }

    /// Calls have begun that wait.
    pub(super) fn has_begun(&self) -> bool {
        !self.gate.is_empty()
    }

    /// The calls that waited for the region's end.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.gate.take()
    }

    /// How many of the last bytes of what was fed may still be no part of the call.
    pub(super) fn unsure(&self) -> usize {
        self.entities.as_ref().map_or(0, |entities| entities.held.len())
    }

    /// Bytes of arguments kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        self.walker.as_deref().map_or(0, Walker::kept)
    }

    /// A bare value of calls has ended: what fails now is the text behind it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What holds in this container.
    fn own_rules<'r>(&self, rules: &CallRules<'r>) -> CallRules<'r> {
        let RegionKind::Tag(tag) = self.container else { return *rules };
        let special = tag.special();
        CallRules { any_name: rules.any_name && !special.common, no_tool: special.no_tool, ..*rules }
    }

    /// Reads on. Pieces of calls go to `out`, unless they must wait.
    pub(super) fn feed(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Passed {
        let rules = &self.own_rules(rules);
        let mut at = 0;
        while let Some(&byte) = text.as_bytes().get(at) {
            match self.phase {
                Phase::Value => {
                    let (len, passed) = self.unescaped(tail(text, at), rules, out);
                    at += len;
                    match passed {
                        // The call was cut by an entity, which is text with what follows.
                        Some(Passed::Certain(_))
                            if matches!(self.phase, Phase::Failed) && self.unsure() > 0 =>
                        {
                            return Passed::Left { taken: at, rescan: self.unsure() };
                        }
                        Some(Passed::Certain(_)) => return Passed::Certain(at),
                        Some(_) => return Passed::Failed { taken: at, rescan: 0 },
                        None => {}
                    }
                }
                Phase::Before | Phase::After => {
                    let Some(character) = tail(text, at).chars().next() else { break };
                    let between = if matches!(self.phase, Phase::Before) {
                        self.before(character, rules)
                    } else {
                        self.after(character, rules)
                    };
                    match between {
                        Between::Taken => at += character.len_utf8(),
                        Between::Value => {
                            let markup = std::mem::take(&mut self.markup);
                            self.begin_value(markup.chars().next().unwrap_or(character), rules);
                            self.value(&markup, rules, out);
                        }
                        Between::Closed => {
                            at += character.len_utf8();
                            if !self.settle_broken(true, rules, out) {
                                return Passed::Failed { taken: at, rescan: 0 };
                            }
                            if self.closed() {
                                return Passed::Ended(at);
                            }
                        }
                        Between::Foreign => {
                            self.settle_broken(false, rules, out);
                            return Passed::Failed { taken: at, rescan: self.markup.len() };
                        }
                    }
                }
                Phase::Ticks(count) => match self.container {
                    RegionKind::Fence(fence) if byte == fence.tick => {
                        self.phase = Phase::Ticks(count + 1);
                        at += 1;
                    }
                    RegionKind::Fence(fence) if count >= fence.count => {
                        if self.closed() {
                            return Passed::Ended(at);
                        }
                    }
                    _ => return Passed::Failed { taken: at, rescan: 0 },
                },
                Phase::Quoted if byte != b'`' => return Passed::Ended(at),
                Phase::Quoted | Phase::Failed => return Passed::Failed { taken: at, rescan: 0 },
            }
        }
        Passed::More
    }

    /// The text stops here: whether what was read since the last certain point belongs to calls; else it is text.
    /// See [`Envelope::finish`] for `stopped`.
    pub(super) fn finish(&mut self, stopped: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        match self.phase {
            Phase::Before | Phase::Failed => false,
            // Whole JSON in a container that was not closed is a call. JSON that stops short is one only where its
            // call has begun to stream, or where a marker says that a call was meant.
            Phase::Value if self.gate.wait == Wait::RegionEnd => false,
            Phase::Value if !self.walker.as_deref().is_some_and(Walker::stops_in_call) => false,
            Phase::Value => self.finish_call(stopped, rules.repair, rules, out),
            Phase::After if self.begins_opener(&self.markup) => false,
            Phase::After => self.settle_broken(stopped, rules, out) && !self.ended,
            Phase::Ticks(_) | Phase::Quoted => true,
        }
    }

    /// Ends the call that is being read, if it is still open; `false` if it must not go out as it is.
    fn finish_call(&mut self, stopped: bool, repair: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        let Some(walker) = &mut self.walker else { return false };
        let gate = &mut self.gate;
        let streams = gate.wait == Wait::Nothing;
        let end = walker.finish(stopped && (streams || repair), &mut |piece| gate.pass(piece, rules, out));
        if !streams && end == Some(CallEnd::Cut) {
            return false;
        }
        if gate.wait == Wait::CallEnd {
            gate.open(out);
        }
        true
    }

    fn begin_value(&mut self, first: char, rules: &CallRules<'_>) {
        self.phase = Phase::Value;
        self.markup.clear();
        let keyed = matches!(self.container, RegionKind::Tag(tag) if tag.special().keyed);
        self.walker = Some(Box::new(match self.container {
            RegionKind::Fence(Fence { code: Some(python), .. }) if !matches!(first, '{' | '[') => {
                Walker::of(PythonWalk::new(python, rules))
            }
            _ => Walker::of(Envelope::new(rules, keyed)),
        }));
        self.scanner = Some(Scanner::new(rules.max_depth));
        let html = matches!(self.container, RegionKind::Tag(tag) if tag.kind == TagKind::Html);
        self.entities = html.then(Entities::default);
    }

    /// Walks the value, which may be written with entities.
    fn unescaped(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> (usize, Option<Passed>) {
        let Some(entities) = &mut self.entities else { return self.value(text, rules, out) };
        let part = entities.next(text);
        let held = entities.held.clone();
        let (taken, meant) = match part {
            Part::Plain(plain) => return self.value(plain, rules, out),
            Part::Open(taken) => return (taken, None),
            Part::Whole(taken, meant) => (taken, String::from(meant)),
            Part::None(taken) => (taken, held.clone()),
        };
        let (len, passed) = self.value(&meant, rules, out);
        if let Some(entities) = self.entities.as_mut().filter(|_| len == meant.len()) {
            entities.held.clear();
        } else if matches!(self.phase, Phase::After) {
            // What ends the value is read as what follows it, where it is foreign.
            self.markup = held;
        }
        (taken, passed)
    }

    /// Walks the value. `Some(Certain)`: a call ended, or broke off, with what was taken; `Some(Failed)`: it is none.
    fn value(&mut self, text: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> (usize, Option<Passed>) {
        let Some(walker) = &mut self.walker else { return (0, Some(FAILED)) };
        let gate = &mut self.gate;
        let (len, parsed) = walker.feed(text, rules, &mut |piece| gate.pass(piece, rules, out));
        let passed = match parsed {
            Parsed::More => None,
            Parsed::Certain => self.certain(),
            // The last call has ended before; what closes its envelope is not text either.
            Parsed::End | Parsed::EndMessage => self.value_ended(),
            Parsed::Stop => {
                let foreign = tail(text, len).chars().next().unwrap_or_default();
                self.stopped(foreign, rules, out)
            }
        };
        if let Some(scanner) = &mut self.scanner {
            let (_, progress) = scanner.push(text.as_bytes().get(..len).unwrap_or_default());
            if progress == Progress::Invalid || passed == Some(CERTAIN) {
                self.scanner = None;
            }
        }
        (len, passed)
    }

    /// A call has ended: it goes out, unless it must wait for the region's end.
    fn certain(&self) -> Option<Passed> {
        (self.gate.wait != Wait::RegionEnd).then_some(CERTAIN)
    }

    /// A value of calls has ended. Without a container that is all, unless a backtick behind it may quote it.
    fn value_ended(&mut self) -> Option<Passed> {
        self.phase = Phase::After;
        if self.container != RegionKind::Bare {
            return self.certain();
        }
        if self.quoted {
            self.phase = Phase::Quoted;
            return None;
        }
        (self.ended, self.joined) = (true, false);
        Some(CERTAIN)
    }

    /// The value cannot go on with `foreign`.
    fn stopped(&mut self, foreign: char, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<Passed> {
        let Some(walker) = &mut self.walker else { return Some(FAILED) };
        let may_close = matches!(self.container, RegionKind::Tag(tag) if tag.close.starts_with(foreign));
        let streams = self.gate.wait == Wait::Nothing;
        let forgiven = streams || rules.repair;
        if walker.is_open() {
            if may_close && forgiven {
                self.broken = true;
                self.phase = Phase::After;
            } else if !streams {
                return Some(FAILED);
            } else {
                self.finish_call(false, false, rules, out);
                self.phase = Phase::Failed;
            }
            return streams.then_some(CERTAIN);
        }
        // The arguments were whole: a brace too few or too many around them does not undo the call.
        if walker.is_in_call() && forgiven && !matches!(self.container, RegionKind::Bare) {
            self.phase = Phase::After;
            return None;
        }
        Some(FAILED)
    }

    /// A call that broke off where the closer may begin is whole if it did and only brackets are missing. `false`: it
    /// must not go out as it is.
    fn settle_broken(&mut self, closer: bool, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        !std::mem::take(&mut self.broken) || self.finish_call(closer, true, rules, out)
    }

    /// The container has ended; if it may have been quoted, the next byte tells.
    fn closed(&mut self) -> bool {
        self.phase = Phase::Quoted;
        !self.quoted
    }
}

/// Offsets are the caller's.
const CERTAIN: Passed = Passed::Certain(0);
const FAILED: Passed = Passed::Failed { taken: 0, rescan: 0 };
