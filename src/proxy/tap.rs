//! [`Tap`]: someone who watches exchanges with upstreams, such as `record`.
//!
//! The proxy asks the tap once an exchange; what it gives back sees the upstream's bytes as they arrive and is told
//! how it ended. A watched exchange runs no differently from one that is not.

use std::{fmt, time::Duration};

use bytes::Bytes;

use crate::{
    config::{Model, Upstream},
    conversation::Conversation,
    dialect::{Answering, ClientDialect, UpstreamRequest},
    failure::Failure,
};

/// Watches exchanges. Its methods are called on the way of the data, so they must not wait for anything slow.
pub trait Tap: fmt::Debug + Send + Sync {
    /// An exchange is about to begin. `None`: this one is not watched.
    fn begin(&self, opening: &Opening<'_>) -> Option<Box<dyn Watch>>;
}

/// Watches one exchange, from before the upstream's request goes out.
pub trait Watch: Send {
    /// The upstream has answered with these headers, `after` the exchange's beginning. Once more for every further
    /// hop of the answer.
    fn answered(&mut self, status: http::StatusCode, headers: &http::HeaderMap, after: Duration);

    /// A piece of the upstream's body has arrived, as the network cut it, `after` the exchange's beginning.
    fn piece(&mut self, bytes: &[u8], after: Duration);

    /// The exchange is over. Called exactly once, last.
    fn end(&mut self, ending: Ending<'_>, after: Duration);
}

/// All that is known when an exchange begins.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The request's id, as in logs and in `x-request-id`.
    pub id: &'a str,
    /// What the client speaks.
    pub dialect: ClientDialect,
    /// The client's request, as it came.
    pub body: &'a Bytes,
    /// The client's request, decoded, before a format's instructions were put into it.
    pub conversation: &'a Conversation,
    /// The configuration's entry that serves it, with its settings.
    pub model: &'a Model,
    /// Where it goes.
    pub upstream: &'a Upstream,
    /// What is sent there. Authorization and configured headers are not in it.
    pub request: &'a UpstreamRequest,
    /// How the client is answered, with the stamp that makes its ids.
    pub answering: &'a Answering,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy)]
pub enum Ending<'a> {
    /// The answer was whole and all of it was handed to the client's connection.
    Done,
    /// It failed.
    Failed(&'a Failure),
    /// The client went away before the end.
    Cancelled,
}
