//! Encodes events for a client of Responses, as a stream or as a single object.
//!
//! ```text
//! Text, Refusal ─▶ parts of a message that stays open until another kind of content starts
//! Reasoning ─▶ an item that stays open until its signature or another kind of content arrives
//! CallStart … CallEnd ─▶ an item of its own (in streams, `BlockOrder` holds other content until it has ended)
//! Finish, Usage ─▶ held for the last event, which contains the complete response
//! ```
//!
//! The last event of a stream repeats the complete output, and so does the body of a response without
//! streaming. The same [`Assembly`](assembly::Assembly) therefore builds both, and also writes the events of
//! a stream.

mod assembly;
mod built_in_items;
mod compaction;
mod events;
mod hosted_items;
mod item;
mod mcp_items;
mod response;
mod rope;
mod tool_search;

use bytes::BytesMut;

use self::{
    assembly::Assembly,
    events::Events,
    rope::{Pending, Rope},
};
use super::error_body;
use crate::{Answering, ResponseWriter, StreamForm, WholeForm, event::Event, failure::Failure};

/// Writes a response to a client that speaks Responses.
pub type Writer = ResponseWriter<Stream, Whole>;

/// Writes a response as a stream of events.
#[derive(Debug)]
pub struct Stream {
    /// Boxed, since it takes more memory than all of another dialect's writer.
    assembly: Box<Assembly>,
    sequence: u64,
    /// Pending output. `None` if everything is written at once.
    pending: Option<Pending>,
    /// The complete response, set at the end if it should be stored.
    response: Option<Rope>,
}

impl StreamForm for Stream {
    const ONE_BLOCK_AT_A_TIME: bool = true;

    fn new(answering: &Answering) -> Self {
        Self { assembly: Box::new(Assembly::new(answering)), sequence: 0, pending: None, response: None }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        let Self { assembly, sequence, pending, .. } = self;
        assembly.event(event, &mut Events::written(out, sequence, pending.as_mut()));
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let Self { assembly, sequence, pending, .. } = self;
        let response = assembly.finish(&mut Events::written(out, sequence, pending.as_mut()));
        self.response = Some(response).filter(|_| self.assembly.is_stored());
    }

    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        let Self { assembly, sequence, pending, .. } = self;
        assembly.fail(failure, &mut Events::written(out, sequence, pending.as_mut()));
    }

    fn write_in_pieces(&mut self) {
        self.pending.get_or_insert_default();
    }

    fn has_more(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.is_empty())
    }

    fn pour(&mut self, out: &mut BytesMut, upto: usize) {
        if let Some(pending) = &mut self.pending {
            pending.pour(out, upto);
        }
    }

    /// Writes a comment, because openai-node fails on unknown events.
    fn keep_alive(&self, out: &mut BytesMut) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn kept(&self) -> usize {
        self.assembly.kept()
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take().map(|response| response.to_text())
    }

    fn defect(&self) -> Option<Failure> {
        self.assembly.defect()
    }
}

/// Assembles a response as a single object.
#[derive(Debug)]
pub struct Whole {
    assembly: Box<Assembly>,
    /// The complete response, set at the end if it should be stored.
    response: Option<Rope>,
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self { assembly: Box::new(Assembly::new(answering)), response: None }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.assembly.event(event, &mut Events::Unwritten);
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let response = self.assembly.finish(&mut Events::Unwritten);
        out.reserve(response.len());
        response.pieces().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        self.response = Some(response).filter(|_| self.assembly.is_stored());
    }

    fn kept(&self) -> usize {
        self.assembly.kept()
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take().map(|response| response.to_text())
    }

    fn defect(&self) -> Option<Failure> {
        self.assembly.defect()
    }
}
