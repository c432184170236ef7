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
mod envelope;
mod fence;
mod prose;
mod region;
mod schema;
pub(crate) mod text;
mod tools;

pub use tools::Tools;

use std::borrow::Cow;

use self::{
    envelope::{Piece, Rules},
    fence::{Fence, Foreign, Opener, Opening, Reach},
    prose::Prose,
    region::{Container, Passed, Region},
    text::{head, tail},
};
use crate::{
    event::{CallStart, Event, Finish, Reasoning, Runner, Sink, Source},
    format::{self, Format, Grammar, Tag, TagKind},
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
        format: &'static Format,
        tag: &'static Tag,
        starts_line: bool,
        quoted: bool,
    },
    Opener(Opener),
    /// In a fence that is not searched.
    Foreign(Foreign),
    /// In a JSON value that is no call.
    Json(Scanner),
    Region(Box<Region>),
    Reasoning {
        tag: &'static Tag,
        begun: bool,
    },
}

/// What one request's text is searched with.
#[derive(Debug)]
struct Search {
    tools: Tools,
    formats: Vec<&'static Format>,
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
    fn rules(&self, format: &Format) -> Rules<'_> {
        Rules {
            tools: &self.tools,
            marked: format.is_marked(),
            any_name: self.any_name,
            repair: self.repair,
            whole: self.whole,
            max_depth: self.max_depth,
        }
    }

    /// All markers, with their formats.
    fn tags(&self) -> impl Iterator<Item = (&'static Format, &'static Tag)> {
        self.formats.iter().flat_map(|&format| {
            let tags: &'static [Tag] = match format.grammar {
                Grammar::Tagged(tags) | Grammar::Reasoning(tags) => tags,
                Grammar::Fenced { .. } | Grammar::Bare => &[],
            };
            tags.iter().map(move |tag| (format, tag))
        })
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
            Detect::Auto => format::ALL.to_vec(),
            Detect::Formats(formats) => formats.clone(),
        };
        if tools.is_empty() || formats.is_empty() {
            return None;
        }
        let fenced = formats.iter().find_map(|format| match format.grammar {
            Grammar::Fenced { infos } => Some((*format, infos)),
            _ => None,
        });
        let bare = formats.iter().copied().find(|format| format.grammar == Grammar::Bare);
        let search = Search {
            tools,
            formats,
            fenced,
            bare,
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
        let kept = if let State::Region(region) = &self.state { region.kept() } else { 0 };
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
            State::Region(mut region) => {
                if self.finish_region(&mut region, stopped, out) {
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
            State::Prose | State::Foreign(_) | State::Json(_) => {}
        }
    }

    fn finish_region(&mut self, region: &mut Region, stopped: bool, out: &mut impl Sink) -> bool {
        let (prose, next) = (&mut self.prose, &mut self.next);
        let (format, starts_line) = (region.format, region.starts_line);
        let repair = self.search.repair;
        let ended = region
            .finish(stopped, repair, &mut |piece| call_piece(piece, format, starts_line, prose, next, out));
        if ended {
            for waiting in std::mem::take(&mut region.waiting) {
                call_piece(waiting.as_piece(), format, starts_line, prose, next, out);
            }
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
                State::Region(_) => self.region(rest, out),
                State::Reasoning { .. } => self.reasoning(rest, out),
            };
            rest = tail(rest, taken);
        }
        self.held_peak = self.held_peak.max(self.held());
    }

    /// Where in `text` something may begin.
    fn opener(&self, text: &str) -> Option<usize> {
        text.bytes().enumerate().position(|(at, byte)| match byte {
            b'<' => true,
            b'{' | b'[' => self.search.bare.is_some(),
            b'`' | b'~' => self.search.fenced.is_some() && self.prose.starts_line(head(text, at)),
            _ => false,
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
        match (text.as_bytes().get(at), self.search.bare) {
            (Some(b'<'), _) => {
                self.held.push('<');
                self.state = State::Marker { starts_line, quoted };
                at + 1
            }
            (Some(&tick @ (b'`' | b'~')), _) => {
                self.held.push(char::from(tick));
                self.state = State::Opener(Opener::new(tick));
                at + 1
            }
            (_, Some(format)) => {
                self.enter(format, Container::Bare, starts_line, quoted);
                at
            }
            (_, None) => at,
        }
    }

    fn enter(&mut self, format: &'static Format, container: Container, starts_line: bool, quoted: bool) {
        // Around a marker of its own all blanks stay (formats 2.1), as if it stood within a line.
        let starts_line = starts_line && !format.is_marked();
        let region = Region::new(format, container, starts_line, quoted, self.search.whole);
        self.state = State::Region(Box::new(region));
    }

    /// One byte of what may be a marker.
    fn marker(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Marker { starts_line, quoted } = self.state else { return 0 };
        let Some(character) = text.chars().next() else { return 0 };
        self.held.push(character);
        let held = self.held.as_bytes();
        let begins = |tag: &Tag| {
            let start = tag.open.as_bytes().get(..held.len()).unwrap_or_default();
            if tag.kind == TagKind::Marked { start == held } else { start.eq_ignore_ascii_case(held) }
        };
        let live = |tag: &Tag| begins(tag) && (tag.kind != TagKind::Reasoning || starts_line);
        let Some((format, tag)) = self.search.tags().find(|(_, tag)| live(tag)) else {
            self.held.pop();
            self.state = State::Prose;
            self.release(0, out);
            return 0;
        };
        if tag.open.len() == held.len() {
            match tag.kind {
                TagKind::Marked => self.enter(format, Container::Tag(tag), starts_line, quoted),
                TagKind::Html => self.state = State::Attributes { format, tag, starts_line, quoted },
                TagKind::Reasoning => {
                    self.held.clear();
                    self.state = State::Reasoning { tag, begun: false };
                }
            }
        }
        character.len_utf8()
    }

    /// One character of an HTML opener's attributes.
    fn attributes(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Attributes { format, tag, starts_line, quoted } = self.state else { return 0 };
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

    fn region(&mut self, text: &str, out: &mut impl Sink) -> usize {
        let State::Region(mut region) = std::mem::replace(&mut self.state, State::Prose) else { return 0 };
        let (format, starts_line) = (region.format, region.starts_line);
        let (prose, next) = (&mut self.prose, &mut self.next);
        let rules = self.search.rules(format);
        let passed =
            region.feed(text, &rules, &mut |piece| call_piece(piece, format, starts_line, prose, next, out));
        match passed {
            Passed::More => {
                if region.is_streaming() {
                    self.held.clear();
                } else {
                    self.held.push_str(text);
                }
                // A call that waits for its end may be as long as any call; only beyond that is there no telling.
                let limit =
                    self.search.max_hold + if region.has_begun() { self.search.max_arguments } else { 0 };
                self.state = State::Region(region);
                if self.held() > limit {
                    self.overflow(out);
                }
                text.len()
            }
            Passed::Certain(taken) => {
                self.held.clear();
                self.state = State::Region(region);
                taken
            }
            Passed::Ended(taken) => {
                for waiting in std::mem::take(&mut region.waiting) {
                    call_piece(waiting.as_piece(), format, starts_line, prose, next, out);
                }
                self.held.clear();
                self.prose.container_ended(starts_line);
                taken
            }
            Passed::Failed { taken, rescan } => {
                self.held.push_str(head(text, taken));
                self.state = State::Region(region);
                self.fail_region(rescan, out);
                taken
            }
        }
    }

    /// More is held than may be. What has not begun to be a call is text; a waiting call goes out cut, since its
    /// arguments are over their limit, too.
    fn overflow(&mut self, out: &mut impl Sink) {
        let State::Region(region) = &mut self.state else { return };
        if !region.has_begun() {
            return self.fail_region(0, out);
        }
        let (format, starts_line) = (region.format, region.starts_line);
        for waiting in region.abandon() {
            call_piece(waiting.as_piece(), format, starts_line, &mut self.prose, &mut self.next, out);
        }
        self.held.clear();
        self.state = State::Prose;
    }

    /// The region is none: the source since the last certain point is text, and the text goes on as what it then is.
    fn fail_region(&mut self, rescan: usize, out: &mut impl Sink) {
        let State::Region(region) = &mut self.state else { return };
        if let Container::Fence(fence) = region.container {
            self.leave_fence(Some(fence), out);
            return;
        }
        self.state = match region.scanner.take() {
            Some(scanner) if scanner.depth() > 0 => State::Json(scanner),
            _ => State::Prose,
        };
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
            if visible.is_empty() {
                blank.push_str(if *begun { run } else { "" });
            } else {
                let visible = if *begun { visible } else { visible.trim_start() };
                reasoning(blank, out);
                reasoning(visible, out);
                blank.clear();
                blank.push_str(tail(run, run.trim_end().len()));
                *begun = true;
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

/// Sends a piece of a call on.
fn call_piece(
    piece: Piece<'_>,
    format: &'static Format,
    starts_line: bool,
    prose: &mut Prose,
    next: &mut u32,
    out: &mut impl Sink,
) {
    let index = DETECTED | next.saturating_sub(1);
    match piece {
        Piece::Start { name, id } => {
            prose.call(starts_line);
            let index = DETECTED | *next;
            *next += 1;
            out.event(Event::CallStart(CallStart {
                index,
                id: Cow::Borrowed(id),
                name: Cow::Borrowed(name),
                runner: Runner::Client,
                source: Source::Format(format.name),
            }));
        }
        Piece::Arguments(text) => out.event(Event::CallArguments { index, piece: Cow::Borrowed(text) }),
        Piece::End(end) => out.event(Event::CallEnd { index, end }),
    }
}
