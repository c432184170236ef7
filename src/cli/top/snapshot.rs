//! [`Snapshot`]: the part of the `/admin/streams` response that is shown.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The responses in progress, and the statistics for the last minute.
#[derive(Debug, Deserialize)]
pub(super) struct Snapshot {
    pub(super) version: String,
    pub(super) now: Now,
    /// The number of responses in progress, including those not in `streams`.
    pub(super) count: u64,
    pub(super) streams: Vec<Stream>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Now {
    pub(super) requests_per_s: Option<f64>,
    pub(super) output_tokens_per_s: Option<f64>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) cancelled: u64,
    pub(super) ttft_ms: Percentiles,
    pub(super) duration_ms: Percentiles,
}

#[derive(Debug, Deserialize)]
pub(super) struct Percentiles {
    pub(super) p50: Option<f64>,
    pub(super) p95: Option<f64>,
}

/// A response in progress.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Stream {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) key: Option<String>,
    pub(super) client: String,
    pub(super) target: String,
    pub(super) upstream: String,
    pub(super) state: Option<String>,
    pub(super) hops: u64,
    pub(super) tokens: u64,
    pub(super) tokens_per_s: Option<f64>,
    pub(super) ttft_ms: Option<u64>,
    pub(super) ms: u64,
}
