//! [`ExchangeObserver`]: observes the course of an exchange for an extension.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::tap::{Opening, Watch};
use crate::{
    execute::ExchangeId,
    pipeline::{Tally, TextGiven},
    redact::Redactor,
};

/// Observes one exchange, or its part with one model. Its methods are called on the data path, so they must not block.
pub(crate) trait ExchangeObserver: fmt::Debug + Send + Sync {
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
pub(crate) struct ExchangeBegin<'a> {
    pub(crate) exchange: &'a ExchangeId,
    /// The model that was requested.
    pub(crate) model: &'a str,
    /// A short mark of the client's key, or its name.
    pub(crate) key: Option<&'a str>,
    /// The client's dialect.
    pub(crate) client: &'static str,
    pub(crate) upstream: &'a str,
    pub(crate) upstream_dialect: &'static str,
    /// The model's name there.
    pub(crate) upstream_model: &'a str,
    /// It begins with a request to the upstream.
    pub(crate) asks_upstream: bool,
    /// What is kept of contents, in the words of the setting.
    pub(crate) captured: &'static str,
}

/// How a hop ended.
#[derive(Debug)]
pub(crate) struct HopResult<'a> {
    pub(crate) finish: &'a str,
    /// Its own token counts.
    pub(crate) usage: Value,
    pub(crate) millis: u64,
    /// The counts of the response so far.
    pub(crate) tally: &'a Tally,
}

/// How an exchange ended.
#[derive(Debug)]
pub(crate) struct ExchangeEnd<'a> {
    /// `done`, `error` or `cancelled`.
    pub(crate) state: &'static str,
    /// The code of the failure.
    pub(crate) code: Option<&'a str>,
    /// Its words.
    pub(crate) message: Option<&'a str>,
    pub(crate) finish: &'a str,
    pub(crate) tally: &'a Tally,
    pub(crate) millis: u64,
    /// When the first byte was sent, from the start.
    pub(crate) first_byte_millis: Option<u64>,
}
