//! [`Servers`]: detects the software of upstreams for which it is not configured.
//!
//! The software determines which constraints can be enforced, and whether searches for tools are run by the server. Each
//! upstream is probed once, in the background, when a request could first benefit. That request waits only if it
//! declares such a search. Responses are not trusted: their size and time are limited, redirects are not followed, and
//! only the name of the detected software is stored and logged.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, timeout},
};

use super::upstream::{Get, GetError};
use toolwire_config::{Changes, Config, Model, Upstream};
use toolwire_pipeline::dialect::UpstreamDialect;

/// How long to wait before an unrecognized upstream is probed again. It may have been down, or may since have been
/// replaced.
const PAUSE: Duration = Duration::from_secs(3600);

/// Timeout of one request. The upstream may be busy.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of bytes to read of a response. The largest responses are API descriptions of several hundred KiB.
const MAX_ANSWER: usize = 1 << 20;

/// The upstreams whose software is not configured, shared by all threads.
#[derive(Debug)]
pub(super) struct Servers {
    /// By upstream name.
    unknown: HashMap<String, Arc<Unknown>>,
}

/// An upstream whose software is not configured.
#[derive(Debug)]
struct Unknown {
    upstream: Arc<Upstream>,
    get: Get,
    /// The upstream's settings including the detected software.
    found: OnceLock<UpstreamDialect>,
    search: Mutex<Search>,
    /// Notifies those that wait for the probe.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Search {
    /// When the upstream may be probed again. `None` if it was never probed.
    not_before: Option<Instant>,
    /// Whether the log says that the software is unknown.
    is_reported: bool,
    running: JoinSet<()>,
    /// Whether a probe is running.
    is_running: bool,
}

impl Servers {
    /// Covers the upstreams of models for which something may be enforced, and those that may run searches. `before` is
    /// the state for the replaced configuration, along with what has changed from that configuration to `config`. What
    /// was detected for unchanged upstreams is reused.
    ///
    /// # Errors
    /// Returns the name of an upstream for which no request can be built, and the reason.
    pub(super) fn new(
        config: &Config,
        before: Option<(&Self, &Changes)>,
    ) -> Result<Self, (String, http::Error)> {
        let known = |name: &str| {
            let (before, _) = before.filter(|(_, changes)| !changes.touch_entry("upstreams", name))?;
            before.unknown.get(name).cloned()
        };
        let mut unknown = HashMap::new();
        let depends = |model: &&Model| {
            model.settings.enforce.asks_server() || model.upstream.options.side().searches_tools().is_none()
        };
        for model in config.models.iter().filter(depends) {
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
            let (found, search, ended) = (OnceLock::new(), Mutex::default(), Notify::new());
            let entry = Unknown { upstream: Arc::clone(upstream), get, found, search, ended };
            unknown.insert(upstream.name.clone(), Arc::new(entry));
        }
        Ok(Self { unknown })
    }

    /// Returns the settings of `upstream`, including its software if that was detected.
    pub(super) fn options<'u>(&'u self, upstream: &'u Upstream) -> &'u UpstreamDialect {
        let found = self.unknown.get(&upstream.name).and_then(|unknown| unknown.found.get());
        found.unwrap_or(&upstream.options)
    }

    /// Probes all upstreams, one after the other.
    pub(super) async fn look_at_all(&self) {
        for unknown in self.unknown.values() {
            Arc::clone(unknown).find().await;
        }
    }

    /// Starts to probe `upstream`, unless its software is known or it was probed recently. Returns immediately. Must be
    /// called inside a runtime.
    pub(super) fn look_at(&self, upstream: &Upstream) {
        let Some(unknown) = self.unknown.get(&upstream.name) else { return };
        if unknown.found.get().is_some() {
            return;
        }
        let mut search = unknown.search.lock();
        if search.may_begin(Instant::now()) {
            let unknown = Arc::clone(unknown);
            search.running.spawn(async move {
                Arc::clone(&unknown).find().await;
                unknown.search.lock().is_running = false;
                unknown.ended.notify_waiters();
            });
        }
    }

    /// Probes `upstream` as [`Servers::look_at`] does, and waits for the result, but not long.
    pub(super) async fn recognise(&self, upstream: &Upstream) {
        self.look_at(upstream);
        let Some(unknown) = self.unknown.get(&upstream.name) else { return };
        // Created before the state is read, so that no notification is missed.
        let ended = unknown.ended.notified();
        if unknown.search.lock().is_running {
            // Without a result in time, the request is sent as it is.
            let _ = timeout(LIMIT, ended).await;
        }
    }
}

impl Search {
    /// Whether the upstream may be probed now. If so, postpones the next probe.
    fn may_begin(&mut self, now: Instant) -> bool {
        let may = self.not_before.is_none_or(|not_before| not_before <= now);
        if may {
            while self.running.try_join_next().is_some() {}
            self.not_before = Some(now + PAUSE);
            self.is_running = true;
        }
        may
    }
}

impl Unknown {
    /// Sends requests until a response is recognized.
    async fn find(self: Arc<Self>) {
        let upstream = self.upstream.name.as_str();
        for probe in self.upstream.options.side().probes() {
            let Ok(address) = self.upstream.probe_endpoint(probe) else { continue };
            match self.get.fetch(address).await {
                Ok(answer) => {
                    if let Some((options, server)) = self.upstream.options.identified(probe, &answer) {
                        let _ = self.found.set(options);
                        tracing::info!(upstream, server, "the upstream's server was recognised");
                        return;
                    }
                }
                Err(GetError::Status(_) | GetError::Answer(_)) => {}
                // Further probes would fail in the same way.
                Err(error @ GetError::NoAnswer(_)) => return self.report(&error.to_string()),
            }
        }
        self.report("no answer is that of a known server; `server` in the configuration can name it");
    }

    /// Logs, once, that the software is unknown.
    fn report(&self, reason: &str) {
        let mut search = self.search.lock();
        if !std::mem::replace(&mut search.is_reported, true) {
            let upstream = self.upstream.name.as_str();
            let message =
                "the upstream's server is not known, so nothing is enforced, and it runs searches itself";
            tracing::warn!(upstream, reason, "{message}");
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
