//! [`Access`]: what becomes known of one request on its way, told when it is dropped.
//!
//! It travels inside the response's body, since that is what lives as long as the request: an answer that was
//! handed out whole, one that failed, and a client that went away all end in the drop of the body.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{dialect::Dialect, event::Finish, failure::Failure, pipeline::Tally};

use super::{
    metrics::{Metrics, kind_name},
    untrusted::clipped,
};

/// The status that stands in logs and metrics for a client that left before there was one.
const CLIENT_LEFT: u16 = 499;

/// Bytes of a client's words (path, model) that are kept for the log line. Beyond: clipped.
const MAX_WORD: usize = 128;

/// How a request ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The client went away before the end.
    #[default]
    Cancelled,
    /// The client took nothing for `limits.write_timeout` and was given up.
    Stalled,
    /// All of the answer was handed to the client's connection.
    Done,
    /// It failed, and the client was told so.
    Failed(Failure),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("cancelled"),
            Self::Stalled => f.write_str("stalled"),
            Self::Done => f.write_str("done"),
            Self::Failed(failure) => {
                write!(f, "failed:{}", failure.code().unwrap_or_else(|| kind_name(failure.kind())))
            }
        }
    }
}

/// The record of one request. Its drop is the request's end.
#[derive(Debug)]
pub(crate) struct Access {
    metrics: Arc<Metrics>,
    started: Instant,
    id: String,
    method: http::Method,
    path: String,
    route: &'static str,
    asked: Option<String>,
    target: Option<Target>,
    stream: bool,
    status: u16,
    first_byte: Option<Duration>,
    bytes_out: u64,
    tally: Option<Tally>,
    outcome: Outcome,
}

/// Where a request went, in the configuration's names.
#[derive(Debug)]
struct Target {
    model: String,
    upstream: String,
    dialect: Dialect,
}

impl Access {
    /// A request has arrived.
    pub(crate) fn new(
        metrics: Arc<Metrics>,
        id: String,
        method: http::Method,
        path: &str,
        route: &'static str,
    ) -> Self {
        Self {
            metrics,
            started: Instant::now(),
            id,
            method,
            path: clipped(path, MAX_WORD).into_owned(),
            route,
            asked: None,
            target: None,
            stream: false,
            status: CLIENT_LEFT,
            first_byte: None,
            bytes_out: 0,
            tally: None,
            outcome: Outcome::default(),
        }
    }

    /// The request's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Since the request's arrival.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The client asked for `model`.
    pub(crate) fn asked(&mut self, model: &str, stream: bool) {
        self.asked = Some(clipped(model, MAX_WORD).into_owned());
        self.stream = stream;
    }

    /// An exchange with an upstream begins; `model` is the configuration's entry.
    pub(crate) fn routed(&mut self, model: &str, upstream: &str, dialect: Dialect) {
        self.metrics.streams().inc();
        self.target = Some(Target { model: model.to_owned(), upstream: upstream.to_owned(), dialect });
    }

    /// The response's status is decided.
    pub(crate) fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// `bytes` of the response's body are handed to the client's connection.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.bytes_out += bytes as u64;
        if self.first_byte.is_none() {
            let after = self.elapsed();
            self.first_byte = Some(after);
            if let Some(target) = &self.target {
                self.metrics.first_byte(&target.model, after);
            }
        }
    }

    /// How it ended, to be told with the drop. Never called means cancelled.
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// What the answer was made of.
    pub(crate) fn counted(&mut self, tally: Tally) {
        self.tally = Some(tally);
    }

    fn count(&self) {
        let model = self.target.as_ref().map(|target| target.model.as_str());
        self.metrics.request(self.route, model, self.status);
        if let Some(target) = &self.target {
            self.metrics.streams().dec();
            if let Outcome::Failed(failure) = &self.outcome {
                self.metrics.upstream_error(&target.upstream, failure.kind());
            }
        }
        if let Some(tally) = &self.tally {
            self.metrics.tally(tally);
            if let Some(target) = &self.target {
                self.metrics.skipped(&target.upstream, &tally.skipped);
            }
        }
        if self.outcome == Outcome::Cancelled {
            self.metrics.disconnect();
        }
    }

    fn write_line(&self) {
        let tally = self.tally.as_ref();
        tracing::info!(
            target: "toolwire::access",
            id = self.id,
            method = self.method.as_str(),
            path = self.path,
            model = self.asked,
            upstream = self.target.as_ref().map(|target| target.upstream.as_str()),
            dialect = self.target.as_ref().map(|target| target.dialect.name()),
            stream = self.stream,
            status = self.status,
            finish = tally.and_then(|tally| tally.finish).map(finish_name),
            ttfb_ms = self.first_byte.map(milliseconds),
            duration_ms = milliseconds(self.elapsed()),
            calls = tally.map(|tally| tally.calls.len()),
            bytes_out = self.bytes_out,
            end = %self.outcome,
        );
    }

    /// What was left out of the answer is told once, whatever there was of it.
    fn write_skipped(&self) {
        let skipped = self.tally.as_ref().map(|tally| &tally.skipped).filter(|skipped| !skipped.is_empty());
        if let (Some(skipped), Some(target)) = (skipped, &self.target) {
            let (id, upstream) = (self.id.as_str(), target.upstream.as_str());
            tracing::warn!(id, upstream, %skipped, "parts of the upstream's answer were left out");
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.count();
        self.write_line();
        self.write_skipped();
    }
}

/// The finish in our own words: what was meant, whatever the dialect calls it.
fn finish_name(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Calls => "calls",
        Finish::Length => "length",
        Finish::Filter => "filter",
    }
}

/// With three places: a proxy's own share is far below one millisecond.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
