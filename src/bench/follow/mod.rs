//! [`Follower`]: reads a stream as its strictest clients do, and notes what it shows.
//!
//! ```text
//! bytes ─wire::sse─▶ events ─chat │ responses │ messages─▶ Notes ─▶ Sample: tokens, call times, usage, end, violations
//! ```
//!
//! The rules are those of docs/protocols/chat.md#stream and its counterparts for the other dialects, taken literally:
//! each of them breaks some client when it is violated, although most clients tolerate most violations. Only the stream
//! is checked, not what was asked for. A violation is a sentence, then in brackets where it was seen first;
//! [`rule`] gives the sentence alone.
//!
//! This runs on the path that measures, so an event is read once, into values that lie where they were received, and
//! nothing of a stream is kept but what a later event is held against: ids, and a hash of texts that come again.

mod calls;
mod chat;
mod field;
mod messages;
mod notes;
mod responses;

use std::ops::ControlFlow;

use memchr::memchr;

use self::{
    chat::Chat,
    messages::Messages,
    notes::{Finders, Notes},
    responses::Responses,
};
use super::sample::{Outcome, Sample};
use crate::wire::sse::{Frame, Frames, Message};

/// Bytes of an event at most; a stream with a larger one is broken. Responses tell the whole answer in their last.
const MAX_FRAME: usize = 16 << 20;

/// The event that ends a chat stream, and that no client of the other dialects minds.
const DONE: &str = "[DONE]";

/// U+FEFF in UTF-8.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum Dialect {
    /// OpenAI's Chat Completions.
    #[default]
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

impl Dialect {
    /// Where requests go, behind an API's base address (`…/v1`).
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
        }
    }

    /// Its name, as the command line has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}

/// The sentence of a violation without the place where it was seen: what is the same in every stream.
pub(crate) fn rule(violation: &str) -> &str {
    violation.split_once(" (").map_or(violation, |(rule, _)| rule)
}

/// Follows one stream. Sans-IO: bytes come with the time at which they were read.
#[derive(Debug)]
pub(crate) struct Follower {
    frames: Frames,
    reader: Reader,
    finders: Finders,
    /// Events so far.
    events: u64,
    /// Bytes of a byte order mark seen at the start; all of them once the question is settled.
    bom: usize,
    /// A chat stream's lines may not end with CR; none has so far.
    seeks_cr: bool,
}

#[derive(Debug)]
enum Reader {
    Chat(Chat),
    Responses(Responses),
    Messages(Messages),
}

impl Follower {
    /// At the start of a stream.
    pub(crate) fn new(dialect: Dialect) -> Self {
        let reader = match dialect {
            Dialect::Chat => Reader::Chat(Chat::default()),
            Dialect::Responses => Reader::Responses(Responses::default()),
            Dialect::Messages => Reader::Messages(Messages::default()),
        };
        Self {
            frames: Frames::new(MAX_FRAME),
            reader,
            finders: Finders::default(),
            events: 0,
            bom: 0,
            seeks_cr: dialect == Dialect::Chat,
        }
    }

    /// Reads on: `bytes` came at `at`.
    pub(crate) fn push(&mut self, bytes: &[u8], at: u64, sample: &mut Sample) {
        if bytes.is_empty() {
            return;
        }
        sample.first_byte.get_or_insert(at);
        self.look_at_bytes(bytes, sample);
        sample.bytes += bytes.len() as u64;
        let Self { frames, reader, finders, events, .. } = self;
        let read = frames.push(bytes, |frame| {
            if let Frame::Event(message) = frame {
                *events += 1;
                reader.event(message, &mut Notes { sample: &mut *sample, finders, at, frame: *events });
            }
            ControlFlow::Continue(())
        });
        if let Err(oversized) = read {
            self.break_off(&oversized.to_string(), at, sample);
        }
    }

    /// The body has ended, properly: a stream without its end mark is broken.
    pub(crate) fn finish(&mut self, at: u64, sample: &mut Sample) {
        let Self { frames, reader, finders, events, .. } = self;
        frames.finish(|frame| {
            if let Frame::Event(message) = frame {
                *events += 1;
                let mut notes = Notes { sample: &mut *sample, finders, at, frame: *events };
                notes.breaks("the last event has no blank line behind it");
                reader.event(message, &mut notes);
            }
            ControlFlow::Continue(())
        });
        let missing = self.reader.missing_end();
        self.notes(at, sample).end(Outcome::Broken(missing.to_owned()));
    }

    /// The body broke off, or was given up: `why`. Behind the stream's end mark that is a violation only.
    pub(crate) fn break_off(&mut self, why: &str, at: u64, sample: &mut Sample) {
        let mut notes = self.notes(at, sample);
        if notes.sample.outcome == Outcome::Open {
            notes.end(Outcome::Broken(why.to_owned()));
        } else {
            notes.breaks_by("the body does not end properly behind the stream's end", why);
        }
    }

    fn notes<'n>(&'n mut self, at: u64, sample: &'n mut Sample) -> Notes<'n> {
        Notes { sample, finders: &mut self.finders, at, frame: self.events }
    }

    /// What the decoder of events does not tell: a byte order mark, and CR as a line's end.
    fn look_at_bytes(&mut self, bytes: &[u8], sample: &mut Sample) {
        for byte in bytes {
            let Some(mark) = BOM.get(self.bom) else { break };
            self.bom = if byte == mark { self.bom + 1 } else { BOM.len() + 1 };
            if self.bom == BOM.len() {
                sample.violations.push("the stream begins with a byte order mark (byte 0)".to_owned());
            }
        }
        if self.seeks_cr
            && let Some(at) = memchr(b'\r', bytes)
        {
            self.seeks_cr = false;
            let at = sample.bytes + at as u64;
            // Before those of events: which come first must not depend on where the stream is cut.
            sample.violations.insert(0, format!("a line ends with CR (byte {at})"));
        }
    }
}

impl Reader {
    fn event(&mut self, message: Message<'_>, notes: &mut Notes<'_>) {
        let Ok(data) = str::from_utf8(message.data) else {
            return notes.breaks("an event is not UTF-8");
        };
        if data.is_empty() {
            return notes.breaks("an event's data is empty");
        }
        if memchr(b'\n', message.data).is_some() {
            notes.breaks("an event has several data lines, or no blank line behind it");
        }
        match self {
            Self::Chat(chat) => chat.event(data, notes),
            Self::Responses(responses) => responses.event(message.event, data, notes),
            Self::Messages(messages) => messages.event(message.event, data, notes),
        }
    }

    /// What a stream lacks that has not ended.
    fn missing_end(&self) -> &'static str {
        match self {
            Self::Chat(_) => "the stream ends without [DONE]",
            Self::Responses(_) => "the stream ends without response.completed",
            Self::Messages(_) => "the stream ends without message_stop",
        }
    }
}

/// Reads an event's JSON; tells what is wrong with one that cannot be read.
fn parse<'a, T: serde::Deserialize<'a>>(data: &'a str, notes: &mut Notes<'_>) -> Option<T> {
    match serde_json::from_str(data) {
        Ok(event) => Some(event),
        Err(error) => {
            let told = error.to_string();
            let why = told.split(" at line").next().unwrap_or_default();
            notes.breaks_by("an event's data is no JSON object of its dialect", why);
            None
        }
    }
}

/// The error of an event that tells one: its message, which is what the stream fails with.
fn failure(error: field::Field<'_>, rule: &str, notes: &mut Notes<'_>) {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Body<'a> {
        #[serde(borrow)]
        message: field::Field<'a>,
        #[serde(rename = "type")]
        kind: field::Field<'a>,
    }
    let body: Body<'_> = error.read();
    notes.holds(body.message.word().is_some() && body.kind.word().is_some(), rule);
    let message = if body.message.word().is_some() { body.message } else { error };
    notes.fails(message.told());
}

#[cfg(test)]
mod tests;
