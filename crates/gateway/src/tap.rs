//! [`Tap`]: observes exchanges with upstreams, for example to record them.
//!
//! The proxy calls the tap once per exchange. The [`Watch`] that the tap returns sees the upstream's bytes as they
//! arrive, and how the exchange ends. Observation does not change how an exchange runs.

use std::{fmt, time::Duration};

use bytes::Bytes;

use crate::manifest::ExchangeFacts;
use toolwire_config::{Model, Upstream};
use toolwire_pipeline::{
    conversation::{Conversation, Turn},
    dialect::{Answering, ClientDialect, UpstreamRequest},
    event::Event,
    failure::Failure,
    rules::{HostedRules, Rules},
};

/// Observes exchanges. Its methods are called on the data path and must not block.
pub trait Tap: fmt::Debug + Send + Sync {
    /// Called when an exchange is about to begin. Returns `None` if this exchange is not observed.
    fn begin(&self, opening: &Opening<'_>) -> Option<Box<dyn Watch>>;
}

/// Observes one exchange, starting before the request is sent to the upstream.
pub trait Watch: Send {
    /// Called when another hop begins within the same response. The request appends the turns to the previous request.
    /// The duration is the time since the start of the exchange.
    fn asked_again(&mut self, _request: &UpstreamRequest, _turns: &[Turn], _after: Duration) {}

    /// Called when the client receives an event between two hops.
    fn shown(&mut self, _event: &Event<'_>) {}

    /// Called when the upstream has refused the hop's request because of a constraint, and this request is sent
    /// instead.
    fn asked_otherwise(&mut self, _request: &UpstreamRequest) {}

    /// Called once per hop, when the upstream's headers arrive. `after` is the time since the start of the exchange.
    fn answered(&mut self, status: http::StatusCode, headers: &http::HeaderMap, after: Duration);

    /// Called for each piece of the upstream's body as the network delivers it. `after` is the time since the start of
    /// the exchange.
    fn piece(&mut self, bytes: &[u8], after: Duration);

    /// Called exactly once, at the end of the exchange.
    fn end(&mut self, ending: Ending<'_>, after: Duration);
}

/// Facts that are known when an exchange begins.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The request's id in logs and in `x-request-id`.
    pub id: &'a str,
    pub dialect: ClientDialect,
    /// The client's request as it was sent.
    pub body: &'a Bytes,
    /// The decoded client request, before a format's instructions are added.
    pub conversation: &'a Conversation,
    /// The configured model that answers.
    pub model: &'a Model,
    pub upstream: &'a Upstream,
    /// The request to the upstream, without authorization and configured headers.
    pub request: &'a UpstreamRequest,
    pub rules: &'a Rules,
    /// The rules for calls to hosted tools, if the model has any.
    pub hosted: Option<&'a HostedRules>,
    /// How the client wants the response, with the stamp from which its ids are made.
    pub answering: &'a Answering,
}

impl Opening<'_> {
    /// Returns what a fixture of the exchange contains.
    pub fn facts(&self) -> ExchangeFacts<'_> {
        ExchangeFacts {
            dialect: self.dialect,
            conversation: self.conversation,
            model: self.model,
            upstream: self.upstream,
            prefill: self.request.prefill.as_ref(),
            rules: self.rules,
            hosted: self.hosted,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Ending<'a> {
    /// The complete response was passed to the client's connection.
    Done,
    Failed(&'a Failure),
    /// The client disconnected before the end.
    Cancelled,
}
