//! [`DistributedLimits`]: limits that several instances share through a server.
//!
//! Each instance also counts by itself. These counts apply while the server is unreachable, and then include the last
//! values that the server reported about other instances.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;

use super::{
    Account, Allowance, Counts, RequestDemand,
    refusal::{Exceeded, Levels, Limited},
};
use toolwire_config::{KeyLimits, UncheckedBudgets, calendar::Month};
use toolwire_net::{
    bucket::{Level, MINUTE},
    store::{Admission, Demand, Lease, Refusal, SharedLimits, Verdict},
};
use toolwire_pipeline::dialect::ClientDialect;

pub(crate) struct DistributedLimits {
    pub(crate) limits: Arc<dyn SharedLimits>,
    pub(crate) instances: usize,
    /// What to do about monthly budgets while the server is unreachable.
    pub(crate) unchecked_budgets: UncheckedBudgets,
    /// Counts the requests that are admitted without the server.
    pub(crate) unchecked: Counter,
}

/// What an admitted request has reserved on the server.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lease: Option<Lease>,
    /// What was left when the request was admitted. `None` if the server did not report it.
    pub(super) levels: Option<Levels>,
}

impl DistributedLimits {
    /// The share of a limit that one instance may use on its own.
    pub(super) fn share(&self, limit: u64) -> u64 {
        limit.div_ceil(u64::try_from(self.instances).unwrap_or(u64::MAX).max(1))
    }

    /// See [`Account::admit`].
    pub(super) async fn admit(
        &self,
        account: &Arc<Account>,
        demand: RequestDemand,
        dialect: ClientDialect,
        now: u64,
    ) -> Result<Box<Allowance>, Box<Limited>> {
        let KeyLimits { requests_per_minute, tokens_per_minute, tokens_per_month, streams } =
            account.grant.limits;
        let month = Month::of(now);
        let shared = Demand {
            owner: account.owner(),
            month: month.name(),
            requests_per_minute,
            tokens_per_minute,
            tokens_per_month,
            streams,
            tokens: account.tokens_of(demand),
            takes_place: demand.takes_place,
        };
        let Ok(verdict) = self.limits.admit(shared).await else {
            return self.admit_unchecked(account, demand, dialect, now);
        };
        let (requests, input_tokens, output_tokens) = verdict.month;
        account.usage.learned(month, Counts { requests, input_tokens, output_tokens });
        let levels = levels(&account.grant.limits, &verdict);
        let refuse = |exceeded| Err(Box::new(Limited::new(exceeded, &account.name, dialect, &levels, now)));
        match verdict.admission {
            Admission::Granted(lease) => Ok(Box::new(Allowance {
                account: Arc::clone(account),
                dialect,
                has_place: demand.takes_place && account.usage.take_place(u64::MAX),
                month: None,
                tokens: None,
                held: Some(Held { lease, levels: Some(levels) }),
                input: demand.input,
                counts_tokens: demand.counts_tokens,
            })),
            Admission::Refused(refusal) => refuse(match refusal {
                Refusal::Streams => Exceeded::Streams(streams.unwrap_or(0)),
                Refusal::Month => Exceeded::Month(tokens_per_month.unwrap_or(0), month.end()),
                Refusal::MonthReserved => Exceeded::MonthReserved(tokens_per_month.unwrap_or(0)),
                Refusal::Tokens(wait) => Exceeded::Tokens(tokens_per_minute.unwrap_or(0), wait),
                Refusal::Requests(wait) => Exceeded::Requests(requests_per_minute.unwrap_or(0), wait),
            }),
        }
    }

    /// Admits a request while the server is unreachable. This instance's counts apply, and the usage is reported to the
    /// server later.
    fn admit_unchecked(
        &self,
        account: &Arc<Account>,
        demand: RequestDemand,
        dialect: ClientDialect,
        now: u64,
    ) -> Result<Box<Allowance>, Box<Limited>> {
        if let (Some(budget), UncheckedBudgets::Refuse) =
            (account.grant.limits.tokens_per_month, self.unchecked_budgets)
        {
            let unknown = Exceeded::MonthUnknown(budget);
            return Err(Box::new(Limited::new(unknown, &account.name, dialect, &account.levels(), now)));
        }
        let mut allowance = account.admit_here(demand, dialect, now)?;
        self.unchecked.inc();
        let lease = self.limits.unchecked(account.owner(), Month::of(now).name());
        allowance.held = Some(Held { lease: Some(lease), levels: None });
        Ok(allowance)
    }
}

fn levels(limits: &KeyLimits, verdict: &Verdict) -> Levels {
    let level = |limit: Option<u64>, full_in| limit.map(|limit| Level::of(limit, MINUTE, full_in));
    Levels {
        requests: level(limits.requests_per_minute, verdict.requests_full_in),
        tokens: level(limits.tokens_per_minute, verdict.tokens_full_in),
    }
}

toolwire_pipeline::wire::debug_fields!(DistributedLimits { limits });
