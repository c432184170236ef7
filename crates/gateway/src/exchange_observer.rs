//! [`ExchangeObserver`]: observes the course of an exchange for an extension.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::tap::{Opening, Watch};
use toolwire_execution::ExchangeId;
use toolwire_net::redact::Redactor;
use toolwire_pipeline::pipeline::{Tally, TextGiven};

/// Observes one exchange, or its part with one model. Its methods are called on the data path, so they must not block.
pub trait ExchangeObserver: fmt::Debug + Send + Sync {
    /// Observes the exchange's contents too, which may be captured. `None`: it does not.
    fn watch(&self, opening: &Opening<'_>, redactor: &Redactor) -> Option<Box<dyn Watch>>;

    /// The upstream is asked again.
    fn hop_started(&self);

    /// The hop has ended.
    fn hop_ended(&self, result: HopResult<'_>);

    /// The client gets the first content, `after` the request to the upstream.
    fn content_began(&self, after: Duration);

    /// How much text there is, and how many of its bytes are `held` back. Called from time to time.
    fn went_on(&self, text: &TextGiven, held: u64);

    /// It is over, unless another model is asked. Called once, last.
    fn ended(&self, end: &ExchangeEnd<'_>);
}

/// What is known when an exchange begins.
#[derive(Debug)]
pub struct ExchangeBegin<'a> {
    pub exchange: &'a ExchangeId,
    /// The model that was requested.
    pub model: &'a str,
    /// A short mark of the client's key, or its name.
    pub key: Option<&'a str>,
    /// The client's dialect.
    pub client: &'static str,
    pub upstream: &'a str,
    pub upstream_dialect: &'static str,
    /// The model's name there.
    pub upstream_model: &'a str,
    /// It begins with a request to the upstream.
    pub asks_upstream: bool,
    /// What is kept of contents, in the words of the setting.
    pub captured: &'static str,
}

/// How a hop ended.
#[derive(Debug)]
pub struct HopResult<'a> {
    pub finish: &'a str,
    /// Its own token counts.
    pub usage: Value,
    pub millis: u64,
    /// The counts of the response so far.
    pub tally: &'a Tally,
}

/// How an exchange ended.
#[derive(Debug)]
pub struct ExchangeEnd<'a> {
    /// `done`, `error` or `cancelled`.
    pub state: &'static str,
    /// The code of the failure.
    pub code: Option<&'a str>,
    /// Its words.
    pub message: Option<&'a str>,
    pub finish: &'a str,
    pub tally: &'a Tally,
    pub millis: u64,
    /// When the first byte was sent, from the start.
    pub first_byte_millis: Option<u64>,
}
