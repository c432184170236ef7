//! [`Series`]: the metrics of `/metrics`, except those of [`gen_ai`](crate::observe::gen_ai).
//! [`Metrics`](super::Metrics) says what may be a label.

use std::fmt;

use prometheus_client::{
    encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

use super::table::metrics;

metrics! {
    /// The metrics of one server.
    struct Series;

    // Requests from clients, and their responses.
    requests: Counter { route: &'static str, model: String, status: u16 }, "Finished requests";
    key_requests: Counter { key: String, model: String, status: u16 }, "Finished requests of clients whose keys have names";
    key_tokens: Counter { key: String, model: String, kind: &'static str }, "Tokens of requests (input) and responses (output) of clients whose keys have names";
    tokens: Counter { direction: &'static str, model: String, upstream: String }, "Tokens as upstreams count them, of all requests to them, by direction (input, output)";
    streams_in_flight: Gauge, "Responses in progress";
    first_byte_seconds: Histogram { model: String }, "Time from the arrival of a request to the first byte of its response", first_byte_buckets;
    client_disconnects: Counter, "Clients that disconnected before the end";
    client_stalls: Counter, "Connections and HTTP/2 streams closed because the client read nothing for limits.write_timeout";
    images: Gauge, "Generated images that are kept";
    image_bytes: Gauge, "Bytes of the generated images that are kept";

    // Changes to requests, and to responses of upstreams.
    calls: Family<CallLabels, Counter>, "Tool calls that reached a client";
    dropped_calls: Counter, "Tool calls that were refused or dropped";
    quoted_calls: Counter { outcome: &'static str }, "Calls in text that repeat a tool's result or are visibly quoted, by outcome (text, call)";
    missed_calls: Counter { format: &'static str }, "Responses with a call in a format that is not looked for";
    follow_ups: Counter { reason: &'static str }, "Further requests to an upstream within one response, by reason";
    warnings: Counter { code: &'static str }, "Warnings in complete responses, by code";
    malformed_frames: Counter, "Malformed upstream frames that were skipped";
    skipped: Counter { upstream: String, reason: &'static str }, "Parts of upstream responses that were left out, by reason";
    held_bytes: Histogram, "The most bytes that a response held back at once", held_buckets;
    dropped_fields: Counter { upstream: String, field: &'static str }, "Request fields that an upstream's dialect cannot express";
    tools_left_out: Counter { model: String }, "Tools left out of the instructions because of max_instructions";
    constraints_failed: Counter { upstream: String, model: String, means: &'static str, reason: &'static str }, "Constrained requests that the upstream refused, or whose responses lack the required call";

    // The behaviour of upstreams.
    upstream_errors: Counter { upstream: String, kind: &'static str }, "Failed responses, by kind";
    waiting_requests: Gauge { upstream: String }, "Requests in an upstream's queue";
    upstream_unsolicited: Counter { upstream: String }, "Upstream connections closed because of bytes that no request had asked for";
    lumo_refreshes: Counter { upstream: String, result: &'static str }, "Attempts to refresh the sessions of Lumo accounts, by result (ok, failed, logged_out)";
    attempts: Counter { target: String, outcome: &'static str }, "Requests to upstreams for models with alternatives, by target and outcome";
    ejected_targets: Gauge, "Targets that are not asked because they failed, as of the last attempt";

    // State that outlives requests.
    store_failures: Counter, "Responses that could not be stored, so that they cannot be continued after a restart";
    store_away: Gauge, "1 while the server on which instances share their state cannot be used";
    store_unwritten: Family<[(&'static str, &'static str); 1], Gauge>, "1 while a file in state_dir cannot be written, so that its newest values are only in memory";
    store_damaged_files: Family<[(&'static str, &'static str); 1], Counter>, "Damaged files in state_dir whose places fresh ones took";
    unchecked_requests: Counter, "Requests of clients with names that were admitted by this instance's own counts, since the shared ones were away";

    // The machine.
    clock_jumps: Counter { direction: &'static str }, "Times that the system's clock was set by more than a minute, by direction (ahead, back)";
    descriptor_shortages: Counter, "Times that connections could not be accepted, or idle ones were closed, because file descriptors ran short";

    // Hosted tools.
    hosted_calls: Counter { tool: String, provider: String, code: &'static str }, "Calls of hosted tools, by tool, provider and result code";
    hosted_call_seconds: Histogram { tool: String }, "Time of hosted calls that ran, with permission and retries", hosted_buckets;
    hosted_cache_hits: Counter, "Hosted calls that got the result of an equal call";
    hosted_retries: Counter, "Hosted calls that were tried again";

    // Certificates and handshakes.
    tls_certificate_expiry_seconds: Family<[(&'static str, &'static str); 0], Gauge>, "When the listeners' certificate expires, in seconds since 1970";
    tls_reload_failures: Counter, "Changed certificates or keys that could not be used";
    tls_handshake_failures: Counter, "TLS handshakes with clients that failed or took too long";

    // The export of telemetry.
    telemetry_dropped_spans: Counter, "Spans that were not exported because the collector takes fewer";
    telemetry_failed_exports: Family<Vec<(&'static str, &'static str)>, Counter>, "Exports that failed, by what they had (traces, metrics)";

    // The last reload of the configuration.
    config_generation: Gauge, "Configurations loaded since the start; the one of the start is the first";
    config_last_reload_successful: Gauge, "Whether the last attempt to reload the configuration succeeded";
    config_last_reload_success_timestamp_seconds: Gauge, "When the configuration was loaded";
    config_reloads: Counter { result: &'static str }, "Reloads of the configuration, by result";
}

/// The labels of calls. The label `name` is absent if it is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CallLabels {
    pub(super) format: &'static str,
    pub(super) name: Option<String>,
}

impl EncodeLabelSet for CallLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("format", self.format).encode(encoder.encode_label())?;
        match &self.name {
            Some(name) => ("name", name.as_str()).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

/// Buckets from 1 ms to 65 s, doubling. Reasoning models take a long time.
fn first_byte_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

/// Buckets from 1 byte to 2 MiB, in factors of 8.
fn held_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 8.0, 8))
}

/// Buckets from 1 ms to 4 minutes, in factors of 4.
fn hosted_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 10))
}
