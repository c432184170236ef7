//! The writer: events encoded for a client of Chat Completions, as a stream or as one object.
//!
//! The stream is the one form that every client library understands (docs/protocols/chat.md#stream): one
//! role, whole call heads, clean argument deltas, one finish, usage last. The writer trusts the stage before
//! it for what the form needs of the events: call indices from 0 without gaps, ids that differ, one finish.

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

/// Writes one response to a client that speaks Chat Completions.
#[derive(Debug)]
pub struct Writer(Form);

#[derive(Debug)]
enum Form {
    Stream(stream::Stream),
    Whole(Box<whole::Whole>),
}

impl Writer {
    /// A writer for one response.
    pub fn new(answering: &Answering) -> Self {
        Self(match answering.stream {
            true => Form::Stream(stream::Stream::new(answering)),
            false => Form::Whole(Box::new(whole::Whole::new(answering))),
        })
    }

    /// Writes an event; for a response that is not streamed, it is only noted.
    pub fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.event(event, out),
            Form::Whole(whole) => whole.event(event),
        }
    }

    /// Ends a successful response: writes usage and the end mark, or the whole response.
    pub fn finish(&mut self, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.finish(out),
            Form::Whole(whole) => whole.finish(out),
        }
    }

    /// Ends a stream with an error and the end mark. If the response is not streamed, writes the error body.
    pub fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.fail(failure, out),
            Form::Whole(_) => out.extend_from_slice(&super::error_body(failure)),
        }
    }

    /// Bytes of a whole response that are kept until its end; none of a stream are.
    pub(crate) fn kept(&self) -> usize {
        match &self.0 {
            Form::Stream(_) => 0,
            Form::Whole(whole) => whole.kept(),
        }
    }

    /// Writes a comment into a silent stream; clients ignore it.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &self.0 {
            Form::Stream(_) => out.extend_from_slice(b": keep-alive\n\n"),
            Form::Whole(_) => {}
        }
    }
}

/// The fields that all chunks of a response have in common.
#[derive(Debug)]
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    /// Generated values, for an upstream that sends none.
    fn new(answering: &Answering) -> Self {
        Self {
            id: Ids::new(answering.stamp.seed, ID_SALT).next("chatcmpl-"),
            created: answering.stamp.created,
            model: answering.model.clone(),
        }
    }

    /// Replaces them by the upstream's.
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

/// Keeps a response's id apart from other ids of the same seed.
const ID_SALT: u64 = 0x6368_6174;
