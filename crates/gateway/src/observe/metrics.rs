//! [`Metrics`]: the counters that `/metrics` shows.
//!
//! `/metrics` requires no key. Labels therefore contain only configured names, kinds, formats and names from the API,
//! nothing that clients choose. That also bounds the number of series. Names of called tools are a label only if the
//! configuration enables it, up to [`names::MAX_NAMES`] of them; others are counted as `other`.

mod labels;
mod names;
mod register;

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use toolwire_execution::{AuditEvent, ErrorCode, Record, files::ImageGauges};
use toolwire_net::{telemetry::TraceMetrics, tls::CertificateMetrics};
use toolwire_pipeline::{dialect::Skipped, failure::Kind, pipeline::Tally};

use self::{
    labels::{
        AttemptLabels, CallLabels, CodeLabel, ConstraintLabels, ErrorLabels, FieldLabels, HostedLabels,
        KeyRequestLabels, KeyTokenLabels, ModelLabel, ReasonLabel, RefreshLabels, RequestLabels, ResultLabel,
        SkipLabels, TokenLabels, ToolLabel, UpstreamLabel,
    },
    names::Names,
};
use super::{
    figures::Figures,
    gen_ai::{GenAiMetrics, Measured},
    hosted_figures::HostedFigures,
    live::LiveStreams,
};

/// The label for names that have no label of their own.
pub(super) const OTHER: &str = "other";

/// All metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    streams: Gauge,
    first_byte: Family<ModelLabel, Histogram>,
    upstream_errors: Family<ErrorLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    dropped_calls: Counter,
    malformed_frames: Counter,
    follow_ups: Family<ReasonLabel, Counter>,
    warnings: Family<CodeLabel, Counter>,
    skipped: Family<SkipLabels, Counter>,
    held_peak: Histogram,
    disconnects: Counter,
    stalls: Counter,
    waiting: Family<UpstreamLabel, Gauge>,
    dropped_fields: Family<FieldLabels, Counter>,
    unsolicited: Family<UpstreamLabel, Counter>,
    lumo_refreshes: Family<RefreshLabels, Counter>,
    tools_left_out: Family<ModelLabel, Counter>,
    store_failures: Counter,
    store_away: Gauge,
    unchecked_requests: Counter,
    constraints_failed: Family<ConstraintLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    ejected_targets: Gauge,
    key_requests: Family<KeyRequestLabels, Counter>,
    key_tokens: Family<KeyTokenLabels, Counter>,
    hosted_calls: Family<HostedLabels, Counter>,
    hosted_seconds: Family<ToolLabel, Histogram>,
    hosted_cache_hits: Counter,
    hosted_retries: Counter,
    images: ImageGauges,
    config: ConfigGauges,
    tokens: Family<TokenLabels, Counter>,
    /// The tools that are labels of hosted calls.
    hosted_names: Names,
    hosted_figures: HostedFigures,
    certificates: CertificateMetrics,
    models: GenAiMetrics,
    traces: TraceMetrics,
    /// `None` if tool names are not a label.
    names: Option<Names>,
    figures: Figures,
    live: Arc<LiveStreams>,
}

/// The result of the last reload of the configuration.
#[derive(Debug, Default)]
struct ConfigGauges {
    generation: Gauge,
    is_ok: Gauge,
    loaded_at: Gauge,
    reloads: Family<ResultLabel, Counter>,
}

/// Counts the attempts to refresh the session of one upstream's account.
#[derive(Debug)]
pub(crate) struct RefreshCounter {
    refreshes: Family<RefreshLabels, Counter>,
    upstream: String,
}

impl RefreshCounter {
    /// `result`: `ok`, `failed`, or `logged_out` if a new login is required.
    pub(crate) fn count(&self, result: &'static str) {
        let labels = RefreshLabels { upstream: self.upstream.clone(), result };
        self.refreshes.get_or_create(&labels).inc();
    }
}

impl Metrics {
    /// Creates all metrics, with the counters at zero. If `tool_names` is set, the names of called tools are a label.
    pub(crate) fn new(tool_names: bool) -> Self {
        let mut new = Self {
            registry: Registry::with_prefix("toolwire"),
            requests: Family::default(),
            streams: Gauge::default(),
            first_byte: Family::new_with_constructor(first_byte_buckets),
            upstream_errors: Family::default(),
            calls: Family::default(),
            dropped_calls: Counter::default(),
            malformed_frames: Counter::default(),
            follow_ups: Family::default(),
            warnings: Family::default(),
            skipped: Family::default(),
            held_peak: Histogram::new(exponential_buckets(1.0, 8.0, 8)),
            disconnects: Counter::default(),
            stalls: Counter::default(),
            waiting: Family::default(),
            dropped_fields: Family::default(),
            unsolicited: Family::default(),
            lumo_refreshes: Family::default(),
            tools_left_out: Family::default(),
            store_failures: Counter::default(),
            store_away: Gauge::default(),
            unchecked_requests: Counter::default(),
            constraints_failed: Family::default(),
            attempts: Family::default(),
            ejected_targets: Gauge::default(),
            key_requests: Family::default(),
            key_tokens: Family::default(),
            hosted_calls: Family::default(),
            hosted_seconds: Family::new_with_constructor(hosted_buckets),
            hosted_cache_hits: Counter::default(),
            hosted_retries: Counter::default(),
            images: ImageGauges::default(),
            config: ConfigGauges::default(),
            tokens: Family::default(),
            hosted_names: Names::default(),
            hosted_figures: HostedFigures::default(),
            certificates: CertificateMetrics::default(),
            models: GenAiMetrics::new(),
            traces: TraceMetrics::default(),
            names: tool_names.then(Names::default),
            figures: Figures::default(),
            live: Arc::default(),
        };
        new.register();
        new
    }

    /// Records that a configuration was loaded, including the first one at the start. `at` is in milliseconds of Unix
    /// time.
    pub(crate) fn config_loaded(&self, generation: u64, at: u64) {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let ConfigGauges { generation: gauge, is_ok, loaded_at, reloads } = &self.config;
        gauge.set(signed(generation));
        is_ok.set(1);
        loaded_at.set(signed(at / 1000));
        if generation > 1 {
            reloads.get_or_create(&ResultLabel { result: "ok" }).inc();
        }
    }

    /// Records that a configuration could not be loaded.
    pub(crate) fn config_failed(&self) {
        self.config.is_ok.set(0);
        self.config.reloads.get_or_create(&ResultLabel { result: "failed" }).inc();
    }

    /// All metrics in the text format of Prometheus ([`Metrics::CONTENT_TYPE`]).
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &self.models.registry))
            .and_then(|()| encode_eof(&mut text));
        text
    }

    /// The content type of [`Metrics::text`].
    pub(crate) const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Counts a finished request. `model` is the name of the configuration entry.
    pub(super) fn request(&self, route: &'static str, model: Option<&str>, status: u16) {
        let model = model.unwrap_or(OTHER).to_owned();
        self.requests.get_or_create(&RequestLabels { route, model, status }).inc();
    }

    /// Counts a finished request from the client `key`, and the input and output tokens that count for the client. The
    /// names of keys and models come from the configuration.
    pub(super) fn key_request(&self, key: &str, model: Option<&str>, (status, tokens): (u16, (u64, u64))) {
        let model = model.unwrap_or(OTHER);
        self.key_tokens(key, model, tokens);
        let (key, model) = (key.to_owned(), model.to_owned());
        self.key_requests.get_or_create(&KeyRequestLabels { key, model, status }).inc();
    }

    /// Counts input and output tokens of a client whose key has a name.
    pub(crate) fn key_tokens(&self, key: &str, model: &str, (input, output): (u64, u64)) {
        for (kind, tokens) in [("input", input), ("output", output)] {
            if tokens > 0 {
                let labels = KeyTokenLabels { key: key.to_owned(), model: model.to_owned(), kind };
                self.key_tokens.get_or_create(&labels).inc_by(tokens);
            }
        }
    }

    /// Records the time to the first byte of a response.
    pub(super) fn first_byte(&self, model: &str, after: Duration) {
        let label = ModelLabel { model: model.to_owned() };
        self.first_byte.get_or_create(&label).observe(after.as_secs_f64());
    }

    /// Counts a failed response.
    pub(super) fn upstream_error(&self, upstream: &str, kind: Kind) {
        let labels = ErrorLabels { upstream: upstream.to_owned(), kind: kind_name(kind) };
        self.upstream_errors.get_or_create(&labels).inc();
    }

    /// Counts a client that disconnected before the end.
    pub(super) fn disconnect(&self) {
        self.disconnects.inc();
    }

    /// Counts a connection or HTTP/2 stream that was closed because the client read nothing for too long.
    pub(crate) fn client_stalled(&self) {
        self.stalls.inc();
    }

    /// Adds the contents of a response.
    pub(super) fn tally(&self, tally: &Tally) {
        for call in &tally.calls {
            let name = self.names.as_ref().map(|names| names.label(call.name.as_deref()));
            self.calls.get_or_create(&CallLabels { format: call.format, name }).inc();
        }
        for reason in &tally.follow_ups {
            self.follow_ups.get_or_create(&ReasonLabel { reason: reason.name() }).inc();
        }
        for &code in &tally.warnings {
            self.warnings.get_or_create(&CodeLabel { code }).inc();
        }
        self.dropped_calls.inc_by(tally.dropped_calls);
        self.malformed_frames.inc_by(tally.malformed_frames);
        // Gauges of bytes stay far below 2^52.
        #[expect(clippy::cast_precision_loss, reason = "a limit in the configuration keeps it small")]
        self.held_peak.observe(tally.held_peak as f64);
    }

    /// Adds the tokens of all hops in a response by `upstream`. `model` is the name of the configuration entry.
    pub(crate) fn tokens(&self, model: &str, upstream: &str, tally: &Tally) {
        for (direction, count) in [("input", tally.input_tokens), ("output", tally.output_tokens)] {
            if let Some(count) = count.filter(|count| *count > 0) {
                let labels =
                    TokenLabels { direction, model: model.to_owned(), upstream: upstream.to_owned() };
                self.tokens.get_or_create(&labels).inc_by(count);
            }
        }
    }

    /// Counts the fields in a request that the dialect of `upstream` cannot express. Fields that the API does not
    /// define are counted as `other`.
    pub(crate) fn dropped_fields(&self, upstream: &str, fields: &[String]) {
        for field in fields {
            let field = FIELDS.into_iter().find(|known| known == field).unwrap_or(OTHER);
            let labels = FieldLabels { upstream: upstream.to_owned(), field };
            self.dropped_fields.get_or_create(&labels).inc();
        }
    }

    /// Counts tools that were left out because a request's instructions had no room for them.
    pub(crate) fn tools_left_out(&self, model: &str, tools: usize) {
        let labels = ModelLabel { model: model.to_owned() };
        self.tools_left_out.get_or_create(&labels).inc_by(tools as u64);
    }

    /// Counts a constraint by this means that did not work, with the reason. `model` is the name of the configuration
    /// entry.
    pub(crate) fn constraint_failed(
        &self,
        upstream: &str,
        model: &str,
        (means, reason): (&'static str, &'static str),
    ) {
        let (upstream, model) = (upstream.to_owned(), model.to_owned());
        self.constraints_failed.get_or_create(&ConstraintLabels { upstream, model, means, reason }).inc();
    }

    /// Counts the parts that were left out of a response from `upstream`.
    pub(super) fn skipped(&self, upstream: &str, skipped: &Skipped) {
        for (why, count) in skipped.iter() {
            let labels = SkipLabels { upstream: upstream.to_owned(), reason: why.name() };
            self.skipped.get_or_create(&labels).inc_by(count);
        }
    }

    /// Counts a request to a model.
    pub(super) fn model_request(&self, measured: &Measured<'_>) {
        self.models.add(measured);
    }

    /// Counters about telemetry itself.
    pub fn traces(&self) -> TraceMetrics {
        self.traces.clone()
    }

    /// Metrics of the listeners' TLS.
    pub(crate) fn certificates(&self) -> CertificateMetrics {
        self.certificates.clone()
    }

    /// Gauges of the kept generated images.
    pub(crate) fn images(&self) -> ImageGauges {
        self.images.clone()
    }

    /// The gauge of requests that wait for a free slot at `upstream`; its queue updates it.
    pub(crate) fn waiting(&self, upstream: &str) -> Gauge {
        self.waiting.get_or_create_owned(&UpstreamLabel { upstream: upstream.to_owned() })
    }

    /// The counter of responses that could not be stored.
    pub(crate) fn store_failures(&self) -> Counter {
        self.store_failures.clone()
    }

    /// The gauge that says whether the server with the shared state cannot be used.
    pub(crate) fn store_away(&self) -> Gauge {
        self.store_away.clone()
    }

    /// The counter of requests whose limits were not checked for all instances together.
    pub(crate) fn unchecked_requests(&self) -> Counter {
        self.unchecked_requests.clone()
    }

    /// The counter of connections on which `upstream` sent bytes that no request had asked for.
    pub(crate) fn unsolicited(&self, upstream: &str) -> Counter {
        self.unsolicited.get_or_create_owned(&UpstreamLabel { upstream: upstream.to_owned() })
    }

    /// The counter of attempts to refresh the session of `upstream`.
    pub(crate) fn lumo_refreshes(&self, upstream: &str) -> RefreshCounter {
        RefreshCounter { refreshes: self.lumo_refreshes.clone(), upstream: upstream.to_owned() }
    }

    /// Counts an event of the execution stage. Names of tools come from providers, which may keep changing them;
    /// names that only a model has written are counted as `other`.
    pub(crate) fn hosted(&self, record: &Record) {
        match &record.event {
            AuditEvent::ToolResult { call, provider, code, millis, is_cached, .. } => {
                let tool = self.hosted_names.label(provider.as_ref().map(|_| call.name.as_str()));
                let provider = provider.as_deref().unwrap_or_default().to_owned();
                let took = Duration::from_millis(*millis);
                self.hosted_figures.count(&tool, took, (code.is_none(), *is_cached));
                let label = ToolLabel { tool: tool.clone() };
                self.hosted_seconds.get_or_create(&label).observe(took.as_secs_f64());
                let code = code.map_or("ok", ErrorCode::name);
                self.hosted_calls.get_or_create(&HostedLabels { tool, provider, code }).inc();
            }
            AuditEvent::CacheHit { .. } => _ = self.hosted_cache_hits.inc(),
            AuditEvent::Retry { .. } => _ = self.hosted_retries.inc(),
            _ => {}
        }
    }

    /// Counts an attempt for a request whose model has alternatives. `target`: the name of the configuration entry.
    pub(crate) fn attempt(&self, target: &str, failed: Option<Kind>) {
        let outcome = failed.map_or("ok", kind_name);
        self.attempts.get_or_create(&AttemptLabels { target: target.to_owned(), outcome }).inc();
    }

    /// Sets the number of targets that are currently ejected.
    pub(crate) fn ejected_targets(&self, count: usize) {
        self.ejected_targets.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Figures of each hosted tool's calls.
    pub fn hosted_figures(&self) -> &HostedFigures {
        &self.hosted_figures
    }

    /// Figures of the requests of the last two hours.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The responses in progress.
    pub fn live(&self) -> &Arc<LiveStreams> {
        &self.live
    }

    /// The [current figures](Figures::now), at `now` in seconds of Unix time.
    pub fn figures_of_now(&self, now: u64) -> serde_json::Value {
        self.figures.now(self.streams.get(), now)
    }

    /// The gauge of responses in progress.
    pub(super) fn streams(&self) -> &Gauge {
        &self.streams
    }
}

/// Buckets from 1 ms to 65 s, doubling, since reasoning models take long.
fn first_byte_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

/// Buckets from 1 ms to 8 minutes, quadrupling.
fn hosted_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 10))
}

/// The kind as a label.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Request => "request",
        Kind::Unauthorized => "unauthorized",
        Kind::Forbidden => "forbidden",
        Kind::NotFound => "not_found",
        Kind::Method => "method",
        Kind::TooLarge => "too_large",
        Kind::ContextLength => "context_length",
        Kind::RateLimit => "rate_limit",
        Kind::Budget => "budget",
        Kind::Overloaded => "overloaded",
        Kind::StoreAway => "store_away",
        Kind::Timeout => "timeout",
        Kind::Connect => "connect",
        Kind::Protocol => "protocol",
        Kind::Truncated => "truncated",
        Kind::Upstream => "upstream",
        Kind::Limit => "limit",
        Kind::Draining => "draining",
        Kind::Internal => "internal",
    }
}

/// Fields of a chat request that an upstream's dialect may not have.
const FIELDS: [&str; 40] = [
    "audio",
    "cache_control",
    "chat_template_kwargs",
    "custom",
    "frequency_penalty",
    "function_call",
    "functions",
    "image_url",
    "input_audio",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "min_p",
    "modalities",
    "n",
    "name",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

#[cfg(test)]
mod dashboard;

#[cfg(test)]
mod tests {
    use super::{names::MAX_NAMES, *};
    use toolwire_execution::audit::CallRecord;
    use toolwire_pipeline::pipeline::CallTally;

    #[test]
    fn tool_names_are_bounded() {
        let metrics = Metrics::new(true);
        let calls = (0..MAX_NAMES + 10)
            .map(|number| CallTally { format: "native", name: Some(format!("tool_{number}")) })
            .collect();
        metrics.tally(&Tally { calls, ..Tally::default() });
        let text = metrics.text();
        assert_eq!(text.matches("toolwire_calls_total{").count(), MAX_NAMES + 1);
        assert!(text.contains("toolwire_calls_total{format=\"native\",name=\"other\"} 10\n"), "{text}");
    }

    #[test]
    fn names_of_hosted_tools_are_bounded() {
        let metrics = Metrics::new(false);
        let ran = |name: &str, provider: Option<&str>| Record {
            sequence: 1,
            t: 1,
            subject: None,
            event: AuditEvent::ToolResult {
                call: CallRecord::new("c", name, "{}", None),
                provider: provider.map(Into::into),
                result: None,
                details: None,
                code: None,
                millis: 1,
                is_cached: false,
            },
        };
        for number in 0..MAX_NAMES + 10 {
            metrics.hosted(&ran(&format!("tool_{number}"), Some("p")));
            metrics.hosted(&ran(&format!("invented_{number}"), None));
        }
        let text = metrics.text();
        let own = "toolwire_hosted_calls_total{tool=\"tool_";
        assert_eq!(text.matches(own).count(), MAX_NAMES);
        assert!(text.contains("{tool=\"other\",provider=\"p\",code=\"ok\"} 10\n"), "{text}");
        assert!(!text.contains("invented"), "{text}");
        assert_eq!(text.matches("toolwire_hosted_call_seconds_count{").count(), MAX_NAMES + 1);
    }

    #[test]
    fn client_tool_names_are_shown_only_if_configured() {
        let call = |name: &str| CallTally { format: "native", name: Some(name.to_owned()) };
        let tally = Tally { calls: vec![call("secret_tool"), call("other_tool")], ..Tally::default() };
        let metrics = Metrics::new(false);
        metrics.tally(&tally);
        metrics.dropped_fields("up", &["seed".to_owned(), "secret_field".to_owned()]);
        let text = metrics.text();
        assert!(text.contains("toolwire_calls_total{format=\"native\"} 2\n"), "{text}");
        assert!(text.contains("toolwire_dropped_fields_total{upstream=\"up\",field=\"seed\"} 1\n"), "{text}");
        assert!(
            text.contains("toolwire_dropped_fields_total{upstream=\"up\",field=\"other\"} 1\n"),
            "{text}"
        );
        assert!(!text.contains("secret") && !text.contains("other_tool"), "{text}");
        let named = Metrics::new(true);
        named.tally(&tally);
        let text = named.text();
        assert!(text.contains("toolwire_calls_total{format=\"native\",name=\"secret_tool\"} 1\n"), "{text}");
    }

    #[test]
    fn a_request_is_counted_by_route_model_and_status() {
        let metrics = Metrics::new(false);
        metrics.request("chat", Some("lumo"), 200);
        metrics.request("chat", None, 404);
        let text = metrics.text();
        assert!(text.contains("toolwire_requests_total{route=\"chat\",model=\"lumo\",status=\"200\"} 1\n"));
        assert!(text.contains("toolwire_requests_total{route=\"chat\",model=\"other\",status=\"404\"} 1\n"));
        assert!(text.ends_with("# EOF\n"));
    }
}
