//! Finds calls that a model wrote as text, and reasoning between markers, in a stream of events.
//!
//! ```text
//!                    ┌─ prose ───────────────────────────────────────▶ Text
//! Text ─▶ Detector ──┤  opener? ─▶ region ─▶ envelope ─▶ body ───────▶ CallStart, CallArguments, CallEnd
//!                    └─ reasoning ───────────────────────────────────▶ Reasoning
//! all other events ──────────────────────────────────────────────────▶ as they came
//! ```
//!
//! The [`Detector`] is one machine over the text's bytes: what it does depends on them and on nothing else, never on
//! where a piece ends (law 1). In prose nothing is held but white space and the beginning of an opener; a byte that
//! cannot go on an opener lets it go at once (law 2). What turns out to be no call comes out unchanged (law 3). A
//! byte is looked at once, but for the few of a failed marker (law 4).

mod body;
mod dsl;
mod elements;
mod envelope;
mod escape;
mod fence;
mod gate;
mod header;
mod literal;
mod markers;
mod params;
mod pattern;
mod prose;
mod pythonic;
mod react;
mod reading;
mod region;
mod schema;
mod section;
mod tag;
#[cfg(test)]
mod tagged_tests;
pub(crate) mod text;
mod tools;
mod typed;
mod walker;

pub use tools::Tools;

use std::borrow::Cow;

use self::{
    envelope::Rules,
    fence::{Fence, Foreign, Opener, Opening, Reach},
    gate::Wait,
    markers::{Entry, Markers},
    prose::Prose,
    reading::{As, Outlet, Reading, Rivals},
    region::{Container, Passed, Region},
    section::Section,
    text::{boundary_from, head, slice, tail},
};
use crate::{
    event::{Event, Finish, Reasoning, Sink},
    format::{self, Calls, Format, Grammar, Place, Python, Tag, TagKind},
    pipeline::{Arguments, Detect, Settings, UnknownCalls},
    wire::json::{Progress, Scanner},
};

/// Calls found here are numbered from this on; the numbers below are the upstream's own calls'.
pub const DETECTED: u32 = 1 << 31;

/// Longest opening tag of an HTML element, and opener of a fence with calls, in bytes.
const MAX_TAG: usize = 256;

#[derive(Debug)]
enum State {
    Prose,
    /// `held` begins an opener.
    Marker {
        starts_line: bool,
        quoted: bool,
    },
    /// `held` is an HTML opener; its attributes go on.
    Attributes {
        place: usize,
        starts_line: bool,
        quoted: bool,
    },
    Opener(Opener),
    /// In a fence that is not searched.
    Foreign(Foreign),
    /// In a JSON value that is no call.
    Json(Scanner),
    Calls(Box<Reading>),
    Reasoning {
        tag: &'static Tag,
        begun: bool,
    },
    /// The rest of the text is no part of the message: the model made it up.
    Dropped,
}

/// A format whose calls stand in fences.
#[derive(Debug, Clone, Copy)]
struct Fenced {
    format: &'static Format,
    infos: &'static [&'static str],
    /// They may be written as Python writes them.
    code: Option<&'static Python>,
}

fn fenced(format: &'static Format, grammar: &'static Grammar) -> Option<Fenced> {
    match grammar {
        Grammar::Fenced { infos } => Some(Fenced { format, infos, code: None }),
        Grammar::Code { info, python } => {
            Some(Fenced { format, infos: std::slice::from_ref(info), code: Some(python) })
        }
        _ => None,
    }
}

/// A format whose calls have no marker: lists as Python writes them, or else JSON. Lists are tried first, since they
/// fail at the first character that is none of a declared name.
#[derive(Debug, Clone, Copy)]
struct Unmarked {
    format: &'static Format,
    list: Option<&'static Calls>,
}

fn unmarked(format: &'static Format, grammar: &'static Grammar) -> Option<Unmarked> {
    match grammar {
        Grammar::Bare => Some(Unmarked { format, list: None }),
        Grammar::Calls(calls) if calls.place == Place::Bracket => {
            Some(Unmarked { format, list: Some(calls) })
        }
        _ => None,
    }
}

/// What one request's text is searched with.
#[derive(Debug)]
struct Search {
    tools: Tools,
    markers: Markers,
    fences: Vec<Fenced>,
    /// The info strings of fences with calls.
    infos: Vec<&'static str>,
    unmarked: Vec<Unmarked>,
    whole: bool,
    any_name: bool,
    repair: bool,
    max_depth: usize,
    max_hold: usize,
    max_arguments: usize,
}

impl Search {
    /// `marked`: for a grammar with a marker made for calls.
    fn rules(&self, marked: bool) -> Rules<'_> {
        Rules {
            tools: &self.tools,
            marked,
            any_name: self.any_name,
            no_tool: &[],
            repair: self.repair,
            whole: self.whole,
            max_depth: self.max_depth,
        }
    }

    /// How much source may be held. A call that waits for its end may be as long as any call; only beyond that is
    /// there no telling.
    fn limit(&self, reading: &Reading) -> usize {
        let waits = if reading.has_begun() { self.max_arguments } else { 0 };
        self.max_hold.saturating_add(waits)
    }
}

/// The stage that finds calls in text.
#[derive(Debug)]
pub struct Detector {
    search: Search,
    state: State,
    prose: Prose,
    /// The source since the last point that is certain, while it may be part of something.
    held: String,
    held_peak: usize,
    /// White space inside reasoning since its last visible character.
    reasoning_blank: String,
    next: u32,
}

impl Detector {
    /// A detector for the calls that `tools` allow; `None` if there is nothing to look for, and text passes unheld.
    pub fn new(tools: Tools, settings: &Settings) -> Option<Self> {
        let formats: Vec<&'static Format> = match &settings.detect {
            Detect::Off => return None,
            Detect::Auto => format::auto_behind(&[]),
            Detect::AutoAnd(first) => format::auto_behind(first),
            Detect::Formats(formats) => formats.clone(),
        };
        if tools.is_empty() || formats.is_empty() {
            return None;
        }
        let grammars = || formats.iter().flat_map(|format| format.grammars.iter().map(|g| (*format, g)));
        let mut fences: Vec<Fenced> =
            grammars().filter_map(|(format, grammar)| fenced(format, grammar)).collect();
        fences.sort_by_key(|fenced| fenced.code.is_none());
        let mut unmarked: Vec<Unmarked> =
            grammars().filter_map(|(format, grammar)| unmarked(format, grammar)).collect();
        unmarked.sort_by_key(|unmarked| unmarked.list.is_none());
        let search = Search {
            tools,
            markers: Markers::new(&formats),
            infos: fences.iter().flat_map(|fenced| fenced.infos).copied().collect(),
            fences,
            unmarked,
            whole: settings.arguments == Arguments::Whole,
            any_name: settings.unknown_calls == UnknownCalls::Forward,
            repair: settings.repair,
            max_depth: settings.limits.max_depth,
            max_hold: settings.limits.max_hold,
            max_arguments: settings.limits.max_arguments,
        };
        Some(Self {
            prose: Prose::new(search.max_hold),
            search,
            state: State::Prose,
            held: String::new(),
            held_peak: 0,
            reasoning_blank: String::new(),
            next: 0,
        })
    }

    /// Bytes held back now.
    pub fn held(&self) -> usize {
        let kept = if let State::Calls(reading) = &self.state { reading.kept() } else { 0 };
        self.held.len() + kept + self.prose.held() + self.reasoning_blank.len()
    }

    /// The most bytes ever held back at once.
    pub fn held_peak(&self) -> usize {
        self.held_peak
    }

    /// Takes an event of the reader.
    pub fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        match event {
            Event::Text(text) => self.text(&text, out),
            Event::Verbatim { frame, means: Some(Event::Text(text)) } => {
                if self.passes(text) {
                    out.event(Event::Verbatim { frame, means: Some(&Event::Text(Cow::Borrowed(text))) });
                } else {
                    self.text(text, out);
                }
            }
            Event::Finish(finish) | Event::Verbatim { means: Some(&Event::Finish(finish)), .. } => {
                let stopped = matches!(finish, Finish::Stop | Finish::Calls);
                self.finish(stopped, out);
                out.event(event);
            }
            Event::CallStart(_) => {
                if matches!(self.state, State::Prose) {
                    self.prose.interrupt(out);
                }
                out.event(event);
            }
            event => out.event(event),
        }
    }

    /// The text has ended; `stopped`: because the model was done. What is held is decided.
    pub fn finish(&mut self, stopped: bool, out: &mut impl Sink) {
        self.decide(stopped, out);
        self.prose.finish(out);
    }

    /// The upstream's answer breaks off here, and the text of another one goes on with the message.
    pub fn next_answer(&mut self, out: &mut impl Sink) {
        self.decide(false, out);
        self.prose.next_answer();
    }

    fn decide(&mut self, stopped: bool, out: &mut impl Sink) {
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Marker { .. } | State::Attributes { .. } | State::Opener(_) => self.release(0, out),
            State::Calls(mut reading) => {
                if self.finish_calls(&mut reading, stopped, out) {
                    self.held.clear();
                } else {
                    self.release(0, out);
                }
            }
            State::Reasoning { .. } => {
                self.reasoning_blank.clear();
                let held = std::mem::take(&mut self.held);
                reasoning(&held, out);
            }
            State::Prose | State::Foreign(_) | State::Json(_) | State::Dropped => {}
        }
    }

    fn finish_calls(&mut self, reading: &mut Reading, stopped: bool, out: &mut impl Sink) -> bool {
        let (format, starts_line) = (reading.format, reading.takes_line());
        let rules = self.search.rules(reading.marked);
        let (prose, next) = (&mut self.prose, &mut self.next);
        let mut outlet = Outlet { format, starts_line, prose, next, out };
        let ended = reading.finish(stopped, &rules, &mut |piece| outlet.piece(piece));
        if ended {
            outlet.pieces(reading.take_waiting());
        }
        ended
    }

    /// Whether `text` leaves as it came, with nothing held before or after it; if so, it has been taken.
    fn passes(&mut self, text: &str) -> bool {
        match &self.state {
            State::Prose if self.prose.passes(text) && self.opener(text).is_none() => {
                self.prose.passed(text);
                true
            }
            State::Foreign(foreign) if foreign.passes(text) && self.prose.passes(text) => {
                self.prose.passed(text);
                true
            }
            _ => false,
        }
    }

    fn text(&mut self, text: &str, out: &mut impl Sink) {
        let mut rest = text;
        while !rest.is_empty() {
            let taken = match self.state {
                State::Prose => self.prose_text(rest, out),
                State::Marker { .. } => self.marker(rest, out),
                State::Attributes { .. } => self.attributes(rest, out),
                State::Opener(_) => self.fence_opener(rest, out),
                State::Foreign(_) => self.foreign(rest, out),
                State::Json(_) => self.foreign_json(rest, out),
                State::Calls(_) => self.calls(rest, out),
                State::Reasoning { .. } => self.reasoning(rest, out),
                State::Dropped => rest.len(),
            };
            rest = tail(rest, taken);
        }
        self.held_peak = self.held_peak.max(self.held());
    }

    /// Where in `text` something may begin.
    fn opener(&self, text: &str) -> Option<usize> {
        text.bytes().enumerate().position(|(at, byte)| match byte {
            b'{' | b'[' if !self.search.unmarked.is_empty() => true,
            b'`' | b'~' => !self.search.fences.is_empty() && self.prose.starts_line(head(text, at)),
            _ => self.search.markers.may_begin(byte) && self.search.markers.may_stand(tail(text, at)),
        })
    }

    fn prose_text(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let Some(at) = self.opener(text) else {
            self.prose.put(text, out);
            return text.len();
        };
        let before = head(text, at);
        let starts_line = self.prose.starts_line(before);
        let quoted = self.prose.last(before) == b'`';
        self.prose.put(before, out);
        let byte = text.as_bytes().get(at).copied().unwrap_or_default();
        match byte {
            tick @ (b'`' | b'~') => {
                self.held.push(char::from(tick));
                self.state = State::Opener(Opener::new(tick));
                at + 1
            }
            _ if self.search.markers.may_begin(byte) => {
                self.state = State::Marker { starts_line, quoted };
                at
            }
            _ if self.enter_unmarked(byte, 0, starts_line, quoted) => at,
            _ => {
                let len = tail(text, at).chars().next().map_or(0, char::len_utf8);
                self.prose.put(slice(text, at, at + len), out);
                at + len
            }
        }
    }

    /// Reads what begins with this byte as calls without a marker, if that may be; formats before the place `from`
    /// have failed.
    fn enter_unmarked(&mut self, byte: u8, from: usize, starts_line: bool, quoted: bool) -> bool {
        let may_begin = |unmarked: &Unmarked| match unmarked.list {
            Some(_) => byte == b'[' && !quoted,
            None => matches!(byte, b'{' | b'['),
        };
        let rest = self.search.unmarked.get(from..).unwrap_or_default();
        let Some(place) = rest.iter().position(may_begin).map(|at| from + at) else { return false };
        let Some(&Unmarked { format, list }) = self.search.unmarked.get(place) else { return false };
        let whole = self.search.whole;
        let read_as = match list {
            Some(calls) => {
                let wait = Wait::new(quoted, false, whole);
                As::Section(Box::new(Section::naked(calls, "", wait, &self.search.rules(false))))
            }
            None => As::Region(Box::new(Region::new(Container::Bare, quoted, false, whole))),
        };
        let rivals = Rivals::Unmarked { next: place + 1 };
        let reading = Reading { format, starts_line, quoted, marked: false, read_as, rivals, behind: false };
        self.state = State::Calls(Box::new(reading));
        true
    }

    fn enter(&mut self, format: &'static Format, container: Container, starts_line: bool, quoted: bool) {
        let read_as = As::Region(Box::new(Region::new(container, quoted, false, self.search.whole)));
        let reading = Reading {
            format,
            starts_line,
            quoted,
            marked: false,
            read_as,
            rivals: Rivals::None,
            behind: false,
        };
        self.state = State::Calls(Box::new(reading));
    }

    /// One character of what may be a marker.
    fn marker(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Marker { starts_line, quoted } = self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        let Some(place) = self.search.markers.find(&self.held, starts_line, 0) else {
            self.held.pop();
            if !self.held.is_empty() {
                self.false_start(starts_line, quoted, out);
                return 0;
            }
            // No opener begins with this character, not here.
            self.state = State::Prose;
            let byte = u8::try_from(character).unwrap_or_default();
            if self.enter_unmarked(byte, 0, starts_line, quoted) {
                return 0;
            }
            self.prose.put(head(text, character.len_utf8()), out);
            return character.len_utf8();
        };
        if self.search.markers.get(place).is_some_and(|opener| opener.is_whole(&self.held)) {
            self.enter_at(place, starts_line, quoted);
        }
        character.len_utf8()
    }

    /// What is held is no marker: it may be a bare value, else its first character is text and the rest is read again.
    fn false_start(&mut self, starts_line: bool, quoted: bool, out: &mut impl Sink) {
        self.state = State::Prose;
        let byte = self.held.bytes().next().unwrap_or_default();
        if self.enter_unmarked(byte, 0, starts_line, quoted) {
            let held = std::mem::take(&mut self.held);
            self.text(&held, out);
        } else {
            let first = self.held.chars().next().map_or(0, char::len_utf8);
            self.release(self.held.len().saturating_sub(first), out);
        }
    }

    /// Reads what follows an opener as its format says.
    fn enter_at(&mut self, place: usize, starts_line: bool, quoted: bool) {
        let Some(opener) = self.search.markers.get(place).copied() else { return };
        let whole = self.search.whole;
        let read_as = match opener.entry {
            Entry::Tag(tag) => match tag.kind {
                TagKind::Html => {
                    self.state = State::Attributes { place, starts_line, quoted };
                    return;
                }
                TagKind::Reasoning => {
                    self.held.clear();
                    self.state = State::Reasoning { tag, begun: false };
                    return;
                }
                TagKind::Marked | TagKind::Special(_) => {
                    As::Region(Box::new(Region::new(Container::Tag(tag), quoted, true, whole)))
                }
            },
            Entry::Section(calls, close) => {
                As::Section(Box::new(Section::new(calls, close, Wait::new(quoted, true, whole))))
            }
            Entry::Call(calls) => {
                let rules = self.search.rules(true);
                As::Section(Box::new(Section::naked(
                    calls,
                    &self.held,
                    Wait::new(quoted, true, whole),
                    &rules,
                )))
            }
        };
        let rivals = Rivals::Marked { opener: self.held.len(), next: place + 1 };
        let reading = Reading {
            format: opener.format,
            starts_line,
            quoted,
            marked: true,
            read_as,
            rivals,
            behind: false,
        };
        self.state = State::Calls(Box::new(reading));
    }

    /// One character of an HTML opener's attributes.
    fn attributes(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Attributes { place, starts_line, quoted } = self.state else { return 0 };
        let Some((format, Entry::Tag(tag))) =
            self.search.markers.get(place).map(|opener| (opener.format, opener.entry))
        else {
            return 0;
        };
        let Some(character) = text.chars().next() else { return 0 };
        let first = self.held.len() == tag.open.len();
        if character == '<' || (first && !matches!(character, '>' | ' ' | '\t')) || self.held.len() > MAX_TAG
        {
            self.state = State::Prose;
            self.release(0, out);
            return 0;
        }
        self.held.push(character);
        if character == '>' {
            self.enter(format, Container::Tag(tag), starts_line, quoted);
        }
        character.len_utf8()
    }

    /// One byte of a fence's opener.
    fn fence_opener(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Opener(opener) = &mut self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        let byte = text.bytes().next().unwrap_or_default();
        match opener.feed(byte, &self.search.infos) {
            Opening::More if self.held.len() >= MAX_TAG => self.leave_fence(None, out),
            Opening::More => {
                self.held.push(character);
                return character.len_utf8();
            }
            Opening::Calls => {
                let (info, fences) = (opener.info(), &self.search.fences);
                let named = fences.iter().find(|fenced| fenced.infos.contains(&info));
                let Some(&Fenced { format, code, .. }) = named.or(fences.last()) else { return 0 };
                let fence = Fence { code, ..opener.fence() };
                self.enter(format, Container::Fence(fence), true, false);
            }
            Opening::Foreign => self.leave_fence(None, out),
            Opening::None => {
                self.state = State::Prose;
                self.release(0, out);
            }
        }
        0
    }

    /// What looked like a fence with calls is some other fence: it is not searched. `fence`: it had been entered.
    fn leave_fence(&mut self, fence: Option<Fence>, out: &mut impl Sink) {
        self.state = match (&self.state, fence) {
            (_, Some(fence)) => State::Foreign(Foreign::in_body(fence, &self.held)),
            (State::Opener(opener), None) => State::Foreign(Foreign::in_info(opener.fence())),
            _ => State::Prose,
        };
        self.release(0, out);
    }

    fn foreign(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Foreign(foreign) = &mut self.state else { return 0 };
        match foreign.feed(text) {
            Reach::More => {
                self.prose.put_whole(text, out);
                text.len()
            }
            Reach::Ends(at) => {
                self.state = State::Prose;
                self.prose.put_whole(head(text, at), out);
                at
            }
        }
    }

    fn foreign_json(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Json(scanner) = &mut self.state else { return 0 };
        let (taken, progress) = scanner.push(text.as_bytes());
        if progress != Progress::More {
            self.state = State::Prose;
        }
        self.prose.put_whole(head(text, taken), out);
        taken
    }

    fn calls(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Calls(mut reading) = std::mem::replace(&mut self.state, State::Prose) else { return 0 };
        let (format, starts_line) = (reading.format, reading.takes_line());
        let rules = self.search.rules(reading.marked);
        // As much as may be held and a character more, so that the limit is reached at the same one for every cut.
        let room = self.search.limit(&reading).saturating_sub(self.held.len());
        let text = head(text, boundary_from(text, room.saturating_add(1)));
        let mut outlet =
            Outlet { format, starts_line, prose: &mut self.prose, next: &mut self.next, out: &mut *out };
        match reading.feed(text, &rules, &mut |piece| outlet.piece(piece)) {
            Passed::More => {
                self.held.push_str(text);
                if reading.is_streaming() {
                    let certain = self.held.len().saturating_sub(reading.unsure());
                    self.held.drain(..certain);
                    reading.rivals = Rivals::None;
                }
                let overflows = self.held.len() > self.search.limit(&reading);
                self.state = State::Calls(reading);
                if overflows {
                    self.overflow(out);
                }
                text.len()
            }
            Passed::Certain(taken) => {
                self.held.clear();
                reading.rivals = Rivals::None;
                self.state = State::Calls(reading);
                taken
            }
            Passed::Ended(taken) => {
                outlet.pieces(reading.take_waiting());
                self.held.clear();
                self.prose.container_ended(starts_line);
                if reading.drops_rest() {
                    self.state = State::Dropped;
                }
                taken
            }
            Passed::Left { taken, rescan } => {
                outlet.pieces(reading.take_waiting());
                self.held.push_str(head(text, taken));
                self.prose.container_ended(starts_line);
                let again = self.held.len().saturating_sub(rescan);
                self.held.drain(..again);
                let again = std::mem::take(&mut self.held);
                self.text(&again, out);
                taken
            }
            Passed::Failed { taken, rescan } => {
                self.held.push_str(head(text, taken));
                self.fail(*reading, rescan, out);
                taken
            }
        }
    }

    /// More is held than may be. What has not begun to be a call is text; a waiting call goes out cut, since its
    /// arguments are over their limit, too.
    fn overflow(&mut self, out: &mut impl Sink) {
        let State::Calls(mut reading) = std::mem::replace(&mut self.state, State::Prose) else { return };
        if !reading.has_begun() {
            reading.rivals = Rivals::None;
            return self.fail(*reading, 0, out);
        }
        let (format, starts_line) = (reading.format, reading.takes_line());
        let mut outlet = Outlet { format, starts_line, prose: &mut self.prose, next: &mut self.next, out };
        outlet.pieces(reading.abandon());
        self.held.clear();
    }

    /// These are no calls of this format. Another with the same opener may fit; else the source since the last
    /// certain point is text, and the text goes on as what it then is.
    fn fail(&mut self, reading: Reading, rescan: usize, out: &mut impl Sink) {
        let quotation = reading.is_quotation();
        let Reading { starts_line, quoted, mut read_as, rivals, .. } = reading;
        match if quotation { Rivals::None } else { rivals } {
            Rivals::Marked { opener, next } => {
                let rival = self.search.markers.find(head(&self.held, opener), starts_line, next);
                if let Some(place) = rival {
                    let held = std::mem::take(&mut self.held);
                    self.held.push_str(head(&held, opener));
                    self.enter_at(place, starts_line, quoted);
                    self.text(tail(&held, opener), out);
                    return;
                }
            }
            Rivals::Unmarked { next } => {
                let byte = self.held.bytes().next().unwrap_or_default();
                if self.enter_unmarked(byte, next, starts_line, quoted) {
                    let held = std::mem::take(&mut self.held);
                    self.text(&held, out);
                    return;
                }
            }
            Rivals::None => {}
        }
        self.state = State::Prose;
        if let As::Region(region) = &mut read_as {
            if region.has_ended() {
                self.prose.container_ended(starts_line);
            }
            if let Container::Fence(fence) = region.container {
                self.leave_fence(Some(fence), out);
                return;
            }
            if let Some(scanner) = region.scanner.take()
                && scanner.depth() > 0
            {
                self.state = State::Json(scanner);
            }
        }
        self.release(rescan, out);
    }

    /// Lets what is held go as text; the last `rescan` bytes are read again.
    fn release(&mut self, rescan: usize, out: &mut impl Sink) {
        let held = std::mem::take(&mut self.held);
        let again = held.len().saturating_sub(rescan);
        self.prose.put(head(&held, again), out);
        if rescan > 0 {
            self.text(tail(&held, again), out);
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Reasoning { tag, begun } = &mut self.state else { return 0 };
        if self.held.is_empty() {
            let run = memchr::memchr(b'<', text.as_bytes()).unwrap_or(text.len());
            let (run, blank) = (head(text, run), &mut self.reasoning_blank);
            let visible = run.trim_end();
            if !visible.is_empty() {
                reasoning(blank, out);
                reasoning(if *begun { visible } else { visible.trim_start() }, out);
                blank.clear();
                *begun = true;
            }
            for character in tail(run, visible.len()).chars().filter(|_| *begun) {
                blank.push(character);
                if blank.len() > self.search.max_hold {
                    reasoning(blank, out);
                    blank.clear();
                }
            }
            if run.len() < text.len() {
                self.held.push('<');
                return run.len() + 1;
            }
            return run.len();
        }
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        let start = tag.close.as_bytes().get(..self.held.len()).unwrap_or_default();
        if !start.eq_ignore_ascii_case(self.held.as_bytes()) {
            self.held.pop();
            *begun = true;
            reasoning(&self.reasoning_blank, out);
            reasoning(&self.held, out);
            self.reasoning_blank.clear();
            self.held.clear();
            return 0;
        }
        if start.len() == tag.close.len() {
            self.held.clear();
            self.reasoning_blank.clear();
            self.state = State::Prose;
        }
        character.len_utf8()
    }
}

fn reasoning(text: &str, out: &mut impl Sink) {
    if !text.is_empty() {
        out.event(Event::Reasoning(Reasoning { text: Cow::Borrowed(text), signature: None }));
    }
}
