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
use crate::{
    event::CallEnd,
    format::{Tag, TagKind, Voice},
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
    Framed,
    Said(Voice, String),
    Start { name: String, id: String },
    Arguments(String),
    End(CallEnd),
}

impl Waiting {
    pub(super) fn of(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Framed => Self::Framed,
            Piece::Said(voice, text) => Self::Said(voice, text.to_owned()),
            Piece::Start { name, id } => Self::Start { name: name.to_owned(), id: id.to_owned() },
            Piece::Arguments(text) => Self::Arguments(text.to_owned()),
            Piece::End(end) => Self::End(end),
        }
    }

    pub(super) fn as_piece(&self) -> Piece<'_> {
        match self {
            Self::Framed => Piece::Framed,
            Self::Said(voice, text) => Piece::Said(*voice, text),
            Self::Start { name, id } => Piece::Start { name, id },
            Self::Arguments(text) => Piece::Arguments(text),
            Self::End(end) => Piece::End(*end),
        }
    }
}

/// What calls wait for before they go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// Their own end: whole arguments in a format with a marker, where each call counts by itself.
    CallEnd,
    /// The region's end: whole arguments where a container has calls alone in it or none, and wherever a backtick
    /// behind the container may mean that it was quoted.
    RegionEnd,
}

impl Wait {
    /// `marked`: the calls have a marker of their own; `whole`: arguments do not stream.
    pub(super) fn new(quoted: bool, marked: bool, whole: bool) -> Self {
        match whole {
            _ if quoted => Self::RegionEnd,
            true if marked => Self::CallEnd,
            true => Self::RegionEnd,
            false => Self::Nothing,
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
    /// So much was taken, and the region has ended with its calls, before the last `rescan` bytes.
    Left { taken: usize, rescan: usize },
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
    wait: Wait,
    waiting: Vec<Waiting>,
    phase: Phase,
    /// Markup between values that is not complete yet.
    markup: String,
    envelope: Option<Envelope>,
    /// The same value as strict JSON: where a value that is no call goes on as text, it must be known where it ends.
    pub(super) scanner: Option<Scanner>,
    /// A call's arguments stopped short at a `<`; if that begins the closer, they may be whole all the same.
    broken: bool,
}

/// Longest markup between a container's marker and its value, in bytes.
const MAX_MARKUP: usize = 256;

impl Region {
    /// `marked`: the container is made for calls; `whole`: arguments do not stream.
    pub(super) fn new(container: Container, quoted: bool, marked: bool, whole: bool) -> Self {
        let wait = Wait::new(quoted, marked, whole);
        Self {
            container,
            quoted,
            wait,
            waiting: Vec::new(),
            phase: Phase::Before,
            markup: String::new(),
            envelope: None,
            scanner: None,
            broken: false,
        }
    }

    /// A call streams: what is fed is certain as it comes.
    pub(super) fn is_streaming(&self) -> bool {
        let open = self.envelope.as_ref().is_some_and(Envelope::is_open);
        open && self.wait == Wait::Nothing && matches!(self.phase, Phase::Value)
    }

    /// Calls have begun that wait.
    pub(super) fn has_begun(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The calls that waited for the region's end.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Bytes of arguments kept back besides the source.
    pub(super) fn kept(&self) -> usize {
        self.envelope.as_ref().map_or(0, Envelope::kept)
    }

    /// Reads on. Pieces of calls go to `out`, unless they must wait.
    pub(super) fn feed(&mut self, text: &str, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Passed {
        let mut at = 0;
        while let Some(&byte) = text.as_bytes().get(at) {
            match self.phase {
                Phase::Value => {
                    let (len, passed) = self.value(tail(text, at), rules, out);
                    at += len;
                    let after = matches!(self.phase, Phase::After);
                    if after && self.container == Container::Bare && self.closed() {
                        return Passed::Ended(at);
                    }
                    match passed {
                        Some(Passed::Certain(_)) => return Passed::Certain(at),
                        Some(_) => return Passed::Failed { taken: at, rescan: 0 },
                        None => {}
                    }
                }
                Phase::Before | Phase::After => {
                    let between = if matches!(self.phase, Phase::Before) {
                        self.before(byte, rules)
                    } else {
                        self.after(byte, rules)
                    };
                    match between {
                        Between::Taken => at += tail(text, at).chars().next().map_or(1, char::len_utf8),
                        Between::Value => self.begin_value(rules),
                        Between::Closed => {
                            at += 1;
                            if !self.settle_broken(true, out) {
                                return Passed::Failed { taken: at, rescan: 0 };
                            }
                            if self.closed() {
                                return Passed::Ended(at);
                            }
                        }
                        Between::Foreign => {
                            self.settle_broken(false, out);
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

    /// The text stops here: whether what was read since the last certain point belongs to calls; else it is text.
    /// See [`Envelope::finish`] for `stopped`.
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
            Phase::Value if self.wait == Wait::RegionEnd => false,
            Phase::Value if !self.envelope.as_ref().is_some_and(Envelope::is_in_call) => false,
            Phase::Value => self.finish_call(stopped, rules.repair, out),
            Phase::After => self.settle_broken(stopped, out),
            Phase::Ticks(_) | Phase::Quoted => true,
        }
    }

    /// Ends the call that is being read, if it is still open; `false` if it must not go out as it is.
    fn finish_call(&mut self, stopped: bool, repair: bool, out: &mut impl FnMut(Piece<'_>)) -> bool {
        let Some(envelope) = &mut self.envelope else { return false };
        if self.wait == Wait::Nothing {
            envelope.finish(stopped, out);
            return true;
        }
        let waiting = &mut self.waiting;
        let end = envelope.finish(stopped && repair, &mut |piece| waiting.push(Waiting::of(piece)));
        if end == Some(CallEnd::Cut) {
            return false;
        }
        if self.wait == Wait::CallEnd {
            self.send_waiting(out);
        }
        true
    }

    fn send_waiting(&mut self, out: &mut impl FnMut(Piece<'_>)) {
        self.waiting.drain(..).for_each(|waiting| out(waiting.as_piece()));
    }

    fn begin_value(&mut self, rules: &Rules<'_>) {
        self.phase = Phase::Value;
        self.markup.clear();
        self.envelope = Some(Envelope::new(rules));
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
        let waiting = &mut self.waiting;
        let parsed = match self.wait {
            Wait::Nothing => envelope.feed(text, rules, out),
            _ => envelope.feed(text, rules, &mut |piece| waiting.push(Waiting::of(piece))),
        };
        let (len, passed) = match parsed {
            Parsed::More => (text.len(), None),
            Parsed::CallEnded(len) => (len, self.certain(out)),
            Parsed::End(len) => {
                self.phase = Phase::After;
                // The last call's own end was told before; what closes its envelope is no text either.
                (len, self.certain(out))
            }
            Parsed::Stop(len) => {
                let foreign = text.as_bytes().get(len).copied().unwrap_or_default();
                (len, self.stopped(foreign, rules, out))
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
    fn certain(&mut self, out: &mut impl FnMut(Piece<'_>)) -> Option<Passed> {
        if self.wait == Wait::CallEnd {
            self.send_waiting(out);
        }
        (self.wait != Wait::RegionEnd).then_some(CERTAIN)
    }

    /// The value cannot go on with the byte `foreign`.
    fn stopped(&mut self, foreign: u8, rules: &Rules<'_>, out: &mut impl FnMut(Piece<'_>)) -> Option<Passed> {
        let Some(envelope) = &mut self.envelope else { return Some(FAILED) };
        let may_close = foreign == b'<' && matches!(self.container, Container::Tag(_));
        let streams = self.wait == Wait::Nothing;
        let forgiven = streams || rules.repair;
        if envelope.is_open() {
            if may_close && forgiven {
                self.broken = true;
                self.phase = Phase::After;
            } else if !streams {
                return Some(FAILED);
            } else {
                envelope.finish(false, out);
                self.phase = Phase::Failed;
            }
            return streams.then_some(CERTAIN);
        }
        // The arguments were whole: a brace too few or too many around them does not undo the call.
        if envelope.found() && forgiven && !matches!(self.container, Container::Bare) {
            self.phase = Phase::After;
            return None;
        }
        Some(FAILED)
    }

    /// A call that broke off at a `<` is whole if that was the closer and only brackets are missing. `false`: it must
    /// not go out as it is.
    fn settle_broken(&mut self, closer: bool, out: &mut impl FnMut(Piece<'_>)) -> bool {
        !std::mem::take(&mut self.broken) || self.finish_call(closer, true, out)
    }

    /// The container has ended; if it may have been quoted, the next byte tells.
    fn closed(&mut self) -> bool {
        self.phase = Phase::Quoted;
        !self.quoted
    }

    /// One byte before the first value.
    fn before(&mut self, byte: u8, rules: &Rules<'_>) -> Between {
        let in_fence = self.markup.starts_with('`');
        if self.markup.is_empty() || in_fence {
            match byte {
                b'{' | b'[' => return Between::Value,
                b'\n' => {
                    self.markup.clear();
                    return Between::Taken;
                }
                b' ' | b'\t' | b'\r' if self.markup.is_empty() => return Between::Taken,
                _ => {}
            }
        }
        let Container::Tag(tag) = self.container else { return Between::Foreign };
        let starts = self.markup.is_empty() && (byte == b'<' || (byte == b'`' && rules.marked));
        let goes_on = match (in_fence, tag.kind) {
            (true, _) => byte == b'`' || byte == b'_' || byte.is_ascii_alphanumeric(),
            (false, TagKind::Html) => code_goes_on(&self.markup, byte),
            (false, _) => tag.open.as_bytes().get(self.markup.len()) == Some(&byte),
        };
        if !byte.is_ascii()
            || !(starts || (goes_on && !self.markup.is_empty()))
            || self.markup.len() >= MAX_MARKUP
        {
            return Between::Foreign;
        }
        self.markup.push(char::from(byte));
        if byte == b'>' {
            self.markup.clear();
        }
        Between::Taken
    }

    /// One byte after a value.
    fn after(&mut self, byte: u8, rules: &Rules<'_>) -> Between {
        if !self.markup.is_empty() {
            return self.closer(byte);
        }
        match (self.container, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => Between::Taken,
            (Container::Bare, _) => Between::Foreign,
            (_, b'{' | b'[') if !self.broken => Between::Value,
            (Container::Fence(fence), tick) if tick == fence.tick => {
                self.phase = Phase::Ticks(1);
                Between::Taken
            }
            (Container::Tag(_), b'<') => {
                self.markup.push('<');
                Between::Taken
            }
            (Container::Tag(_), b'}' | b']' | b',' | b';') if rules.repair => Between::Taken,
            (Container::Tag(_), b'`') if rules.marked => Between::Taken,
            _ => Between::Foreign,
        }
    }

    /// One byte of what may be the closer.
    fn closer(&mut self, byte: u8) -> Between {
        let Container::Tag(tag) = self.container else { return Between::Foreign };
        let any_case = tag.kind == TagKind::Html;
        let matches = |closer: &str| {
            let start = closer.as_bytes().get(..=self.markup.len()).unwrap_or_default();
            let (Some((&last, before)), markup) = (start.split_last(), self.markup.as_bytes()) else {
                return false;
            };
            let same = |a: &[u8], b: &[u8]| if any_case { a.eq_ignore_ascii_case(b) } else { a == b };
            same(before, markup) && same(&[last], &[byte])
        };
        let closes = matches(tag.close);
        let inner = any_case && matches("</code>");
        if !closes && !inner {
            return Between::Foreign;
        }
        if byte == b'>' {
            self.markup.clear();
            return if closes { Between::Closed } else { Between::Taken };
        }
        self.markup.push(char::from(byte));
        Between::Taken
    }
}

/// Offsets are the caller's.
const CERTAIN: Passed = Passed::Certain(0);
const FAILED: Passed = Passed::Failed { taken: 0, rescan: 0 };

/// Whether `markup` and `byte` may be a `<code …>` tag.
fn code_goes_on(markup: &str, byte: u8) -> bool {
    const CODE: &[u8] = b"<code";
    match CODE.get(markup.len()) {
        Some(expected) => expected.eq_ignore_ascii_case(&byte),
        None if markup.len() == CODE.len() => matches!(byte, b'>' | b' ' | b'\t' | b'\n'),
        None => byte != b'<',
    }
}
