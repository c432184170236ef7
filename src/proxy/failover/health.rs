//! [`Health`]: which targets have failed lately, and are not asked for a while.
//!
//! ```text
//! working ─eject_after failures in a row─▶ ejected for eject_for ─▶ one request tries it ─success─▶ working
//!                                             ▲ twice as long                      └─failure─┐
//!                                             └──────────────────────────────────────────────┘
//! ```
//!
//! Time is passed in. A target is known by the name of its entry, so that what is known of it survives a new configuration.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::config::Failover;

/// How long a request that tries an ejected target may take before another one may.
const TRIAL: Duration = Duration::from_secs(60);

/// What is known of all targets. Shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<HashMap<String, Target>>);

/// What is known of one target.
#[derive(Debug, Default)]
struct Target {
    /// Failures since the last success.
    failures: usize,
    /// How often it was ejected since the last success.
    ejections: u32,
    /// Not asked before that.
    returns: Option<Instant>,
    /// A request has tried it since then.
    tried: Option<Instant>,
}

impl Target {
    /// Whether it may be asked at `now`.
    fn admits(&self, now: Instant) -> bool {
        let is_over = self.returns.is_none_or(|returns| returns <= now);
        let is_tried = self.tried.is_some_and(|since| now.saturating_duration_since(since) < TRIAL);
        is_over && !is_tried
    }
}

impl Health {
    /// The first of `targets` that may be asked at `now`. If none may, the one that returns first, so that an outage of all
    /// ends as soon as one of them works. An ejected target whose time is over is taken by one request.
    pub(super) fn first<'t>(&self, targets: &[&'t str], now: Instant) -> Option<&'t str> {
        let mut known = self.known();
        let admitted = targets.iter().find(|name| known.get(**name).is_none_or(|target| target.admits(now)));
        let returns = |name: &str| known.get(name).and_then(|target| target.returns);
        let chosen = *admitted.or_else(|| targets.iter().min_by_key(|name| returns(name)))?;
        if let Some(target) = known.get_mut(chosen)
            && target.returns.is_some()
        {
            target.tried = Some(now);
        }
        Some(chosen)
    }

    /// The target answered.
    pub(super) fn succeeded(&self, name: &str) {
        self.known().remove(name);
    }

    /// The target failed at `now`, and said that it wants no request for `wait`. Returns how long it is ejected from now on, if
    /// this failure did it.
    pub(super) fn failed(
        &self,
        name: &str,
        wait: Option<Duration>,
        now: Instant,
        settings: &Failover,
    ) -> Option<Duration> {
        let mut known = self.known();
        let target = known.entry(name.to_owned()).or_default();
        target.failures += 1;
        target.tried = None;
        let is_out = target.returns.is_some();
        let is_enough = is_out || target.failures >= settings.eject_after;
        if !is_enough && wait.is_none() {
            return None;
        }
        let own = settings.eject_for.saturating_mul(1 << target.ejections.min(16));
        let own = if is_enough { own } else { Duration::ZERO };
        let ejection = own.max(wait.unwrap_or_default()).min(settings.max_ejection);
        if is_enough {
            target.ejections = target.ejections.saturating_add(1);
        }
        // An ejection is never shortened.
        let returns = now.checked_add(ejection)?;
        target.returns = Some(target.returns.map_or(returns, |earlier| earlier.max(returns)));
        Some(ejection)
    }

    /// A request to the target ended without saying anything of it.
    pub(super) fn left(&self, name: &str) {
        if let Some(target) = self.known().get_mut(name) {
            target.tried = None;
        }
    }

    /// How many targets are ejected at `now`.
    pub(super) fn ejected(&self, now: Instant) -> usize {
        self.known().values().filter(|target| target.returns.is_some_and(|returns| returns > now)).count()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Target>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> Failover {
        Failover { eject_after: 2, eject_for: 10 * SECOND, max_ejection: 35 * SECOND, ..Failover::default() }
    }

    #[test]
    fn a_target_is_ejected_after_failures_in_a_row() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(health.failed("a", None, now, &settings()), None);
        health.succeeded("a");
        assert_eq!(health.failed("a", None, now, &settings()), None);
        assert_eq!(health.first(&["a", "b"], now), Some("a"));
        assert_eq!(health.failed("a", None, now, &settings()), Some(10 * SECOND));
        assert_eq!(health.first(&["a", "b"], now), Some("b"));
        assert_eq!(health.ejected(now), 1);
    }

    #[test]
    fn one_request_tries_an_ejected_target_and_its_failure_doubles_the_time() {
        let (health, mut now) = (Health::default(), Instant::now());
        health.failed("a", None, now, &settings());
        for expected in [10, 20, 35, 35] {
            let ejection = health.failed("a", None, now, &settings()).unwrap();
            assert_eq!(ejection, expected * SECOND);
            assert_eq!(health.first(&["a", "b"], now + ejection - SECOND), Some("b"));
            now += ejection;
            assert_eq!(health.first(&["a", "b"], now), Some("a"));
            assert_eq!(health.first(&["a", "b"], now), Some("b"), "while one tries it");
        }
        health.succeeded("a");
        assert_eq!(health.first(&["a", "b"], now), Some("a"));
        assert_eq!(health.failed("a", None, now, &settings()), None, "it begins anew");
    }

    #[test]
    fn who_leaves_makes_way_for_another_trial() {
        let (health, now) = (Health::default(), Instant::now());
        health.failed("a", None, now, &settings());
        let later = now + health.failed("a", None, now, &settings()).unwrap();
        assert_eq!(health.first(&["a", "b"], later), Some("a"));
        health.left("a");
        assert_eq!(health.first(&["a", "b"], later), Some("a"));
        assert_eq!(health.first(&["a", "b"], later + TRIAL), Some("a"), "the trial may be lost");
    }

    #[test]
    fn if_all_are_ejected_the_one_that_returns_first_is_asked() {
        let (health, now) = (Health::default(), Instant::now());
        for (name, wait) in [("a", 9), ("b", 5), ("c", 7)] {
            health.failed(name, Some(wait * SECOND), now, &settings());
        }
        assert_eq!(health.first(&["a", "b", "c"], now), Some("b"));
        assert_eq!(health.first(&[], now), None);
    }

    #[test]
    fn a_wait_that_the_upstream_asked_for_is_kept_within_the_limit_and_never_shortened() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(health.failed("a", Some(3 * SECOND), now, &settings()), Some(3 * SECOND));
        assert_eq!(health.failed("b", Some(9999 * SECOND), now, &settings()), Some(35 * SECOND));
        health.failed("b", Some(SECOND), now, &settings());
        assert_eq!(health.first(&["b", "a"], now + 3 * SECOND), Some("a"));
        assert_eq!(health.first(&["b", "a"], now + 34 * SECOND), Some("a"));
    }
}
