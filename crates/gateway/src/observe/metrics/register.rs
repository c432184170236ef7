//! The names and help texts of all metrics in `/metrics`.

use super::{ConfigGauges, Metrics};
use toolwire_net::{telemetry::TraceMetrics, tls::CertificateMetrics};

impl Metrics {
    /// Registers all metrics.
    pub(super) fn register(&mut self) {
        self.register_requests();
        self.register_responses();
        self.register_upstreams();
        self.register_store();
        self.register_hosted();
        self.register_tls();
        self.register_traces();
        self.register_config();
    }

    /// Registers the metrics of clients' requests and their responses.
    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register("requests", "Finished requests", self.requests.clone());
        registry.register(
            "key_requests",
            "Finished requests of clients whose keys have names",
            self.key_requests.clone(),
        );
        registry.register(
            "key_tokens",
            "Tokens of requests (input) and responses (output) of clients whose keys have names",
            self.key_tokens.clone(),
        );
        registry.register(
            "tokens",
            "Tokens as upstreams count them, of all requests to them, by direction (input, output)",
            self.tokens.clone(),
        );
        registry.register("streams_in_flight", "Responses in progress", self.streams.clone());
        registry.register(
            "first_byte_seconds",
            "Time from the arrival of a request to the first byte of its response",
            self.first_byte.clone(),
        );
        registry.register(
            "client_disconnects",
            "Clients that disconnected before the end",
            self.disconnects.clone(),
        );
        registry.register(
            "client_stalls",
            "Connections and HTTP/2 streams closed because the client read nothing for limits.write_timeout",
            self.stalls.clone(),
        );
        registry.register("images", "Generated images that are kept", self.images.count.clone());
        registry.register(
            "image_bytes",
            "Bytes of the generated images that are kept",
            self.images.bytes.clone(),
        );
    }

    /// Registers the metrics of changes to upstreams' responses and to requests.
    fn register_responses(&mut self) {
        let registry = &mut self.registry;
        registry.register("calls", "Tool calls that reached a client", self.calls.clone());
        registry.register(
            "dropped_calls",
            "Tool calls that were refused or dropped",
            self.dropped_calls.clone(),
        );
        registry.register(
            "follow_ups",
            "Further requests to an upstream within one response, by reason",
            self.follow_ups.clone(),
        );
        registry.register("warnings", "Warnings in complete responses, by code", self.warnings.clone());
        registry.register(
            "malformed_frames",
            "Malformed upstream frames that were skipped",
            self.malformed_frames.clone(),
        );
        registry.register(
            "skipped",
            "Parts of upstream responses that were left out, by reason",
            self.skipped.clone(),
        );
        registry.register(
            "held_bytes",
            "The most bytes that a response held back at once",
            self.held_peak.clone(),
        );
        registry.register(
            "dropped_fields",
            "Request fields that an upstream's dialect cannot express",
            self.dropped_fields.clone(),
        );
        registry.register(
            "tools_left_out",
            "Tools left out of the instructions because of max_instructions",
            self.tools_left_out.clone(),
        );
        registry.register(
            "constraints_failed",
            "Constrained requests that the upstream refused, or whose responses lack the required call",
            self.constraints_failed.clone(),
        );
    }

    /// Registers the metrics of upstreams' behaviour.
    fn register_upstreams(&mut self) {
        let registry = &mut self.registry;
        registry.register("upstream_errors", "Failed responses, by kind", self.upstream_errors.clone());
        registry.register("waiting_requests", "Requests in an upstream's queue", self.waiting.clone());
        registry.register(
            "upstream_unsolicited",
            "Upstream connections closed because of bytes that no request had asked for",
            self.unsolicited.clone(),
        );
        registry.register(
            "lumo_refreshes",
            "Attempts to refresh the sessions of Lumo accounts, by result (ok, failed, logged_out)",
            self.lumo_refreshes.clone(),
        );
        registry.register(
            "attempts",
            "Requests to upstreams for models with alternatives, by target and outcome",
            self.attempts.clone(),
        );
        registry.register(
            "ejected_targets",
            "Targets that are not asked because they failed, as of the last attempt",
            self.ejected_targets.clone(),
        );
    }

    /// Registers the metrics of state that outlives requests.
    fn register_store(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "store_failures",
            "Responses that could not be stored, so that they cannot be continued after a restart",
            self.store_failures.clone(),
        );
        registry.register(
            "store_away",
            "1 while the server on which instances share their state cannot be used",
            self.store_away.clone(),
        );
        registry.register(
            "unchecked_requests",
            "Requests of clients with names that were admitted by this instance's own counts, since the shared ones were away",
            self.unchecked_requests.clone(),
        );
    }

    /// Registers the metrics of hosted tools.
    fn register_hosted(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "hosted_calls",
            "Calls of hosted tools, by tool, provider and result code",
            self.hosted_calls.clone(),
        );
        registry.register(
            "hosted_call_seconds",
            "Time of hosted calls that ran, with permission and retries",
            self.hosted_seconds.clone(),
        );
        registry.register(
            "hosted_cache_hits",
            "Hosted calls that got the result of an equal call",
            self.hosted_cache_hits.clone(),
        );
        registry.register(
            "hosted_retries",
            "Hosted calls that were tried again",
            self.hosted_retries.clone(),
        );
    }

    /// Registers the metrics of certificates and handshakes.
    fn register_tls(&mut self) {
        let CertificateMetrics { expiry, reload_failures, handshake_failures } = self.certificates.clone();
        let registry = &mut self.registry;
        registry.register(
            "tls_certificate_expiry_seconds",
            "When the listeners' certificate expires, in seconds since 1970",
            expiry,
        );
        registry.register(
            "tls_reload_failures",
            "Changed certificates or keys that could not be used",
            reload_failures,
        );
        registry.register(
            "tls_handshake_failures",
            "TLS handshakes with clients that failed or took too long",
            handshake_failures,
        );
    }

    /// Registers the metrics of the telemetry export.
    fn register_traces(&mut self) {
        let TraceMetrics { dropped, failed } = self.traces.clone();
        let registry = &mut self.registry;
        registry.register(
            "telemetry_dropped_spans",
            "Spans that were not exported because the collector takes fewer",
            dropped,
        );
        registry.register(
            "telemetry_failed_exports",
            "Exports that failed, by what they had (traces, metrics)",
            failed,
        );
    }

    /// Registers the metrics of the last reload of the configuration.
    fn register_config(&mut self) {
        let ConfigGauges { generation, is_ok, loaded_at, reloads } = &self.config;
        let registry = &mut self.registry;
        registry.register(
            "config_generation",
            "Configurations loaded since the start; the one of the start is the first",
            generation.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the last attempt to reload the configuration succeeded",
            is_ok.clone(),
        );
        registry.register(
            "config_last_reload_success_timestamp_seconds",
            "When the configuration was loaded",
            loaded_at.clone(),
        );
        registry.register("config_reloads", "Reloads of the configuration, by result", reloads.clone());
    }
}
