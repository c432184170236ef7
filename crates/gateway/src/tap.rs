//! [`Tap`]: observes exchanges with upstreams, for example for `record`.
//!
//! The proxy calls the tap once per exchange. The [`Watch`] that it returns sees the upstream's bytes as they arrive,
//! and how the exchange ends. Being observed does not change how an exchange runs.

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

/// Observes exchanges. Its methods are called on the data path, so they must not block.
pub trait Tap: fmt::Debug + Send + Sync {
    /// Called when an exchange is about to begin. `None` if this exchange is not observed.
    fn begin(&self, opening: &Opening<'_>) -> Option<Box<dyn Watch>>;
}

/// Observes one exchange, from before the request is sent to the upstream.
pub trait Watch: Send {
    /// The upstream is asked again within the same response: another hop begins. `after`: the time since the start of
    /// the exchange. `request` contains `turns` in addition to the previous request.
    fn asked_again(&mut self, _request: &UpstreamRequest, _turns: &[Turn], _after: Duration) {}

    /// The client gets this event between two hops.
    fn shown(&mut self, _event: &Event<'_>) {}

    /// The upstream has refused the hop's request because of a constraint, and is asked with `request` instead.
    fn asked_otherwise(&mut self, _request: &UpstreamRequest) {}

    /// The upstream has sent these headers. `after`: the time since the start of the exchange. Called once per hop.
    fn answered(&mut self, status: http::StatusCode, headers: &http::HeaderMap, after: Duration);

    /// A piece of the upstream's body has arrived, as the network split it. `after`: the time since the start of the
    /// exchange.
    fn piece(&mut self, bytes: &[u8], after: Duration);

    /// The exchange is over. Called exactly once, last.
    fn end(&mut self, ending: Ending<'_>, after: Duration);
}

/// Facts that are known when an exchange begins.
#[derive(Debug)]
pub struct Opening<'a> {
    /// The request's id, as in logs and in `x-request-id`.
    pub id: &'a str,
    /// The client's dialect.
    pub dialect: ClientDialect,
    /// The client's request as it was sent.
    pub body: &'a Bytes,
    /// The client's request, decoded, before a format's instructions are added to it.
    pub conversation: &'a Conversation,
    /// The configuration entry that serves it, with its settings.
    pub model: &'a Model,
    /// The upstream to which the request is sent.
    pub upstream: &'a Upstream,
    /// The request to the upstream, without authorization and configured headers.
    pub request: &'a UpstreamRequest,
    /// The rules under which the response is read.
    pub rules: &'a Rules,
    /// The rules for calls of hosted tools, if the model has any.
    pub hosted: Option<&'a HostedRules>,
    /// The form of the response, with the stamp from which its ids are made.
    pub answering: &'a Answering,
}

impl Opening<'_> {
    /// The facts that its fixture contains.
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

/// The end of an exchange.
#[derive(Debug, Clone, Copy)]
pub enum Ending<'a> {
    /// The response was complete and all of it was given to the client's connection.
    Done,
    /// The exchange failed.
    Failed(&'a Failure),
    /// The client disconnected before the end.
    Cancelled,
}
