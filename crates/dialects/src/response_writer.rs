//! [`ResponseWriter`]: writes a response as a stream or as one object, for the writers of all dialects.

use bytes::BytesMut;

use super::{Answering, block_order::BlockOrder};
use crate::{event::Event, failure::Failure};

/// Writes one response to a client.
#[derive(Debug)]
pub struct ResponseWriter<S, W>(Form<S, W>);

#[derive(Debug)]
enum Form<S, W> {
    Stream(S, BlockOrder),
    Whole(Box<W>),
}

/// A response as a stream.
pub trait StreamForm {
    /// Whether clients of the dialect expect that a block of content ends before the next block begins.
    const ONE_BLOCK_AT_A_TIME: bool = false;

    /// Creates the stream for a request's response.
    fn new(answering: &Answering) -> Self;

    /// Writes an event.
    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut);

    /// Ends a successful response.
    fn finish(&mut self, out: &mut BytesMut);

    /// Ends the response by writing the dialect's in-stream error.
    fn fail(&mut self, failure: &Failure, out: &mut BytesMut);

    /// Writes a comment or event that clients ignore into a silent stream.
    fn keep_alive(&self, out: &mut BytesMut);

    /// Approximate bytes that are kept, for dialects whose last event repeats the response.
    fn kept(&self) -> usize {
        0
    }

    /// After the end: the complete response, if it should be stored.
    fn take_response(&mut self) -> Option<String> {
        None
    }

    /// From now on, large events are only written when [`StreamForm::pour`] asks for them.
    fn write_in_pieces(&mut self) {}

    /// Whether output is still waiting. Output that is written in the meantime follows it.
    fn has_more(&self) -> bool {
        false
    }

    /// Writes waiting output until `out` is `upto` bytes long.
    fn pour(&mut self, _out: &mut BytesMut, _upto: usize) {}
}

/// A response as one object.
pub trait WholeForm {
    /// Creates the object for a request's response.
    fn new(answering: &Answering) -> Self;

    /// Records an event.
    fn event(&mut self, event: &Event<'_>);

    /// Writes the object.
    fn finish(&mut self, out: &mut BytesMut);

    /// Approximate bytes that are kept: the contents of events, without the overhead of storing them.
    fn kept(&self) -> usize;

    /// The body of an error response in this dialect.
    fn error_body(failure: &Failure) -> Vec<u8>;

    /// After the end: the complete response, if it should be stored.
    fn take_response(&mut self) -> Option<String> {
        None
    }
}

impl<S: StreamForm, W: WholeForm> ResponseWriter<S, W> {
    /// A writer for one response.
    pub fn new(answering: &Answering) -> Self {
        Self(match answering.stream {
            true => Form::Stream(S::new(answering), BlockOrder::default()),
            false => Form::Whole(Box::new(W::new(answering))),
        })
    }

    /// Writes an event; for a response that is not streamed, only records it.
    pub fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream, order) if S::ONE_BLOCK_AT_A_TIME => {
                order.event(event, &mut |event| stream.event(event, out));
            }
            Form::Stream(stream, _) => stream.event(event, out),
            Form::Whole(whole) => whole.event(event),
        }
    }

    /// Ends a successful response: writes the end of a stream, or the complete response.
    pub fn finish(&mut self, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream, _) => stream.finish(out),
            Form::Whole(whole) => whole.finish(out),
        }
    }

    /// Ends a stream with an error. If the response is not streamed, writes the error body.
    pub fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream, order) => {
                order.fail(&mut |event| stream.event(event, out));
                stream.fail(failure, out);
            }
            Form::Whole(_) => out.extend_from_slice(&W::error_body(failure)),
        }
    }

    /// After the end: the complete response, if it should be stored.
    pub(crate) fn take_response(&mut self) -> Option<String> {
        match &mut self.0 {
            Form::Stream(stream, _) => stream.take_response(),
            Form::Whole(whole) => whole.take_response(),
        }
    }

    /// From now on, large events are only written when [`ResponseWriter::pour`] asks for them.
    pub(crate) fn write_in_pieces(&mut self) {
        if let Form::Stream(stream, _) = &mut self.0 {
            stream.write_in_pieces();
        }
    }

    /// Whether output is still waiting to be written.
    pub(crate) fn has_more(&self) -> bool {
        match &self.0 {
            Form::Stream(stream, _) => stream.has_more(),
            Form::Whole(_) => false,
        }
    }

    /// Writes waiting output until `out` is `upto` bytes long.
    pub(crate) fn pour(&mut self, out: &mut BytesMut, upto: usize) {
        if let Form::Stream(stream, _) = &mut self.0 {
            stream.pour(out, upto);
        }
    }

    /// Bytes of the response that are kept until its end, or until an open call has ended.
    pub(crate) fn kept(&self) -> usize {
        match &self.0 {
            Form::Stream(stream, order) => stream.kept() + order.held(),
            Form::Whole(whole) => whole.kept(),
        }
    }

    /// Writes a sign of life into a silent stream. Writes nothing if the response is not streamed.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &self.0 {
            Form::Stream(stream, _) => stream.keep_alive(out),
            Form::Whole(_) => {}
        }
    }
}
