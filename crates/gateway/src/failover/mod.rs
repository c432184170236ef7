//! Lets another model answer when an upstream fails before its response has content.
//!
//! ```text
//! a model with alternatives ─order─▶ names ─Health─▶ the first target ─fails─▶ Attempts::next ─▶ the next one, or the failure
//! ```
//!
//! The body of a response owns its [`Attempts`] and uses them when the upstream fails. The previous connection is thus
//! closed when the next request begins, and a client that disconnects ends the attempts.

mod health;
mod order;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep;

pub(super) use self::order::affinity;
use self::{
    health::{Failed, Health, Request},
    order::{Way, order},
};
use super::{hops::EarlierHops, permits::Claimant, retry_after::wait_of};
use crate::observe::{Metrics, Outcome};
use toolwire_config::{Alternatives, Config, Failover as Settings, Model};
use toolwire_pipeline::failure::{Failure, Kind};

/// The pending start of a request to a target.
pub(super) type Beginning<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Starts a request with the entry of this name, which goes on after these hops.
pub(super) type Begin<T> = Box<dyn Fn(String, Option<Box<EarlierHops>>) -> Beginning<T> + Send>;

/// Maximum wait that is reported to a client when no target works, since a target may recover at any time.
const MAX_WAIT: Duration = Duration::from_secs(29);

#[derive(Debug)]
pub(super) struct Failover {
    health: Arc<Health>,
    settings: Settings,
    metrics: Arc<Metrics>,
}

/// The attempts to answer one request of a client. Each hop of the response has attempts of its own.
pub(super) struct Attempts<T> {
    shared: Arc<Failover>,
    plan: Plan,
    /// Starts another attempt. `None` once the last hop has content.
    begin: Option<Begin<T>>,
    /// Whether the hop has content, so that no other target is asked for it.
    has_begun: bool,
    /// Number of rounds that have followed the first one of the hop.
    rounds: usize,
    /// Entries that have failed in the current round.
    failed: Vec<String>,
    /// The pause before the next round.
    pause: Duration,
    begun: Instant,
    count: usize,
    /// The status with which the client's API reports an outage.
    overloaded: u16,
}

/// The target that is currently asked for a response, and the targets that may be asked later.
#[derive(Debug)]
pub(super) struct Plan {
    /// The entry that is currently asked.
    current: String,
    /// When the request to `current` began.
    asked: Instant,
    /// The entries that may answer, in the order in which they are asked.
    order: Vec<Way>,
    /// The client for which the request is made.
    client: Claimant,
    /// Number of rounds that may follow the first one of a hop. Each round asks all entries again.
    retries: usize,
    /// Whether all targets were ejected when the request arrived.
    is_outage: bool,
}

impl Failover {
    pub(super) fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self { health: Arc::default(), settings, metrics }
    }

    /// Returns a copy with other settings but the same health of targets.
    pub(super) fn with_settings(&self, settings: Settings) -> Self {
        Self { health: Arc::clone(&self.health), settings, metrics: Arc::clone(&self.metrics) }
    }

    /// Chooses the entry to ask first, for a model that has alternatives. `affinity` returns the affinity of the
    /// conversation. `may` returns whether the caller may use a fallback. Other fallbacks are left out.
    pub(super) fn plan(
        &self,
        config: &Config,
        model: &Model,
        affinity: impl FnOnce() -> u64,
        client: Claimant,
        may: impl Fn(&str) -> bool,
    ) -> Option<Plan> {
        let Alternatives { retries, .. } = **model.alternatives.as_ref()?;
        let order = order(config, model, affinity, may);
        let names: Vec<_> = order.iter().map(|way| way.target.as_str()).collect();
        let asked = Instant::now();
        let is_outage = self.health.all_return(&names, client, asked).is_some();
        let current = self.health.first(&names, client, asked)?.to_owned();
        Some(Plan { current, asked, order, client, retries, is_outage })
    }

    fn count(&self, target: &str, outcome: Option<Kind>) {
        self.metrics.attempt(target, outcome);
        self.show_ejected();
    }

    /// Updates the metric of ejected targets, since ejections also end without a request.
    pub(super) fn show_ejected(&self) {
        self.metrics.ejected_targets(self.health.ejected(Instant::now()));
    }
}

impl<T: 'static> Attempts<T> {
    /// Creates the attempts of a request that has been started with the first target of `plan`. `overloaded` is the
    /// status that reports that no target works.
    pub(super) fn new(shared: Arc<Failover>, plan: Plan, begin: Begin<T>, overloaded: u16) -> Self {
        Self {
            begun: plan.asked,
            plan,
            begin: Some(begin),
            has_begun: false,
            rounds: 0,
            failed: Vec::new(),
            pause: shared.settings.backoff,
            count: 1,
            overloaded,
            shared,
        }
    }

    /// The name of the entry that is asked or has answered.
    pub(super) fn target(&self) -> &str {
        &self.plan.current
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether another target may still be asked.
    pub(super) fn are_open(&self) -> bool {
        self.begin.is_some() && !self.has_begun
    }

    /// No other target is asked for this hop. `is_last` is set if no other hop may follow.
    pub(super) fn close(&mut self, is_last: bool) {
        self.has_begun = true;
        if is_last {
            self.begin = None;
        }
    }

    /// The hop has content; see [`Attempts::close`].
    pub(super) fn has_content(&mut self, is_last: bool) {
        if self.are_open() {
            self.shared.health.began(self.request());
        }
        self.close(is_last);
    }

    /// Another hop begins. The current target is asked first, and the hop has all attempts that the first one had.
    pub(super) fn next_hop(&mut self) {
        // The last hop was complete, even if it had no content for the client, or none that was seen before its end.
        self.shared.health.began(self.request());
        let now = Instant::now();
        (self.begun, self.plan.asked) = (now, now);
        (self.has_begun, self.rounds, self.pause) = (false, 0, self.shared.settings.backoff);
        self.failed.clear();
    }

    /// Time limit for the first content of the current target's stream. `None` if all other targets have failed.
    pub(super) fn patience(&self) -> Option<Duration> {
        let has_other = || {
            self.plan.order.iter().any(|way| way.target != self.plan.current && !self.has_failed(&way.target))
        };
        self.shared.settings.first_content.filter(|_| self.are_open() && has_other())
    }

    /// Returns the failure to report in place of `failure` after the last target has failed, if all targets were
    /// already ejected when the request arrived. It tells the client to retry once a target may have recovered.
    /// Otherwise, returns `None`, since the client would only repeat what toolwire has just tried.
    pub(super) fn outage(&self, failure: &Failure) -> Option<Failure> {
        if !self.plan.is_outage || !failure.may_succeed_elsewhere() {
            return None;
        }
        let now = Instant::now();
        let names: Vec<_> = self.plan.order.iter().map(|way| way.target.as_str()).collect();
        let returns = self.shared.health.all_return(&names, self.plan.client, now);
        let wait = returns.map(|returns| returns.saturating_duration_since(now)).unwrap_or_default();
        let seconds = wait.min(MAX_WAIT).as_secs() + 1;
        let message = format!("none of the targets of this model works; the last one: {failure}");
        let failure = Failure::new(Kind::Overloaded, message).with_status(self.overloaded);
        Some(failure.with_retry_after(seconds.to_string()))
    }

    fn request(&self) -> Request<'_> {
        Request { target: &self.plan.current, client: self.plan.client, asked: self.plan.asked }
    }

    fn has_failed(&self, target: &str) -> bool {
        self.failed.iter().any(|failed| failed == target)
    }

    /// Starts the next attempt after the current target failed without content. It goes on after the hops that `earlier`
    /// returns. `None` if there is no other attempt.
    pub(super) fn next(
        &mut self,
        failure: &Failure,
        earlier: impl FnOnce() -> Option<Box<EarlierHops>>,
    ) -> Option<Beginning<T>> {
        let begin = self.begin.as_ref().filter(|_| !self.has_begun)?;
        let order = self.order_after(failure)?;
        let remaining = |failed: &[String]| -> Vec<&str> {
            order
                .iter()
                .map(|way| way.target.as_str())
                .filter(|name| !failed.iter().any(|f| f == name))
                .collect()
        };
        let mut failed = self.failed.clone();
        failed.push(self.plan.current.clone());
        let mut pause = Duration::ZERO;
        if remaining(&failed).is_empty() {
            if self.rounds >= self.plan.retries || order.is_empty() {
                return None;
            }
            failed.clear();
            pause = jittered(self.pause).max(wait_of(failure).unwrap_or_default());
        }
        if self.begun.elapsed().saturating_add(pause) > self.shared.settings.deadline {
            return None;
        }
        self.shared.judge(self.request(), Some(failure));
        let asked = Instant::now().checked_add(pause)?;
        let target = self.shared.health.first(&remaining(&failed), self.plan.client, asked)?.to_owned();
        log(&self.plan.current, &target, failure);
        let beginning = begin(target.clone(), earlier());
        if failed.is_empty() {
            self.rounds += 1;
            self.pause = self.pause.saturating_mul(2);
        }
        self.failed = failed;
        (self.plan.order, self.plan.current, self.plan.asked) = (order, target, asked);
        self.count += 1;
        Some(Box::pin(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            beginning.await
        }))
    }

    /// Returns the entries that may answer after this failure of the current one. `None` if they would fail in the same
    /// way.
    fn order_after(&self, failure: &Failure) -> Option<Vec<Way>> {
        let mut order = self.plan.order.clone();
        if failure.kind() == Kind::ContextLength {
            // A request that is too long for a model is too long for all its targets.
            let model = order.iter().find(|way| way.target == self.plan.current)?.model;
            order.retain(|way| way.model != model);
        } else if !failure.may_succeed_elsewhere() {
            return None;
        }
        Some(order)
    }

    pub(super) fn ended(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Done => self.shared.judge(self.request(), None),
            Outcome::Failed(failure) => self.shared.judge(self.request(), Some(failure)),
            Outcome::Cancelled | Outcome::Stalled => self.shared.health.left(self.request()),
        }
    }
}

impl Failover {
    /// Records the outcome of a request to a target.
    fn judge(&self, request: Request<'_>, failure: Option<&Failure>) {
        let target = request.target;
        match failure {
            None => self.health.succeeded(request),
            Some(failure) if failure.may_succeed_elsewhere() && !failure.is_unasked() => {
                let (wait, now) = (wait_of(failure), Instant::now());
                let is_answer = may_be_of_the_request(failure.kind()) && wait.is_none();
                let ejection = self.health.failed(request, Failed { is_answer, wait, now }, &self.settings);
                if let Some(ejection) = ejection {
                    tracing::warn!(target, ?ejection, %failure, "a target failed and is not asked for a while");
                }
            }
            Some(_) => self.health.left(request),
        }
        self.count(target, failure.map(Failure::kind));
    }
}

impl<T> fmt::Debug for Attempts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("plan", &self.plan)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// Whether the request itself may have caused the failure, so that the failure says nothing about other requests: the
/// target may reject its text, take too long to process it, or reject the client's own session.
fn may_be_of_the_request(kind: Kind) -> bool {
    kind != Kind::Connect
}

/// Logs that `next` is asked because `failed` has failed. Failures that will not go away by themselves are logged as
/// warnings.
fn log(failed: &str, next: &str, failure: &Failure) {
    match failure.kind() {
        Kind::Unauthorized | Kind::Forbidden | Kind::NotFound => {
            tracing::warn!(failed, next, %failure, "a target refuses toolwire; another model is asked");
        }
        _ => tracing::info!(failed, next, %failure, "another model is asked"),
    }
}

/// Varies `pause` by up to a quarter, so that requests that failed together are not retried together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;
