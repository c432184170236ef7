//! [`Bench`]: measures upstreams for those who ask a server for it.

use std::{fmt, sync::Arc};

use serde_json::Value;

use toolwire_config::Upstream;

/// Measures upstreams.
pub trait Bench: fmt::Debug + Send + Sync {
    /// Begins a run in the background.
    ///
    /// # Errors
    /// The upstream cannot be measured: a sentence that says why.
    fn begin(&self, wanted: BenchWish) -> Result<Box<dyn BenchRun>, String>;
}

/// A run. Dropping it stops it.
pub trait BenchRun: fmt::Debug + Send {
    /// How far it is, from 0 to 1.
    fn progress(&self) -> f64;

    /// Its report, or why there is none. `None`: it is not over.
    fn result(&self) -> Option<Result<Value, String>>;
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct BenchWish {
    /// The upstream.
    pub upstream: Arc<Upstream>,
    /// The model's name there.
    pub model: String,
    /// Streams, all at the same time.
    pub streams: u64,
    /// The most tokens of a response.
    pub tokens: u64,
}
