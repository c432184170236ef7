//! [`ExchangeObserver`]: lets an extension observe an exchange.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::tap::{Opening, Watch};
use toolwire_execution::ExchangeId;
use toolwire_net::redact::Redactor;
use toolwire_pipeline::pipeline::{EmittedText, Tally};

/// Observes one exchange, or its part with one model. The methods are called on the data path and must not block.
pub trait ExchangeObserver: fmt::Debug + Send + Sync {
    /// Returns a watch for the contents of the exchange. `None` if the contents are not observed.
    fn watch(&self, opening: &Opening<'_>, redactor: &Redactor) -> Option<Box<dyn Watch>>;

    /// Called when another request is sent to the upstream.
    fn hop_started(&self);

    fn hop_ended(&self, result: HopResult<'_>);

    /// Called when the client receives the first content. `after` is the time since the request to the upstream.
    fn content_began(&self, after: Duration);

    /// Called from time to time while text is emitted. `text` counts the text so far, and `held` is the number of bytes
    /// that are held back.
    fn progressed(&self, text: &EmittedText, held: u64);

    /// Called once, at the end of the observed part. The exchange may then restart with another model, which has its
    /// own observer.
    fn ended(&self, end: &ExchangeEnd<'_>);
}

/// What is known when an exchange begins.
#[derive(Debug)]
pub struct ExchangeBegin<'a> {
    pub exchange: &'a ExchangeId,
    pub model: &'a str,
    /// A short fingerprint of the client's key, or its name.
    pub key: Option<&'a str>,
    pub client: &'static str,
    pub upstream: &'a str,
    pub upstream_dialect: &'static str,
    pub upstream_model: &'a str,
    /// Whether the exchange begins with a request to the upstream.
    pub asks_upstream: bool,
    /// Which contents are captured, as a value of the setting `capture`.
    pub captured: &'static str,
}

#[derive(Debug)]
pub struct HopResult<'a> {
    pub finish: &'a str,
    pub usage: Value,
    pub millis: u64,
    pub tally: &'a Tally,
}

#[derive(Debug)]
pub struct ExchangeEnd<'a> {
    /// `done`, `error` or `cancelled`.
    pub state: &'static str,
    pub code: Option<&'a str>,
    pub message: Option<&'a str>,
    pub finish: &'a str,
    pub tally: &'a Tally,
    pub millis: u64,
    /// Milliseconds until the first byte was sent.
    pub first_byte_millis: Option<u64>,
}
