//! [`Bench`]: measures upstreams on request.

use std::{fmt, sync::Arc};

use serde_json::Value;

use toolwire_config::Upstream;

pub trait Bench: fmt::Debug + Send + Sync {
    /// Starts a run in the background.
    ///
    /// # Errors
    /// Returns a sentence that says why the upstream cannot be measured.
    fn begin(&self, wanted: BenchRequest) -> Result<Box<dyn BenchRun>, String>;
}

/// Dropping it stops the run.
pub trait BenchRun: fmt::Debug + Send {
    /// Between 0 and 1.
    fn progress(&self) -> f64;

    /// Returns the report or why there is none. `None` while the run is in progress.
    fn result(&self) -> Option<Result<Value, String>>;
}

#[derive(Debug, Clone)]
pub struct BenchRequest {
    pub upstream: Arc<Upstream>,
    /// The model's name at the upstream.
    pub model: String,
    /// Number of concurrent streams.
    pub streams: u64,
    /// Maximum number of tokens in one response.
    pub tokens: u64,
}
