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
//! byte is looked at once, but for the few of a failed marker (law 4). How it gets from prose into something else is in
//! `enter`, how out again in `settle`.

mod bare_text;
mod behind;
mod body;
mod channels;
mod dsl;
mod elements;
mod enter;
mod envelope;
mod escape;
mod fence;
mod gate;
mod gated;
mod header;
mod joined;
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
mod search;
mod section;
mod settle;
mod string_fast_path;
mod tag;
#[cfg(test)]
mod tagged_tests;
mod thinking;
mod trimmed;
mod typed;
mod walker;

use std::borrow::Cow;

use self::{
    channels::Channel,
    fence::{Foreign, Opener, Reach},
    joined::Joined,
    markers::Markers,
    prose::Prose,
    reading::{Container, Reading, Rivals},
    search::{Reads, Search},
    string_fast_path::StringFastPath,
    text::{head, tail},
    thinking::{Thinking, ThinkingProgress},
};
use crate::{
    event::{Event, Finish, Sink},
    format::{Known, THINK},
    rules::Rules,
    tools::DeclaredTools,
    wire::{
        json::{Progress, Scanner},
        text,
    },
};

/// Calls found here are numbered from this on; the numbers below are the upstream's own calls'.
pub const DETECTED: u32 = 1 << 31;

#[derive(Debug)]
enum State {
    Prose,
    /// `held` begins an opener.
    Marker {
        /// The place of the first opener that it begins; it begins none of those before.
        place: usize,
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
    /// Right behind a call; `held` begins what may be framing there.
    Behind,
    /// In a result that the model made up, which ends so; `held` begins that end.
    Invented(&'static str),
    /// The rest of the text is no part of the message: the model made it up.
    Dropped,
}

/// The stage that finds calls in text.
#[derive(Debug)]
pub struct Detector {
    search: Search,
    state: State,
    prose: Prose,
    /// The source since the last point that is certain, while it may be part of something.
    held: String,
    /// In a string of arguments that goes out as it comes.
    flow: Option<StringFastPath>,
    /// A piece of it, as JSON has to write it.
    escaped: String,
    held_peak: usize,
    /// Empty: the space in which pieces are joined.
    joined: String,
    /// Reasoning in which a call may have begun: it goes on if none has.
    doubted: Option<Thinking>,
    next: u32,
}

impl Detector {
    /// A detector of reasoning and of the calls that `tools` allow; `None` if there is nothing to look for, and text
    /// passes unheld. The formats that the rules name are looked up in `known`.
    pub fn new(tools: DeclaredTools, settings: &Rules, known: &Known) -> Option<Self> {
        let search = Search::new(tools, settings, known)?;
        Some(Self {
            prose: Prose::new(search.max_hold, search.calls),
            state: Self::first_state(&search, settings.starts_in_reasoning),
            search,
            held: String::new(),
            flow: None,
            escaped: String::new(),
            held_peak: 0,
            joined: String::new(),
            doubted: None,
            next: 0,
        })
    }

    /// Where a message begins, whose prompt may have begun it.
    fn first_state(search: &Search, in_reasoning: bool) -> State {
        if in_reasoning {
            let mut thoughts = search.sought.markers.thoughts();
            if thoughts.is_empty() {
                let reads = Reads { calls: false, reasoning: true };
                thoughts = Markers::new(&[&THINK], reads, false, None).thoughts();
            }
            return State::Reasoning(Thinking::from_start(
                &thoughts,
                search.sought.markers.calls_end_reasoning(),
                search.max_hold,
            ));
        }
        let Some((format, channels)) = search.sought.begun else { return State::Prose };
        State::Calls(Box::new(Reading {
            format,
            starts_line: false,
            quoted: false,
            marked: !channels.common,
            read_as: Container::Channel(Box::new(Channel::new(
                channels,
                "",
                (search.whole, false),
                search.max_hold,
            ))),
            rivals: Rivals::None,
            behind: None,
        }))
    }

    /// Bytes held back now.
    pub fn held(&self) -> usize {
        let kept = if let State::Calls(reading) = &self.state { reading.kept() } else { 0 };
        let thinking =
            if let State::Reasoning(thinking) = &self.state { Some(thinking) } else { self.doubted.as_ref() };
        self.held.len() + kept + self.prose.held() + thinking.map_or(0, Thinking::held)
    }

    /// The most bytes ever held back at once.
    pub fn held_peak(&self) -> usize {
        self.held_peak
    }

    /// Takes an event of the reader.
    pub fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        if let Event::Reasoning(reasoning) | Event::Verbatim { means: Some(Event::Reasoning(reasoning)), .. } =
            &event
            && !reasoning.text.is_empty()
            && matches!(&self.state, State::Reasoning(thinking) if thinking.is_fresh())
        {
            // Somebody has told reasoning from text already.
            self.state = Self::first_state(&self.search, false);
        }
        match event {
            Event::Text(text) => {
                if !self.flows(&text, out) {
                    self.piece(&text, None, out);
                }
            }
            Event::Verbatim { frame, means: Some(Event::Text(text)) } => {
                if self.passes(text) {
                    out.event(Event::Verbatim { frame, means: Some(&Event::Text(Cow::Borrowed(text))) });
                } else if !self.flows(text, out) {
                    self.piece(text, Some(frame), out);
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

    /// A piece of text as the upstream has written it, perhaps in a `frame` of its own. What of it is text again goes
    /// out in one piece where nothing comes between, and as the frame where it is all of it (law 6).
    fn piece(&mut self, text: &str, frame: Option<&str>, out: &mut impl Sink) {
        let frame = frame.filter(|_| self.held() == 0);
        let mut joined = Joined::new(std::mem::take(&mut self.joined), out);
        self.text(text, &mut joined);
        let whole = joined.pure && joined.joined == text && self.held() == 0;
        if let Some(frame) = frame.filter(|_| whole) {
            let means = Some(&Event::Text(Cow::Borrowed(text)));
            joined.out.event(Event::Verbatim { frame, means });
            joined.joined.clear();
        }
        self.joined = joined.finish();
    }

    /// The text has ended; `stopped`: because the model was done. What is held is decided.
    pub fn finish(&mut self, stopped: bool, out: &mut impl Sink) {
        let mut joined = Joined::new(std::mem::take(&mut self.joined), out);
        self.decide(stopped, &mut joined);
        self.prose.finish(&mut joined);
        self.joined = joined.finish();
    }

    /// The upstream's answer breaks off here, and the text of another one goes on with the message.
    pub fn next_answer(&mut self, out: &mut impl Sink) {
        let mut joined = Joined::new(std::mem::take(&mut self.joined), out);
        self.decide(false, &mut joined);
        self.joined = joined.finish();
        self.prose.next_answer();
    }

    /// Whether `text` would leave as it came, with nothing held before or after it.
    pub(crate) fn passes_on(&self, text: &str) -> bool {
        match &self.state {
            State::Prose => self.prose.passes(text) && self.opener(text).is_none(),
            State::Foreign(foreign) => foreign.passes(text) && self.prose.passes(text),
            _ => false,
        }
    }

    /// Whether `text` leaves as it came; if so, it has been taken.
    fn passes(&mut self, text: &str) -> bool {
        let passes = self.passes_on(text);
        if passes {
            self.prose.passed(text);
        }
        passes
    }

    /// What most pieces are: the inside of a string of arguments, or prose in which nothing begins. If so, it has been
    /// taken.
    fn flows(&mut self, text: &str, out: &mut impl Sink) -> bool {
        if let Some(piece) = self.flow.and_then(|flow| flow.take(text, &mut self.escaped)) {
            let index = DETECTED | self.next.saturating_sub(1);
            if !piece.is_empty() {
                out.event(Event::CallArguments { index, piece: Cow::Borrowed(piece) });
            }
            return true;
        }
        let plain = matches!(self.state, State::Prose) && self.opener(text).is_none();
        if plain {
            self.prose.put(text, out);
            self.held_peak = self.held_peak.max(self.prose.held());
        }
        plain
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
                State::Behind => self.behind(rest, out),
                State::Invented(_) => self.invented(rest),
                State::Dropped => rest.len(),
            };
            rest = tail(rest, taken);
        }
        self.held_peak = self.held_peak.max(match self.state {
            State::Prose => self.prose.held(),
            _ => self.held(),
        });
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

    fn reasoning(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Reasoning(thinking) = &mut self.state else { return 0 };
        match thinking.feed(text, &self.search.sought.markers, out) {
            ThinkingProgress::On => text.len(),
            ThinkingProgress::Closed(taken) => {
                self.state = State::Prose;
                taken
            }
            ThinkingProgress::Calls(taken, place) => {
                self.held = thinking.take_markup();
                let state = std::mem::replace(&mut self.state, State::Prose);
                self.doubted = if let State::Reasoning(thinking) = state { Some(thinking) } else { None };
                self.enter_at(place, false, false);
                taken
            }
        }
    }
}
