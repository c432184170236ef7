//! OpenTelemetry's semantic conventions for generative AI: names, and metrics of requests to models.
//!
//! The names are still changing, so all of them are defined here, in the version of
//! `docs/protocols/telemetry.md#version`.

use std::fmt;

use prometheus_client::{
    encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder},
    metrics::{
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
};

use super::metrics::table::metrics;
use toolwire_config::Upstream;
use toolwire_pipeline::dialect::Dialect;

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const STREAM: &str = "gen_ai.request.stream";
pub(crate) const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const TEMPERATURE: &str = "gen_ai.request.temperature";
pub(crate) const TOP_P: &str = "gen_ai.request.top_p";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const SERVER_ADDRESS: &str = "server.address";
pub(crate) const SERVER_PORT: &str = "server.port";
#[cfg(feature = "otel")]
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";

/// Operation name of all requests to models.
pub(crate) const CHAT: &str = "chat";

/// Returns the conventions' name for an upstream's provider, or the upstream's own name if its host is unknown.
pub(crate) fn provider(upstream: &Upstream) -> &str {
    let host = upstream.base_url.host().unwrap_or_default();
    let is_in = |domain: &str| {
        host.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    match PROVIDERS.iter().find(|(domain, _)| is_in(domain)) {
        Some((_, name)) => name,
        None if host.ends_with("aiplatform.googleapis.com") => "gcp.vertex_ai",
        None if host.starts_with("bedrock") && is_in("amazonaws.com") => "aws.bedrock",
        None if matches!(upstream.dialect(), Dialect::Gemini | Dialect::Interactions) => "gcp.gemini",
        None => &upstream.name,
    }
}

/// Returns the conventions' term for one of toolwire's finish reasons (docs/protocols/telemetry.md#version).
pub(super) fn finish_reason(own: String) -> String {
    match own.as_str() {
        "calls" => "tool_call".to_owned(),
        "filter" => "content_filter".to_owned(),
        _ => own,
    }
}

/// Domains of providers, and the conventions' names for them.
const PROVIDERS: [(&str, &str); 11] = [
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("openai.azure.com", "azure.ai.openai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.x.ai", "x_ai"),
    ("api.cohere.com", "cohere"),
    ("api.perplexity.ai", "perplexity"),
];

#[derive(Debug)]
pub(super) struct Measured<'m> {
    /// The model's configured name, so that clients cannot add label values.
    pub(super) model: &'m str,
    pub(super) upstream: &'m Upstream,
    /// In seconds.
    pub(super) duration: f64,
    /// Seconds to the first chunk of a stream, and mean seconds between chunks.
    pub(super) first_chunk: Option<f64>,
    pub(super) per_chunk: Option<f64>,
    /// The error label, if the request failed.
    pub(super) error: Option<&'static str>,
    /// Input and output tokens. `None` if the upstream does not report them.
    pub(super) tokens: (Option<u64>, Option<u64>),
}

metrics! {
    struct ModelSeries;

    gen_ai_client_operation_duration_seconds: Family<Labels, Histogram>, "Time of requests to models, from sending them to the end of their responses", seconds;
    gen_ai_client_operation_time_to_first_chunk_seconds: Family<Labels, Histogram>, "Time of streamed requests to models until the first piece of their responses", seconds;
    gen_ai_client_operation_time_per_output_chunk_seconds: Family<Labels, Histogram>, "Time between two pieces of a streamed response, the mean of each response", seconds;
    gen_ai_client_token_usage: Family<Labels, Histogram>, "Tokens of requests to models, as upstreams count them, by gen_ai_token_type (input, output)", tokens;
}

/// The conventions' labels in Prometheus's spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Labels {
    provider: String,
    model: String,
    server: String,
    error: Option<&'static str>,
    token_type: Option<&'static str>,
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("gen_ai_operation_name", CHAT).encode(encoder.encode_label())?;
        ("gen_ai_provider_name", self.provider.as_str()).encode(encoder.encode_label())?;
        ("gen_ai_request_model", self.model.as_str()).encode(encoder.encode_label())?;
        ("server_address", self.server.as_str()).encode(encoder.encode_label())?;
        if let Some(error) = self.error {
            ("error_type", error).encode(encoder.encode_label())?;
        }
        match self.token_type {
            Some(kind) => ("gen_ai_token_type", kind).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

impl ModelSeries {
    pub(super) fn add(&self, measured: &Measured<'_>) {
        let Measured { model, upstream, duration, first_chunk, per_chunk, error, tokens } = *measured;
        let mut labels = Labels {
            provider: provider(upstream).to_owned(),
            model: model.to_owned(),
            server: upstream.base_url.host().unwrap_or_default().to_owned(),
            error: None,
            token_type: None,
        };
        for (family, seconds) in [
            (&self.gen_ai_client_operation_time_to_first_chunk_seconds, first_chunk),
            (&self.gen_ai_client_operation_time_per_output_chunk_seconds, per_chunk),
        ] {
            if let Some(seconds) = seconds {
                family.get_or_create(&labels).observe(seconds);
            }
        }
        // Token counts are far below 2^52.
        #[expect(clippy::cast_precision_loss, reason = "no request has that many tokens")]
        for (kind, count) in [("input", tokens.0), ("output", tokens.1)] {
            if let Some(count) = count {
                labels.token_type = Some(kind);
                self.gen_ai_client_token_usage.get_or_create(&labels).observe(count as f64);
            }
        }
        labels.token_type = None;
        labels.error = error;
        self.gen_ai_client_operation_duration_seconds.get_or_create(&labels).observe(duration);
    }
}

/// Buckets from 1 ms to 164 s: the bounds that the conventions recommend, extended at both ends.
fn seconds() -> Family<Labels, Histogram> {
    Family::new_with_constructor(|| {
        Histogram::new([0.001, 0.0025, 0.005].into_iter().chain(exponential_buckets(0.01, 2.0, 15)))
    })
}

/// The bucket bounds that the conventions recommend.
fn tokens() -> Family<Labels, Histogram> {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(1.0, 4.0, 14)))
}
