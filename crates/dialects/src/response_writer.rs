//! [`ResponseWriter`]: writes a response as a stream or as a single object, for all dialects.

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

/// Writes a response as a stream.
pub trait StreamForm {
    /// Whether clients of the dialect expect a block of content to end before the next one starts.
    const ONE_BLOCK_AT_A_TIME: bool = false;

    /// Creates a stream for one response.
    fn new(answering: &Answering) -> Self;

    /// The content type of the stream.
    fn content_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    /// Writes an event.
    fn event(&mut self, event: &Event<'_>, out: &mut BytesMut);

    /// Ends a successful response.
    fn finish(&mut self, out: &mut BytesMut);

    /// Ends the response with the dialect's in-stream error.
    fn fail(&mut self, failure: &Failure, out: &mut BytesMut);

    /// Writes something that clients ignore, such as a comment, to a silent stream.
    fn keep_alive(&self, out: &mut BytesMut);

    /// Approximate size of what is held in memory, in bytes, for dialects whose last event repeats the
    /// response.
    fn kept(&self) -> usize {
        0
    }

    /// After the end of the response: the complete response, if it should be stored.
    fn take_response(&mut self) -> Option<String> {
        None
    }

    /// After the finish: why the response is not what the client asked for, if so.
    fn defect(&self) -> Option<Failure> {
        None
    }

    /// Makes large events wait until [`StreamForm::pour`] is called.
    fn write_in_pieces(&mut self) {}

    /// Whether output is pending. Output that is written in the meantime follows it.
    fn has_more(&self) -> bool {
        false
    }

    /// Writes pending output until `out` is `upto` bytes long.
    fn pour(&mut self, _out: &mut BytesMut, _upto: usize) {}
}

/// Assembles a response as a single object.
pub trait WholeForm {
    /// Creates the object for one response.
    fn new(answering: &Answering) -> Self;

    /// Records an event.
    fn event(&mut self, event: &Event<'_>);

    /// Writes the object.
    fn finish(&mut self, out: &mut BytesMut);

    /// Approximate size of the collected contents in bytes, without the overhead of storing them.
    fn kept(&self) -> usize;

    /// The body of an error response in this dialect.
    fn error_body(failure: &Failure) -> Vec<u8>;

    /// After the end of the response: the complete response, if it should be stored.
    fn take_response(&mut self) -> Option<String> {
        None
    }

    /// After the finish: why the response is not what the client asked for, if so.
    fn defect(&self) -> Option<Failure> {
        None
    }
}

impl<S: StreamForm, W: WholeForm> ResponseWriter<S, W> {
    /// Creates a writer for one response.
    pub fn new(answering: &Answering) -> Self {
        Self(match answering.stream {
            true => Form::Stream(S::new(answering), BlockOrder::default()),
            false => Form::Whole(Box::new(W::new(answering))),
        })
    }

    /// The content type of a successful response.
    pub fn content_type(&self) -> &'static str {
        match &self.0 {
            Form::Stream(stream, _) => stream.content_type(),
            Form::Whole(_) => "application/json",
        }
    }

    /// Writes an event, or only records it if the response is not streamed.
    pub fn event(&mut self, event: &Event<'_>, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream, order) if S::ONE_BLOCK_AT_A_TIME => {
                order.event(event, &mut |event| stream.event(event, out));
            }
            Form::Stream(stream, _) => stream.event(event, out),
            Form::Whole(whole) => whole.event(event),
        }
    }

    /// Ends a successful response: writes the end of the stream, or the complete object.
    pub fn finish(&mut self, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream, _) => stream.finish(out),
            Form::Whole(whole) => whole.finish(out),
        }
    }

    /// Ends a stream with an error. If the response is not streamed, writes an error body instead.
    pub fn fail(&mut self, failure: &Failure, out: &mut BytesMut) {
        match &mut self.0 {
            Form::Stream(stream, order) => {
                order.fail(&mut |event| stream.event(event, out));
                stream.fail(failure, out);
            }
            Form::Whole(_) => out.extend_from_slice(&W::error_body(failure)),
        }
    }

    /// After the end of the response: the complete response, if it should be stored.
    pub(crate) fn take_response(&mut self) -> Option<String> {
        match &mut self.0 {
            Form::Stream(stream, _) => stream.take_response(),
            Form::Whole(whole) => whole.take_response(),
        }
    }

    /// After the finish: why the response is not what the client asked for, if so.
    pub(crate) fn defect(&self) -> Option<Failure> {
        match &self.0 {
            Form::Stream(stream, _) => stream.defect(),
            Form::Whole(whole) => whole.defect(),
        }
    }

    pub(crate) fn write_in_pieces(&mut self) {
        if let Form::Stream(stream, _) = &mut self.0 {
            stream.write_in_pieces();
        }
    }

    pub(crate) fn has_more(&self) -> bool {
        match &self.0 {
            Form::Stream(stream, _) => stream.has_more(),
            Form::Whole(_) => false,
        }
    }

    pub(crate) fn pour(&mut self, out: &mut BytesMut, upto: usize) {
        if let Form::Stream(stream, _) = &mut self.0 {
            stream.pour(out, upto);
        }
    }

    /// Size of what is held in memory until the response or an open call has ended, in bytes.
    pub(crate) fn kept(&self) -> usize {
        match &self.0 {
            Form::Stream(stream, order) => stream.kept() + order.held(),
            Form::Whole(whole) => whole.kept(),
        }
    }

    /// Writes a keep-alive to a silent stream. Does nothing if the response is not streamed.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &self.0 {
            Form::Stream(stream, _) => stream.keep_alive(out),
            Form::Whole(_) => {}
        }
    }
}
