//! [`Cache`]: results of hosted calls, kept for equal calls of the same client.

use std::{sync::Arc, time::Duration};

use moka::{Expiry, future};
use tokio::time::Instant;

use super::tool::{Output, ToolError};
use crate::store::Owner;

/// What makes two calls equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    pub(super) client: Owner,
    /// Tells the provider from those that had its name before: [`Execution::mark_of`](super::Execution::mark_of).
    pub(super) provider: u64,
    pub(super) tool: Arc<str>,
    /// The arguments in their canonical form.
    pub(super) arguments: String,
}

/// The results. Errors are not kept.
pub(super) struct Cache {
    kept: future::Cache<CacheKey, Kept>,
}

#[derive(Debug, Clone)]
struct Kept {
    output: Arc<Output>,
    expires: Instant,
}

/// Entries expire by the runtime's clock, so that they do so in tests too; moka's own clock only makes room.
struct Ttl;

impl Expiry<CacheKey, Kept> for Ttl {
    fn expire_after_create(&self, _: &CacheKey, kept: &Kept, _: std::time::Instant) -> Option<Duration> {
        Some(kept.expires.saturating_duration_since(Instant::now()))
    }
}

/// What is not kept.
enum Unkept {
    /// The tool says that it failed.
    Output(Arc<Output>),
    Error(ToolError),
}

/// A result, and whether an earlier or simultaneous equal call gave it.
pub(super) type Found = (Arc<Output>, bool);

impl Cache {
    /// A cache of results with at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        let weight = |key: &CacheKey, kept: &Kept| {
            let details =
                if kept.output.details.is_null() { 0 } else { kept.output.details.to_string().len() };
            let Output { content, summary, .. } = &*kept.output;
            let bytes = key.arguments.len() + content.len() + summary.len() + details + 256;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let most = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        Self { kept: future::Cache::builder().weigher(weight).max_capacity(most).expire_after(Ttl).build() }
    }

    /// The result for `key`. If it is not in the cache, `run` provides it. Of several equal calls at the same time, one runs and all get its
    /// result; if it is cancelled, another one runs.
    ///
    /// # Errors
    /// That of `run`.
    pub(super) async fn get_or_run(
        &self,
        (key, ttl): (CacheKey, Duration),
        run: impl Future<Output = Result<Output, ToolError>>,
    ) -> Result<Found, ToolError> {
        if self.kept.get(&key).await.is_some_and(|kept| kept.expires <= Instant::now()) {
            self.kept.invalidate(&key).await;
        }
        let run = async {
            match run.await {
                Ok(output) if output.is_error => Err(Unkept::Output(Arc::new(output))),
                Ok(output) => Ok(Kept { output: Arc::new(output), expires: Instant::now() + ttl }),
                Err(error) => Err(Unkept::Error(error)),
            }
        };
        match self.kept.entry(key).or_try_insert_with(run).await {
            Ok(entry) => {
                let is_fresh = entry.is_fresh();
                Ok((entry.into_value().output, !is_fresh))
            }
            Err(unkept) => match &*unkept {
                Unkept::Output(output) => Ok((Arc::clone(output), false)),
                Unkept::Error(error) => Err(error.clone()),
            },
        }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("entries", &self.kept.entry_count()).finish_non_exhaustive()
    }
}
