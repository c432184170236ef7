//! [`Sample`]: the measurements of one stream.

use crate::fixture::postmark::Postmark;

/// One request and its stream. Times are nanoseconds of [`clock::now`](crate::clock::now).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When the request should have been sent, according to the load's schedule.
    pub intended: u64,
    /// When the request was sent.
    pub sent: u64,
    /// Whether a connection had to be opened for the request.
    pub connected: bool,
    /// The status, if there was a response.
    pub status: Option<u16>,
    /// When the first byte of the body arrived.
    pub first_byte: Option<u64>,
    /// When the first call started, that is, when the first name of a call arrived.
    pub first_call: Option<u64>,
    /// When the last piece of a call arrived.
    pub last_call: Option<u64>,
    /// When the stream ended, properly or not.
    pub end: u64,
    /// The deltas with content, in order.
    pub tokens: Vec<Token>,
    /// The number of output tokens in the response's usage.
    pub usage: Option<u64>,
    /// Number of bytes in the body.
    pub bytes: u64,
    /// How the stream ended.
    pub outcome: Outcome,
    /// The message of an error response, or the start of its body.
    pub refusal: Option<String>,
    /// The violated rules of the dialect, one sentence each.
    pub violations: Vec<String>,
}

/// A delta with content: text, reasoning, or a piece of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// When the delta was read.
    pub at: u64,
    /// The kind of the delta's content.
    pub kind: TokenKind,
    /// When the mock sent the delta, if the upstream is a mock. A delta counts as one token per postmark.
    pub postmark: Option<Postmark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Text of the response.
    Text,
    /// Reasoning.
    Reasoning,
    /// A piece of a call's arguments.
    Arguments,
}

/// How a stream ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Complete, including the final event.
    Done,
    /// The target responded with a status other than 200.
    Refused,
    /// The stream contained an error event.
    Failed(String),
    /// The stream has no proper end: no connection, an interrupted body, no final event, or a timeout.
    Broken(String),
    /// The stream has not ended yet.
    #[default]
    Open,
}
