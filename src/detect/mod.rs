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
mod channels;
mod envelope;
mod fence;
mod gate;
mod header;
mod markers;
mod params;
mod pattern;
mod prose;
mod reading;
mod region;
mod schema;
mod section;
pub(crate) mod text;
mod thinking;
mod tools;
mod typed;
mod walker;

pub use tools::Tools;

use std::borrow::Cow;

use self::{
    channels::Channel,
    envelope::Rules,
    fence::{Fence, Foreign, Opener, Opening, Reach},
    gate::Wait,
    markers::{Entry, Markers},
    prose::Prose,
    reading::{As, Outlet, Reading},
    region::{Container, Passed, Region},
    section::Section,
    text::{head, tail},
    thinking::{Thinking, Thinks},
};
use crate::{
    event::{Event, Finish, Sink},
    format::{self, Channels, Format, Grammar, Place, THINK, TagKind},
    pipeline::{Arguments, Detect, Settings, UnknownCalls},
    wire::json::{Progress, Scanner},
};

/// Calls found here are numbered from this on; the numbers below are the upstream's own calls'.
pub const DETECTED: u32 = 1 << 31;

/// Longest opening tag of an HTML element, in bytes.
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
    Reasoning(Thinking),
}

/// What one request's text is searched with.
#[derive(Debug)]
struct Search {
    tools: Tools,
    markers: Markers,
    fenced: Option<(&'static Format, &'static [&'static str])>,
    bare: Option<&'static Format>,
    whole: bool,
    any_name: bool,
    repair: bool,
    max_depth: usize,
    max_hold: usize,
    max_arguments: usize,
}

impl Search {
    /// The format whose messages begin inside a header, if one is chosen.
    fn header_at_start(named: &[&'static Format]) -> Option<(&'static Format, &'static Channels)> {
        let grammars = named.iter().flat_map(|format| format.grammars.iter().map(|g| (*format, g)));
        let mut channels = grammars.filter_map(|(format, grammar)| match grammar {
            Grammar::Channels(channels) if channels.begins_in_header => Some((format, channels)),
            _ => None,
        });
        channels.next()
    }

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
    /// Reasoning in which a call may have begun: it goes on if none has.
    doubted: Option<Thinking>,
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
        let fenced = grammars().find_map(|(format, grammar)| match grammar {
            Grammar::Fenced { infos } => Some((format, *infos)),
            _ => None,
        });
        let bare = grammars().find(|(_, grammar)| matches!(grammar, Grammar::Bare)).map(|(format, _)| format);
        let named: &[_] = match &settings.detect {
            Detect::AutoAnd(formats) | Detect::Formats(formats) => formats,
            Detect::Auto | Detect::Off => &[],
        };
        let search = Search {
            tools,
            markers: Markers::new(&formats, named),
            fenced,
            bare,
            whole: settings.arguments == Arguments::Whole,
            any_name: settings.unknown_calls == UnknownCalls::Forward,
            repair: settings.repair,
            max_depth: settings.limits.max_depth,
            max_hold: settings.limits.max_hold,
            max_arguments: settings.limits.max_arguments,
        };
        let state = if settings.starts_in_reasoning {
            let mut thoughts = search.markers.thoughts();
            if thoughts.is_empty() {
                thoughts = Markers::new(&[&THINK], &[]).thoughts();
            }
            State::Reasoning(Thinking::from_start(&thoughts, search.markers.calls_end_reasoning()))
        } else if let Some((format, channels)) = Search::header_at_start(named) {
            let read_as = As::Channel(Channel::new(channels, "", search.whole, false));
            let marked = !channels.common;
            State::Calls(Box::new(Reading {
                format,
                starts_line: false,
                quoted: false,
                marked,
                read_as,
                opener: None,
            }))
        } else {
            State::Prose
        };
        Some(Self {
            prose: Prose::new(search.max_hold),
            search,
            state,
            held: String::new(),
            held_peak: 0,
            doubted: None,
            next: 0,
        })
    }

    /// Bytes held back now.
    pub fn held(&self) -> usize {
        let kept = if let State::Calls(reading) = &self.state { reading.kept() } else { 0 };
        let doubted =
            if let State::Reasoning(thinking) = &self.state { Some(thinking) } else { self.doubted.as_ref() };
        self.held.len() + kept + self.prose.held() + doubted.map_or(0, Thinking::held)
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
        loop {
            match std::mem::replace(&mut self.state, State::Prose) {
                State::Marker { .. } | State::Attributes { .. } | State::Opener(_) => self.release(0, out),
                State::Calls(mut reading) => {
                    if self.finish_calls(&mut reading, stopped, out) {
                        self.held.clear();
                        self.doubted = None;
                    } else {
                        self.release(0, out);
                    }
                }
                State::Reasoning(mut thinking) => thinking.finish(out),
                State::Prose | State::Foreign(_) | State::Json(_) => break,
            }
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
                State::Reasoning(_) => self.reasoning(rest, out),
            };
            rest = tail(rest, taken);
        }
        self.held_peak = self.held_peak.max(self.held());
    }

    /// Where in `text` something may begin.
    fn opener(&self, text: &str) -> Option<usize> {
        let fresh = self.prose.starts_message();
        text.bytes().enumerate().position(|(at, byte)| match byte {
            b'{' | b'[' if self.search.bare.is_some() => true,
            b'`' | b'~' => self.search.fenced.is_some() && self.prose.starts_line(head(text, at)),
            _ => self.search.markers.may_begin(byte) || (fresh && self.begins_message(text, at, byte)),
        })
    }

    /// An opener that counts at the beginning of the message only may begin here.
    fn begins_message(&self, text: &str, at: usize, byte: u8) -> bool {
        self.search.markers.may_begin_message(byte)
            && self.prose.starts_message()
            && head(text, at).trim().is_empty()
    }

    /// Where on the line and in the message the held text stands.
    fn here(&self, starts_line: bool) -> Place {
        match starts_line {
            true if self.prose.starts_message() => Place::MessageStart,
            true => Place::LineStart,
            false => Place::Anywhere,
        }
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
        match (byte, self.search.bare) {
            (tick @ (b'`' | b'~'), _) => {
                self.held.push(char::from(tick));
                self.state = State::Opener(Opener::new(tick));
                at + 1
            }
            _ if self.search.markers.may_begin(byte) || self.begins_message("", 0, byte) => {
                self.state = State::Marker { starts_line, quoted };
                at
            }
            (_, Some(format)) => {
                self.enter(format, Container::Bare, starts_line, quoted);
                at
            }
            (_, None) => at,
        }
    }

    fn enter(&mut self, format: &'static Format, container: Container, starts_line: bool, quoted: bool) {
        let read_as = As::Region(Region::new(container, quoted, false, self.search.whole));
        let reading = Reading { format, starts_line, quoted, marked: false, read_as, opener: None };
        self.state = State::Calls(Box::new(reading));
    }

    /// One character of what may be a marker.
    fn marker(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Marker { starts_line, quoted } = self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        let here = self.here(starts_line);
        let Some((place, whole)) = self.search.markers.find(&self.held, here, 0) else {
            self.held.pop();
            if !self.held.is_empty() {
                self.false_start(starts_line, quoted, out);
                return 0;
            }
            // No opener begins with this character, not here.
            self.state = State::Prose;
            if let Some(format) = self.search.bare.filter(|_| matches!(character, '{' | '[')) {
                self.enter(format, Container::Bare, starts_line, quoted);
                return 0;
            }
            self.prose.put(head(text, character.len_utf8()), out);
            return character.len_utf8();
        };
        if whole {
            self.enter_at(place, starts_line, quoted);
        }
        character.len_utf8()
    }

    /// What is held is no marker: it may be a bare value, else its first character is text and the rest is read again.
    fn false_start(&mut self, starts_line: bool, quoted: bool, out: &mut impl Sink) {
        self.state = State::Prose;
        match self.search.bare {
            Some(format) if self.held.starts_with(['{', '[']) => {
                let held = std::mem::take(&mut self.held);
                self.enter(format, Container::Bare, starts_line, quoted);
                self.text(&held, out);
            }
            _ => {
                let first = self.held.chars().next().map_or(0, char::len_utf8);
                self.release(self.held.len().saturating_sub(first), out);
            }
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
                TagKind::Marked | TagKind::Special(_) => {
                    As::Region(Region::new(Container::Tag(tag), quoted, true, whole))
                }
            },
            Entry::Channel(channels, open) => {
                let read_as = As::Channel(Channel::new(channels, open, whole, quoted));
                let (format, opener) = (opener.format, Some((self.held.len(), place + 1)));
                let reading =
                    Reading { format, starts_line: false, quoted, marked: !channels.common, read_as, opener };
                self.state = State::Calls(Box::new(reading));
                return;
            }
            Entry::Thought(thought) => {
                self.held.clear();
                self.state =
                    State::Reasoning(Thinking::new(thought, self.search.markers.calls_end_reasoning()));
                return;
            }
            Entry::Frame => {
                self.held.clear();
                self.state = State::Prose;
                return;
            }
            Entry::Section(calls, close) => {
                As::Section(Section::new(calls, close, Wait::new(quoted, true, whole)))
            }
            Entry::Call(calls, open) => {
                let rules = self.search.rules(true);
                As::Section(Section::naked(calls, open, Wait::new(quoted, true, whole), &rules))
            }
        };
        let opener_ends = Some((self.held.len(), place + 1));
        let reading = Reading {
            format: opener.format,
            starts_line,
            quoted,
            marked: true,
            read_as,
            opener: opener_ends,
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
        let (State::Opener(opener), Some((format, infos))) = (&mut self.state, self.search.fenced) else {
            return 0;
        };
        let Some(character) = text.chars().next() else { return 0 };
        let byte = text.bytes().next().unwrap_or_default();
        match opener.feed(byte, infos) {
            Opening::More => {
                self.held.push(character);
                return character.len_utf8();
            }
            Opening::Calls => {
                let fence = opener.fence();
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
        let mut outlet =
            Outlet { format, starts_line, prose: &mut self.prose, next: &mut self.next, out: &mut *out };
        match reading.feed(text, &rules, &mut |piece| outlet.piece(piece)) {
            Passed::More => {
                self.held.push_str(text);
                if reading.is_streaming() {
                    self.doubted = None;
                    let certain = self.held.len().saturating_sub(reading.unsure());
                    self.held.drain(..certain);
                    reading.opener = None;
                }
                // A call that waits for its end may be as long as any call; only beyond that is there no telling.
                let limit =
                    self.search.max_hold + if reading.has_begun() { self.search.max_arguments } else { 0 };
                self.state = State::Calls(reading);
                if self.held() > limit {
                    self.overflow(out);
                }
                text.len()
            }
            Passed::Certain(taken) => {
                self.doubted = None;
                self.held.clear();
                reading.opener = None;
                self.state = State::Calls(reading);
                taken
            }
            Passed::Ended(taken) => {
                outlet.pieces(reading.take_waiting());
                self.doubted = None;
                self.held.clear();
                self.prose.container_ended(starts_line);
                taken
            }
            Passed::Left { taken, rescan } => {
                self.doubted = None;
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
            reading.opener = None;
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
        let Reading { starts_line, quoted, mut read_as, opener, .. } = reading;
        if let Some((length, next)) = opener {
            let here = self.here(starts_line);
            let rival = self.search.markers.find(head(&self.held, length), here, next);
            let ends = |place| {
                self.search
                    .markers
                    .get(place)
                    .is_some_and(|rival| self.search.markers.ends_reasoning(rival.format))
            };
            if let Some((place, true)) = rival.filter(|(place, _)| self.doubted.is_none() || ends(*place)) {
                let held = std::mem::take(&mut self.held);
                self.held.push_str(head(&held, length));
                self.enter_at(place, starts_line, quoted);
                self.text(tail(&held, length), out);
                return;
            }
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
        if let Some(mut thinking) = self.doubted.take() {
            // No call has begun: the reasoning goes on behind the opener's first character.
            let first = held.chars().next().map_or(0, char::len_utf8);
            thinking.say(head(&held, first), out);
            self.state = State::Reasoning(thinking);
            self.text(tail(&held, first), out);
            return;
        }
        let again = held.len().saturating_sub(rescan);
        self.prose.put(head(&held, again), out);
        if rescan > 0 {
            self.text(tail(&held, again), out);
        }
    }

    fn reasoning(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Reasoning(thinking) = &mut self.state else { return 0 };
        match thinking.feed(text, &self.search.markers, out) {
            Thinks::On => text.len(),
            Thinks::Closed(taken) => {
                self.state = State::Prose;
                taken
            }
            Thinks::Calls(taken, place) => {
                self.held = thinking.take_markup();
                let state = std::mem::replace(&mut self.state, State::Prose);
                self.doubted = if let State::Reasoning(thinking) = state { Some(thinking) } else { None };
                self.enter_at(place, false, false);
                taken
            }
        }
    }
}
