//! [`Access`]: the record of one request, which is logged and counted on drop.
//!
//! The record is part of the response's body because the body lives as long as the request: whether the response
//! completes or fails, or the client disconnects, the request ends when the body is dropped.

use std::{
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{
    Span,
    field::{Empty, display},
};

use toolwire_config::Upstream;
use toolwire_execution::audit::unix_time;
use toolwire_net::telemetry::{self, Parent, SpanKind, scoped};
use toolwire_pipeline::{dialect::ClientDialect, event::Finish, failure::Failure, pipeline::Tally};

use super::{
    figures::FinishedRequest,
    gen_ai,
    hop::{Attempt, HopEnd, HopName, HopRecord},
    latencies::milliseconds,
    live::{LiveEntry, LiveStart},
    metrics::{Metrics, kind_name},
    untrusted_text::clip,
};

/// Status in logs and metrics for a client that disconnected before there was a status.
const CLIENT_LEFT: u16 = 499;

/// Maximum number of bytes of a path or model name in the log line. Longer ones are truncated.
const MAX_WORD: usize = 128;

/// Maximum number of bytes of tool names in a log line.
const MAX_NAMES: usize = 512;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The client disconnected before the end.
    #[default]
    Cancelled,
    /// The connection was closed because the client read nothing for `limits.write_timeout`.
    Stalled,
    /// The complete response was written to the client's connection.
    Done,
    /// The request failed, and the client received an error.
    Failed(Failure),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("cancelled"),
            Self::Stalled => f.write_str("stalled"),
            Self::Done => f.write_str("done"),
            Self::Failed(failure) => {
                write!(f, "failed:{}", failure_name(failure))
            }
        }
    }
}

/// The record of one request, which is completed on drop.
#[derive(Debug)]
pub struct Access {
    metrics: Arc<Metrics>,
    started: Instant,
    id: String,
    method: http::Method,
    path: String,
    route: &'static str,
    key: Option<Arc<str>>,
    /// The address of a client whose key was rejected.
    peer: Option<IpAddr>,
    asked: Option<String>,
    target: Option<Target>,
    stream: bool,
    status: u16,
    first_byte: Option<Duration>,
    first_content: Option<Duration>,
    bytes_out: u64,
    tally: Option<Box<Tally>>,
    /// Input and output tokens charged to the client.
    spent: (u64, u64),
    outcome: Outcome,
    span: Span,
    /// The request's telemetry span.
    trace: telemetry::Span,
    /// The telemetry span of the request to the upstream, if the client's request is passed through.
    passed: telemetry::Span,
    /// Tokens of the hops that have ended.
    counted: Tokens,
    hops: usize,
    /// The latest request to the upstream.
    hop: Option<HopRecord>,
    /// Number of other models that were asked after failures.
    turns: u64,
    /// Whether the request is for a model and is therefore counted in the statistics.
    asks_model: bool,
    /// The entry in the list of responses in progress, while the response is listed.
    live: Option<Box<LiveEntry>>,
}

/// Input and output tokens. `None` if upstreams do not report them.
type Tokens = (Option<u64>, Option<u64>);

#[derive(Debug)]
struct Target {
    model: String,
    upstream: Arc<Upstream>,
}

impl Access {
    /// Starts the record of a request that has just arrived.
    pub(crate) fn new(
        metrics: Arc<Metrics>,
        id: String,
        method: http::Method,
        path: &str,
        route: &'static str,
    ) -> Self {
        let span =
            tracing::debug_span!("request", id, route, model = Empty, upstream = Empty, outcome = Empty);
        Self {
            metrics,
            started: Instant::now(),
            id,
            method,
            path: clip(path, MAX_WORD).into_owned(),
            route,
            key: None,
            peer: None,
            asked: None,
            target: None,
            stream: false,
            status: CLIENT_LEFT,
            first_byte: None,
            first_content: None,
            bytes_out: 0,
            tally: None,
            spent: (0, 0),
            outcome: Outcome::default(),
            span,
            trace: telemetry::Span::default(),
            passed: telemetry::Span::default(),
            counted: (None, None),
            hops: 0,
            hop: None,
            turns: 0,
            asks_model: false,
            live: None,
        }
    }

    /// Returns the same record, which also fills in the span `trace`.
    pub(crate) fn traced(mut self, trace: telemetry::Span) -> Self {
        self.trace = trace;
        self
    }

    /// The parent of the spans of requests to upstreams.
    pub(crate) fn trace(&self) -> Option<Parent> {
        self.trace.parent()
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Time from the request's arrival to the first byte of the response.
    pub(crate) fn first_byte(&self) -> Option<Duration> {
        self.first_byte
    }

    /// Marks the request as one for a model, even if it fails.
    pub(crate) fn asks_model(&mut self) {
        self.asks_model = true;
    }

    /// Lists the response as in progress until it ends. `key` is the client's name or the fingerprint of its key.
    pub(crate) fn show(&mut self, client: ClientDialect, key: Option<String>) {
        let start = LiveStart {
            id: self.id.clone(),
            model: self.asked.clone().unwrap_or_default(),
            key,
            client: client.dialect().name(),
            is_stream: self.stream,
            begun: self.started,
        };
        let entry = self.metrics.live().begin(start);
        if let Some(Target { model, upstream, .. }) = &self.target {
            entry.at(model, &upstream.name);
        }
        self.live = Some(Box::new(entry));
    }

    /// The entry in the list of responses in progress, if the response is listed.
    pub(crate) fn live(&self) -> Option<&LiveEntry> {
        self.live.as_deref()
    }

    /// The configured name of the model to which the request was last sent.
    pub(crate) fn model(&self) -> Option<&str> {
        Some(&*self.target.as_ref()?.model)
    }

    /// Records that a client at `peer` sent no key or a wrong one.
    pub fn refused(&mut self, peer: IpAddr) {
        self.peer = Some(peer.to_canonical());
    }

    pub(crate) fn shown_key(&mut self, name: Arc<str>) {
        self.key = Some(name);
    }

    /// Records the input and output tokens charged to the client.
    pub(crate) fn spent(&mut self, tokens: (u64, u64)) {
        self.spent = tokens;
    }

    pub(crate) fn asked(&mut self, model: &str, stream: bool) {
        self.asked = Some(clip(model, MAX_WORD).into_owned());
        self.stream = stream;
    }

    /// Records the start of an exchange with an upstream. `model` is the configured name.
    pub(crate) fn routed(&mut self, model: &str, upstream: &Arc<Upstream>) {
        self.metrics.streams().inc();
        self.span.record("model", model);
        self.span.record("upstream", upstream.name.as_str());
        self.moved(1, model, upstream);
    }

    /// Records that the exchange continues with another model, or with a model whose request has just been prepared.
    /// `number` is how many models have been asked.
    pub(crate) fn moved(&mut self, number: usize, model: &str, upstream: &Arc<Upstream>) {
        self.turns = number.saturating_sub(1) as u64;
        if let Some(live) = &self.live {
            live.at(model, &upstream.name);
        }
        self.target = Some(Target { model: model.to_owned(), upstream: Arc::clone(upstream) });
    }

    /// Records that a response begins anew with another model, whose token counts start at zero.
    pub(crate) fn counts_anew(&mut self) {
        self.counted = (None, None);
    }

    /// The request's log span. It is never entered while a response is read.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) fn hop_begun(&mut self, attempt: Attempt) {
        self.hops += 1;
        if let Some(live) = &self.live {
            live.hops(self.hops);
        }
        self.hop = self.hop_name().map(|name| HopRecord::begin(&self.span, name, attempt));
    }

    /// Creates the next request to the upstream. `None` before the first one.
    pub(crate) fn next_attempt(&self) -> Option<Attempt> {
        self.hop.as_ref().map(HopRecord::again)
    }

    /// Records that the upstream refused the request and is sent another one; see [`HopRecord::asked_otherwise`].
    pub(crate) fn asked_otherwise(&mut self, error: &str) -> Option<&telemetry::SpanContext> {
        self.hop.as_mut()?.asked_otherwise(error)
    }

    pub(crate) fn hop_chunk(&mut self) {
        if let Some(hop) = &mut self.hop {
            hop.chunk();
        }
    }

    /// Records that the client's request is about to be passed through. Returns the trace context for the upstream.
    pub(crate) fn pass(&mut self, model: &str, upstream: &Upstream) -> Option<telemetry::SpanContext> {
        let method = self.method.as_str();
        let about = || {
            let host = upstream.base_url.host().unwrap_or_default();
            let attributes = vec![
                ("http.request.method", method.into()),
                (gen_ai::SERVER_ADDRESS, host.into()),
                ("toolwire.upstream", upstream.name.as_str().into()),
                ("toolwire.model", model.into()),
            ];
            (method.to_owned(), attributes)
        };
        self.passed = self.trace.parent()?.begin(SpanKind::Client, about);
        self.passed.context().cloned()
    }

    /// Records the end of the request to the upstream, if one is in progress. `outcome` is the finish reason. If there
    /// is none, it is the reason for that, and `error` is the label under which the failure is counted. `tokens` are
    /// totals of all hops so far.
    pub(crate) fn hop_ended(
        &mut self,
        outcome: &dyn fmt::Display,
        error: Option<&'static str>,
        tokens: Tokens,
    ) {
        if let Some(mut hop) = self.hop.take() {
            let own = |all: Option<u64>, before: Option<u64>| Some(all?.saturating_sub(before.unwrap_or(0)));
            let own = (own(tokens.0, self.counted.0), own(tokens.1, self.counted.1));
            if let Some(name) = self.hop_name() {
                hop.end(name, &HopEnd { outcome, error, tokens: own }, &self.metrics);
            }
            self.counted = tokens;
            // Calls from the hop run in the hop's span.
            self.hop = Some(hop);
        }
    }

    /// Calls `begin` inside the spans of the hop and the request.
    pub(crate) fn in_hop<T>(&self, begin: impl FnOnce() -> T) -> T {
        scoped(self.trace(), || match &self.hop {
            Some(hop) => hop.span().in_scope(begin),
            None => begin(),
        })
    }

    fn hop_name(&self) -> Option<HopName<'_>> {
        let Target { model, upstream, .. } = self.target.as_ref()?;
        Some(HopName { request: &self.id, number: self.hops, model, upstream, purpose: None })
    }

    pub(crate) fn status(&mut self, status: u16) {
        self.status = status;
    }

    /// Records that `bytes` of the body were passed to the client's connection.
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

    /// Records that content of the response was passed to the client's connection.
    pub(crate) fn wrote_content(&mut self) {
        if self.first_content.is_none() {
            let after = self.elapsed();
            self.first_content = Some(after);
            if let Some(live) = &self.live {
                live.first_content(after);
            }
        }
    }

    /// Sets how the request ended. A request for which this is not called counts as cancelled.
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    pub(crate) fn counted(&mut self, tally: Tally) {
        self.tally = Some(Box::new(tally));
    }

    fn count(&self) {
        let model = self.target.as_ref().map(|target| target.model.as_str());
        self.metrics.request(self.route, model, self.status);
        if let Some(key) = &self.key {
            self.metrics.key_request(key, model, self.status, self.spent);
        }
        if let Some(target) = &self.target {
            self.metrics.streams().dec();
            if let Outcome::Failed(failure) = &self.outcome {
                self.metrics.upstream_error(&target.upstream.name, failure.kind());
            }
        }
        if let Some(tally) = &self.tally {
            self.metrics.tally(tally);
            if let Some(target) = &self.target {
                self.metrics.skipped(&target.upstream.name, &tally.skipped);
                self.metrics.tokens(&target.model, &target.upstream.name, tally);
            }
        }
        if self.outcome == Outcome::Cancelled {
            self.metrics.disconnect();
        }
    }

    /// Adds the outcome of the request to its trace. A refusal is the client's fault, so it does not mark the span as
    /// failed.
    fn describe(&mut self, error: Option<&'static str>) {
        let (status, hops) = (u64::from(self.status), self.hops as u64);
        self.trace.set("http.response.status_code", || status);
        self.trace.set("toolwire.hops", || hops);
        if let Some(model) = &self.asked {
            self.trace.set("toolwire.model", || model.as_str());
        }
        self.passed.set("http.response.status_code", || status);
        if let Some(error) = error {
            self.passed.fail(error);
        }
        self.passed.end();
        let is_ours = !(400..500).contains(&status);
        if let Some(error) = error.filter(|_| is_ours) {
            self.trace.fail(error);
        }
        self.trace.end();
    }

    /// Adds the request to the statistics of the last two hours.
    fn add_figures(&self, error: Option<&'static str>) {
        if !self.asks_model {
            return;
        }
        let tally = self.tally.as_deref();
        let (input_tokens, output_tokens) = self.tokens();
        let target = self.target.as_ref();
        let is_cancelled = self.outcome == Outcome::Cancelled;
        let finished = FinishedRequest {
            names: [
                target.map(|target| target.model.as_str()),
                self.key.as_deref(),
                target.map(|target| target.upstream.name.as_str()),
            ],
            error: error.filter(|_| !is_cancelled),
            is_cancelled,
            input_tokens,
            output_tokens,
            first_content: self.first_content.filter(|_| self.stream),
            duration: self.elapsed(),
            calls: tally.map_or(0, |tally| tally.calls.len() as u64),
            retries: self.turns + tally.map_or(0, Tally::retries),
        };
        self.metrics.figures().record(&finished, unix_time());
    }

    /// Returns the input and output tokens as counted by the upstream, or else as charged to the client.
    fn tokens(&self) -> (u64, u64) {
        let tally = self.tally.as_deref();
        let input = tally.and_then(|tally| tally.input_tokens).unwrap_or(self.spent.0);
        (input, tally.and_then(|tally| tally.output_tokens).unwrap_or(self.spent.1))
    }

    fn write_line(&self) {
        let tally = self.tally.as_deref();
        let (input_tokens, output_tokens) = self.tokens();
        let known = |tokens: u64| (tokens > 0).then_some(tokens);
        tracing::info!(
            target: "toolwire::access",
            id = self.id,
            method = self.method.as_str(),
            path = self.path,
            key = self.key.as_deref(),
            peer = self.peer.map(display),
            model = self.asked,
            entry = self.target.as_ref().map(|target| target.model.as_str()),
            upstream = self.target.as_ref().map(|target| target.upstream.name.as_str()),
            dialect = self.target.as_ref().map(|target| target.upstream.dialect().name()),
            stream = self.stream,
            status = self.status,
            finish = tally.and_then(|tally| tally.finish).map(finish_name),
            ttfb_ms = self.first_byte.map(milliseconds),
            ttft_ms = self.first_content.map(milliseconds),
            duration_ms = milliseconds(self.elapsed()),
            calls = tally.map(|tally| tally.calls.len()),
            hops = (self.hops > 0).then_some(self.hops),
            input_tokens = known(input_tokens),
            output_tokens = known(output_tokens),
            bytes_out = self.bytes_out,
            end = %self.outcome,
        );
    }

    /// Logs, in one line, what was left out of the response.
    fn write_skipped(&self) {
        let skipped = self.tally.as_ref().map(|tally| &tally.skipped).filter(|skipped| !skipped.is_empty());
        if let (Some(skipped), Some(target)) = (skipped, &self.target) {
            let (id, upstream) = (self.id.as_str(), target.upstream.name.as_str());
            tracing::warn!(id, upstream, %skipped, "parts of the upstream's response were left out");
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let outcome = self.outcome.clone();
        let error = match &outcome {
            Outcome::Failed(failure) => Some(kind_name(failure.kind())),
            Outcome::Cancelled => Some("cancelled"),
            Outcome::Stalled => Some("stalled"),
            Outcome::Done => None,
        };
        let tokens =
            self.tally.as_ref().map_or((None, None), |tally| (tally.input_tokens, tally.output_tokens));
        self.hop_ended(&outcome, error, tokens);
        self.describe(error.filter(|_| matches!(outcome, Outcome::Failed(_))));
        self.span.record("outcome", display(&self.outcome));
        self.count();
        self.add_figures(error);
        self.write_line();
        self.write_skipped();
    }
}

/// Logs which tools are missing from the instructions to the model for the request `id`.
pub(crate) fn tools_left_out(id: &str, model: &str, tools: &[String]) {
    let names = tools.join(", ");
    let (tools, names) = (tools.len(), clip(&names, MAX_NAMES));
    tracing::warn!(id, model, tools, %names, "tools were left out of the instructions (max_instructions)");
}

/// Returns the failure's code, or its kind if there is no code.
pub fn failure_name(failure: &Failure) -> &str {
    failure.code().unwrap_or_else(|| kind_name(failure.kind()))
}

/// Returns toolwire's own name for the finish reason, which is the same for all dialects.
pub fn finish_name(finish: Finish) -> &'static str {
    finish.into()
}
