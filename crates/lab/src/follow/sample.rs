//! [`Sample`]: the measurements of one stream.

use crate::fixture::postmark::Postmark;

/// One request and its stream. Times are nanoseconds of [`clock::now`](crate::clock::now).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The time at which the load's schedule intended the request to be sent.
    pub intended: u64,
    /// The time at which the request was sent.
    pub sent: u64,
    /// Whether a connection had to be opened for the request.
    pub connected: bool,
    /// The response's status, if there was one.
    pub status: Option<u16>,
    /// The time at which the first byte of the body arrived.
    pub first_byte: Option<u64>,
    /// The time at which the first call began, that is, when the client knew a call's name.
    pub first_call: Option<u64>,
    /// The time at which the last piece of a call arrived.
    pub last_call: Option<u64>,
    /// The time at which the stream ended, properly or not.
    pub end: u64,
    /// The deltas with content, in order.
    pub tokens: Vec<Token>,
    /// The number of output tokens in the response's usage.
    pub usage: Option<u64>,
    /// Number of bytes in the body.
    pub bytes: u64,
    /// How the stream ended.
    pub outcome: Outcome,
    /// The message of an error response, or the beginning of its body.
    pub refusal: Option<String>,
    /// The rules of its dialect that the stream violates, one sentence for each rule.
    pub violations: Vec<String>,
}

/// A delta with content: text, reasoning, or a piece of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// The time at which the delta was read.
    pub at: u64,
    /// The kind of the delta's content.
    pub kind: TokenKind,
    /// The time at which the mock sent the delta, if the upstream is a mock. A delta with several postmarks
    /// counts as one token for each.
    pub postmark: Option<Postmark>,
}

/// The kind of content in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Text for the reader.
    Text,
    /// Reasoning.
    Reasoning,
    /// A piece of a call's arguments.
    Arguments,
}

/// How a stream ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Complete, with its end mark.
    Done,
    /// The target responded with a status other than 200.
    Refused,
    /// The stream contained an error event.
    Failed(String),
    /// The stream has no proper end: no connection, an interrupted body, an end without the end mark, a
    /// time limit.
    Broken(String),
    /// The stream has not ended yet.
    #[default]
    Open,
}
