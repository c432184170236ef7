//! Finds calls and reasoning that a model wrote as text in a stream of events.
//!
//! ```text
//!                    ┌─ prose ───────────────────────────────────────▶ Text
//! Text ─▶ Detector ──┤  opener? ─▶ region ─▶ envelope ─▶ body ───────▶ CallStart, CallArguments, CallEnd
//!                    └─ reasoning ───────────────────────────────────▶ Reasoning
//! all other events ──────────────────────────────────────────────────▶ unchanged
//! ```
//!
//! The [`Detector`] is a state machine over the bytes of the text. Its output depends only on these bytes, and
//! never on where pieces end (law 1). In prose, it holds only white space and the start of an opener, which is
//! released at the first byte that does not continue the opener (law 2). Text that turns out not to be a call is
//! sent unchanged (law 3). Each byte is read once, except for the few bytes of a failed marker (law 4). `enter`
//! contains the transitions out of prose, and `settle` the transitions back to it.

mod after_call;
#[cfg(test)]
mod argument_tests;
mod attributes;
mod bare_text;
mod body;
mod broken;
#[cfg(test)]
mod broken_tests;
mod broken_text;
mod channels;
mod checkpoint;
mod dsl;
mod elements;
mod enter;
mod envelope;
mod escape;
mod fence;
pub mod find_format;
mod gate;
mod gated_container;
mod header;
mod joiner;
mod literal;
mod markers;
mod openers;
mod params;
mod pattern;
mod pending;
mod prose;
mod pythonic;
mod quotations;
mod quote;
mod raw;
mod react;
mod reading;
mod region;
mod repeats;
mod schema;
mod search;
mod section;
mod settle;
mod shared_plans;
mod start;
mod string_fast_path;
mod tag;
#[cfg(test)]
mod tagged_tests;
mod tentative;
mod thinking;
mod trimmer;
mod typed_value;
mod walk;
mod walker;
mod watch;

use std::borrow::Cow;

pub use self::{
    body::{Fed, JsonBody},
    checkpoint::Checkpoint,
    quote::QuotedCount,
};

use self::{
    channels::Channel,
    fence::{Foreign, Opener, Reach},
    gate::Gate,
    gated_container::GatedContainer,
    joiner::Joiner,
    markers::Markers,
    openers::Reads,
    pending::Pending,
    prose::Prose,
    quotations::Quotations,
    quote::Quote,
    reading::{Reading, Rivals},
    search::Search,
    shared_plans::PlanUse,
    start::Start,
    string_fast_path::StringFastPath,
    tentative::{LastEnd, Tentative},
    text::{head, tail},
    thinking::{Thinking, ThinkingProgress},
};
use toolwire_engine::{
    conversation,
    event::{self, Event, Finish, Runner, Sink, Warning},
    format::{self, KnownFormats, THINK},
    rules::{self, ArgumentDelivery, Rules},
    tools::{self, DeclaredTools},
};
use toolwire_wire::{
    self as wire,
    json::{Progress, Scanner},
    text,
};

/// The index of the first detected call. Lower indices are those of the upstream's native calls.
pub const DETECTED: u32 = 1 << 31;

#[derive(Debug)]
enum State {
    Prose,
    /// `held` is the start of an opener.
    Marker {
        /// The index of the first opener that starts with `held`.
        place: usize,
        starts_line: bool,
        quote: Quote,
    },
    /// `held` is an HTML opener whose attributes continue.
    Attributes {
        place: usize,
        starts_line: bool,
        quote: Quote,
    },
    Opener(Opener),
    /// In a fence that is not searched.
    Foreign(Foreign),
    /// In a JSON value that is not a call.
    Json(Scanner),
    Calls(Box<Reading>),
    Reasoning(Thinking),
    /// `held` is a closer of reasoning without its opener, after this quotation mark.
    QuotedCloser(char),
    /// All text so far, of a message that must be known completely.
    Whole(String),
    /// In calls that the model wrote in its reasoning.
    Tentative(Box<Tentative>),
    /// Right after a call. `held` is the start of possible framing.
    Behind,
    /// In an invented result that ends with this marker. `held` is the start of the marker.
    Invented(&'static str),
    /// In markup that is dropped if nothing follows it. The first `ended` bytes of `held` are such markup and white
    /// space, and the rest may begin more of it.
    Ending {
        ended: usize,
    },
    /// After the end of the message, in text that the model invented and that is dropped.
    Dropped,
}

/// The stage that finds calls in text.
#[derive(Debug)]
pub struct Detector {
    search: Search,
    start: Start,
    state: State,
    prose: Prose,
    /// The source since the last certain point, while it may be something other than text.
    held: String,
    /// The fast path for the argument string being streamed.
    flow: Option<StringFastPath>,
    /// A buffer for pieces of argument strings, escaped for JSON.
    escaped: String,
    held_peak: usize,
    /// A buffer in which pieces are joined. Empty between method calls.
    joined: String,
    /// Whether the text ended because of a limit, so that markup at its end is left out.
    is_cut: bool,
    /// Whether the header of a message was sent as text, so that its end is text too.
    keeps_end: bool,
    /// Reasoning in which a call may have begun. Without a call, the reasoning continues.
    doubted: Option<Thinking>,
    /// How the last container ended, for [`Tentative`].
    last_end: LastEnd,
    next: u32,
    /// How many bytes of the text followed the end of the last reasoning when it was read.
    behind_reasoning: Option<usize>,
    /// How deep [`Detector::text`] is in reading again what was held.
    depth: usize,
    /// Whether the model stopped inside a list of calls.
    unfinished: bool,
    quotations: Quotations,
    /// Calls that are quotations unless they stand alone.
    pending: Option<Box<Pending>>,
    /// Whether quotations are text even if they stand alone: pending calls are being read again, or reasoning is read.
    quotes_only: bool,
    quoted: QuotedCount,
}

impl Detector {
    /// Creates a detector for reasoning and for calls to `tools`, with the formats that `settings` selects from
    /// `known`. Returns `None` if there is nothing to detect, so that text can pass without being held.
    pub fn new(tools: DeclaredTools, settings: &Rules, known: &KnownFormats) -> Option<Self> {
        let waits = settings.arguments == ArgumentDelivery::Whole;
        Self::with_delivery(tools, settings, known, waits)
    }

    /// Like [`Self::new`]. `waits` is set if a call is sent once it is complete, and is otherwise text as written,
    /// instead of being sent as it arrives.
    pub fn with_delivery(
        tools: DeclaredTools,
        settings: &Rules,
        known: &KnownFormats,
        waits: bool,
    ) -> Option<Self> {
        Search::new(tools, settings, known, waits, PlanUse::Kept).map(|search| Self::of(search, settings))
    }

    /// Like [`Self::new`], for one text that is read in many formats.
    fn once(tools: DeclaredTools, settings: &Rules, known: &KnownFormats) -> Option<Self> {
        let waits = settings.arguments == ArgumentDelivery::Whole;
        Search::new(tools, settings, known, waits, PlanUse::Once).map(|search| Self::of(search, settings))
    }

    fn of(search: Search, settings: &Rules) -> Self {
        Self {
            prose: Prose::new(search.max_hold, search.calls),
            state: Self::first_state(&search, settings.starts_in_reasoning),
            search,
            start: Start::new(settings),
            held: String::new(),
            flow: None,
            escaped: String::new(),
            held_peak: 0,
            joined: String::new(),
            is_cut: false,
            keeps_end: false,
            doubted: None,
            last_end: LastEnd::default(),
            next: 0,
            behind_reasoning: None,
            depth: 0,
            unfinished: false,
            quotations: Quotations::default(),
            pending: None,
            quotes_only: false,
            quoted: QuotedCount::default(),
        }
    }

    /// Starts a message, which the prompt may already have begun.
    fn start(&mut self, in_reasoning: bool) {
        self.state = Self::first_state(&self.search, in_reasoning);
        self.watch_start();
    }

    /// The state at the start of a message, which the prompt may already have begun.
    fn first_state(search: &Search, in_reasoning: bool) -> State {
        if in_reasoning {
            let mut thoughts = search.sought.markers.thoughts();
            if thoughts.is_empty() {
                let reads = Reads { calls: false, reasoning: true };
                thoughts = Markers::new(&[&THINK], reads, false, None).thoughts();
            }
            return State::Reasoning(Thinking::from_start(&thoughts, search.max_hold));
        }
        let Some((format, channels)) = search.sought.begun else { return State::Prose };
        let channel = Channel::new(channels, "", false, search.max_hold);
        State::Calls(Box::new(Reading {
            format,
            starts_line: true,
            takes_line: false,
            quote: Quote::None,
            marked: !channels.common,
            container: GatedContainer::new(channel, Gate::new(search.wait(false, true)), ""),
            rivals: Rivals::None,
            found: false,
            is_text: false,
            behind: None,
            punctuation: 0,
            has_messages: true,
            watch: None,
        }))
    }

    /// How many bytes are currently held.
    pub fn held(&self) -> usize {
        let kept = match &self.state {
            State::Calls(reading) => reading.container.kept(),
            State::Whole(text) => text.len(),
            State::Tentative(tentative) => tentative.held(),
            _ => 0,
        };
        let thinking =
            if let State::Reasoning(thinking) = &self.state { Some(thinking) } else { self.doubted.as_ref() };
        self.held.len()
            + kept
            + self.pending_source()
            + self.prose.held()
            + thinking.map_or(0, Thinking::held)
    }

    /// The largest number of bytes that were ever held at once.
    pub fn held_peak(&self) -> usize {
        self.held_peak
    }

    /// Handles an event from the reader.
    pub fn event(&mut self, event: Event<'_>, out: &mut impl Sink) {
        if let Event::Reasoning(reasoning) = event.meaning()
            && !reasoning.text.is_empty()
        {
            self.reasoning_is_separate();
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
                self.finish(Some(finish), out);
                if std::mem::take(&mut self.unfinished) {
                    let message = "the response ended inside a list of calls";
                    out.event(Event::Warning(Warning { code: "cut_markup", message: message.into() }));
                    return out.event(Event::Finish(Finish::Length));
                }
                out.event(event);
            }
            Event::CallStart(ref start) => {
                self.read_before(&event, out);
                if start.runner == Runner::Upstream && self.search.tools.resolve(&start.name).is_some() {
                    self.interrupt(out);
                } else if matches!(self.state, State::Prose) {
                    self.prose.interrupt(out);
                }
                out.event(event);
            }
            event => {
                self.read_before(&event, out);
                self.reads_result(&event);
                out.event(event);
            }
        }
    }

    /// Handles a piece of text. `frame` is its frame, if it arrived in a frame of its own. Adjacent parts that
    /// remain text are sent together. If all of the piece remains text, its frame is sent unchanged (law 6).
    fn piece(&mut self, text: &str, frame: Option<&str>, out: &mut impl Sink) {
        let frame = frame.filter(|_| self.held() == 0);
        let mut joined = Joiner::new(std::mem::take(&mut self.joined), out);
        self.text(text, &mut joined);
        let whole = joined.pure && joined.joined == text && self.held() == 0;
        if let Some(frame) = frame.filter(|_| whole) {
            let means = Some(&Event::Text(Cow::Borrowed(text)));
            joined.out.event(Event::Verbatim { frame, means });
            joined.joined.clear();
        }
        self.joined = joined.finish();
    }

    /// Ends the text, and resolves what is held. `finish` is how the response ended, or `None` if it was broken off.
    pub fn finish(&mut self, finish: Option<Finish>, out: &mut impl Sink) {
        let stopped = matches!(finish, Some(Finish::Stop | Finish::Calls));
        self.is_cut = !stopped && finish.is_some();
        let mut joined = Joiner::new(std::mem::take(&mut self.joined), out);
        self.decide(stopped, &mut joined);
        self.prose.finish(&mut joined);
        self.warn_of_repetitions(&mut joined);
        self.joined = joined.finish();
    }

    /// Ends the upstream's response here. The text of another response will continue the message.
    pub fn next_answer(&mut self, out: &mut impl Sink) {
        let mut joined = Joiner::new(std::mem::take(&mut self.joined), out);
        self.is_cut = false;
        self.decide(false, &mut joined);
        self.prose.release_wrapper(&mut joined);
        self.joined = joined.finish();
        self.prose.next_answer();
        self.begin();
    }

    /// Sets whether the model is asked again if it calls an undeclared tool. If it is, such a call needs no
    /// marker in formats that were chosen by name.
    pub fn asks_for_unknown(&mut self, asks: bool) {
        self.search.asks &= asks;
    }

    /// Whether `text` would be sent unchanged, with nothing held before or after it.
    pub fn passes_on(&self, text: &str) -> bool {
        match &self.state {
            State::Prose => self.prose.passes(text) && self.opener(text).is_none(),
            State::Foreign(foreign) => foreign.passes(text) && self.prose.passes(text),
            _ => false,
        }
    }

    /// Like [`Self::passes_on`], but also records the text if the result is true.
    fn passes(&mut self, text: &str) -> bool {
        let passes = self.passes_on(text);
        if passes {
            self.prose.passed(text);
        }
        passes
    }

    /// Handles the common cases, which are the inside of an argument string and prose in which nothing begins.
    /// Returns whether `text` was such a case and has been handled.
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
        self.depth += 1;
        while !rest.is_empty() {
            let taken =
                if self.is_paused() { self.step_behind_pending(rest, out) } else { self.step(rest, out) };
            rest = tail(rest, taken);
        }
        self.stay_behind_pending();
        self.depth -= 1;
        self.held_peak = self.held_peak.max(match self.state {
            State::Prose => self.prose.held(),
            _ => self.held(),
        });
    }

    /// Reads the start of `text` in the current state. Returns how much of it was read.
    fn step(&mut self, text: &str, out: &mut impl Sink) -> usize {
        match self.state {
            State::Prose => self.prose_text(text, out),
            State::Marker { .. } => self.marker(text, out),
            State::Attributes { .. } => self.attributes(text, out),
            State::Opener(_) => self.fence_opener(text, out),
            State::Foreign(_) => self.foreign(text, out),
            State::Json(_) => self.foreign_json(text, out),
            State::Calls(_) => self.calls(text, out),
            State::Reasoning(_) => self.reasoning(text, out),
            State::Tentative(_) => self.tentative(text, out),
            State::QuotedCloser(_) => self.quoted_closer(text, out),
            State::Whole(_) => self.keep_whole(text, out),
            State::Behind => self.behind(text, out),
            State::Invented(_) => self.invented(text),
            State::Ending { .. } => self.ending(text, out),
            State::Dropped => text.len(),
        }
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
                self.behind_reasoning = Some(if self.depth == 1 { text.len() - taken } else { usize::MAX });
                if let State::Reasoning(thinking) = std::mem::replace(&mut self.state, State::Prose) {
                    self.reasoning_closed(&thinking);
                }
                taken
            }
            ThinkingProgress::Calls(taken, place) => {
                self.behind_reasoning = Some(usize::MAX);
                if let State::Reasoning(thinking) = std::mem::replace(&mut self.state, State::Prose) {
                    self.enter_from_reasoning(thinking, place, out);
                }
                taken
            }
        }
    }
}
