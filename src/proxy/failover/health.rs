//! [`Health`]: which targets have failed lately, and are not asked for a while.
//!
//! ```text
//! working ─eject_after failures in a row─▶ ejected for eject_for ─▶ one request tries it ─content─▶ working
//!                                             ▲ twice as long                      └─failure─┐
//!                                             └──────────────────────────────────────────────┘
//! ```
//!
//! Time is passed in. A target is known by the name of its entry, so that what is known of it survives a new configuration.
//!
//! Many requests may be open at a target when it begins to fail, and some end well when others have failed already. A request
//! is known by the time at which it was asked: one from before an ejection neither lengthens nor ends it.

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
    /// When that was decided.
    ejected: Option<Instant>,
    /// The request that tries it, since it may return.
    tried: Option<Instant>,
}

impl Target {
    /// Whether it may be asked at `now`.
    fn admits(&self, now: Instant) -> bool {
        let is_tried = self.tried.is_some_and(|since| now.saturating_duration_since(since) < TRIAL);
        !self.is_out(now) && !is_tried
    }

    fn is_out(&self, now: Instant) -> bool {
        self.returns.is_some_and(|returns| now < returns)
    }

    /// Counts the failure of the request of `asked`. `None`: the target is not ejected for it. That is so, too, for requests from
    /// before its ejection, or that had no other target meanwhile: they fail as that one did which ejected it.
    fn own_ejection(&mut self, asked: Instant, settings: &Failover) -> Option<Duration> {
        self.not_tried_by(asked);
        if self.is_out(asked) {
            return None;
        }
        self.failures += 1;
        let is_enough = self.returns.is_some() || self.failures >= settings.eject_after;
        is_enough.then(|| {
            let times = 1 << self.ejections.min(16);
            self.ejections = self.ejections.saturating_add(1);
            settings.eject_for.saturating_mul(times)
        })
    }

    fn not_tried_by(&mut self, asked: Instant) {
        self.tried = self.tried.filter(|tried| *tried != asked);
    }

    /// Whether a request that was asked at `asked` says something of the target that its ejection did not say.
    fn is_after_ejection(&self, asked: Instant) -> bool {
        self.ejected.is_none_or(|ejected| ejected <= asked)
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
            && !target.is_out(now)
        {
            target.tried = Some(now);
        }
        Some(chosen)
    }

    /// When the first of `targets` returns, if all of them are ejected at `now`.
    pub(super) fn all_return(&self, targets: &[&str], now: Instant) -> Option<Instant> {
        let known = self.known();
        let returns = |name: &&str| known.get(*name).filter(|target| target.is_out(now))?.returns;
        let returns: Option<Vec<_>> = targets.iter().map(returns).collect();
        returns?.into_iter().min()
    }

    /// The target's response to the request of `asked` has content: it works, if it did not before. Should it fail now, it is
    /// ejected at once, and for longer.
    pub(super) fn began(&self, name: &str, asked: Instant) {
        if let Some(target) = self.known().get_mut(name)
            && target.is_after_ejection(asked)
        {
            (target.returns, target.ejected, target.tried) = (None, None, None);
        }
    }

    /// The target has answered the request of `asked`.
    pub(super) fn succeeded(&self, name: &str, asked: Instant) {
        let mut known = self.known();
        if known.get(name).is_some_and(|target| target.is_after_ejection(asked)) {
            known.remove(name);
        }
    }

    /// The request of `asked` failed at `now`, and the target said that it wants no other one for `wait`. Returns how long it is
    /// ejected from now on, if this failure did it.
    pub(super) fn failed(
        &self,
        (name, asked): (&str, Instant),
        wait: Option<Duration>,
        now: Instant,
        settings: &Failover,
    ) -> Option<Duration> {
        let mut known = self.known();
        let target = known.entry(name.to_owned()).or_default();
        let own = target.own_ejection(asked, settings);
        let ejection = own.max(wait)?.min(settings.max_ejection);
        // An ejection is never shortened.
        let returns = now.checked_add(ejection).filter(|returns| target.returns < Some(*returns))?;
        (target.returns, target.ejected) = (Some(returns), Some(now));
        Some(ejection)
    }

    /// The request of `asked` ended without saying anything of the target.
    pub(super) fn left(&self, name: &str, asked: Instant) {
        if let Some(target) = self.known().get_mut(name) {
            target.not_tried_by(asked);
        }
    }

    /// How many targets are ejected at `now`.
    pub(super) fn ejected(&self, now: Instant) -> usize {
        self.known().values().filter(|target| target.is_out(now)).count()
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
        assert_eq!(health.failed(("a", now), None, now, &settings()), None);
        health.succeeded("a", now);
        assert_eq!(health.failed(("a", now), None, now, &settings()), None);
        assert_eq!(health.first(&["a", "b"], now), Some("a"));
        assert_eq!(health.failed(("a", now), None, now, &settings()), Some(10 * SECOND));
        assert_eq!(health.first(&["a", "b"], now), Some("b"));
        assert_eq!(health.ejected(now), 1);
    }

    #[test]
    fn one_request_tries_an_ejected_target_and_its_failure_doubles_the_time() {
        let (health, mut now) = (Health::default(), Instant::now());
        health.failed(("a", now), None, now, &settings());
        for expected in [10, 20, 35, 35] {
            let ejection = health.failed(("a", now), None, now, &settings()).unwrap();
            assert_eq!(ejection, expected * SECOND);
            assert_eq!(health.first(&["a", "b"], now + ejection - SECOND), Some("b"));
            now += ejection;
            assert_eq!(health.first(&["a", "b"], now), Some("a"));
            assert_eq!(health.first(&["a", "b"], now), Some("b"), "while one tries it");
        }
        health.succeeded("a", now);
        assert_eq!(health.first(&["a", "b"], now), Some("a"));
        assert_eq!(health.failed(("a", now), None, now, &settings()), None, "it begins anew");
    }

    #[test]
    fn many_requests_that_fail_together_eject_a_target_for_no_longer_than_one() {
        let (health, asked) = (Health::default(), Instant::now());
        let now = asked + SECOND;
        let ejections: Vec<_> =
            (0..50).filter_map(|_| health.failed(("a", asked), None, now, &settings())).collect();
        assert_eq!(ejections, [10 * SECOND]);
        // Nor do those that had no other target while it was ejected.
        assert_eq!(health.first(&["a"], now + SECOND), Some("a"));
        assert_eq!(health.failed(("a", now + SECOND), None, now + 9 * SECOND, &settings()), None);
        assert_eq!(health.first(&["a", "b"], now + 10 * SECOND), Some("a"));
        // One that was asked before says nothing of the trial.
        assert_eq!(health.failed(("a", asked), None, now + 11 * SECOND, &settings()), None);
        assert_eq!(health.first(&["a", "b"], now + 11 * SECOND), Some("b"), "one tries it still");
    }

    #[test]
    fn a_response_that_began_before_does_not_end_an_ejection() {
        let (health, asked) = (Health::default(), Instant::now());
        let now = asked + SECOND;
        health.failed(("a", asked), Some(30 * SECOND), now, &settings());
        health.began("a", asked);
        health.succeeded("a", asked);
        assert_eq!(health.first(&["a", "b"], now), Some("b"));
        assert_eq!(health.all_return(&["a"], now), Some(now + 30 * SECOND));
        assert_eq!(health.all_return(&["a", "b"], now), None);
    }

    #[test]
    fn content_ends_an_ejection_and_a_failure_after_it_doubles_the_time() {
        let (health, now) = (Health::default(), Instant::now());
        health.failed(("a", now), None, now, &settings());
        let later = now + health.failed(("a", now), None, now, &settings()).unwrap();
        assert_eq!(health.first(&["a", "b"], later), Some("a"));
        health.began("a", later);
        assert_eq!(
            health.first(&["a", "b"], later),
            Some("a"),
            "others need not wait for the end of the trial"
        );
        assert_eq!(health.failed(("a", later), None, later, &settings()), Some(20 * SECOND));
    }

    #[test]
    fn who_leaves_makes_way_for_another_trial() {
        let (health, now) = (Health::default(), Instant::now());
        health.failed(("a", now), None, now, &settings());
        let later = now + health.failed(("a", now), None, now, &settings()).unwrap();
        assert_eq!(health.first(&["a", "b"], later), Some("a"));
        health.left("a", now);
        assert_eq!(health.first(&["a", "b"], later), Some("b"), "another request has left");
        health.left("a", later);
        assert_eq!(health.first(&["a", "b"], later), Some("a"));
        assert_eq!(health.first(&["a", "b"], later + TRIAL), Some("a"), "the trial may be lost");
    }

    #[test]
    fn if_all_are_ejected_the_one_that_returns_first_is_asked() {
        let (health, now) = (Health::default(), Instant::now());
        for (name, wait) in [("a", 9), ("b", 5), ("c", 7)] {
            health.failed((name, now), Some(wait * SECOND), now, &settings());
        }
        assert_eq!(health.first(&["a", "b", "c"], now), Some("b"));
        assert_eq!(health.first(&[], now), None);
    }

    #[test]
    fn a_wait_that_the_upstream_asked_for_is_kept_within_the_limit_and_never_shortened() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(health.failed(("a", now), Some(3 * SECOND), now, &settings()), Some(3 * SECOND));
        assert_eq!(health.failed(("b", now), Some(9999 * SECOND), now, &settings()), Some(35 * SECOND));
        assert_eq!(health.failed(("b", now), Some(SECOND), now, &settings()), None);
        assert_eq!(health.first(&["b", "a"], now + 3 * SECOND), Some("a"));
        assert_eq!(health.first(&["b", "a"], now + 34 * SECOND), Some("a"));
    }
}
