//! [`Follower`]: reads a stream as strictly as the strictest clients, and records its content.
//!
//! ```text
//! bytes ─wire::sse, lines─▶ events ─EventReader of the dialect─▶ Notes ─▶ Sample: tokens, call times, usage, end, violations
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

pub(crate) mod calls;
pub(crate) mod field;
pub(crate) mod notes;
pub(crate) mod sample;

use std::{fmt, ops::ControlFlow};

use memchr::memchr;

use self::{
    notes::{Finders, Notes},
    sample::{Outcome, Sample},
};
use crate::clients;
use toolwire_pipeline::{
    dialect::ClientDialect,
    wire::sse::{Frame, Frames, Message},
};

/// Maximum size of an event, in bytes; a stream with a larger one counts as broken. The limit is high because the last
/// event of Responses contains the complete response.
const MAX_FRAME: usize = 16 << 20;

/// The data of the event that ends a chat stream. Clients of the other dialects tolerate it.
pub(crate) const DONE: &str = "[DONE]";

/// U+FEFF in UTF-8.
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns the sentence of a violation, without the location.
pub(crate) fn rule(violation: &str) -> &str {
    violation.split_once(" (").map_or(violation, |(rule, _)| rule)
}

/// Follows one stream. Does no I/O: the caller passes the bytes and the time at which they were read.
#[derive(Debug)]
pub(crate) struct Follower {
    frames: Frames,
    /// The line that is not complete yet, in dialects with [lines](clients::ClientApi::has_lines).
    line: Option<Vec<u8>>,
    reader: Box<dyn EventReader>,
    finders: Finders,
    /// Number of events so far.
    events: u64,
    /// Number of bytes of [`BOM`] matched at the start of the stream, or its length once the check is done.
    bom: usize,
    /// Whether to search the stream for lines that end with CR, which is not allowed in chat streams.
    seeks_cr: bool,
}

/// Checks the events of one stream, in one dialect.
pub(crate) trait EventReader: fmt::Debug + Send {
    /// Reads an event with this name and data. Lines have no names.
    fn event(&mut self, name: &[u8], data: &str, notes: &mut Notes<'_>);

    /// Names the final event that an unfinished stream lacks.
    fn missing_end(&self) -> &'static str;
}

impl Follower {
    pub(crate) fn new(dialect: ClientDialect) -> Self {
        let api = clients::api(dialect);
        Self {
            frames: Frames::new(MAX_FRAME),
            line: api.has_lines().then(Vec::new),
            reader: api.reader(),
            finders: Finders::default(),
            events: 0,
            bom: 0,
            seeks_cr: !api.allows_cr(),
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
        let pushed = frames.push(bytes, |frame| {
            if let Frame::Event(message) = frame {
                *events += 1;
                read(
                    &mut **reader,
                    message,
                    &mut Notes { sample: &mut *sample, finders, at, frame: *events },
                );
            }
            ControlFlow::Continue(())
        });
        if let Err(oversized) = pushed {
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
        read(&mut **reader, message, &mut Notes { sample, finders, at, frame: *events });
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
                read(&mut **reader, message, &mut notes);
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

/// Passes an event to the reader, unless its data cannot be that of any dialect.
fn read(reader: &mut dyn EventReader, message: Message<'_>, notes: &mut Notes<'_>) {
    let Ok(data) = str::from_utf8(message.data) else {
        return notes.breaks("an event is not UTF-8");
    };
    if data.is_empty() {
        return notes.breaks("an event's data is empty");
    }
    if memchr(b'\n', message.data).is_some() {
        notes.breaks("an event has several data lines or is not followed by an empty line");
    }
    reader.event(message.event, data, notes);
}

/// Parses the JSON of an event. Records a violation if it is invalid.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(data: &'a str, notes: &mut Notes<'_>) -> Option<T> {
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
pub(crate) fn failure(error: field::Field<'_>, rule: &str, notes: &mut Notes<'_>) {
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
