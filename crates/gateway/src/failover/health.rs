//! [`Health`]: tracks which targets have failed recently, and temporarily ejects them.
//!
//! ```text
//! working ─eject_after failures in a row─▶ ejected for eject_for ─▶ one request tries it ─content─▶ working
//!                                             ▲ twice as long                      └─failure─┐
//!                                             └──────────────────────────────────────────────┘
//! ```
//!
//! Callers pass the current time. Targets are identified by the name of their entry, so their health survives a reload.
//!
//! If a target responds with an error, the request may be the cause. Such an error counts only for its client until
//! requests from another client fail too, so that no client can eject a target for others. All other failures count for
//! all clients.
//!
//! Many requests may be open when a target starts to fail, and some of them may still succeed. Each request is
//! identified by the time at which it was sent: a request from before an ejection neither extends nor ends the
//! ejection.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::super::permits::Claimant;
use parking_lot::Mutex;
use toolwire_config::Failover;

/// When the first trial of an ejected target has taken this long, another request may try the target.
const TRIAL: Duration = Duration::from_secs(60);

/// Maximum number of clients whose failures are tracked per target.
const MAX_CLIENTS: usize = 64;

/// The health of all targets, shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<HashMap<String, TargetHealth>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'t> {
    pub(super) target: &'t str,
    pub(super) client: Claimant,
    pub(super) asked: Instant,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Failed {
    /// Whether the target responded with an error that the request may have caused.
    pub(super) is_answer: bool,
    /// How long the target wants to receive no requests.
    pub(super) wait: Option<Duration>,
    pub(super) now: Instant,
}

/// The health of a target: for all clients, and for each client that it has answered with errors.
#[derive(Debug, Default)]
struct TargetHealth {
    all: Target,
    clients: HashMap<Claimant, Target>,
}

/// The health of a target, for one client or for all.
#[derive(Debug, Default)]
struct Target {
    /// Number of failures since the last success.
    failures: usize,
    /// The first client whose request was answered with an error since the last success.
    witness: Option<Claimant>,
    /// Whether the same has happened to another client since the last success.
    has_two_witnesses: bool,
    /// Number of ejections since the last success.
    ejections: u32,
    /// When the ejection ends.
    returns: Option<Instant>,
    /// When the target was last ejected.
    ejected: Option<Instant>,
    /// When a request was sent to try the target after an ejection.
    tried: Option<Instant>,
}

impl Target {
    /// Whether a request may be sent to the target at `now`.
    fn admits(&self, now: Instant) -> bool {
        let is_tried = self.tried.is_some_and(|since| now.saturating_duration_since(since) < TRIAL);
        !self.is_out(now) && !is_tried
    }

    fn is_out(&self, now: Instant) -> bool {
        self.returns.is_some_and(|returns| now < returns)
    }

    /// Counts the failure of a request sent at `asked`. Returns how long the target is ejected because of it, or `None`
    /// if it is not ejected. An ejection is not extended by requests that were sent before it, or during it for lack of
    /// another target. With a `witness`, the target is ejected only if another client has seen failures too.
    fn own_ejection(
        &mut self,
        asked: Instant,
        witness: Option<Claimant>,
        settings: &Failover,
    ) -> Option<Duration> {
        self.not_tried_by(asked);
        if self.is_out(asked) {
            return None;
        }
        self.failures += 1;
        if let Some(client) = witness {
            self.has_two_witnesses |= *self.witness.get_or_insert(client) != client;
        }
        let is_certain = witness.is_none() || self.has_two_witnesses;
        let is_enough = self.returns.is_some() || (is_certain && self.failures >= settings.eject_after);
        is_enough.then(|| {
            let times = 1 << self.ejections.min(16);
            self.ejections = self.ejections.saturating_add(1);
            settings.eject_for.saturating_mul(times)
        })
    }

    fn not_tried_by(&mut self, asked: Instant) {
        self.tried = self.tried.filter(|tried| *tried != asked);
    }

    /// Ejects the target for `ejection`, starting at `now`, unless it is already ejected for longer.
    fn eject(&mut self, ejection: Option<Duration>, now: Instant, settings: &Failover) -> Option<Duration> {
        let ejection = ejection?.min(settings.max_ejection);
        let returns = now.checked_add(ejection).filter(|returns| self.returns < Some(*returns))?;
        (self.returns, self.ejected) = (Some(returns), Some(now));
        Some(ejection)
    }

    /// If the target's ejection is over, records that a request tries the target.
    fn try_at(&mut self, now: Instant) {
        if self.returns.is_some() && !self.is_out(now) {
            self.tried = Some(now);
        }
    }

    /// Whether a request was sent at `asked` after the last ejection, so that its outcome says something new about the
    /// target.
    fn is_after_ejection(&self, asked: Instant) -> bool {
        self.ejected.is_none_or(|ejected| ejected <= asked)
    }
}

impl TargetHealth {
    /// Returns the health that applies to a client: the target's health for all clients, and that for this client.
    fn of(&self, client: Claimant) -> impl Iterator<Item = &Target> {
        [Some(&self.all), self.clients.get(&client)].into_iter().flatten()
    }

    fn of_mut(&mut self, client: Claimant) -> impl Iterator<Item = &mut Target> {
        [Some(&mut self.all), self.clients.get_mut(&client)].into_iter().flatten()
    }

    fn admits(&self, client: Claimant, now: Instant) -> bool {
        self.of(client).all(|target| target.admits(now))
    }

    fn returns(&self, client: Claimant) -> Option<Instant> {
        self.of(client).filter_map(|target| target.returns).max()
    }

    /// Returns the health for `client` alone. `None` if too many clients are tracked.
    fn client(&mut self, client: Claimant, now: Instant) -> Option<&mut Target> {
        if self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(&client) {
            self.clients.retain(|_, target| target.is_out(now));
            if self.clients.len() >= MAX_CLIENTS {
                return None;
            }
        }
        Some(self.clients.entry(client).or_default())
    }
}

impl Health {
    /// Returns the first of `targets` to which a request from `client` may be sent at `now`. If there is none, returns
    /// the target whose ejection ends first, so that an outage of all targets ends as soon as one of them works. Only
    /// one request tries a target whose ejection is over.
    pub(super) fn first<'t>(&self, targets: &[&'t str], client: Claimant, now: Instant) -> Option<&'t str> {
        let mut health = self.0.lock();
        let admits = |name: &&&str| health.get(**name).is_none_or(|target| target.admits(client, now));
        let returns = |name: &&&str| health.get(**name).and_then(|target| target.returns(client));
        let chosen = *targets.iter().find(admits).or_else(|| targets.iter().min_by_key(returns))?;
        if let Some(target) = health.get_mut(chosen) {
            target.of_mut(client).for_each(|target| target.try_at(now));
        }
        Some(chosen)
    }

    /// If all `targets` are ejected for `client` at `now`, returns when the first ejection ends.
    pub(super) fn all_return(&self, targets: &[&str], client: Claimant, now: Instant) -> Option<Instant> {
        let health = self.0.lock();
        let returns = |name: &&str| health.get(*name)?.returns(client).filter(|returns| now < *returns);
        let returns: Option<Vec<_>> = targets.iter().map(returns).collect();
        returns?.into_iter().min()
    }

    /// Records that the target's response has content. This ends an ejection, but the failures still count: if the
    /// response fails later, the target is ejected again, and for longer.
    pub(super) fn began(&self, Request { target, client, asked }: Request<'_>) {
        if let Some(health) = self.0.lock().get_mut(target) {
            for target in health.of_mut(client).filter(|target| target.is_after_ejection(asked)) {
                (target.returns, target.ejected, target.tried) = (None, None, None);
            }
        }
    }

    pub(super) fn succeeded(&self, Request { target, client, asked }: Request<'_>) {
        let mut targets = self.0.lock();
        let Some(health) = targets.get_mut(target) else { return };
        if health.all.is_after_ejection(asked) {
            health.all = Target::default();
        }
        if health.clients.get(&client).is_some_and(|target| target.is_after_ejection(asked)) {
            health.clients.remove(&client);
        }
        if health.clients.is_empty() && health.all.failures == 0 && health.all.returns.is_none() {
            targets.remove(target);
        }
    }

    /// Records a failed request. Returns how long the target is ejected, if this failure caused an ejection.
    pub(super) fn failed(
        &self,
        Request { target, client, asked }: Request<'_>,
        Failed { is_answer, wait, now }: Failed,
        settings: &Failover,
    ) -> Option<Duration> {
        let mut targets = self.0.lock();
        let health = targets.entry(target.to_owned()).or_default();
        let own = health.all.own_ejection(asked, is_answer.then_some(client), settings);
        let of_all = health.all.eject(own.max(wait), now, settings);
        let of_client = is_answer.then(|| health.client(client, now)).flatten();
        let of_client = of_client.and_then(|target| {
            let own = target.own_ejection(asked, None, settings);
            target.eject(own, now, settings)
        });
        of_all.or(of_client)
    }

    /// Records a request whose outcome says nothing about the target.
    pub(super) fn left(&self, Request { target, client, asked }: Request<'_>) {
        if let Some(health) = self.0.lock().get_mut(target) {
            health.of_mut(client).for_each(|target| target.not_tried_by(asked));
        }
    }

    /// Number of targets that are ejected at `now`, for all clients or for some.
    pub(super) fn ejected(&self, now: Instant) -> usize {
        let is_out = |health: &&TargetHealth| {
            health.all.is_out(now) || health.clients.values().any(|target| target.is_out(now))
        };
        self.0.lock().values().filter(is_out).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwire_net::store::Owner;

    const ONE: Claimant = Claimant::Own;
    const OTHER: Claimant = Claimant::Key(Owner([1; 32]));

    const SECOND: Duration = Duration::from_secs(1);

    fn settings() -> Failover {
        Failover { eject_after: 2, eject_for: 10 * SECOND, max_ejection: 35 * SECOND, ..Failover::default() }
    }

    fn of(target: &str, asked: Instant) -> Request<'_> {
        Request { target, client: ONE, asked }
    }

    fn failed(
        health: &Health,
        target: &str,
        asked: Instant,
        wait: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        health.failed(of(target, asked), Failed { is_answer: false, wait, now }, &settings())
    }

    #[test]
    fn errors_that_one_client_gets_eject_a_target_for_that_client_only() {
        let (health, now) = (Health::default(), Instant::now());
        let fails = |client| {
            let failed = Failed { is_answer: true, wait: None, now };
            health.failed(Request { client, ..of("a", now) }, failed, &settings())
        };
        let first = |client| health.first(&["a", "b"], client, now);
        assert_eq!((fails(ONE), fails(ONE), fails(ONE)), (None, Some(10 * SECOND), None));
        assert_eq!((first(ONE), first(OTHER)), (Some("b"), Some("a")));
        assert_eq!(health.all_return(&["a"], ONE, now), Some(now + 10 * SECOND));
        assert_eq!((health.all_return(&["a"], OTHER, now), health.ejected(now)), (None, 1));
        health.succeeded(Request { client: OTHER, ..of("a", now) });
        assert_eq!((first(ONE), first(OTHER)), (Some("b"), Some("a")), "it works for the other one");
        assert_eq!(fails(OTHER), None);
        assert_eq!((fails(OTHER), first(OTHER)), (Some(10 * SECOND), Some("b")), "its own requests fail");
        let third = Claimant::Key(Owner([2; 32]));
        assert_eq!(first(third), Some("a"));
        assert_eq!(fails(ONE), Some(10 * SECOND), "two clients have seen failures since the last success");
        assert_eq!(first(third), Some("b"));
    }

    #[test]
    fn number_of_clients_of_a_target_is_bounded() {
        let (health, now) = (Health::default(), Instant::now());
        for number in 0..=u8::MAX {
            let client = Claimant::Key(Owner([number; 32]));
            let failed = Failed { is_answer: true, wait: None, now };
            let settings = Failover { eject_after: 999, ..settings() };
            health.failed(Request { client, ..of("a", now) }, failed, &settings);
            assert!(health.0.lock()["a"].clients.len() <= MAX_CLIENTS);
        }
    }

    #[test]
    fn a_target_is_ejected_after_failures_in_a_row() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(failed(&health, "a", now, None, now), None);
        health.succeeded(of("a", now));
        assert_eq!(failed(&health, "a", now, None, now), None);
        assert_eq!(health.first(&["a", "b"], ONE, now), Some("a"));
        assert_eq!(failed(&health, "a", now, None, now), Some(10 * SECOND));
        assert_eq!(health.first(&["a", "b"], ONE, now), Some("b"));
        assert_eq!(health.ejected(now), 1);
    }

    #[test]
    fn one_request_tries_an_ejected_target_and_its_failure_doubles_the_time() {
        let (health, mut now) = (Health::default(), Instant::now());
        failed(&health, "a", now, None, now);
        for expected in [10, 20, 35, 35] {
            let ejection = failed(&health, "a", now, None, now).unwrap();
            assert_eq!(ejection, expected * SECOND);
            assert_eq!(health.first(&["a", "b"], ONE, now + ejection - SECOND), Some("b"));
            now += ejection;
            assert_eq!(health.first(&["a", "b"], ONE, now), Some("a"));
            assert_eq!(health.first(&["a", "b"], ONE, now), Some("b"), "while one tries it");
        }
        health.succeeded(of("a", now));
        assert_eq!(health.first(&["a", "b"], ONE, now), Some("a"));
        assert_eq!(failed(&health, "a", now, None, now), None, "it begins anew");
    }

    #[test]
    fn many_requests_that_fail_together_eject_a_target_for_no_longer_than_one() {
        let (health, asked) = (Health::default(), Instant::now());
        let now = asked + SECOND;
        let ejections: Vec<_> = (0..50).filter_map(|_| failed(&health, "a", asked, None, now)).collect();
        assert_eq!(ejections, [10 * SECOND]);
        // Requests that were sent to an ejected target for lack of another one do not extend its ejection.
        assert_eq!(health.first(&["a"], ONE, now + SECOND), Some("a"));
        assert_eq!(failed(&health, "a", now + SECOND, None, now + 9 * SECOND), None);
        assert_eq!(health.first(&["a", "b"], ONE, now + 10 * SECOND), Some("a"));
        // A request from before the ejection reveals nothing about the trial.
        assert_eq!(failed(&health, "a", asked, None, now + 11 * SECOND), None);
        assert_eq!(health.first(&["a", "b"], ONE, now + 11 * SECOND), Some("b"), "one tries it still");
    }

    #[test]
    fn a_response_that_began_before_does_not_end_an_ejection() {
        let (health, asked) = (Health::default(), Instant::now());
        let now = asked + SECOND;
        failed(&health, "a", asked, Some(30 * SECOND), now);
        health.began(of("a", asked));
        health.succeeded(of("a", asked));
        assert_eq!(health.first(&["a", "b"], ONE, now), Some("b"));
        assert_eq!(health.all_return(&["a"], ONE, now), Some(now + 30 * SECOND));
        assert_eq!(health.all_return(&["a", "b"], ONE, now), None);
    }

    #[test]
    fn content_ends_an_ejection_and_a_failure_after_it_doubles_the_time() {
        let (health, now) = (Health::default(), Instant::now());
        failed(&health, "a", now, None, now);
        let later = now + failed(&health, "a", now, None, now).unwrap();
        assert_eq!(health.first(&["a", "b"], ONE, later), Some("a"));
        health.began(of("a", later));
        assert_eq!(
            health.first(&["a", "b"], ONE, later),
            Some("a"),
            "others need not wait for the end of the trial"
        );
        assert_eq!(failed(&health, "a", later, None, later), Some(20 * SECOND));
    }

    #[test]
    fn who_leaves_makes_way_for_another_trial() {
        let (health, now) = (Health::default(), Instant::now());
        failed(&health, "a", now, None, now);
        let later = now + failed(&health, "a", now, None, now).unwrap();
        assert_eq!(health.first(&["a", "b"], ONE, later), Some("a"));
        health.left(of("a", now));
        assert_eq!(health.first(&["a", "b"], ONE, later), Some("b"), "another request has left");
        health.left(of("a", later));
        assert_eq!(health.first(&["a", "b"], ONE, later), Some("a"));
        assert_eq!(health.first(&["a", "b"], ONE, later + TRIAL), Some("a"), "the trial may be lost");
    }

    #[test]
    fn if_all_are_ejected_the_one_that_returns_first_is_asked() {
        let (health, now) = (Health::default(), Instant::now());
        for (name, wait) in [("a", 9), ("b", 5), ("c", 7)] {
            failed(&health, name, now, Some(wait * SECOND), now);
        }
        assert_eq!(health.first(&["a", "b", "c"], ONE, now), Some("b"));
        assert_eq!(health.first(&[], ONE, now), None);
    }

    #[test]
    fn a_wait_that_the_upstream_asked_for_is_kept_within_the_limit_and_never_shortened() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(failed(&health, "a", now, Some(3 * SECOND), now), Some(3 * SECOND));
        assert_eq!(failed(&health, "b", now, Some(9999 * SECOND), now), Some(35 * SECOND));
        assert_eq!(failed(&health, "b", now, Some(SECOND), now), None);
        assert_eq!(health.first(&["b", "a"], ONE, now + 3 * SECOND), Some("a"));
        assert_eq!(health.first(&["b", "a"], ONE, now + 34 * SECOND), Some("a"));
    }
}
