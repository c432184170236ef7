//! [`Sample`]: what one stream showed.

use crate::fixture::postmark::Postmark;

/// One request and its stream. Times are nanoseconds of [`clock::now`](crate::clock::now).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When the load's schedule wanted the request to leave.
    pub intended: u64,
    /// When it left.
    pub sent: u64,
    /// A connection had to be made for it.
    pub connected: bool,
    /// The response's status, if one came.
    pub status: Option<u16>,
    /// The first byte of the body.
    pub first_byte: Option<u64>,
    /// The beginning of the first call: a call's name is known to the client.
    pub first_call: Option<u64>,
    /// The last piece of a call.
    pub last_call: Option<u64>,
    /// The end of the stream, good or bad.
    pub end: u64,
    /// Every delta with content, in order.
    pub tokens: Vec<Token>,
    /// The output tokens that the answer's usage tells.
    pub usage: Option<u64>,
    /// Bytes of the body.
    pub bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What a target said that refused: the error's message, or the beginning of the body.
    pub refusal: Option<String>,
    /// What the stream did against its dialect's rules, a sentence a rule, each rule once.
    pub violations: Vec<String>,
}

/// A delta that has content: text, reasoning, or a piece of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// When it was read.
    pub at: u64,
    /// What it carries.
    pub kind: TokenKind,
    /// When the mock sent it, where the upstream is one. A delta with several postmarks gives a token for each.
    pub postmark: Option<Postmark>,
}

/// What a token carries.
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
    /// With its end mark, whole.
    Done,
    /// The target answered with another status than 200.
    Refused,
    /// It told an error event in the stream.
    Failed(String),
    /// Without its end: no connection, a broken body, an end without the end mark, a time limit.
    Broken(String),
    /// Not yet.
    #[default]
    Open,
}
