//! [`Rates`]: how often hosted tools may be called, by client, by tool and by provider.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter, clock::Clock, middleware::NoOpMiddleware, state::keyed::HashMapStateStore,
};
use tokio::time::{Instant, sleep_until};

use super::{
    registry::Hosted,
    settings::ExecutionSettings,
    tool::{ErrorCode, Rate, ToolError},
};
use toolwire_net::store::Owner;

/// Calls that may wait because of a limit. Beyond, they fail at once.
const MAX_WAITING: usize = 256;

/// Clients that a limit remembers before those that have not called for long are forgotten.
const MAX_CLIENTS: usize = 1024;

/// A limit, and the rate that it was made for.
type Limit = (Rate, Arc<Limiter>);

type Limiter = RateLimiter<Owner, HashMapStateStore<Owner>, RuntimeClock, NoOpMiddleware<Duration>>;

/// The limits. All threads share them.
pub(super) struct Rates {
    clients: Option<Limit>,
    /// By the providers' names; all clients count as one.
    providers: HashMap<String, Limit>,
    /// By the tools' names. A limiter is made anew when its rate changes.
    tools: Mutex<HashMap<Arc<str>, Limit>>,
    /// How long a call may wait.
    wait: Duration,
    waiting: AtomicUsize,
}

impl Rates {
    /// The limits of these settings. Those that `before` has with the same rates go on counting.
    pub(super) fn new(settings: &ExecutionSettings, before: Option<&Self>) -> Self {
        let providers = settings.providers.iter().filter_map(|entry| {
            let known = before.and_then(|before| before.providers.get(&entry.name));
            Some((entry.name.clone(), limit(entry.rate_limit?, known)))
        });
        let known = before.and_then(|before| before.clients.as_ref());
        let tools = before.map(|before| before.tools().clone()).unwrap_or_default();
        Self {
            clients: settings.rate_limit.map(|rate| limit(rate, known)),
            providers: providers.collect(),
            tools: Mutex::new(tools),
            wait: settings.rate_wait,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until a call may run; not beyond `deadline`.
    ///
    /// # Errors
    /// It would have to wait for too long, or too many wait already.
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
        let mut tools = self.tools();
        let (_, limiter) = limit(rate, tools.get(&hosted.name));
        tools.insert(Arc::clone(&hosted.name), (rate, Arc::clone(&limiter)));
        Some(limiter)
    }

    fn tools(&self) -> MutexGuard<'_, HashMap<Arc<str>, Limit>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit that is `known`, if it has this rate; otherwise a new one.
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

/// A place among the calls that wait.
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

/// The clock of the runtime, which stands still in tests.
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
