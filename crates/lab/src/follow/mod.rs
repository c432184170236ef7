//! [`Follower`]: reads a stream as strictly as the strictest clients, and records its content.
//!
//! ```text
//! bytes ─wire::sse, lines─▶ events ─chat │ responses │ messages │ gemini │ ollama─▶ Notes ─▶ Sample: tokens, call times, usage, end, violations
//! ```
//!
//! The rules are those of docs/protocols/chat.md#stream and its counterparts for other dialects. Violating any of them
//! breaks some client, although most clients tolerate most violations. The follower does not check whether the stream fits
//! the request. A violation is a sentence, followed by its first location in parentheses; [`rule`] returns only the
//! sentence.
//!
//! `bench`, `conform` and fixtures share this code. In `bench`, it runs while times are measured, so it parses each event
//! once, into values that borrow from the receive buffer. It stores only what it compares with later events: ids, and
//! hashes of repeated texts.

mod calls;
mod chat;
mod field;
mod gemini;
mod messages;
mod notes;
mod ollama;
mod responses;
pub(crate) mod sample;

use std::{borrow::Cow, ops::ControlFlow};

use memchr::memchr;

use self::{
    chat::Chat,
    gemini::Gemini,
    messages::Messages,
    notes::{Finders, Notes},
    ollama::Ollama,
    responses::Responses,
    sample::{Outcome, Sample},
};
use toolwire_pipeline::{
    dialect::ClientDialect,
    wire::sse::{Frame, Frames, Message},
};

/// Maximum size of an event, in bytes; a stream with a larger one counts as broken. The limit is high because the last
/// event of Responses contains the complete response.
const MAX_FRAME: usize = 16 << 20;

/// The data of the event that ends a chat stream. Clients of the other dialects tolerate it.
const DONE: &str = "[DONE]";

/// U+FEFF in UTF-8.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A client dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Dialect {
    /// OpenAI's Chat Completions.
    #[default]
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
    /// Gemini's API. `bench` cannot send its requests, whose path names the model.
    #[value(skip)]
    Gemini,
    /// Ollama.
    Ollama,
}

impl Dialect {
    /// Returns the path of requests for `model` below `base`, the path of a base URL (`…/v1`). Ollama's API has no
    /// version in its path.
    pub(crate) fn path_at(self, base: &str, model: &str) -> String {
        let own = self.path(model);
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix(&*own).unwrap_or(base);
        let base = if self == Self::Ollama { base.strip_suffix("/v1").unwrap_or(base) } else { base };
        format!("{base}{own}")
    }

    /// Whether the arguments of calls are JSON values instead of texts.
    pub(crate) fn has_argument_values(self) -> bool {
        matches!(self, Self::Gemini | Self::Ollama)
    }

    /// Whether streams are lines of JSON instead of events.
    pub(crate) fn has_lines(self) -> bool {
        self == Self::Ollama
    }

    /// Whether `kind` is the content type of a stream.
    pub(crate) fn is_stream_type(self, kind: &str) -> bool {
        kind.starts_with(if self.has_lines() { "application/x-ndjson" } else { "text/event-stream" })
    }

    /// Returns the path of requests for `model`, relative to the base URL (`…/v1`).
    fn path(self, model: &str) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Messages => "/messages",
            Self::Gemini => return format!("/models/{model}:streamGenerateContent?alt=sse").into(),
            Self::Ollama => "/api/chat",
        })
    }

    /// Returns the dialect's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }
}

impl From<ClientDialect> for Dialect {
    fn from(dialect: ClientDialect) -> Self {
        match dialect {
            ClientDialect::Chat => Self::Chat,
            ClientDialect::Responses => Self::Responses,
            ClientDialect::Messages => Self::Messages,
            ClientDialect::Gemini => Self::Gemini,
            ClientDialect::Ollama => Self::Ollama,
        }
    }
}

/// Returns the sentence of a violation, without the location.
pub(crate) fn rule(violation: &str) -> &str {
    violation.split_once(" (").map_or(violation, |(rule, _)| rule)
}

/// Follows one stream. Does no I/O: the caller passes the bytes and the time at which they were read.
#[derive(Debug)]
pub(crate) struct Follower {
    frames: Frames,
    /// The line that is not complete yet, in dialects with [lines](Dialect::has_lines).
    line: Option<Vec<u8>>,
    reader: Reader,
    finders: Finders,
    /// Number of events so far.
    events: u64,
    /// Number of bytes of [`BOM`] matched at the start of the stream, or its length once the check is done.
    bom: usize,
    /// Whether to search the stream for lines that end with CR, which is not allowed in chat streams.
    seeks_cr: bool,
}

#[derive(Debug)]
enum Reader {
    Chat(Chat),
    Responses(Responses),
    Messages(Messages),
    Gemini(Gemini),
    Ollama(Ollama),
}

impl Follower {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let reader = match dialect {
            Dialect::Chat => Reader::Chat(Chat::default()),
            Dialect::Responses => Reader::Responses(Responses::default()),
            Dialect::Messages => Reader::Messages(Messages::default()),
            Dialect::Gemini => Reader::Gemini(Gemini::default()),
            Dialect::Ollama => Reader::Ollama(Ollama::default()),
        };
        Self {
            frames: Frames::new(MAX_FRAME),
            line: dialect.has_lines().then(Vec::new),
            reader,
            finders: Finders::default(),
            events: 0,
            bom: 0,
            seeks_cr: dialect == Dialect::Chat,
        }
    }

    /// Reads `bytes`, which arrived at `at`.
    pub(crate) fn push(&mut self, bytes: &[u8], at: u64, sample: &mut Sample) {
        if bytes.is_empty() {
            return;
        }
        sample.first_byte.get_or_insert(at);
        self.look_at_bytes(bytes, sample);
        sample.bytes += bytes.len() as u64;
        if self.line.is_some() {
            return self.push_lines(bytes, at, sample);
        }
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

    fn push_lines(&mut self, bytes: &[u8], at: u64, sample: &mut Sample) {
        let mut rest = bytes;
        while let Some((line, tail)) = memchr(b'\n', rest).and_then(|end| rest.split_at_checked(end)) {
            let mut held = std::mem::take(self.line.get_or_insert_default());
            let line = if held.is_empty() {
                line
            } else {
                held.extend_from_slice(line);
                &held
            };
            self.line_event(line, at, sample);
            rest = tail.get(1..).unwrap_or_default();
        }
        let line = self.line.get_or_insert_default();
        if rest.len() > MAX_FRAME.saturating_sub(line.len()) {
            return self.break_off("a line is too long", at, sample);
        }
        line.extend_from_slice(rest);
    }

    fn line_event(&mut self, line: &[u8], at: u64, sample: &mut Sample) {
        self.events += 1;
        let Self { reader, finders, events, .. } = self;
        let message = Message { event: b"", data: line, id: None };
        reader.event(message, &mut Notes { sample, finders, at, frame: *events });
    }

    /// Handles the proper end of a body. Without its final event, the stream counts as broken.
    pub(crate) fn finish(&mut self, at: u64, sample: &mut Sample) {
        let line = self.line.take().unwrap_or_default();
        if !line.is_empty() {
            self.line_event(&line, at, sample);
        }
        let Self { frames, reader, finders, events, .. } = self;
        frames.finish(|frame| {
            if let Frame::Event(message) = frame {
                *events += 1;
                let mut notes = Notes { sample: &mut *sample, finders, at, frame: *events };
                notes.breaks("the last event is not followed by an empty line");
                reader.event(message, &mut notes);
            }
            ControlFlow::Continue(())
        });
        let missing = self.reader.missing_end();
        self.notes(at, sample).end(Outcome::Broken(missing.to_owned()));
    }

    /// Handles the end of a body that was interrupted or abandoned for the reason `why`. After the stream's final event,
    /// this is only a violation.
    pub(crate) fn break_off(&mut self, why: &str, at: u64, sample: &mut Sample) {
        let mut notes = self.notes(at, sample);
        if notes.sample.outcome == Outcome::Open {
            notes.end(Outcome::Broken(why.to_owned()));
        } else {
            notes.breaks_by("the body does not end properly after the end of the stream", why);
        }
    }

    fn notes<'n>(&'n mut self, at: u64, sample: &'n mut Sample) -> Notes<'n> {
        Notes { sample, finders: &mut self.finders, at, frame: self.events }
    }

    /// Checks for faults that the event decoder does not report: a byte order mark, and CR as line end.
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
            // Inserted before the violations found in events, so that the order does not depend on splits.
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
            notes.breaks("an event has several data lines or is not followed by an empty line");
        }
        match self {
            Self::Chat(chat) => chat.event(data, notes),
            Self::Responses(responses) => responses.event(message.event, data, notes),
            Self::Messages(messages) => messages.event(message.event, data, notes),
            Self::Gemini(gemini) => gemini.event(data, notes),
            Self::Ollama(ollama) => ollama.event(data, notes),
        }
    }

    /// Names the final event that an unfinished stream lacks.
    fn missing_end(&self) -> &'static str {
        match self {
            Self::Chat(_) => "the stream ends without [DONE]",
            Self::Responses(_) => "the stream ends without response.completed",
            Self::Messages(_) => "the stream ends without message_stop",
            Self::Gemini(_) => "the stream ends without a finishReason",
            Self::Ollama(_) => "the stream ends without a line with done: true",
        }
    }
}

/// Parses the JSON of an event. Records a violation if it is invalid.
fn parse<'a, T: serde::Deserialize<'a>>(data: &'a str, notes: &mut Notes<'_>) -> Option<T> {
    match serde_json::from_str(data) {
        Ok(event) => Some(event),
        Err(error) => {
            let told = error.to_string();
            let why = told.split(" at line").next().unwrap_or_default();
            notes.breaks_by("an event's data is not a JSON object of its dialect", why);
            None
        }
    }
}

/// Records that the stream failed with the message of an error event.
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
    notes.holds(body.message.word().is_some(), rule);
    notes.holds(body.message.word().is_none() || body.kind.word().is_some(), "an error has no type");
    let message = if body.message.word().is_some() { body.message } else { error };
    notes.fails(message.told());
}

#[cfg(test)]
mod tests;
