//! [`Metrics`]: the metrics that `/metrics` shows.
//!
//! `/metrics` requires no key. Labels therefore contain only configured names, kinds, formats and names from the API,
//! and nothing that clients choose, which also bounds the number of series. Names of called tools become labels only if
//! the configuration enables this, and only [`names::MAX_NAMES`] of them; any others are counted as `other`.

mod names;
mod series;
pub(super) mod table;

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use toolwire_execution::{AuditEvent, ErrorCode, Record, files::ImageGauges};
use toolwire_net::{store::FileMetrics, telemetry::TraceMetrics, tls::CertificateMetrics};
use toolwire_pipeline::{dialect::Skipped, failure::Kind, pipeline::Tally};

use self::{
    names::Names,
    series::{
        CallLabels, Series, attempts, clock_jumps, config_reloads, constraints_failed, dropped_fields,
        first_byte_seconds, follow_ups, hosted_call_seconds, hosted_calls, key_requests, key_tokens,
        lumo_refreshes, missed_calls, quoted_calls, requests, skipped, tokens, tools_left_out,
        upstream_errors, upstream_unsolicited, waiting_requests, warnings,
    },
};
use super::{
    figures::Figures,
    gen_ai::{Measured, ModelSeries},
    hosted_figures::HostedFigures,
    live::LiveStreams,
    memory::MemoryGauge,
};

/// Label for names without a label of their own.
pub(super) const OTHER: &str = "other";

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    series: Series,
    model_registry: Registry,
    models: ModelSeries,
    /// The tools with a label for hosted calls.
    hosted_names: Names,
    hosted_figures: HostedFigures,
    /// `None` if names of called tools are not labels.
    names: Option<Names>,
    figures: Figures,
    live: Arc<LiveStreams>,
    memory: Arc<MemoryGauge>,
}

/// Counts the attempts to refresh the session of an upstream's account.
#[derive(Debug)]
pub(crate) struct RefreshCounter {
    refreshes: Family<lumo_refreshes::Labels, Counter>,
    upstream: String,
}

impl RefreshCounter {
    /// `result` is `ok`, `failed`, or `logged_out` if a new login is required.
    pub(crate) fn count(&self, result: &'static str) {
        let labels = lumo_refreshes::Labels { upstream: self.upstream.clone(), result };
        self.refreshes.get_or_create(&labels).inc();
    }
}

impl Metrics {
    /// Creates all metrics at zero. If `tool_names` is set, the names of called tools become labels.
    pub(crate) fn new(tool_names: bool) -> Self {
        let (mut registry, mut model_registry) = (Registry::with_prefix("toolwire"), Registry::default());
        let series = Series::new(&mut registry);
        for direction in ["ahead", "back"] {
            // Otherwise the first increase would not be visible.
            drop(series.clock_jumps.get_or_create(&clock_jumps::Labels { direction }));
        }
        let memory = Arc::new(MemoryGauge::default());
        registry.register_collector(Box::new(Arc::clone(&memory)));
        Self {
            series,
            registry,
            models: ModelSeries::new(&mut model_registry),
            model_registry,
            hosted_names: Names::default(),
            hosted_figures: HostedFigures::default(),
            names: tool_names.then(Names::default),
            figures: Figures::default(),
            live: Arc::default(),
            memory,
        }
    }

    /// Records that a configuration was loaded, including the first one. `at` is a Unix time in milliseconds.
    pub(crate) fn config_loaded(&self, generation: u64, at: u64) {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.series.config_generation.set(signed(generation));
        self.series.config_last_reload_successful.set(1);
        self.series.config_last_reload_success_timestamp_seconds.set(signed(at / 1000));
        if generation > 1 {
            self.series.config_reloads.get_or_create(&config_reloads::Labels { result: "ok" }).inc();
        }
    }

    pub(crate) fn config_failed(&self) {
        self.series.config_last_reload_successful.set(0);
        self.series.config_reloads.get_or_create(&config_reloads::Labels { result: "failed" }).inc();
    }

    /// Returns all metrics in Prometheus's text format ([`Metrics::CONTENT_TYPE`]).
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Infallible: the output is a string.
        let _ = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &self.model_registry))
            .and_then(|()| encode_eof(&mut text));
        text
    }

    pub(crate) const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Counts a finished request. `model` is the configured name.
    pub(super) fn request(&self, route: &'static str, model: Option<&str>, status: u16) {
        let model = model.unwrap_or(OTHER).to_owned();
        self.series.requests.get_or_create(&requests::Labels { route, model, status }).inc();
    }

    /// Counts a finished request from the client `key`, and the input and output tokens charged to the client. The
    /// names of keys and models come from the configuration.
    pub(super) fn key_request(&self, key: &str, model: Option<&str>, status: u16, tokens: (u64, u64)) {
        let model = model.unwrap_or(OTHER);
        self.key_tokens(key, model, tokens);
        let (key, model) = (key.to_owned(), model.to_owned());
        self.series.key_requests.get_or_create(&key_requests::Labels { key, model, status }).inc();
    }

    /// Counts input and output tokens of a client whose key has a name.
    pub(crate) fn key_tokens(&self, key: &str, model: &str, (input, output): (u64, u64)) {
        for (kind, tokens) in [("input", input), ("output", output)] {
            if tokens > 0 {
                let labels = key_tokens::Labels { key: key.to_owned(), model: model.to_owned(), kind };
                self.series.key_tokens.get_or_create(&labels).inc_by(tokens);
            }
        }
    }

    pub(super) fn first_byte(&self, model: &str, after: Duration) {
        let label = first_byte_seconds::Labels { model: model.to_owned() };
        self.series.first_byte_seconds.get_or_create(&label).observe(after.as_secs_f64());
    }

    pub(super) fn upstream_error(&self, upstream: &str, kind: Kind) {
        let labels = upstream_errors::Labels { upstream: upstream.to_owned(), kind: kind_name(kind) };
        self.series.upstream_errors.get_or_create(&labels).inc();
    }

    /// Counts a client that disconnected before the end.
    pub(super) fn disconnect(&self) {
        self.series.client_disconnects.inc();
    }

    /// Counts a connection or HTTP/2 stream that was closed because the client read nothing for too long.
    pub(crate) fn client_stalled(&self) {
        self.series.client_stalls.inc();
    }

    pub(super) fn tally(&self, tally: &Tally) {
        for call in &tally.calls {
            let name = self.names.as_ref().map(|names| names.label(call.name.as_deref()));
            self.series.calls.get_or_create(&CallLabels { format: call.format, name }).inc();
        }
        for reason in &tally.follow_ups {
            self.series.follow_ups.get_or_create(&follow_ups::Labels { reason: reason.name() }).inc();
        }
        for &code in &tally.warnings {
            self.series.warnings.get_or_create(&warnings::Labels { code }).inc();
        }
        let quoted = tally.quoted_calls;
        for (outcome, count) in [("text", quoted.as_text), ("call", quoted.as_calls)] {
            if count > 0 {
                self.series.quoted_calls.get_or_create(&quoted_calls::Labels { outcome }).inc_by(count);
            }
        }
        self.series.dropped_calls.inc_by(tally.dropped_calls);
        self.series.malformed_frames.inc_by(tally.malformed_frames);
        // Byte counts are far below 2^52.
        #[expect(clippy::cast_precision_loss, reason = "a limit in the configuration keeps it small")]
        self.series.held_bytes.observe(tally.held_peak as f64);
    }

    /// Adds the tokens of all hops in a response from `upstream`. `model` is the configured name.
    pub(crate) fn tokens(&self, model: &str, upstream: &str, tally: &Tally) {
        for (direction, count) in [("input", tally.input_tokens), ("output", tally.output_tokens)] {
            if let Some(count) = count.filter(|count| *count > 0) {
                let labels =
                    tokens::Labels { direction, model: model.to_owned(), upstream: upstream.to_owned() };
                self.series.tokens.get_or_create(&labels).inc_by(count);
            }
        }
    }

    /// Counts the fields of a request that the dialect of `upstream` cannot express. Fields that the API does not
    /// define are counted as `other`.
    pub(crate) fn dropped_fields(&self, upstream: &str, fields: &[String]) {
        for field in fields {
            let field = FIELDS.into_iter().find(|known| known == field).unwrap_or(OTHER);
            let labels = dropped_fields::Labels { upstream: upstream.to_owned(), field };
            self.series.dropped_fields.get_or_create(&labels).inc();
        }
    }

    /// Counts tools that did not fit into the instructions of a request.
    pub(crate) fn tools_left_out(&self, model: &str, tools: usize) {
        let labels = tools_left_out::Labels { model: model.to_owned() };
        self.series.tools_left_out.get_or_create(&labels).inc_by(tools as u64);
    }

    /// Counts a constraint of this kind that did not work, with the reason. `model` is the configured name.
    pub(crate) fn constraint_failed(
        &self,
        upstream: &str,
        model: &str,
        means: &'static str,
        reason: &'static str,
    ) {
        let (upstream, model) = (upstream.to_owned(), model.to_owned());
        self.series
            .constraints_failed
            .get_or_create(&constraints_failed::Labels { upstream, model, means, reason })
            .inc();
    }

    /// Counts a response with a call in a format that is not looked for.
    pub(crate) fn missed_call(&self, format: &'static str) {
        self.series.missed_calls.get_or_create(&missed_calls::Labels { format }).inc();
    }

    /// Counts the parts that were left out of a response from `upstream`.
    pub(super) fn skipped(&self, upstream: &str, skipped: &Skipped) {
        for (why, count) in skipped.iter() {
            let labels = skipped::Labels { upstream: upstream.to_owned(), reason: why.name() };
            self.series.skipped.get_or_create(&labels).inc_by(count);
        }
    }

    pub(super) fn model_request(&self, measured: &Measured<'_>) {
        self.models.add(measured);
    }

    /// The counters of the telemetry export itself.
    pub fn traces(&self) -> TraceMetrics {
        let Series { telemetry_dropped_spans: dropped, telemetry_failed_exports: failed, .. } = &self.series;
        TraceMetrics { dropped: dropped.clone(), failed: failed.clone() }
    }

    pub(crate) fn certificates(&self) -> CertificateMetrics {
        CertificateMetrics {
            expiry: self.series.tls_certificate_expiry_seconds.clone(),
            reload_failures: self.series.tls_reload_failures.clone(),
            handshake_failures: self.series.tls_handshake_failures.clone(),
        }
    }

    pub(crate) fn images(&self) -> ImageGauges {
        ImageGauges { count: self.series.images.clone(), bytes: self.series.image_bytes.clone() }
    }

    /// The gauge of requests that wait for a slot at `upstream`. Its queue updates it.
    pub(crate) fn waiting(&self, upstream: &str) -> Gauge {
        self.series
            .waiting_requests
            .get_or_create_owned(&waiting_requests::Labels { upstream: upstream.to_owned() })
    }

    /// The counter of responses that could not be stored.
    pub(crate) fn store_failures(&self) -> Counter {
        self.series.store_failures.clone()
    }

    /// The metrics of the files with state.
    pub(crate) fn store_files(&self) -> FileMetrics {
        let Series { store_unwritten: unwritten, store_damaged_files: damaged, .. } = &self.series;
        FileMetrics { unwritten: unwritten.clone(), damaged: damaged.clone() }
    }

    /// Counts that the system's clock was set, in this direction.
    pub(crate) fn clock_jump(&self, direction: &'static str) {
        self.series.clock_jumps.get_or_create(&clock_jumps::Labels { direction }).inc();
    }

    /// The counter of times that file descriptors ran short.
    pub(crate) fn descriptor_shortages(&self) -> Counter {
        self.series.descriptor_shortages.clone()
    }

    /// The gauge that shows whether the server with the shared state is unreachable.
    pub(crate) fn store_away(&self) -> Gauge {
        self.series.store_away.clone()
    }

    /// The counter of requests whose limits could not be checked across instances.
    pub(crate) fn unchecked_requests(&self) -> Counter {
        self.series.unchecked_requests.clone()
    }

    /// The counter of connections on which `upstream` sent unsolicited bytes.
    pub(crate) fn unsolicited(&self, upstream: &str) -> Counter {
        self.series
            .upstream_unsolicited
            .get_or_create_owned(&upstream_unsolicited::Labels { upstream: upstream.to_owned() })
    }

    /// The counter of attempts to refresh the session of `upstream`.
    pub(crate) fn lumo_refreshes(&self, upstream: &str) -> RefreshCounter {
        RefreshCounter { refreshes: self.series.lumo_refreshes.clone(), upstream: upstream.to_owned() }
    }

    /// Counts an event of the execution stage. Tool names come from providers, which may keep changing them; names that
    /// only a model has written are counted as `other`.
    pub(crate) fn hosted(&self, record: &Record) {
        match &record.event {
            AuditEvent::ToolResult { call, provider, code, millis, is_cached, .. } => {
                let tool = self.hosted_names.label(provider.as_ref().map(|_| call.name.as_str()));
                let provider = provider.as_deref().unwrap_or_default().to_owned();
                let took = Duration::from_millis(*millis);
                self.hosted_figures.count(&tool, took, code.is_none(), *is_cached);
                let label = hosted_call_seconds::Labels { tool: tool.clone() };
                self.series.hosted_call_seconds.get_or_create(&label).observe(took.as_secs_f64());
                let code = code.map_or("ok", ErrorCode::name);
                self.series.hosted_calls.get_or_create(&hosted_calls::Labels { tool, provider, code }).inc();
            }
            AuditEvent::CacheHit { .. } => _ = self.series.hosted_cache_hits.inc(),
            AuditEvent::Retry { .. } => _ = self.series.hosted_retries.inc(),
            _ => {}
        }
    }

    /// Counts an attempt for a model with alternatives. `target` is the configured name.
    pub(crate) fn attempt(&self, target: &str, failed: Option<Kind>) {
        let outcome = failed.map_or("ok", kind_name);
        self.series.attempts.get_or_create(&attempts::Labels { target: target.to_owned(), outcome }).inc();
    }

    pub(crate) fn ejected_targets(&self, count: usize) {
        self.series.ejected_targets.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn hosted_figures(&self) -> &HostedFigures {
        &self.hosted_figures
    }

    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    pub fn live(&self) -> &Arc<LiveStreams> {
        &self.live
    }

    /// Returns the [current figures](Figures::now). `now` is a Unix time in seconds.
    pub fn figures_of_now(&self, now: u64) -> serde_json::Value {
        self.figures.now(self.series.streams_in_flight.get(), now)
    }

    /// The gauge of the program's memory.
    pub(crate) fn memory(&self) -> &MemoryGauge {
        &self.memory
    }

    pub(super) fn streams(&self) -> &Gauge {
        &self.series.streams_in_flight
    }
}

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    kind.into()
}

/// Fields of a Chat Completions request that an upstream's dialect may lack.
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
