//! [`Rates`]: rate limits of hosted tools, by client, tool and provider.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter, clock::Clock, middleware::NoOpMiddleware, state::keyed::HashMapStateStore,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::{
    registry::Hosted,
    settings::ExecutionSettings,
    tool::{ErrorCode, Rate, ToolError},
};
use toolwire_net::store::Owner;

/// Maximum number of calls that wait because of one limit. While there are that many, further calls fail
/// immediately.
const MAX_WAITING: usize = 256;

/// Number of clients that a limit may remember before it forgets those that have not called
/// recently.
const MAX_CLIENTS: usize = 1024;

/// A limiter with its rate.
type Limit = (Rate, Arc<Limiter>);

type Limiter = RateLimiter<Owner, HashMapStateStore<Owner>, RuntimeClock, NoOpMiddleware<Duration>>;

/// The limits. All threads share them.
pub(super) struct Rates {
    clients: Option<Limit>,
    /// By the providers' names. All clients share a limit.
    providers: HashMap<String, Limit>,
    /// By the tools' names. A limiter is replaced when its rate changes.
    tools: Mutex<HashMap<Arc<str>, Limit>>,
    /// Maximum time that a call waits.
    wait: Duration,
    waiting: AtomicUsize,
}

impl Rates {
    /// Creates the limits of these settings. Limits in `before` that have the same rates are kept
    /// with their counts.
    pub(super) fn new(settings: &ExecutionSettings, before: Option<&Self>) -> Self {
        let providers = settings.providers.iter().filter_map(|entry| {
            let known = before.and_then(|before| before.providers.get(&entry.name));
            Some((entry.name.clone(), limit(entry.rate_limit?, known)))
        });
        let known = before.and_then(|before| before.clients.as_ref());
        let tools = before.map(|before| before.tools.lock().clone()).unwrap_or_default();
        Self {
            clients: settings.rate_limit.map(|rate| limit(rate, known)),
            providers: providers.collect(),
            tools: Mutex::new(tools),
            wait: settings.rate_wait,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until a call may run, at most until `deadline`.
    ///
    /// # Errors
    /// The call would have to wait too long, or too many calls are already waiting.
    pub(super) async fn take(
        &self,
        hosted: &Hosted,
        client: Owner,
        deadline: Instant,
    ) -> Result<(), ToolError> {
        let end = deadline.min(Instant::now() + self.wait);
        if let Some((_, clients)) = &self.clients {
            self.take_from(clients, client, end).await?;
        }
        if let Some(tool) = self.of_tool(hosted) {
            self.take_from(&tool, client, end).await?;
        }
        if let Some((_, provider)) = self.providers.get(&*hosted.provider_name) {
            self.take_from(provider, Owner::default(), end).await?;
        }
        Ok(())
    }

    async fn take_from(&self, limiter: &Limiter, client: Owner, end: Instant) -> Result<(), ToolError> {
        if limiter.len() > MAX_CLIENTS {
            limiter.retain_recent();
        }
        let mut waiting = None;
        loop {
            let Err(refused) = limiter.check_key(&client) else { return Ok(()) };
            let delay = refused.wait_time_from(limiter.clock().now());
            let again = Instant::now() + delay;
            if waiting.is_none() {
                waiting = Waiting::new(&self.waiting);
            }
            if again > end || waiting.is_none() {
                let message = format!("Too many calls. Try again in {} s.", delay.as_secs().max(1));
                let error = ToolError::new(ErrorCode::RateLimited, message);
                return Err(ToolError { retry_after: Some(delay), ..error });
            }
            sleep_until(again).await;
        }
    }

    fn of_tool(&self, hosted: &Hosted) -> Option<Arc<Limiter>> {
        let rate = hosted.rules.rate_limit.or(hosted.spec.rate_limit)?;
        let mut tools = self.tools.lock();
        let (_, limiter) = limit(rate, tools.get(&hosted.name));
        tools.insert(Arc::clone(&hosted.name), (rate, Arc::clone(&limiter)));
        Some(limiter)
    }
}

/// Returns `known` if it has this rate, otherwise a new limit.
fn limit(rate: Rate, known: Option<&Limit>) -> Limit {
    let known = known.filter(|(own, _)| *own == rate).map(|(_, limiter)| Arc::clone(limiter));
    (rate, known.unwrap_or_else(|| Arc::new(limiter(rate))))
}

impl fmt::Debug for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rates").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

fn limiter(rate: Rate) -> Limiter {
    let between = (rate.period / rate.count.get()).max(Duration::from_nanos(1));
    let quota = Quota::with_period(between).unwrap_or_else(|| Quota::per_second(rate.count));
    RateLimiter::new(quota.allow_burst(rate.count), HashMapStateStore::default(), RuntimeClock::default())
}

/// A place among the waiting calls.
struct Waiting<'w>(&'w AtomicUsize);

impl<'w> Waiting<'w> {
    fn new(waiting: &'w AtomicUsize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The runtime's clock, which tests can pause.
#[derive(Debug, Clone)]
struct RuntimeClock(Instant);

impl Default for RuntimeClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RuntimeClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
