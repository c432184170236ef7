//! [`Servers`]: which software the upstreams run, where the configuration does not say so.
//!
//! It decides what can be enforced. An upstream is asked for it once, in the background, when a request could first make use
//! of it; that request does not wait. The answers come from outside: they are limited in size and time, redirects are not
//! followed, and nothing of them is kept or logged but the name of the server that they show.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use super::upstream::{Get, GetError};
use toolwire_config::{Changes, Config, Upstream};
use toolwire_pipeline::dialect::UpstreamDialect;

/// How long to wait before an upstream that was not recognised is asked again: it may have been down, or be another one by
/// then.
const PAUSE: Duration = Duration::from_secs(3600);

/// How long one request may take. The upstream may be busy with other work.
const LIMIT: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read. The largest one is the description of an API, with some hundred KiB.
const MAX_ANSWER: usize = 1 << 20;

/// The upstreams whose software is not configured. Shared by all threads.
#[derive(Debug)]
pub(super) struct Servers {
    /// By the upstreams' names.
    unknown: HashMap<String, Arc<Unknown>>,
}

/// An upstream whose software is not configured.
#[derive(Debug)]
struct Unknown {
    upstream: Arc<Upstream>,
    get: Get,
    /// Its settings with the server that was recognised.
    found: OnceLock<UpstreamDialect>,
    search: Mutex<Search>,
}

#[derive(Debug, Default)]
struct Search {
    /// When it may be asked again. `None`: it was never asked.
    not_before: Option<Instant>,
    /// It was logged that the server is not known.
    is_reported: bool,
    running: JoinSet<()>,
}

impl Servers {
    /// For the upstreams of those models for which something may be enforced. `before` are those of the configuration that
    /// `config` replaces, with what has changed since.
    ///
    /// # Errors
    /// The name of an upstream to which no request can be written, and why.
    pub(super) fn new(
        config: &Config,
        before: Option<(&Self, &Changes)>,
    ) -> Result<Self, (String, http::Error)> {
        let known = |name: &str| {
            let (before, _) = before.filter(|(_, changes)| !changes.touch_entry("upstreams", name))?;
            before.unknown.get(name).cloned()
        };
        let mut unknown = HashMap::new();
        for model in config.models.iter().filter(|model| model.settings.enforce.uses_means()) {
            let upstream = &model.upstream;
            if upstream.options.side().probes().is_empty() || unknown.contains_key(&upstream.name) {
                continue;
            }
            if let Some(known) = known(&upstream.name) {
                unknown.insert(upstream.name.clone(), known);
                continue;
            }
            let get =
                Get::new(upstream, LIMIT, MAX_ANSWER).map_err(|error| (upstream.name.clone(), error))?;
            let (found, search) = (OnceLock::new(), Mutex::default());
            let entry = Unknown { upstream: Arc::clone(upstream), get, found, search };
            unknown.insert(upstream.name.clone(), Arc::new(entry));
        }
        Ok(Self { unknown })
    }

    /// The settings of `upstream`, with its server if that was recognised.
    pub(super) fn options<'u>(&'u self, upstream: &'u Upstream) -> &'u UpstreamDialect {
        let found = self.unknown.get(&upstream.name).and_then(|unknown| unknown.found.get());
        found.unwrap_or(&upstream.options)
    }

    /// Finds out which servers the upstreams are, one after the other.
    pub(super) async fn look_at_all(&self) {
        for unknown in self.unknown.values() {
            Arc::clone(unknown).find().await;
        }
    }

    /// Begins to find out which server `upstream` is, if that is not known and it was not asked lately. It must be called in a
    /// runtime, and returns at once.
    pub(super) fn look_at(&self, upstream: &Upstream) {
        let Some(unknown) = self.unknown.get(&upstream.name) else { return };
        if unknown.found.get().is_some() {
            return;
        }
        let mut search = unknown.search.lock().unwrap_or_else(PoisonError::into_inner);
        if search.may_begin(Instant::now()) {
            search.running.spawn(Arc::clone(unknown).find());
        }
    }
}

impl Search {
    /// Whether it is time to ask. If so, the next time is later.
    fn may_begin(&mut self, now: Instant) -> bool {
        let may = self.not_before.is_none_or(|not_before| not_before <= now);
        if may {
            while self.running.try_join_next().is_some() {}
            self.not_before = Some(now + PAUSE);
        }
        may
    }
}

impl Unknown {
    /// Asks until an answer is recognised.
    async fn find(self: Arc<Self>) {
        let upstream = self.upstream.name.as_str();
        for probe in self.upstream.options.side().probes() {
            let Ok(address) = self.upstream.probe_endpoint(probe) else { continue };
            match self.get.fetch(address).await {
                Ok(answer) => {
                    if let Some((options, server)) = self.upstream.options.identified(probe, &answer) {
                        let _ = self.found.set(options);
                        tracing::info!(
                            upstream,
                            server,
                            "the upstream's server was recognised, for `enforce`"
                        );
                        return;
                    }
                }
                Err(GetError::Status(_) | GetError::Answer(_)) => {}
                // The others would end in the same way.
                Err(GetError::NoAnswer(reason)) => return self.report(&reason),
            }
        }
        self.report("no answer is that of a known server; `server` in the configuration can name it");
    }

    /// Logs, the first time, that the server is not known.
    fn report(&self, reason: &str) {
        let mut search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut search.is_reported, true) {
            let upstream = self.upstream.name.as_str();
            tracing::warn!(upstream, reason, "the upstream's server is not known, so nothing is enforced");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn upstream_is_asked_again_after_an_hour() {
        let mut search = Search::default();
        assert!(search.may_begin(Instant::now()));
        tokio::time::advance(PAUSE.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert!(!search.may_begin(Instant::now()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(search.may_begin(Instant::now()));
        assert!(!search.may_begin(Instant::now()));
    }
}
