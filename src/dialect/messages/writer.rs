//! The writer: events encoded for a client of Messages, as a stream or as one object.
//!
//! ```text
//! Text, Reasoning ─▶ a block that lasts until another kind of content begins
//! CallStart … CallEnd ─▶ a block of its own, also while another call is open
//! Finish, Usage ─▶ kept for `message_delta`, which has both (docs/protocols/messages.md#events)
//! ```

mod block;
mod stream;
mod whole;

use bytes::BytesMut;

use crate::{
    dialect::{Answering, Ids},
    event::{Event, Start},
    failure::Failure,
};

/// Writes one response to a client that speaks Messages.
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

    /// Ends a successful response: writes stop reason, usage and end mark, or the whole response.
    pub fn finish(&mut self, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream) => stream.finish(out),
            Form::Whole(whole) => whole.finish(out),
        }
    }

    /// Ends a stream with an error event. If the response is not streamed, writes the error body.
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

    /// Writes a `ping` into a silent stream.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &self.0 {
            Form::Stream(stream) => stream.keep_alive(out),
            Form::Whole(_) => {}
        }
    }
}

/// What names a response.
#[derive(Debug)]
struct Head {
    id: String,
    model: String,
}

impl Head {
    /// Generated values, for an upstream that sends none.
    fn new(answering: &Answering) -> Self {
        Self { id: Ids::new(answering.stamp.seed, ID_SALT).next(ID_PREFIX), model: answering.model.clone() }
    }

    /// Replaces them by the upstream's. An id in the form of another API is not one of this API.
    fn take(&mut self, start: &Start<'_>) {
        if start.id.starts_with(ID_PREFIX) {
            self.id = start.id.to_string();
        }
        if !start.model.is_empty() {
            self.model = start.model.to_string();
        }
    }
}

/// Begins the id of each message.
const ID_PREFIX: &str = "msg_";

/// Keeps a response's id apart from other ids of the same seed.
const ID_SALT: u64 = 0x6d73_6773;
