//! [`Region`]: a stretch of text that is a container of calls, or may be one.
//!
//! A region is entered at a container's opener, or at a bare `{` or `[`. It reads what is before a value, walks each
//! value with an [`Envelope`], and reads what is after it up to the container's end. Calls stream out as they start;
//! where they must wait (whole arguments, or a backtick before the container that may quote it) they are collected,
//! and the end decides. The owner keeps the source since the last certain point and lets it go as text if the region
//! fails.

use super::{
    envelope::{Envelope, Parsed, Piece, Rules},
    fence::Fence,
    text::tail,
};
use std::iter;

use crate::{
    event::CallEnd,
    format::{Tag, TagKind},
    wire::json::{Progress, Scanner},
};

/// What holds the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Tag(&'static Tag),
    Fence(Fence),
    Bare,
}

/// A [`Piece`] that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    Start { name: String, id: String },
    Arguments(String),
    End(CallEnd),
}

impl Waiting {
    pub(super) fn of(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Start { name, id } => Self::Start { name: name.to_owned(), id: id.to_owned() },
            Piece::Arguments(text) => Self::Arguments(text.to_owned()),
            Piece::End(end) => Self::End(end),
        }
    }

    pub(super) fn as_piece(&self) -> Piece<'_> {
        match self {
            Self::Start { name, id } => Piece::Start { name, id },
            Self::Arguments(text) => Piece::Arguments(text),
            Self::End(end) => Piece::End(*end),
        }
    }
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
    pub(super) container: Container,
    quoted: bool,
    gate: Gate,
    phase: Phase,
    /// Markup between values that is not complete yet.
    markup: String,
    envelope: Option<Envelope>,
    /// The same value as strict JSON: where a value that is no call goes on as text, it must be known where it ends.
    pub(super) scanner: Option<Scanner>,
    /// A call's arguments stopped short where the closer may begin; if it does, they may be whole all the same.
    broken: bool,
    /// A bare value with calls has ended; another may follow behind a `;` or `,`.
    ended: bool,
    /// That `;` or `,` stands.
    joined: bool,
}

/// Where the pieces of calls go: out, or nowhere yet.
#[derive(Debug)]
struct Gate {
    /// Calls wait for what decides on them.
    waits: bool,
    waiting: Vec<Waiting>,
    /// Names whose calls are dropped.
    no_tool: &'static [&'static str],
    /// In such a call.
    drops: bool,
}

impl Gate {
    fn pass(&mut self, piece: Piece<'_>, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) {
        if let Piece::Start { name, .. } = piece {
            self.drops = self.no_tool.contains(&name) && rules.tools.resolve(name).is_none();
        }
        match piece {
            _ if self.drops => {}
            piece if self.waits => self.waiting.push(Waiting::of(piece)),
            piece => out(piece),
        }
    }

    fn open(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        for waiting in self.waiting.drain(..) {
            out(waiting.as_piece());
        }
    }
}

/// Longest markup between a container's marker and its value, in bytes.
const MAX_MARKUP: usize = 256;

impl Region {
    pub(super) fn new(container: Container, quoted: bool, whole: bool) -> Self {
        let no_tool = if let Container::Tag(tag) = container { tag.special().no_tool } else { &[] };
        Self {
            container,
            quoted,
            gate: Gate { waits: quoted || whole, waiting: Vec::new(), no_tool, drops: false },
            phase: Phase::Before,
            markup: String::new(),
            envelope: None,
            scanner: None,
            broken: false,
            ended: false,
            joined: false,
        }
    }

    /// A call streams: what is fed is certain as it comes.
    pub(super) fn is_streaming(&self) -> bool {
        let open = self.envelope.as_ref().is_some_and(Envelope::is_open);
        open && !self.gate.waits && matches!(self.phase, Phase::Value)
    }

    /// Calls have begun that wait for the region's end.
    pub(super) fn has_begun(&self) -> bool {
        !self.gate.waiting.is_empty()
    }

    /// The calls that waited for the region's end.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.gate.waiting)
    }

    /// Bytes of arguments kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        self.envelope.as_ref().map_or(0, Envelope::kept)
    }

    /// A bare value with calls has ended: what fails here is the text behind it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What holds in this container.
    fn own_rules<'r>(&self, rules: &Rules<'r>) -> Rules<'r> {
        let Container::Tag(tag) = self.container else { return *rules };
        let special = tag.special();
        Rules { any_name: rules.any_name && !special.common, no_tool: special.no_tool, ..*rules }
    }

    /// Reads on. Pieces of calls go to `out`, unless they must wait.
    pub(super) fn feed(&mut self, text: &str, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Passed {
        let rules = &self.own_rules(rules);
        let mut at = 0;
        while let Some(&byte) = text.as_bytes().get(at) {
            match self.phase {
                Phase::Value => {
                    let (len, passed) = self.value(tail(text, at), rules, out);
                    at += len;
                    match passed {
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
                        Between::Value => self.begin_value(rules),
                        Between::Closed => {
                            at += character.len_utf8();
                            self.settle_broken(true, rules, out);
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
                    Container::Fence(fence) if byte == fence.tick => {
                        self.phase = Phase::Ticks(count + 1);
                        at += 1;
                    }
                    Container::Fence(fence) if count >= fence.count => {
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

    /// The text stops here: whether the region ends with calls. See [`Envelope::finish`] for `stopped`.
    pub(super) fn finish(
        &mut self,
        stopped: bool,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> bool {
        match self.phase {
            Phase::Before | Phase::Failed => false,
            // Whole JSON in a container that was not closed is a call. JSON that stops short is one only where its
            // call has begun to stream, or where a marker says that a call was meant.
            Phase::Value if self.gate.waits => {
                rules.repair
                    && stopped
                    && rules.marked
                    && !self.quoted
                    && self.end_call(true, rules, out) != Some(CallEnd::Cut)
                    && self.found()
            }
            Phase::Value => {
                self.end_call(stopped, rules, out);
                self.found()
            }
            Phase::After => {
                self.settle_broken(stopped, rules, out);
                !self.ended
            }
            Phase::Ticks(_) | Phase::Quoted => true,
        }
    }

    fn found(&self) -> bool {
        self.envelope.as_ref().is_some_and(Envelope::found)
    }

    /// Ends the call that is open, if one is. See [`Envelope::finish`].
    fn end_call(
        &mut self,
        stopped: bool,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Option<CallEnd> {
        let gate = &mut self.gate;
        self.envelope.as_mut()?.finish(stopped, &mut |piece| gate.pass(piece, rules, out))
    }

    /// A call has ended, or a value of calls (`value`): whether that is certain now. Whole arguments need not wait
    /// longer where a marker says that calls are meant.
    fn settles(&mut self, value: bool, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> bool {
        if self.gate.waits && !self.quoted && (rules.marked || (value && self.container == Container::Bare)) {
            self.gate.open(out);
            return true;
        }
        !self.gate.waits
    }

    fn begin_value(&mut self, rules: &Rules<'_>) {
        self.phase = Phase::Value;
        self.markup.clear();
        let keyed = matches!(self.container, Container::Tag(tag) if tag.special().keyed);
        self.envelope = Some(Envelope::new(rules, keyed));
        self.scanner = Some(Scanner::new(rules.max_depth));
    }

    /// Walks the value. `Some(Certain)`: a call ended, or broke off, with what was taken; `Some(Failed)`: it is none.
    fn value(
        &mut self,
        text: &str,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> (usize, Option<Passed>) {
        let Some(envelope) = &mut self.envelope else { return (0, Some(FAILED)) };
        let gate = &mut self.gate;
        let parsed = envelope.feed(text, rules, &mut |piece| gate.pass(piece, rules, out));
        let (len, passed) = match parsed {
            Parsed::More => (text.len(), None),
            Parsed::CallEnded(len) => (len, self.settles(false, rules, out).then_some(Passed::Certain(0))),
            Parsed::End(len) => {
                // The last call's own end was told before; what closes its envelope is no text either.
                let certain = self.settles(true, rules, out).then_some(Passed::Certain(0));
                self.ended = self.container == Container::Bare && !self.quoted;
                self.joined = false;
                self.phase = if self.quoted && self.container == Container::Bare {
                    Phase::Quoted
                } else {
                    Phase::After
                };
                (len, certain)
            }
            Parsed::Stop(len) => {
                let foreign = tail(text, len).chars().next().unwrap_or_default();
                (len, self.stopped(foreign, rules, out))
            }
        };
        if !self.gate.waits && self.envelope.as_ref().is_some_and(Envelope::found) {
            self.scanner = None;
        }
        if let Some(scanner) = &mut self.scanner {
            let (_, progress) = scanner.push(text.as_bytes().get(..len).unwrap_or_default());
            if progress == Progress::Invalid {
                self.scanner = None;
            }
        }
        (len, passed)
    }

    /// The value cannot go on with `foreign`.
    fn stopped(
        &mut self,
        foreign: char,
        rules: &Rules<'_>,
        out: &mut impl FnMut(Piece<'_>),
    ) -> Option<Passed> {
        let Some(envelope) = &mut self.envelope else { return Some(FAILED) };
        let may_close = matches!(self.container, Container::Tag(tag) if tag.close.starts_with(foreign));
        let forgiven = !self.gate.waits || rules.repair;
        if envelope.is_open() {
            if may_close && forgiven {
                self.broken = true;
                self.phase = Phase::After;
            } else if self.gate.waits {
                return Some(FAILED);
            } else {
                self.end_call(false, rules, out);
                self.phase = Phase::Failed;
            }
            return (!self.gate.waits).then_some(Passed::Certain(0));
        }
        // The arguments were whole: a brace too few or too many around them does not undo the call.
        if envelope.found() && forgiven && !matches!(self.container, Container::Bare) {
            self.phase = Phase::After;
            return None;
        }
        Some(FAILED)
    }

    /// A call that broke off where the closer may begin: whole if it did and only brackets are missing.
    fn settle_broken(&mut self, closer: bool, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) {
        if std::mem::take(&mut self.broken) {
            self.end_call(closer, rules, out);
        }
    }

    /// The container has ended; if it may have been quoted, the next byte tells.
    fn closed(&mut self) -> bool {
        self.phase = Phase::Quoted;
        !self.quoted
    }

    /// One character before the first value.
    fn before(&mut self, character: char, rules: &Rules<'_>) -> Between {
        let in_fence = self.markup.starts_with('`');
        if self.markup.is_empty() || in_fence {
            match character {
                '{' | '[' => return Between::Value,
                '\n' => {
                    self.markup.clear();
                    return Between::Taken;
                }
                ' ' | '\t' | '\r' if self.markup.is_empty() => return Between::Taken,
                _ => {}
            }
        }
        let Container::Tag(tag) = self.container else { return Between::Foreign };
        let fence = if self.markup.is_empty() {
            rules.marked && character == '`'
        } else {
            in_fence && (matches!(character, '`' | '_') || character.is_ascii_alphanumeric())
        };
        let goes_on = match tag.kind {
            _ if fence || in_fence => fence,
            TagKind::Html => code_goes_on(&self.markup, character),
            _ => begins(&self.markup, character, iter::once(&tag.open).chain(tag.special().inner)),
        };
        if !goes_on || self.markup.len() >= MAX_MARKUP {
            return Between::Foreign;
        }
        self.markup.push(character);
        let whole = match tag.kind {
            TagKind::Html => character == '>',
            _ => self.markup == tag.open || tag.special().inner.contains(&self.markup.as_str()),
        };
        if whole {
            self.markup.clear();
        }
        Between::Taken
    }

    /// One character after a value.
    fn after(&mut self, character: char, rules: &Rules<'_>) -> Between {
        if !self.markup.is_empty() {
            return self.closer(character);
        }
        match (self.container, character) {
            (_, ' ' | '\t' | '\r' | '\n') => Between::Taken,
            (Container::Bare, ';' | ',') if !self.joined => {
                self.joined = true;
                Between::Taken
            }
            (Container::Bare, '{' | '[') if self.joined => Between::Value,
            (Container::Bare, _) => Between::Foreign,
            (_, '{' | '[') if !self.broken => Between::Value,
            (Container::Fence(fence), tick) if tick == char::from(fence.tick) => {
                self.phase = Phase::Ticks(1);
                Between::Taken
            }
            (Container::Tag(_), _) => match (self.closer(character), character) {
                (Between::Foreign, '}' | ']' | ',' | ';') if rules.repair => Between::Taken,
                (Between::Foreign, '`') if rules.marked => Between::Taken,
                (between, _) => between,
            },
            _ => Between::Foreign,
        }
    }

    /// One character of what may be the closer, or markup that means nothing.
    fn closer(&mut self, character: char) -> Between {
        let Container::Tag(tag) = self.container else { return Between::Foreign };
        let html = tag.kind == TagKind::Html;
        let character = if html { character.to_ascii_lowercase() } else { character };
        let inner = if html { &["</code>"] } else { tag.special().inner };
        if !begins(&self.markup, character, iter::once(&tag.close).chain(inner)) {
            return Between::Foreign;
        }
        self.markup.push(character);
        let (closes, whole) = (self.markup == tag.close, inner.contains(&self.markup.as_str()));
        if closes || whole {
            self.markup.clear();
        }
        if closes { Between::Closed } else { Between::Taken }
    }
}

/// Whether `markup` and `character` begin one of `literals`.
fn begins<'l>(markup: &str, character: char, mut literals: impl Iterator<Item = &'l &'static str>) -> bool {
    literals.any(|literal| literal.strip_prefix(markup).is_some_and(|rest| rest.starts_with(character)))
}

/// A failure whose offset is the caller's.
const FAILED: Passed = Passed::Failed { taken: 0, rescan: 0 };

/// Whether `markup` and `character` may be a `<code …>` tag.
fn code_goes_on(markup: &str, character: char) -> bool {
    const CODE: &str = "<code";
    match CODE.chars().nth(markup.len()) {
        Some(expected) => expected == character.to_ascii_lowercase(),
        None if markup.len() == CODE.len() => matches!(character, '>' | ' ' | '\t' | '\n'),
        None => character.is_ascii() && character != '<',
    }
}
