//! [`Bench`]: measures upstreams on request.

use std::{fmt, sync::Arc};

use serde_json::Value;

use toolwire_config::Upstream;

/// Measures upstreams.
pub trait Bench: fmt::Debug + Send + Sync {
    /// Starts a run in the background.
    ///
    /// # Errors
    /// A sentence that says why the upstream cannot be measured.
    fn begin(&self, wanted: BenchRequest) -> Result<Box<dyn BenchRun>, String>;
}

/// A run. Dropping it stops it.
pub trait BenchRun: fmt::Debug + Send {
    /// The progress, from 0 to 1.
    fn progress(&self) -> f64;

    /// The report, or the reason for its absence. `None` while the run is in progress.
    fn result(&self) -> Option<Result<Value, String>>;
}

/// The parameters of a run.
#[derive(Debug, Clone)]
pub struct BenchRequest {
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// The model's name there.
    pub model: String,
    /// Number of streams, all at the same time.
    pub streams: u64,
    /// Maximum number of tokens of a response.
    pub tokens: u64,
}
