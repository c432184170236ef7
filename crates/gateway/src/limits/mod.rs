//! Limits and usage of named clients.
//!
//! ```text
//! request ─▶ Account::admit ─▶ Allowance, in the response's body ─settle, drop─▶ what was not used comes back
//!                  └──────────▶ Limited, the answer
//! ```
//!
//! An [`Account`] belongs to a name, no matter which of the name's keys is used. Tokens are reserved before the
//! upstream is asked, because otherwise any number of concurrent requests would be admitted. When the response's body
//! is dropped (at its end, after an error, or when the client disconnects), the actual usage replaces the reservation.
//! [`Account`] and [`Ledger`] own all counters.
//!
//! Counters are in memory, or on a server that several instances share ([`DistributedLimits`]). While that server is
//! unreachable, the counters in memory apply.

mod distributed_limits;
mod refusal;
mod saved_counts;
mod usage;

use std::{collections::HashMap, fmt, sync::Arc};

use http::HeaderMap;
use parking_lot::{Mutex, MutexGuard};

pub use self::usage::{Counts, CountsByModel};
pub(super) use self::{distributed_limits::DistributedLimits, refusal::Limited};
use self::{
    distributed_limits::Held,
    refusal::{Exceeded, Levels},
    saved_counts::{SavedCounts, Unread},
    usage::{BudgetRefusal, MonthCounts, Usage},
};
use toolwire_config::{Grant, KeyLimits, calendar::Month, client_keys::owner_of_name};
use toolwire_execution::ask::Payer;
use toolwire_net::{
    bucket::{Bucket, MINUTE, Taken},
    store::{HeldBytes, Owner, Spent, Stores},
};
use toolwire_pipeline::dialect::ClientDialect;

/// All named clients, and where their counts are stored.
pub(super) struct Ledger {
    accounts: Mutex<HashMap<Arc<str>, Arc<Account>>>,
    counts: CountsOf,
    /// Saved counts that were not read yet, by account name and month.
    unread: Mutex<HashMap<(Arc<str>, Month), Unread>>,
}

enum CountsOf {
    /// On this instance alone.
    Instance(SavedCounts),
    /// On a server that all instances share.
    All(Arc<DistributedLimits>),
}

impl Ledger {
    /// Creates a ledger that saves its counts in `stores`, on this machine.
    pub(super) fn new(stores: &Stores) -> Self {
        Self::with(CountsOf::Instance(SavedCounts::new(stores)))
    }

    /// Creates a ledger that keeps its counts on a server.
    pub(super) fn shared(distributed: DistributedLimits) -> Self {
        Self::with(CountsOf::All(Arc::new(distributed)))
    }

    fn with(counts: CountsOf) -> Self {
        Self { accounts: Mutex::default(), counts, unread: Mutex::default() }
    }

    /// The memory for counts that are saved on this machine.
    pub(super) fn held(&self) -> HeldBytes {
        match &self.counts {
            CountsOf::Instance(saved) => saved.held(),
            CountsOf::All(_) => HeldBytes::default(),
        }
    }

    /// Returns the account of `name`, to which the limits in `grant` apply from now on. Its usage is kept. Reads from
    /// disk when a name is used for the first time.
    pub(super) fn account(&self, name: &str, grant: &Grant, now: u64) -> Arc<Account> {
        let mut accounts = self.accounts();
        let account = match accounts.get(name) {
            Some(account) if account.grant == *grant => return Arc::clone(account),
            Some(account) => account.with(grant.clone()),
            None => {
                let distributed = match &self.counts {
                    CountsOf::Instance(_) => None,
                    CountsOf::All(distributed) => Some(Arc::clone(distributed)),
                };
                Account::new(name, grant.clone(), self.saved(name, now), distributed)
            }
        };
        let account = Arc::new(account);
        accounts.insert(Arc::clone(&account.name), Arc::clone(&account));
        account
    }

    /// All accounts, sorted by name.
    pub(super) fn list(&self) -> Vec<Arc<Account>> {
        let mut list: Vec<_> = self.accounts().values().cloned().collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }

    /// Saves changed counts. They are written to disk later, at the latest when the ledger is dropped.
    pub(super) fn save(&self, now: u64) {
        let CountsOf::Instance(saved) = &self.counts else { return };
        let accounts = self.list();
        let mut unread = self.unread.lock();
        for account in accounts {
            let name = &account.name;
            for month in account.usage.begun() {
                unread.insert((Arc::clone(name), month), Unread::of(month));
            }
            for ((_, month), own) in unread.iter_mut().filter(|((of, _), _)| of == name) {
                let found = saved.read(name, own, now);
                found.inspect(|counts| account.usage.found(*month, counts));
            }
            unread.retain(|(of, _), own| of != name || own.is_left());
            for (month, counts) in account.usage.changed() {
                let unread = unread.get(&(Arc::clone(name), month));
                saved.write(name, (month, &counts), unread, now);
            }
        }
    }

    /// Returns the saved counts of a client for the month of `now`.
    fn saved(&self, name: &str, now: u64) -> (Month, MonthCounts) {
        let mut unread = Unread::of(Month::of(now));
        let CountsOf::Instance(saved) = &self.counts else { return (unread.month, MonthCounts::default()) };
        let counts = saved.read(name, &mut unread, now);
        if unread.is_left() {
            tracing::error!(
                key = name,
                "what the key has used cannot be read; until it can, it counts as nothing"
            );
            self.unread.lock().insert((name.into(), unread.month), unread);
        }
        (unread.month, counts.unwrap_or_default())
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Account>>> {
        self.accounts.lock()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("accounts", &self.accounts()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Account {
    name: Arc<str>,
    grant: Grant,
    requests: Option<Arc<Bucket>>,
    tokens: Option<Arc<Bucket>>,
    usage: Arc<Usage>,
    /// `None` if the limits are not shared with other instances.
    distributed: Option<Arc<DistributedLimits>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RequestDemand {
    /// Estimated tokens of the request.
    pub(super) input: u64,
    /// Maximum number of tokens in the response. `None` if unknown.
    pub(super) max_output: Option<u64>,
    pub(super) choices: u64,
    /// Whether the request counts as a response in progress.
    pub(super) takes_place: bool,
    pub(super) counts_tokens: bool,
}

impl RequestDemand {
    /// A request without tokens that is answered immediately.
    pub(super) const PLAIN: Self =
        Self { input: 0, max_output: Some(0), choices: 1, takes_place: false, counts_tokens: false };
}

impl Account {
    fn new(
        name: &str,
        grant: Grant,
        (month, counts): (Month, MonthCounts),
        distributed: Option<Arc<DistributedLimits>>,
    ) -> Self {
        let empty = Self {
            name: name.into(),
            requests: None,
            tokens: None,
            grant: Grant::default(),
            usage: Arc::new(Usage::new(month, counts)),
            distributed,
        };
        empty.with(grant)
    }

    /// Returns the same client with another grant. Buckets whose limit is unchanged keep their level.
    fn with(&self, grant: Grant) -> Self {
        let kept = |own: &Option<Arc<Bucket>>, limit: Option<u64>| {
            let limit = limit.map(|limit| self.share(limit));
            let same = own.as_ref().filter(|own| limit == Some(own.limit())).cloned();
            same.or_else(|| limit.map(|limit| Arc::new(Bucket::new(limit, MINUTE))))
        };
        Self {
            name: Arc::clone(&self.name),
            requests: kept(&self.requests, grant.limits.requests_per_minute),
            tokens: kept(&self.tokens, grant.limits.tokens_per_minute),
            grant,
            usage: Arc::clone(&self.usage),
            distributed: self.distributed.clone(),
        }
    }

    /// The share of a limit that this instance may use on its own.
    fn share(&self, limit: u64) -> u64 {
        self.distributed.as_ref().map_or(limit, |distributed| distributed.share(limit))
    }

    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the usage in the month of `now`, and the number of responses in progress.
    pub fn used(&self, now: u64) -> (Counts, u64) {
        (self.usage.current(now).0, self.usage.places())
    }

    /// Returns the usage by model. Only requests to this instance are included.
    pub fn used_by_model(&self, now: u64) -> CountsByModel {
        self.usage.models(now)
    }

    pub(super) fn limits_tokens(&self) -> bool {
        let KeyLimits { tokens_per_minute, tokens_per_month, .. } = self.grant.limits;
        tokens_per_minute.or(tokens_per_month).is_some()
    }

    /// Admits a request. `now` is a Unix time in seconds, and `dialect` is the client's dialect, for the error
    /// response. Waits only if the counts are on a server.
    ///
    /// # Errors
    /// If the request would exceed a limit. In that case, nothing is counted.
    pub(super) async fn admit(
        self: &Arc<Self>,
        demand: RequestDemand,
        dialect: ClientDialect,
        now: u64,
    ) -> Result<Box<Allowance>, Box<Limited>> {
        match &self.distributed {
            Some(distributed) => Box::pin(distributed.admit(self, demand, dialect, now)).await,
            None => self.admit_here(demand, dialect, now),
        }
    }

    /// Admits a request by this instance's counts.
    fn admit_here(
        self: &Arc<Self>,
        demand: RequestDemand,
        dialect: ClientDialect,
        now: u64,
    ) -> Result<Box<Allowance>, Box<Limited>> {
        let mut allowance = Box::new(Allowance {
            account: Arc::clone(self),
            dialect,
            has_place: false,
            month: None,
            tokens: None,
            held: None,
            input: demand.input,
            counts_tokens: demand.counts_tokens,
        });
        match self.take(demand, &mut allowance, now) {
            Ok(()) => {
                self.usage.asked(now);
                Ok(allowance)
            }
            Err(exceeded) => {
                drop(allowance);
                Err(Box::new(Limited::new(exceeded, &self.name, dialect, &self.levels(), now)))
            }
        }
    }

    /// Takes what the request needs. If a limit is exceeded, what was taken is returned when `allowance` is dropped.
    /// The request itself is counted last, since it cannot be returned.
    fn take(&self, demand: RequestDemand, allowance: &mut Allowance, now: u64) -> Result<(), Exceeded> {
        let KeyLimits { streams, tokens_per_month, .. } = self.grant.limits;
        if demand.takes_place {
            let limit = streams.map_or(u64::MAX, |limit| self.share(limit));
            allowance.has_place = self.usage.take_place(limit);
            if !allowance.has_place {
                return Err(Exceeded::Streams(limit));
            }
        }
        let tokens = self.tokens_of(demand);
        if let Some(budget) = tokens_per_month {
            let tokens = tokens.min(budget);
            self.usage.reserve(tokens, budget, now).map_err(|refused| match refused {
                BudgetRefusal::Gone(end) => Exceeded::Month(budget, end),
                BudgetRefusal::Reserved => Exceeded::MonthReserved(budget),
            })?;
            allowance.month = Some(tokens);
        }
        if let Some(bucket) = &self.tokens {
            let taken = bucket.take(tokens.min(bucket.limit()));
            allowance.tokens = Some(taken.map_err(|wait| Exceeded::Tokens(bucket.limit(), wait))?);
        }
        if let Some(bucket) = &self.requests {
            bucket.take(1).map_err(|wait| Exceeded::Requests(bucket.limit(), wait))?;
        }
        Ok(())
    }

    /// Maximum number of tokens of a request and its response.
    fn tokens_of(&self, demand: RequestDemand) -> u64 {
        let output = demand.max_output.unwrap_or_else(|| self.usage.mean_output());
        demand.input.saturating_add(output.saturating_mul(demand.choices))
    }

    fn owner(&self) -> Owner {
        owner_of_name(&self.name)
    }

    fn levels(&self) -> Levels {
        let level = |bucket: &Option<Arc<Bucket>>| bucket.as_ref().map(|bucket| bucket.level());
        Levels { requests: level(&self.requests), tokens: level(&self.tokens) }
    }
}

/// Pays for requests that toolwire itself sends to models.
impl Payer for Account {
    fn name(&self) -> &str {
        &self.name
    }

    fn pay(&self, model: &str, (input, output): (u64, u64)) {
        let now = super::stamp::unix_time();
        if let Some(distributed) = &self.distributed {
            let spent = Spent { month: Month::of(now).name(), input, output };
            distributed.limits.owe(self.owner(), spent, self.grant.limits.tokens_per_minute);
        }
        if let Some(bucket) = &self.tokens {
            bucket.owe(input.saturating_add(output));
        }
        self.usage.add((input, output), 0, now);
        self.usage.modelled(model, 0, (input, output), now);
    }
}

/// What an admitted request has reserved from the client's account. Owned by the response's body. If it is dropped
/// without [`Allowance::settle`], no tokens count as used.
#[derive(Debug)]
pub(super) struct Allowance {
    account: Arc<Account>,
    dialect: ClientDialect,
    has_place: bool,
    /// Tokens reserved from the monthly budget.
    month: Option<u64>,
    /// Tokens taken from the bucket for tokens per minute.
    tokens: Option<Taken>,
    /// What is reserved on the server.
    held: Option<Held>,
    /// Estimated tokens of the request.
    input: u64,
    /// Whether the tokens of the request and its response count.
    counts_tokens: bool,
}

impl Allowance {
    pub(super) fn input(&self) -> u64 {
        self.input
    }

    /// Adds the headers that show how much of the client's limits is left.
    pub(super) fn put_headers(&self, headers: &mut HeaderMap, now: u64) {
        let levels = self.held.as_ref().and_then(|held| held.levels);
        let levels = levels.unwrap_or_else(|| self.account.levels());
        levels.put(self.dialect.side().rate_style(), headers, now);
    }

    /// Counts the input and output tokens that `model` used. Returns the tokens that were counted.
    pub(super) fn settle(mut self, model: Option<&str>, used: (u64, u64), now: u64) -> (u64, u64) {
        let used = if self.counts_tokens { used } else { (0, 0) };
        if let Some(model) = model {
            self.account.usage.modelled(model, 1, used, now);
        }
        self.release(used, now);
        used
    }

    fn release(&mut self, (input, output): (u64, u64), now: u64) {
        if let (Some(bucket), Some(taken)) = (&self.account.tokens, self.tokens.take()) {
            bucket.settle(taken, input.saturating_add(output));
        }
        let reserved = self.month.take().unwrap_or(0);
        if reserved > 0 || input > 0 || output > 0 {
            self.account.usage.spent((input, output), reserved, now);
        }
        if let Some(lease) = self.held.take().and_then(|held| held.lease) {
            lease.settle(Spent { month: Month::of(now).name(), input, output });
        }
        if std::mem::take(&mut self.has_place) {
            self.account.usage.free_place();
        }
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.release((0, 0), super::stamp::unix_time());
    }
}

#[cfg(test)]
mod tests;
