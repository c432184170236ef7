//! [`Cache`]: results of hosted calls, which are reused for equal calls of the same client.
//!
//! Results are cached in memory and, if instances share a store, in the store. A store that cannot be reached counts as
//! empty.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use moka::{Expiry, future};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{task::spawn_blocking, time::Instant};

use super::{
    audit::unix_time,
    media::MediaFile,
    tool::{Output, ToolError},
};
use toolwire_net::store::{Key, Owner, Space, Store, Stores};
use toolwire_pipeline::wire::{
    hex,
    json::{ALLOCATION, memory_of},
};

/// Maximum lifetime of a result in the shared store.
const SHARED_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Calls with the same key have the same result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    pub(super) client: Owner,
    pub(super) provider: Arc<str>,
    /// Changes when the provider is replaced: [`Execution::mark_of`](super::Execution::mark_of).
    pub(super) mark: u64,
    pub(super) tool: Arc<str>,
    /// In canonical form.
    pub(super) arguments: String,
}

impl CacheKey {
    /// The key in the shared store, where other instances look for the result. It leaves out the mark, which differs
    /// between processes. [`Owner`] is only used here to compute a digest.
    fn shared(&self) -> Key {
        let call = [self.provider.as_bytes(), self.tool.as_bytes(), self.arguments.as_bytes()].join(&0);
        let Owner(digest) = Owner::of_key(&call);
        Key::new(self.client, &hex::encode(&digest))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    /// Unix time in seconds.
    expires: u64,
    content: String,
    summary: String,
    details: Value,
}

/// Cached results. Errors are not cached.
pub(super) struct Cache {
    results: future::Cache<CacheKey, CachedResult>,
    /// The shared store, if there is one.
    store: Option<Arc<dyn Store>>,
}

#[derive(Debug, Clone)]
struct CachedResult {
    output: Arc<Output>,
    expires: Instant,
}

/// Expires entries by the runtime's clock, so that tests can control it. moka only evicts entries to limit the size.
struct Ttl;

impl Expiry<CacheKey, CachedResult> for Ttl {
    fn expire_after_create(
        &self,
        _: &CacheKey,
        result: &CachedResult,
        _: std::time::Instant,
    ) -> Option<Duration> {
        Some(result.expires.saturating_duration_since(Instant::now()))
    }
}

/// A result that is not cached.
enum Unkept {
    Output(Arc<Output>),
    Error(ToolError),
}

/// A result, and whether it was taken from an equal call.
pub(super) type Found = (Arc<Output>, bool);

impl Cache {
    /// Creates a cache that holds at most `max_bytes` in memory.
    pub(super) fn new(max_bytes: usize, stores: &Stores) -> Self {
        let weight = |key: &CacheKey, result: &CachedResult| {
            let Output { content, summary, details, images, media, .. } = &*result.output;
            let images: usize = images.iter().map(|name| size_of::<String>() + ALLOCATION + name.len()).sum();
            let media: usize =
                media.iter().map(|file| size_of::<MediaFile>() + ALLOCATION + file.size()).sum();
            let text = key.arguments.len() + content.len() + summary.len();
            let bytes = text + memory_of(details) + images + media + 512;
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let most = u64::try_from(max_bytes).unwrap_or(u64::MAX);
        let open = || stores.open(Space::Results, max_bytes, SHARED_TTL, Box::new(|_| ()));
        Self {
            results: future::Cache::builder().weigher(weight).max_capacity(most).expire_after(Ttl).build(),
            store: stores.is_shared().then(open),
        }
    }

    /// The size of all results in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.results.weighted_size()).unwrap_or(usize::MAX)
    }

    /// Returns the cached result for `key`, or runs `run` to produce it. If there are several equal calls at the same
    /// time, only one of them runs, and the others get its result. If the running call is cancelled, another one runs.
    ///
    /// # Errors
    /// The error of `run`.
    pub(super) async fn get_or_run(
        &self,
        key: CacheKey,
        ttl: Duration,
        run: impl Future<Output = Result<Output, ToolError>>,
    ) -> Result<Found, ToolError> {
        if self.results.get(&key).await.is_some_and(|result| result.expires <= Instant::now()) {
            self.results.invalidate(&key).await;
        }
        let (shared, mut is_found) = (self.store.as_ref().map(|store| (store, key.shared())), false);
        let run = async {
            if let Some((store, key)) = &shared
                && let Some(result) = read(store, key.clone()).await
            {
                is_found = true;
                return Ok(result);
            }
            match run.await {
                Ok(output) if output.is_error => Err(Unkept::Output(Arc::new(output))),
                Ok(output) => {
                    if let Some((store, key)) = shared {
                        share(&**store, key, &output, ttl);
                    }
                    Ok(CachedResult { output: Arc::new(output), expires: Instant::now() + ttl })
                }
                Err(error) => Err(Unkept::Error(error)),
            }
        };
        match self.results.entry(key).or_try_insert_with(run).await {
            Ok(entry) => {
                let is_cached = is_found || !entry.is_fresh();
                Ok((entry.into_value().output, is_cached))
            }
            Err(unkept) => match &*unkept {
                Unkept::Output(output) => Ok((Arc::clone(output), false)),
                Unkept::Error(error) => Err(error.clone()),
            },
        }
    }
}

async fn read(store: &Arc<dyn Store>, key: Key) -> Option<CachedResult> {
    let (store, now) = (Arc::clone(store), unix_time());
    let value = spawn_blocking(move || store.get(&key, now)).await.ok()?.ok()??;
    let Saved { expires, content, summary, details } = serde_json::from_slice(&value).ok()?;
    let left = Duration::from_secs(expires.saturating_sub(now));
    let output = Output { content, summary, details, ..Output::default() };
    (!left.is_zero()).then(|| CachedResult { output: Arc::new(output), expires: Instant::now() + left })
}

/// Shares a result with other instances. Results with files are not shared, since each instance has its own files.
fn share(store: &dyn Store, key: Key, output: &Output, ttl: Duration) {
    let Output { content, summary, details, images, media, .. } = output;
    if !images.is_empty() || !media.is_empty() {
        return;
    }
    let now = unix_time();
    let expires = now.saturating_add(ttl.min(SHARED_TTL).as_secs());
    let (content, summary, details) = (content.clone(), summary.clone(), details.clone());
    let saved = Saved { expires, content, summary, details };
    store.put(key, Bytes::from(serde_json::to_vec(&saved).unwrap_or_default()), now);
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("entries", &self.results.entry_count()).finish_non_exhaustive()
    }
}
