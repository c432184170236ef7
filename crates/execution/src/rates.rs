//! [`Rates`]: rate limits for hosted tools, by client, tool and provider.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::{
    registry::Hosted,
    settings::ExecutionSettings,
    tool::{ErrorCode, Rate, ToolError},
};
use toolwire_net::{bucket::Bucket, store::Owner};

/// Maximum number of calls that wait because of rate limits. Further calls fail immediately.
const MAX_WAITING: usize = 256;

/// If a limit has more clients than this, those that have not called recently are removed.
const MAX_CLIENTS: usize = 1024;

/// A rate, and the buckets of clients that have called recently.
struct Limit {
    rate: Rate,
    buckets: Mutex<HashMap<Owner, Bucket>>,
}

/// Rate limits. Shared by all threads.
pub(super) struct Rates {
    clients: Option<Arc<Limit>>,
    /// By provider name. All clients share a provider's limit.
    providers: HashMap<String, Arc<Limit>>,
    /// By tool name. A limit is replaced when its rate changes.
    tools: Mutex<HashMap<Arc<str>, Arc<Limit>>>,
    wait: Duration,
    waiting: AtomicUsize,
}

impl Rates {
    /// Creates the limits in `settings`. If the rate of a limit in `before` has not changed, the limit is kept with its
    /// counts.
    pub(super) fn new(settings: &ExecutionSettings, before: Option<&Self>) -> Self {
        let providers = settings.providers.iter().filter_map(|entry| {
            let known = before.and_then(|before| before.providers.get(&entry.name));
            Some((entry.name.clone(), Limit::of(entry.rate_limit?, known)))
        });
        let known = before.and_then(|before| before.clients.as_ref());
        let tools = before.map(|before| before.tools.lock().clone()).unwrap_or_default();
        Self {
            clients: settings.rate_limit.map(|rate| Limit::of(rate, known)),
            providers: providers.collect(),
            tools: Mutex::new(tools),
            wait: settings.rate_wait,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until a call may run, at most until `deadline`.
    ///
    /// # Errors
    /// The call would have to wait too long, or too many calls are waiting.
    pub(super) async fn take(
        &self,
        hosted: &Hosted,
        client: Owner,
        deadline: Instant,
    ) -> Result<(), ToolError> {
        let end = deadline.min(Instant::now() + self.wait);
        if let Some(clients) = &self.clients {
            self.take_from(clients, client, end).await?;
        }
        if let Some(tool) = self.of_tool(hosted) {
            self.take_from(&tool, client, end).await?;
        }
        if let Some(provider) = self.providers.get(&*hosted.provider_name) {
            self.take_from(provider, Owner::default(), end).await?;
        }
        Ok(())
    }

    async fn take_from(&self, limit: &Limit, client: Owner, end: Instant) -> Result<(), ToolError> {
        let mut waiting = None;
        loop {
            let Err(delay) = limit.take(client) else { return Ok(()) };
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

    fn of_tool(&self, hosted: &Hosted) -> Option<Arc<Limit>> {
        let rate = hosted.rules.rate_limit.or(hosted.spec.rate_limit)?;
        let mut tools = self.tools.lock();
        let limit = Limit::of(rate, tools.get(&hosted.name));
        tools.insert(Arc::clone(&hosted.name), Arc::clone(&limit));
        Some(limit)
    }
}

impl Limit {
    /// Returns `known` if it has this rate, or else a new limit.
    fn of(rate: Rate, known: Option<&Arc<Self>>) -> Arc<Self> {
        let known = known.filter(|known| known.rate == rate).cloned();
        known.unwrap_or_else(|| Arc::new(Self { rate, buckets: Mutex::default() }))
    }

    /// Counts a call by this client.
    ///
    /// # Errors
    /// How long the client must wait.
    fn take(&self, client: Owner) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock();
        if buckets.len() > MAX_CLIENTS {
            buckets.retain(|_, bucket| !bucket.is_full());
        }
        buckets.entry(client).or_insert_with(|| bucket(self.rate)).take(1).map(|_| ())
    }
}

/// A full bucket for this rate. The time between two calls is rounded down to whole nanoseconds.
fn bucket(Rate { count, period }: Rate) -> Bucket {
    let between = (period / count.get()).max(Duration::from_nanos(1));
    Bucket::new(count.get().into(), between * count.get())
}

toolwire_pipeline::wire::debug_fields!(Rates { waiting });

/// Counts as a waiting call until it is dropped.
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_client_has_its_own_limit() {
        let limit = Limit::of(Rate::per_minute(NonZeroU32::new(3).unwrap()), None);
        for client in [1, 2] {
            for _ in 0..3 {
                assert_eq!(limit.take(Owner([client; 32])), Ok(()));
            }
            assert_eq!(limit.take(Owner([client; 32])), Err(Duration::from_secs(20)));
        }
        advance(Duration::from_nanos(19_999_999_999)).await;
        assert_eq!(limit.take(Owner([1; 32])), Err(Duration::from_nanos(1)));
        advance(Duration::from_nanos(1)).await;
        assert_eq!(limit.take(Owner([1; 32])), Ok(()));
        assert_eq!(limit.take(Owner([1; 32])), Err(Duration::from_secs(20)));
    }

    #[tokio::test(start_paused = true)]
    async fn highest_rate_is_one_call_a_nanosecond() {
        let limit = Limit::of(Rate { count: NonZeroU32::MAX, period: Duration::from_secs(1) }, None);
        assert_eq!(limit.take(Owner::default()), Ok(()));
        advance(Duration::from_nanos(1)).await;
        assert!(limit.buckets.lock().values().all(Bucket::is_full));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_clients_are_forgotten() {
        let limit = Limit::of(Rate::per_minute(NonZeroU32::MIN), None);
        let client = |number: usize| Owner::of_key(&number.to_le_bytes());
        for number in 0..=MAX_CLIENTS {
            assert_eq!(limit.take(client(number)), Ok(()));
        }
        advance(Duration::from_secs(60)).await;
        assert_eq!(limit.take(client(0)), Ok(()));
        assert_eq!(limit.buckets.lock().len(), 1);
        for number in 1..=2 * MAX_CLIENTS {
            assert_eq!(limit.take(client(number)), Ok(()));
        }
        assert!(limit.take(client(0)).is_err(), "a client with a used limit is not forgotten");
    }
}
