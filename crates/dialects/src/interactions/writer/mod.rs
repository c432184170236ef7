//! Encodes events for a client of Interactions, as a stream or as a single object.
//!
//! ```text
//! Text, Media ─▶ a step `model_output`, open until another kind of content starts
//! Reasoning ─▶ a step `thought`, open until its signature or another kind of content arrives
//! CallStart … CallEnd ─▶ a step `function_call` (`BlockOrder` holds other content until it has ended)
//! ```
//!
//! A call that did not end properly has no end in a stream, and is no step of a whole response; it is told in
//! toolwire's own member.

mod events;
mod interaction;
mod steps;

use bytes::BytesMut;

use self::{events::Events, steps::Steps};
use crate::{
    Answering, ResponseWriter, StreamForm, WholeForm, block_order::BlockOrder, event::Event,
    failure::Failure, google_error::error_body,
};

/// Writes a response to a client of Interactions.
pub type Writer = ResponseWriter<Stream, Whole>;

/// Writes a response as a stream of events.
#[derive(Debug)]
pub struct Stream {
    steps: Steps,
    response: Option<String>,
}

impl StreamForm for Stream {
    const ONE_BLOCK_AT_A_TIME: bool = true;

    fn new(answering: &Answering) -> Self {
        Self { steps: Steps::new(answering, answering.stored), response: None }
    }

    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        self.steps.event(event, &mut Events(Some(out)));
    }

    fn finish(&mut self, out: &mut BytesMut) {
        self.response = self.steps.finish(&mut Events(Some(out))).filter(|_| self.steps.is_stored());
    }

    fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        self.steps.begin(&mut Events(Some(out)));
        Events(Some(out)).failure(failure);
    }

    fn keep_alive(&self, out: &mut BytesMut) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    fn kept(&self) -> usize {
        self.steps.kept()
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take()
    }
}

/// Assembles a response as a single object.
#[derive(Debug)]
pub struct Whole {
    steps: Steps,
    /// As in streams, since steps have one order.
    order: BlockOrder,
    response: Option<String>,
}

impl WholeForm for Whole {
    fn new(answering: &Answering) -> Self {
        Self { steps: Steps::new(answering, true), order: BlockOrder::default(), response: None }
    }

    fn event(&mut self, event: &Event<'_>) {
        let Self { steps, order, .. } = self;
        order.event(event, &mut |event| steps.event(event, &mut Events(None)));
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let response = self.steps.finish(&mut Events(None)).unwrap_or_default();
        out.extend_from_slice(response.as_bytes());
        self.response = Some(response).filter(|_| self.steps.is_stored());
    }

    fn kept(&self) -> usize {
        self.steps.kept() + self.order.held()
    }

    fn error_body(failure: &Failure) -> Vec<u8> {
        error_body(failure)
    }

    fn take_response(&mut self) -> Option<String> {
        self.response.take()
    }
}
