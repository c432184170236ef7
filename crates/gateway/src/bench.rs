//! [`Bench`]: measures upstreams on request.

use std::{error::Error, fmt, io, sync::Arc};

use serde_json::Value;

use toolwire_config::Upstream;
use toolwire_pipeline::wire::Invalid;

pub trait Bench: fmt::Debug + Send + Sync {
    /// Starts a run in the background.
    ///
    /// # Errors
    /// The upstream cannot be measured.
    fn begin(&self, wanted: BenchRequest) -> Result<Box<dyn BenchRun>, BenchError>;
}

/// A run of a bench. Dropping it stops the run.
pub trait BenchRun: fmt::Debug + Send {
    /// Between 0 and 1.
    fn progress(&self) -> f64;

    /// Returns the report or why there is none. `None` while the run is in progress.
    fn result(&self) -> Option<Result<&Value, &BenchError>>;
}

/// Why an upstream cannot be measured, or why a run has no report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Unsupported(#[from] Invalid),
    #[error("there is no thread for the bench: {0}")]
    NoThread(#[source] io::Error),
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    #[error("the bench broke off")]
    BrokenOff,
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
