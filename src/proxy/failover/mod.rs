//! When an upstream fails before its response has content, another model may answer instead.
//!
//! ```text
//! a model with alternatives ─order─▶ names ─Health─▶ the first target ─fails─▶ Attempts::next ─▶ the next one, or the failure
//! ```
//!
//! [`Attempts`] belongs to a response's body, which asks it when it fails. So the connection before is closed when the next
//! request begins, and a client that leaves ends the attempts.

mod health;
mod order;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::time::sleep;

use self::{
    health::Health,
    order::{Way, order},
};
use crate::{
    config::{Alternatives, Config, Failover as Settings, Model},
    conversation::Conversation,
    failure::{Failure, Kind},
    observe::{Metrics, Outcome},
    store::Owner,
};

/// A request that is being begun, with a target that was chosen.
pub(super) type Beginning<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Begins the request with the entry of this name.
pub(super) type Begin<T> = Box<dyn Fn(String) -> Beginning<T> + Send>;

/// What all requests share.
#[derive(Debug)]
pub(super) struct Failover {
    health: Arc<Health>,
    settings: Settings,
    metrics: Arc<Metrics>,
}

/// The ways of one request.
pub(super) struct Attempts<T> {
    shared: Arc<Failover>,
    /// Begins another attempt. `None` as soon as the response has content.
    begin: Option<Begin<T>>,
    /// The entries that may answer, in the order in which they are asked.
    order: Vec<Way>,
    /// The one that is asked.
    current: String,
    /// Those that have failed since all were asked last.
    failed: Vec<String>,
    /// How often all are still asked again.
    retries: usize,
    /// The pause before that.
    pause: Duration,
    begun: Instant,
    count: usize,
}

/// The target of a request, and the others.
#[derive(Debug)]
pub(super) struct Plan {
    /// The entry that is asked first.
    pub(super) first: String,
    order: Vec<Way>,
    retries: usize,
}

impl Failover {
    pub(super) fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self { health: Arc::default(), settings, metrics }
    }

    /// The same with other settings. What is known of targets stays known.
    pub(super) fn with_settings(&self, settings: Settings) -> Self {
        Self { health: Arc::clone(&self.health), settings, metrics: Arc::clone(&self.metrics) }
    }

    /// Which entry answers, for a model that has alternatives. Fallbacks are only those that the caller `may` use.
    pub(super) fn plan(
        &self,
        config: &Config,
        model: &Model,
        (conversation, owner): (&Conversation, Owner),
        may: impl Fn(&str) -> bool,
    ) -> Option<Plan> {
        let Alternatives { retries, .. } = **model.alternatives.as_ref()?;
        let order = order(config, model, || order::affinity(conversation, owner), may);
        let names: Vec<_> = order.iter().map(|way| way.target.as_str()).collect();
        let first = self.health.first(&names, Instant::now())?.to_owned();
        Some(Plan { first, order, retries })
    }

    fn count(&self, target: &str, outcome: Option<Kind>) {
        self.metrics.attempt(target, outcome);
        self.metrics.ejected_targets(self.health.ejected(Instant::now()));
    }
}

impl<T: 'static> Attempts<T> {
    /// The attempts of a request that has been begun with the first target of `plan`.
    pub(super) fn new(shared: Arc<Failover>, plan: Plan, begin: Begin<T>) -> Self {
        let Plan { first, order, retries } = plan;
        let pause = shared.settings.backoff;
        Self {
            shared,
            begin: Some(begin),
            order,
            current: first,
            failed: Vec::new(),
            retries,
            pause,
            begun: Instant::now(),
            count: 1,
        }
    }

    /// The name of the entry that is asked, or has answered.
    pub(super) fn target(&self) -> &str {
        &self.current
    }

    /// How many attempts have been made.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether another target may still be asked.
    pub(super) fn are_open(&self) -> bool {
        self.begin.is_some()
    }

    /// The response has content: no other target is asked.
    pub(super) fn close(&mut self) {
        self.begin = None;
    }

    /// The current target has failed before any content. `None`: the response fails, too.
    pub(super) fn next(&mut self, failure: &Failure) -> Option<Beginning<T>> {
        let begin = self.begin.as_ref()?;
        let order = self.order_after(failure.kind())?;
        let (wait, now) = (wait_of(failure), Instant::now());
        let remaining = |failed: &[String]| -> Vec<&str> {
            order
                .iter()
                .map(|way| way.target.as_str())
                .filter(|name| !failed.iter().any(|f| f == name))
                .collect()
        };
        let mut failed = self.failed.clone();
        failed.push(self.current.clone());
        let mut pause = Duration::ZERO;
        if remaining(&failed).is_empty() {
            if self.retries == 0 || order.is_empty() {
                return None;
            }
            failed.clear();
            pause = jittered(self.pause).max(wait.unwrap_or_default());
        }
        if self.begun.elapsed().saturating_add(pause) > self.shared.settings.deadline {
            return None;
        }
        self.shared.judge(&self.current, Some(failure));
        let target = self.shared.health.first(&remaining(&failed), now)?.to_owned();
        tracing::info!(failed = self.current, next = target, %failure, "another model is asked");
        let beginning = begin(target.clone());
        if failed.is_empty() {
            self.retries -= 1;
            self.pause = self.pause.saturating_mul(2);
        }
        (self.order, self.failed, self.current) = (order, failed, target);
        self.count += 1;
        Some(Box::pin(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            beginning.await
        }))
    }

    /// The entries that may answer after a failure of this kind of the current one. `None`: it would only be repeated.
    fn order_after(&self, kind: Kind) -> Option<Vec<Way>> {
        let mut order = self.order.clone();
        if kind == Kind::ContextLength {
            // What is too long for a model is so for all its targets.
            let model = order.iter().find(|way| way.target == self.current)?.model;
            order.retain(|way| way.model != model);
        } else if !is_of_the_target(kind) {
            return None;
        }
        Some(order)
    }

    /// The response has ended.
    pub(super) fn ended(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Done => self.shared.judge(&self.current, None),
            Outcome::Failed(failure) => self.shared.judge(&self.current, Some(failure)),
            Outcome::Cancelled | Outcome::Stalled => self.shared.health.left(&self.current),
        }
    }
}

impl Failover {
    /// Takes note of how a request to `target` ended.
    fn judge(&self, target: &str, failure: Option<&Failure>) {
        match failure {
            None => self.health.succeeded(target),
            Some(failure) if is_of_the_target(failure.kind()) => {
                let ejection = self.health.failed(target, wait_of(failure), Instant::now(), &self.settings);
                if let Some(ejection) = ejection {
                    tracing::warn!(target, ?ejection, %failure, "a target failed and is not asked for a while");
                }
            }
            Some(_) => self.health.left(target),
        }
        self.count(target, failure.map(Failure::kind));
    }
}

impl<T> fmt::Debug for Attempts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("order", &self.order)
            .field("current", &self.current)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// Whether a failure says something of the target, so that another one may do better. What the client or toolwire itself caused
/// would only be repeated.
fn is_of_the_target(kind: Kind) -> bool {
    match kind {
        Kind::Unauthorized
        | Kind::Forbidden
        | Kind::NotFound
        | Kind::RateLimit
        | Kind::Overloaded
        | Kind::Timeout
        | Kind::Connect
        | Kind::Protocol
        | Kind::Truncated
        | Kind::Upstream => true,
        Kind::Request
        | Kind::Method
        | Kind::TooLarge
        | Kind::Budget
        | Kind::ContextLength
        | Kind::StoreAway
        | Kind::Limit
        | Kind::Draining
        | Kind::Internal => false,
    }
}

/// How long the upstream wants no request: seconds, or a date (RFC 9110, section 10.2.3).
fn wait_of(failure: &Failure) -> Option<Duration> {
    let text = failure.retry_after()?.trim();
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

/// `pause`, more or less a quarter of it, so that requests that failed together do not return together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;
