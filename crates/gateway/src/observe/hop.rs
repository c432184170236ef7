//! [`HopRecord`]: the record of one request to an upstream: spans, metrics, and a log line at its end.
//!
//! The log span and the log line have the level debug, so they cost nothing by default. The span is entered only when
//! an operation starts in it, and never while a response is read.

use std::{
    fmt,
    time::{Duration, Instant},
};

use tracing::{
    Span,
    field::{Empty, display},
};

use super::{
    Metrics,
    gen_ai::{self, Measured},
    latencies::milliseconds,
};
use toolwire_config::Upstream;
use toolwire_net::telemetry::{self, Parent, SpanKind, Value};
use toolwire_pipeline::conversation::Sampling;

#[derive(Debug, Clone, Copy)]
pub(crate) struct HopName<'n> {
    /// The id of the client's request.
    pub(crate) request: &'n str,
    /// The number of the hop within the response, starting at 1.
    pub(crate) number: usize,
    /// The model's configured name.
    pub(crate) model: &'n str,
    pub(crate) upstream: &'n Upstream,
    /// Why toolwire itself sends the request. `None` for a client's request.
    pub(crate) purpose: Option<&'static str>,
}

pub(crate) struct HopEnd<'e> {
    /// The finish reason, or why there is none.
    pub(crate) outcome: &'e dyn fmt::Display,
    /// The kind of the failure, if the hop failed.
    pub(crate) error: Option<&'static str>,
    /// Input and output tokens. `None` if the upstream did not report them.
    pub(crate) tokens: (Option<u64>, Option<u64>),
}

/// A request that is about to be sent to an upstream.
#[derive(Debug)]
pub(crate) struct Attempt {
    begun: Instant,
    is_streamed: bool,
    trace: telemetry::Span,
}

impl Attempt {
    /// Starts the span of a request to `model`, the upstream's name for the model. The span is a child of `parent`, if
    /// there is one.
    pub(crate) fn begin(
        parent: Option<&Parent>,
        upstream: &Upstream,
        model: &str,
        sampling: &Sampling,
        is_streamed: bool,
    ) -> Self {
        let about = || {
            let mut about = vec![
                (gen_ai::OPERATION, gen_ai::CHAT.into()),
                (gen_ai::PROVIDER, gen_ai::provider(upstream).into()),
                (gen_ai::REQUEST_MODEL, model.into()),
                (gen_ai::STREAM, is_streamed.into()),
                (gen_ai::SERVER_ADDRESS, upstream.base_url.host().unwrap_or_default().into()),
                ("toolwire.upstream", upstream.name.as_str().into()),
            ];
            let port = upstream.base_url.port_u16().or(match upstream.base_url.scheme_str() {
                Some("https") => Some(443),
                _ => Some(80),
            });
            about.extend(port.map(|port| (gen_ai::SERVER_PORT, Value::Count(port.into()))));
            about.extend(sampling.max_tokens.map(|most| (gen_ai::MAX_TOKENS, Value::Count(most))));
            let chosen = [(gen_ai::TEMPERATURE, &sampling.temperature), (gen_ai::TOP_P, &sampling.top_p)];
            about.extend(
                chosen
                    .into_iter()
                    .filter_map(|(name, number)| Some((name, Value::Number(number.as_ref()?.as_f64()?)))),
            );
            (format!("{} {model}", gen_ai::CHAT), about)
        };
        let trace = parent.map(|parent| parent.begin(SpanKind::Client, about)).unwrap_or_default();
        Self { begun: Instant::now(), is_streamed, trace }
    }

    /// The same request, which is only now about to be sent.
    pub(crate) fn begun_now(self) -> Self {
        Self { begun: Instant::now(), ..self }
    }

    /// Creates a request that is not part of a trace.
    pub(crate) fn untraced(is_streamed: bool) -> Self {
        Self { begun: Instant::now(), is_streamed, trace: telemetry::Span::default() }
    }

    pub(crate) fn context(&self) -> Option<&telemetry::SpanContext> {
        self.trace.context()
    }
}

#[derive(Debug)]
pub(crate) struct HopRecord {
    span: Span,
    attempt: Attempt,
    /// Time from the start to the first piece of the response.
    first_chunk: Option<Duration>,
    chunks: u32,
    is_ended: bool,
}

impl HopRecord {
    /// Records the start of a hop, inside the log span `parent`.
    pub(crate) fn begin(parent: &Span, name: HopName<'_>, attempt: Attempt) -> Self {
        let HopName { request, number, model, upstream, purpose } = name;
        let span = tracing::debug_span!(
            parent: parent,
            "hop",
            id = format_args!("{request}:hop{number}"),
            model,
            upstream = upstream.name,
            purpose,
            outcome = Empty
        );
        Self { span, attempt, first_chunk: None, chunks: 0, is_ended: false }
    }

    /// The log span. Hosted calls from the hop run in it.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Records that the upstream refused the request with the reason `error` and is sent another one. Returns the trace
    /// context for the new request.
    pub(crate) fn asked_otherwise(&mut self, error: &str) -> Option<&telemetry::SpanContext> {
        let trace = self.attempt.trace.again();
        self.attempt.trace.fail(error);
        self.attempt.trace = trace;
        self.attempt.trace.context()
    }

    pub(crate) fn again(&self) -> Attempt {
        let Attempt { is_streamed, trace, .. } = &self.attempt;
        Attempt { begun: Instant::now(), is_streamed: *is_streamed, trace: trace.again() }
    }

    pub(crate) fn chunk(&mut self) {
        if self.chunks == 0 {
            self.first_chunk = Some(self.attempt.begun.elapsed());
        }
        self.chunks = self.chunks.saturating_add(1);
    }

    pub(crate) fn end(&mut self, name: HopName<'_>, end: &HopEnd<'_>, metrics: &Metrics) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        let HopName { request, number, model, upstream, purpose } = name;
        let HopEnd { outcome, error, tokens } = *end;
        let duration = self.attempt.begun.elapsed();
        self.span.record("outcome", display(outcome));
        tracing::debug!(
            target: "toolwire::access",
            id = format_args!("{request}:hop{number}"),
            model,
            upstream = upstream.name,
            purpose,
            duration_ms = milliseconds(duration),
            end = %outcome,
            "hop"
        );
        let first_chunk = self.first_chunk.filter(|_| self.attempt.is_streamed);
        let per_chunk = first_chunk.filter(|_| self.chunks > 1);
        let per_chunk =
            per_chunk.map(|first| (duration.saturating_sub(first) / (self.chunks - 1)).as_secs_f64());
        let first_chunk = first_chunk.map(|first| first.as_secs_f64());
        let duration = duration.as_secs_f64();
        metrics.model_request(&Measured { model, upstream, duration, first_chunk, per_chunk, error, tokens });
        self.describe(end, number, purpose, first_chunk);
    }

    fn describe(&mut self, end: &HopEnd<'_>, number: usize, purpose: Option<&str>, first_chunk: Option<f64>) {
        let trace = &mut self.attempt.trace;
        trace.set("toolwire.hop", || number as u64);
        if let Some(purpose) = purpose {
            trace.set("toolwire.purpose", || purpose);
        }
        if let Some(seconds) = first_chunk {
            trace.set(gen_ai::FIRST_CHUNK, || seconds);
        }
        for (name, count) in [(gen_ai::INPUT_TOKENS, end.tokens.0), (gen_ai::OUTPUT_TOKENS, end.tokens.1)] {
            if let Some(count) = count {
                trace.set(name, || count);
            }
        }
        match end.error {
            Some(error) => trace.fail(error),
            None => trace.set(gen_ai::FINISH_REASONS, || {
                Value::Texts(vec![gen_ai::finish_reason(end.outcome.to_string())])
            }),
        }
        trace.end();
    }
}
