//! The stages joined for one answer: upstream bytes in, client bytes out, sans-IO.
//!
//! ```text
//! bytes ─▶ Reader ─Event─▶ detect ─Event─▶ calls (the request's rules) ─Event─▶ Writer ─▶ bytes
//! ```

mod settings;

pub use settings::{Arguments, Detect, Limits, Misroute, ServerCalls, Settings, UnknownCalls};

use bytes::BytesMut;

use crate::{
    conversation::Conversation,
    dialect::{Answering, Reader, Writer},
    failure::Failure,
};

/// Where an answer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// More may come.
    Open,
    /// The answer is whole and its end is written; further input is ignored.
    Done,
    /// The answer has failed: see [`Pipeline::failure`]. What was certain before it is written.
    Failed,
}

/// One answer on its way from an upstream to a client.
///
/// The output of `push` and `finish` is appended to `out`. When the pipeline has failed, nothing of the failure is
/// in `out`: a shell that has sent nothing yet answers with status and error body
/// ([`chat::error_body`](crate::dialect::chat::error_body)), one that has calls [`Pipeline::write_failure`].
#[derive(Debug)]
pub struct Pipeline {
    _reader: Reader,
    _writer: Writer,
    failure: Option<Failure>,
}

impl Pipeline {
    /// A pipeline for the answer to `conversation`.
    pub fn new(
        _conversation: &Conversation,
        _settings: &Settings,
        reader: Reader,
        writer: Writer,
        _answering: &Answering,
    ) -> Self {
        Self { _reader: reader, _writer: writer, failure: None }
    }

    /// Takes the next bytes of the upstream's body.
    pub fn push(&mut self, _bytes: &[u8], _out: &mut BytesMut) -> State {
        State::Open
    }

    /// The upstream's body has ended.
    pub fn finish(&mut self, _out: &mut BytesMut) -> State {
        State::Done
    }

    /// The transport failed, or a time limit ran out. What is held is released to `out` first.
    pub fn fail(&mut self, failure: Failure, _out: &mut BytesMut) {
        self.failure = Some(failure);
    }

    /// Where the answer stands.
    pub fn state(&self) -> State {
        State::Open
    }

    /// Something that a reader would call content has been written (text, reasoning, a call, a finish): the moment
    /// to commit to status 200.
    pub fn has_content(&self) -> bool {
        false
    }

    /// Why the answer failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Ends a stream that has begun with the dialect's in-stream error.
    pub fn write_failure(&mut self, _out: &mut BytesMut) {}

    /// A sign of life for a silent stream.
    pub fn keep_alive(&mut self, _out: &mut BytesMut) {}

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// What an answer was made of: for logs and metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Every call that reached the client.
    pub calls: Vec<CallTally>,
    /// Calls that were refused or dropped, by reason.
    pub dropped_calls: u64,
    /// Malformed upstream frames that were passed over.
    pub malformed_frames: u64,
    /// The most bytes ever held back at once.
    pub held_peak: usize,
    /// Bytes held back now.
    pub held: usize,
    /// Tokens, as far as the upstream said.
    pub input_tokens: Option<u64>,
    /// Tokens, as far as the upstream said.
    pub output_tokens: Option<u64>,
    /// The finish reason that was written.
    pub finish: Option<crate::event::Finish>,
}

/// One call, for metrics: labels of bounded number only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTally {
    /// `native` or a format's name.
    pub format: &'static str,
    /// The declared name, or `None` for an undeclared one.
    pub name: Option<String>,
}
