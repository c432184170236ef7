//! [`ExchangeObserver`]: observes the course of an exchange for an extension.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::tap::{Opening, Watch};
use toolwire_execution::ExchangeId;
use toolwire_net::redact::Redactor;
use toolwire_pipeline::pipeline::{EmittedText, Tally};

/// Observes one exchange, or its part with one model. The methods are called on the data path, so they must not
/// block.
pub trait ExchangeObserver: fmt::Debug + Send + Sync {
    /// Returns an observer of the exchange's contents, which may be captured. `None` if they are not observed.
    fn watch(&self, opening: &Opening<'_>, redactor: &Redactor) -> Option<Box<dyn Watch>>;

    /// The upstream is asked again.
    fn hop_started(&self);

    /// The hop has ended.
    fn hop_ended(&self, result: HopResult<'_>);

    /// The client gets the first content. `after`: the time since the request to the upstream.
    fn content_began(&self, after: Duration);

    /// Progress of the text, and how many of its bytes are `held` back. Called from time to time.
    fn progressed(&self, text: &EmittedText, held: u64);

    /// The exchange is over, unless another model is asked. Called once, last.
    fn ended(&self, end: &ExchangeEnd<'_>);
}

/// Facts that are known when an exchange begins.
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
    /// The model's name at the upstream.
    pub upstream_model: &'a str,
    /// Whether it begins with a request to the upstream.
    pub asks_upstream: bool,
    /// Which contents are kept, as a value of the setting.
    pub captured: &'static str,
}

/// The end of a hop.
#[derive(Debug)]
pub struct HopResult<'a> {
    pub finish: &'a str,
    /// Token counts of the hop.
    pub usage: Value,
    pub millis: u64,
    /// Counts of the response so far.
    pub tally: &'a Tally,
}

/// The end of an exchange.
#[derive(Debug)]
pub struct ExchangeEnd<'a> {
    /// `done`, `error` or `cancelled`.
    pub state: &'static str,
    /// The code of the failure.
    pub code: Option<&'a str>,
    /// The message of the failure.
    pub message: Option<&'a str>,
    pub finish: &'a str,
    pub tally: &'a Tally,
    pub millis: u64,
    /// Milliseconds from the start until the first byte was sent.
    pub first_byte_millis: Option<u64>,
}
