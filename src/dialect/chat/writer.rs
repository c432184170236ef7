//! The writer: events made the bytes that a client of Chat Completions reads, as a stream or as one object.
//!
//! The stream is the one form that every client library understands (docs/protocols/chat.md#stream): one role, whole
//! call heads, clean argument deltas, one finish, usage last. The writer trusts the stage before it for what the form
//! needs of the events: call indices from 0 without gaps, ids that differ, one finish.

mod custom;
mod delta;
mod remainder;
mod stream;
mod usage;
mod whole;

use bytes::BytesMut;

use crate::{
    dialect::{Answering, Ids},
    event::{Event, Start},
    failure::Failure,
};

/// Writes one answer to a client that speaks Chat Completions.
#[derive(Debug)]
pub struct Writer(Form);

#[derive(Debug)]
enum Form {
    Stream(stream::Stream),
    Whole(Box<whole::Whole>),
}

impl Writer {
    /// A writer for one answer.
    pub fn new(answering: &Answering) -> Self {
        Self(match answering.stream {
            true => Form::Stream(stream::Stream::new(answering)),
            false => Form::Whole(Box::new(whole::Whole::new(answering))),
        })
    }

    /// Writes an event; a whole answer only takes note of it.
    pub fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.event(event, out),
            Form::Whole(whole) => whole.event(event),
        }
    }

    /// Ends a good answer: usage and the end mark, or the whole answer.
    pub fn finish(&mut self, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.finish(out),
            Form::Whole(whole) => whole.finish(out),
        }
    }

    /// Ends a stream with an error and the end mark. In place of a whole answer: the error's body.
    pub fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.fail(failure, out),
            Form::Whole(_) => out.extend_from_slice(&super::error_body(failure)),
        }
    }

    /// Bytes of a whole answer that are kept until its end; nothing of a stream is.
    pub fn kept(&self) -> usize {
        match &self.0 {
            Form::Stream(_) => 0,
            Form::Whole(whole) => whole.kept(),
        }
    }

    /// A comment, for a stream that has been silent; clients skip it.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &self.0 {
            Form::Stream(_) => out.extend_from_slice(b": keep-alive\n\n"),
            Form::Whole(_) => {}
        }
    }
}

/// What every chunk of an answer tells alike.
#[derive(Debug)]
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    /// Our own, for an upstream that says nothing of the kind.
    fn new(answering: &Answering) -> Self {
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next("chatcmpl-"),
            created: answering.stamp.created,
            model: answering.model.clone(),
        }
    }

    /// Takes over what the upstream told.
    fn take(&mut self, start: &Start<'_>) {
        if !start.id.is_empty() {
            self.id = start.id.to_string();
        }
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
        self.created = start.created.unwrap_or(self.created);
    }
}

/// Keeps an answer's id apart from other ids of the same seed.
const ID_SALT: u64 = 0x6368_6174;
