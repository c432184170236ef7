//! What clients with names may use, and what they have used.
//!
//! ```text
//! request ─▶ Account::admit ─▶ Allowance, in the response's body ─settle, drop─▶ what was not used comes back
//!                  └──────────▶ Limited, the answer
//! ```
//!
//! An [`Account`] belongs to a name, whichever of its keys was shown. Tokens are reserved before the upstream is asked, since requests
//! that run at the same time would otherwise all pass, and the reservation is replaced by what the response has used when the body is
//! dropped: at its end, after an error, when the client leaves. All counters are behind [`Account`] and [`Ledger`].
//!
//! They are in memory, or on a server that several instances share ([`Together`]). While that is away, those in memory hold.

mod bucket;
mod refusal;
mod saved;
mod together;
mod usage;

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::HeaderMap;

pub use self::usage::{Counts, CountsByModel};
use self::{
    bucket::{Bucket, Taken},
    refusal::{Exceeded, Levels},
    saved::{SavedCounts, Unread},
    together::Held,
    usage::{BudgetRefusal, MonthCounts, Usage},
};
pub(super) use self::{refusal::Limited, together::Together};
use toolwire_config::{Grant, KeyLimits, calendar::Month, client_keys::owner_of_name};
use toolwire_execution::ask::Payer;
use toolwire_net::store::{Owner, Spent};
use toolwire_pipeline::dialect::ClientDialect;

/// All clients with names, and where their counts outlive a restart.
pub(super) struct Ledger {
    accounts: Mutex<HashMap<Arc<str>, Arc<Account>>>,
    counts: CountsOf,
    /// Saved counts that could not be read yet, by the name of the account.
    unread: Mutex<HashMap<Arc<str>, Unread>>,
}

/// Where the counts are.
enum CountsOf {
    /// Here.
    Instance(SavedCounts),
    /// On a server for all instances.
    All(Arc<Together>),
}

impl Ledger {
    /// The clients whose counts are in `folder`; in memory only without one.
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self::with(CountsOf::Instance(SavedCounts::new(folder)))
    }

    /// The clients whose counts are on a server.
    pub(super) fn shared(together: Together) -> Self {
        Self::with(CountsOf::All(Arc::new(together)))
    }

    fn with(counts: CountsOf) -> Self {
        Self { accounts: Mutex::default(), counts, unread: Mutex::default() }
    }

    /// The account of `name`, which may use what `grant` says from now on. What it has used stays. Reads the disk when it sees a name
    /// for the first time.
    pub(super) fn account(&self, name: &str, grant: &Grant, now: u64) -> Arc<Account> {
        let mut accounts = self.accounts();
        let account = match accounts.get(name) {
            Some(account) if account.grant == *grant => return Arc::clone(account),
            Some(account) => account.with(grant.clone()),
            None => {
                let together = match &self.counts {
                    CountsOf::Instance(_) => None,
                    CountsOf::All(together) => Some(Arc::clone(together)),
                };
                Account::new(name, grant.clone(), self.saved(name, now), together)
            }
        };
        let account = Arc::new(account);
        accounts.insert(Arc::clone(&account.name), Arc::clone(&account));
        account
    }

    /// All accounts, by name.
    pub(super) fn list(&self) -> Vec<Arc<Account>> {
        let mut list: Vec<_> = self.accounts().values().cloned().collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }

    /// Saves what has changed. It is on disk later, or when the ledger is dropped.
    pub(super) fn save(&self, now: u64) {
        let CountsOf::Instance(saved) = &self.counts else { return };
        let accounts = self.list();
        let mut unread = self.unread();
        for account in accounts {
            if let Some(own) = unread.get_mut(&account.name) {
                let found = saved.read(&account.name, own, now);
                found.inspect(|counts| account.usage.found(own.month, counts));
                if !own.is_left() {
                    unread.remove(&account.name);
                }
            }
            for (month, counts) in account.usage.changed() {
                saved.write(&account.name, (month, &counts), unread.get(&account.name), now);
            }
        }
    }

    /// The counts of a name in the month of `now`.
    fn saved(&self, name: &str, now: u64) -> (Month, MonthCounts) {
        let mut unread = Unread::of(Month::of(now));
        let CountsOf::Instance(saved) = &self.counts else { return (unread.month, MonthCounts::default()) };
        let counts = saved.read(name, &mut unread, now);
        if unread.is_left() {
            tracing::error!(
                key = name,
                "what the key has used cannot be read; until it can, it counts as nothing"
            );
            self.unread().insert(name.into(), unread);
        }
        (unread.month, counts.unwrap_or_default())
    }

    fn unread(&self) -> MutexGuard<'_, HashMap<Arc<str>, Unread>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Account>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("accounts", &self.accounts()).finish_non_exhaustive()
    }
}

/// A client with a name.
#[derive(Debug)]
pub struct Account {
    name: Arc<str>,
    grant: Grant,
    requests: Option<Arc<Bucket>>,
    tokens: Option<Arc<Bucket>>,
    usage: Arc<Usage>,
    /// `None`: there is only this instance.
    together: Option<Arc<Together>>,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Tokens of the request, by estimate.
    pub(super) input: u64,
    /// The most tokens that the response may have. `None`: not known.
    pub(super) max_output: Option<u64>,
    /// How many responses there are in one.
    pub(super) choices: u64,
    /// Whether a response is in progress for a while.
    pub(super) takes_place: bool,
    /// Whether a model gets the request.
    pub(super) counts_tokens: bool,
}

impl Wish {
    /// A request without tokens, which is answered at once.
    pub(super) const PLAIN: Self =
        Self { input: 0, max_output: Some(0), choices: 1, takes_place: false, counts_tokens: false };
}

impl Account {
    fn new(
        name: &str,
        grant: Grant,
        (month, counts): (Month, MonthCounts),
        together: Option<Arc<Together>>,
    ) -> Self {
        let empty = Self {
            name: name.into(),
            requests: None,
            tokens: None,
            grant: Grant::default(),
            usage: Arc::new(Usage::new(month, counts)),
            together,
        };
        empty.with(grant)
    }

    /// The same client with another grant. A bucket whose limit is the same goes on.
    fn with(&self, grant: Grant) -> Self {
        let kept = |own: &Option<Arc<Bucket>>, limit: Option<u64>| {
            let limit = limit.map(|limit| self.share(limit));
            let same = own.as_ref().filter(|own| limit == Some(own.limit())).cloned();
            same.or_else(|| limit.map(|limit| Arc::new(Bucket::new(limit))))
        };
        Self {
            name: Arc::clone(&self.name),
            requests: kept(&self.requests, grant.limits.requests_per_minute),
            tokens: kept(&self.tokens, grant.limits.tokens_per_minute),
            grant,
            usage: Arc::clone(&self.usage),
            together: self.together.clone(),
        }
    }

    /// The part of a limit that this instance may use by its own counts.
    fn share(&self, limit: u64) -> u64 {
        self.together.as_ref().map_or(limit, |together| together.share(limit))
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it may do.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// What it has used in the month of `now`, and its responses in progress.
    pub fn used(&self, now: u64) -> (Counts, u64) {
        (self.usage.current(now).0, self.usage.places())
    }

    /// The same by the models that its requests have reached. Of several instances, each knows its own requests.
    pub fn used_by_model(&self, now: u64) -> CountsByModel {
        self.usage.models(now)
    }

    /// Whether the tokens that it may use are limited.
    pub(super) fn limits_tokens(&self) -> bool {
        let KeyLimits { tokens_per_minute, tokens_per_month, .. } = self.grant.limits;
        tokens_per_minute.or(tokens_per_month).is_some()
    }

    /// Admits a request at `now`, in seconds of Unix time, to be answered in `dialect`. Waits only if the counts are on a server.
    ///
    /// # Errors
    /// It would exceed a limit. It takes nothing then.
    pub(super) async fn admit(
        self: &Arc<Self>,
        wish: Wish,
        dialect: ClientDialect,
        now: u64,
    ) -> Result<Box<Allowance>, Box<Limited>> {
        match &self.together {
            Some(together) => Box::pin(together.admit(self, wish, dialect, now)).await,
            None => self.admit_here(wish, dialect, now),
        }
    }

    /// The same by the counts of this instance.
    fn admit_here(
        self: &Arc<Self>,
        wish: Wish,
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
            input: wish.input,
            counts_tokens: wish.counts_tokens,
        });
        match self.take(wish, &mut allowance, now) {
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

    /// Takes what the request needs. What was taken before a limit that is exceeded comes back with `allowance`. The request itself,
    /// which cannot, is taken last.
    fn take(&self, wish: Wish, allowance: &mut Allowance, now: u64) -> Result<(), Exceeded> {
        let KeyLimits { streams, tokens_per_month, .. } = self.grant.limits;
        if wish.takes_place {
            let limit = streams.map_or(u64::MAX, |limit| self.share(limit));
            allowance.has_place = self.usage.take_place(limit);
            if !allowance.has_place {
                return Err(Exceeded::Streams(limit));
            }
        }
        let tokens = self.tokens_of(wish);
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

    /// The tokens that a request and its response may have.
    fn tokens_of(&self, wish: Wish) -> u64 {
        let output = wish.max_output.unwrap_or_else(|| self.usage.mean_output());
        wish.input.saturating_add(output.saturating_mul(wish.choices))
    }

    fn owner(&self) -> Owner {
        owner_of_name(&self.name)
    }

    fn levels(&self) -> Levels {
        let level = |bucket: &Option<Arc<Bucket>>| bucket.as_ref().map(|bucket| bucket.level());
        Levels { requests: level(&self.requests), tokens: level(&self.tokens) }
    }
}

/// For what toolwire asks models by itself.
impl Payer for Account {
    fn name(&self) -> &str {
        &self.name
    }

    fn pay(&self, model: &str, (input, output): (u64, u64)) {
        let now = super::stamp::unix_time();
        if let Some(together) = &self.together {
            let spent = Spent { month: Month::of(now).name(), input, output };
            together.limits.owe(self.owner(), spent, self.grant.limits.tokens_per_minute);
        }
        if let Some(bucket) = &self.tokens {
            bucket.owe(input.saturating_add(output));
        }
        self.usage.add((input, output), 0, now);
        self.usage.modelled(model, (0, (input, output)), now);
    }
}

/// What an admitted request holds of its client's account. It is owned by the response's body. Dropped without
/// [`Allowance::settle`], no token was used.
#[derive(Debug)]
pub(super) struct Allowance {
    account: Arc<Account>,
    dialect: ClientDialect,
    has_place: bool,
    /// Tokens that are reserved of the month's.
    month: Option<u64>,
    /// Tokens that are taken of the minute's.
    tokens: Option<Taken>,
    /// What it holds on the server.
    held: Option<Held>,
    /// Tokens of the request, by estimate.
    input: u64,
    /// Whether the tokens of the request and its response count.
    counts_tokens: bool,
}

impl Allowance {
    /// The estimated tokens of the request.
    pub(super) fn input(&self) -> u64 {
        self.input
    }

    /// Adds the headers that say what is left of the client's limits.
    pub(super) fn put_headers(&self, headers: &mut HeaderMap, now: u64) {
        let levels = self.held.as_ref().and_then(|held| held.levels);
        let levels = levels.unwrap_or_else(|| self.account.levels());
        levels.put(self.dialect.side().rate_style(), headers, now);
    }

    /// The request has used these tokens of `model`: its own, and those of the response. Returns those that count.
    pub(super) fn settle(mut self, model: Option<&str>, used: (u64, u64), now: u64) -> (u64, u64) {
        let used = if self.counts_tokens { used } else { (0, 0) };
        if let Some(model) = model {
            self.account.usage.modelled(model, (1, used), now);
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
