//! The writer: events encoded for a client of Responses, as a stream or as one object.
//!
//! ```text
//! Text, Refusal ─▶ parts of a message that lasts until another kind of content begins
//! Reasoning ─▶ an item that lasts until its signature, or another kind of content
//! CallStart … CallEnd ─▶ an item of its own, also while another call is open
//! Finish, Usage ─▶ kept for the last event, which has the whole response
//! ```
//!
//! The last event of a stream repeats the whole output, and so does the body of a response that is not streamed. So both
//! are made by the same [`Assembly`](assembly::Assembly), which also writes the events if there is a stream.

mod assembly;
mod events;
mod hosted;
mod item;
mod response;

use bytes::BytesMut;

use self::{assembly::Assembly, events::Events};
use super::error_body;
use crate::{
    dialect::{Answering, ResponseWriter, StreamForm, WholeForm},
    event::Event,
    failure::Failure,
};

/// Writes one response to a client that speaks Responses.
pub type Writer = ResponseWriter<Stream, Whole>;

/// A response as a stream of events.
#[derive(Debug)]
pub struct Stream {
    assembly: Assembly,
    /// The number of the next event.
    sequence: u64,
    /// The whole response at its end, if it is to be stored.
    response: Option<String>,
}

impl StreamForm for Stream {
    fn new(answering: &Answering) -> Self {
        Self { assembly: Assembly::new(answering), sequence: 0, response: None }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        self.assembly.event(event, &mut Events::written(out, &mut self.sequence));
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let response = self.assembly.finish(&mut Events::written(out, &mut self.sequence));
        self.response = Some(response).filter(|_| self.assembly.is_stored());
    }

    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        self.assembly.fail(failure, &mut Events::written(out, &mut self.sequence));
    }

    /// A comment: openai-node fails on events that it does not know.
    fn keep_alive(&self, out: &mut BytesMut) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn kept(&self) -> usize {
        self.assembly.kept()
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take()
    }
}

/// A response as one object.
#[derive(Debug)]
pub struct Whole {
    assembly: Assembly,
    /// The whole response at its end, if it is to be stored.
    response: Option<String>,
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self { assembly: Assembly::new(answering), response: None }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.assembly.event(event, &mut Events::Unwritten);
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let response = self.assembly.finish(&mut Events::Unwritten);
        out.extend_from_slice(response.as_bytes());
        self.response = Some(response).filter(|_| self.assembly.is_stored());
    }

    fn kept(&self) -> usize {
        self.assembly.kept()
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take()
    }
}
